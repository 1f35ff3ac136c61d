"""Show the results of training: a table in the terminal and a curve in a file."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Sequence, Tuple

from ascend_session.files import replace_file
from ascend_session.requirements import EXAMPLES_COMMAND

_NUMBERS = "history.json"
_MOST_ROWS = 10  # of a table with two trainings


class Epoch(NamedTuple):
    """The result of training after one pass over the data.

    Attributes:
        number: The epoch, from 1.
        training_loss: Mean loss of the steps.
        held_out_loss: Loss on images that are not trained on.
        held_out_accuracy: Accuracy on these images, from 0 to 1.
        weights: A digest of the weights, in hexadecimal.
    """

    number: int
    training_loss: float
    held_out_loss: float
    held_out_accuracy: float
    weights: str = ""


def require_packages() -> None:
    """Exit with a message if a package that only examples need is missing."""
    try:
        import matplotlib  # noqa: F401
        import sklearn  # noqa: F401
    except ImportError as error:
        raise SystemExit(
            "This example needs scikit-learn for its data and matplotlib for its picture, and "
            f"one of them cannot be imported ({error}): {EXAMPLES_COMMAND}"
        ) from None


def print_table(history: Sequence[Epoch]) -> None:
    """Print a line for each epoch."""
    titles = ("Epoch", "Training loss", "Held-out loss", "Held-out accuracy")
    _print(titles, ([str(epoch.number), *_decimals(epoch[1:4], 3)] for epoch in history))


def print_both(first: Sequence[Epoch], second: Sequence[Epoch], names: Sequence[str]) -> None:
    """Print the losses and held-out accuracies of two trainings, for about ten epochs."""
    titles = [f"{what}, {name}" for what in ("Loss", "Accuracy") for name in names]
    rows = []
    every = -(-len(first) // _MOST_ROWS)
    for a, b in zip(first, second):
        if a.number % every and a is not first[-1]:
            continue
        losses = _decimals((a.training_loss, b.training_loss), 6)
        accuracies = _decimals((a.held_out_accuracy, b.held_out_accuracy), 3)
        rows.append([str(a.number), *losses, *accuracies])
    _print(["Epoch", *titles], rows)


def difference(first: Sequence[Epoch], second: Sequence[Epoch]) -> float:
    """Return the largest difference between the training losses of two trainings."""
    return max(abs(a.training_loss - b.training_loss) for a, b in zip(first, second))


def _decimals(values: Sequence[float], number: int) -> List[str]:
    return [f"{value:.{number}f}" for value in values]


def _print(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD)
    for title in titles:
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def save(history: Sequence[Epoch], folder: Path) -> Path:
    """Save the numbers for `load`, and a picture of them; return the path of the picture."""
    save_numbers(history, folder)
    return save_curve(history, folder)


def save_numbers(history: Sequence[Epoch], folder: Path) -> None:
    """Save the numbers for `load`."""
    text = json.dumps([epoch._asdict() for epoch in history], indent=1)
    replace_file(str(folder / _NUMBERS), f"{text}\n".encode())


def load(folder: Path) -> List[Epoch]:
    """Load the numbers that `save` wrote into the folder."""
    return [Epoch(**epoch) for epoch in json.loads((folder / _NUMBERS).read_text())]


def save_curve(history: Sequence[Epoch], folder: Path) -> Path:
    """Draw loss and accuracy over the epochs; return the path of the PNG, ``curve.png``."""
    path = folder / "curve.png"
    epochs = [epoch.number for epoch in history]
    percent = [100 * epoch.held_out_accuracy for epoch in history]
    with _picture(path) as (loss, accuracy):
        loss.plot(epochs, [e.training_loss for e in history], marker="o", label="training")
        loss.plot(epochs, [e.held_out_loss for e in history], marker="o", label="held out")
        loss.set(title="Loss (cross-entropy)", ylim=(0, None))
        accuracy.plot(epochs, percent, marker="o", color="tab:orange", label="held out")
        accuracy.set(title="Accuracy, %")
    return path


def save_comparison(
    first: Sequence[Epoch], second: Sequence[Epoch], names: Sequence[str], path: Path
) -> Path:
    """Draw two trainings, with their names, into one PNG; return its path."""
    styles: Sequence[Dict[str, Any]] = (
        {"linewidth": 6, "alpha": 0.4},
        {"linestyle": "--", "color": "black"},
    )
    with _picture(path) as (loss, accuracy):
        for history, name, style in zip((first, second), names, styles):
            epochs = [epoch.number for epoch in history]
            percent = [100 * epoch.held_out_accuracy for epoch in history]
            label = f"{name} images"
            loss.plot(epochs, [e.training_loss for e in history], label=label, **style)
            accuracy.plot(epochs, percent, label=label, **style)
        loss.set(title="Training loss (cross-entropy)", ylim=(0, None))
        accuracy.set(title="Accuracy on held-out images, %")
    return path


@contextlib.contextmanager
def _picture(path: Path) -> Iterator[Tuple[Any, Any]]:
    """Yield axes for losses and for accuracies over the epochs, then save both as a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), tight_layout=True)
    loss, accuracy = figure.subplots(1, 2)
    yield loss, accuracy
    for axes in (loss, accuracy):
        axes.set_xlabel("Epoch")
        first, last = (int(epoch) for epoch in axes.dataLim.intervalx)
        axes.set_xticks(range(first, last + 1, 1 + (last - first) // 10))
        axes.grid(True, alpha=0.3)
        axes.legend()
    image = io.BytesIO()
    figure.savefig(image, dpi=120)
    replace_file(str(path), image.getvalue())
