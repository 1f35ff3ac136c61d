"""How the examples show what training came to: a table in the terminal and a curve in a file."""

from pathlib import Path
from typing import Any, NamedTuple, Sequence

__all__ = ["Epoch", "print_table", "require_packages", "save_curve"]


class Epoch(NamedTuple):
    """What training came to after one pass over the data; accuracy is a share, 0 to 1."""

    number: int
    training_loss: float
    held_out_loss: float
    held_out_accuracy: float


def require_packages() -> None:
    """Ends the program with one sentence if a package that only examples need is missing."""
    try:
        import matplotlib  # noqa: F401
        import sklearn  # noqa: F401
    except ImportError as error:
        raise SystemExit(
            "This example needs scikit-learn for its data and matplotlib for its picture, and "
            f"one of them cannot be imported ({error}): pip install 'ascend_session[demo]'"
        ) from None


def print_table(history: Sequence[Epoch]) -> None:
    """Prints a line for each epoch."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD)
    for title in ("Epoch", "Training loss", "Held-out loss", "Held-out accuracy"):
        table.add_column(title, justify="right")
    for epoch in history:
        table.add_row(str(epoch.number), *[f"{value:.3f}" for value in epoch[1:]])
    Console().print(table)


def save_curve(history: Sequence[Epoch], directory: Path) -> Path:
    """Draws loss and accuracy over the epochs; gives the path of the PNG, ``curve.png``."""
    from matplotlib.figure import Figure

    epochs = [epoch.number for epoch in history]
    figure = Figure(figsize=(10, 4), tight_layout=True)
    loss, accuracy = figure.subplots(1, 2)
    loss.plot(epochs, [e.training_loss for e in history], marker="o", label="training")
    loss.plot(epochs, [e.held_out_loss for e in history], marker="o", label="held out")
    loss.set(title="Loss (cross-entropy)", ylim=(0, None))
    percent = [100 * e.held_out_accuracy for e in history]
    accuracy.plot(epochs, percent, marker="o", color="tab:orange", label="held out")
    accuracy.set(title="Accuracy, %")
    for axes in (loss, accuracy):
        _finish(axes)
    path = directory / "curve.png"
    figure.savefig(str(path), dpi=120)
    return path


def _finish(axes: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("Epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(True, alpha=0.3)
    axes.legend()
