"""The demo of ``scripts/demo``: one process, a job of eight ranks, and both loss curves."""

import logging
import os
import shlex
import shutil
import sys
import textwrap
from pathlib import Path
from typing import List, Sequence, Tuple

from ascend_session import AscendError, LaunchConfig, LaunchResult, device_count, launch
from ascend_session.backends import Choice, backend_class, choose
from ascend_session.examples import digits
from ascend_session.examples._report import Epoch, difference, load, print_both, save_comparison

RANKS = 8
EPOCHS = 30  # with 512 images per step, fewer do not reach 95 % accuracy on held-out images
ROUNDING = 1e-4  # largest difference of a loss on the CPU: ranks add in another order
_COLUMNS = 80


def main(argv: Sequence[str], ranks: int = RANKS) -> int:
    """Train in one process, then on ``ranks`` ranks, and compare; return the exit code."""
    arguments = digits.parse(argv, "scripts/demo", epochs=EPOCHS)
    folder, batch = arguments.output, arguments.batch
    words = ["--epochs", str(arguments.epochs), "--brief", "--batch"]
    names = (f"1 x {ranks * batch}", f"{ranks} x {batch}")
    alone_on, job_on = choose_backends(ranks, device_count())
    if not _is_device(alone_on):  # no warning is needed, because the reason is printed below
        os.environ["ASCEND_SESSION_BACKEND"] = alone_on.name

    alone_args = [*words, str(ranks * batch), "--output", _shorten(folder / "one_process")]
    title = f"One process, {ranks * batch} images in each step"
    _announce(title, alone_on, ["python", "-m", digits.NAME, *alone_args])
    # The backend and the reason have been printed.
    logging.getLogger("ascend_session").setLevel(logging.ERROR)
    digits.main(alone_args)

    rank_args = [*words, str(batch), "--output", _shorten(folder / "job")]
    command = ["ascend-session", "launch", "-n", str(ranks)]
    if job_on != alone_on:
        command += ["--backend", job_on.name]
    title = f"A job of {ranks} ranks, {batch} of these images on each"
    _announce(title, job_on, [*command, "-m", digits.NAME, *rank_args])
    result = launch(
        LaunchConfig(
            module=digits.NAME,
            args=rank_args,
            processes=ranks,
            backend="auto" if job_on == alone_on else job_on.name,
            log_dir=str(folder / "logs"),
        )
    )
    if not result.ok:
        print(_fill(_describe_failure(result)), file=sys.stderr)
        return result.code

    alone, together = load(folder / "one_process"), load(folder / "job")
    print("\nBoth:")
    print_both(alone, together, names)
    is_exact = not (_is_device(alone_on) or _is_device(job_on))
    print(_fill(verdict(alone, together, ranks, is_exact)))
    picture = save_comparison(alone, together, names, folder / "both.png")
    print(f"\nPicture: {_shorten(picture)}\n\nTry next:")
    for line, purpose in _next_commands():
        print(f"  # {purpose}\n  {line}")
    return 1 if is_exact and difference(alone, together) > ROUNDING else 0


def choose_backends(ranks: int, devices: int) -> Tuple[Choice, Choice]:
    """Choose backends for the process and for the job: devices if there are enough, else stub."""
    choice = choose("auto", os.environ)
    if not _is_device(choice) or devices >= ranks:
        return choice, choice
    reason = f"{ranks} ranks need {ranks} devices, and this process gets {devices}"
    return choice, Choice("stub", reason)


def _is_device(choice: Choice) -> bool:
    return backend_class(choice.name).holds_npus


def verdict(
    alone: Sequence[Epoch], together: Sequence[Epoch], ranks: int, is_exact: bool = True
) -> str:
    """Say what came of the comparison.

    Args:
        alone: What the one process learned.
        together: What the job learned.
        ranks: The number of its ranks.
        is_exact: Whether both ran on the CPU, in single precision. Devices compute in half
            precision, in which the order of additions shows.
    """
    largest = difference(alone, together)
    if is_exact and largest > ROUNDING:
        return (
            f"The {ranks} ranks have not trained as one: the loss curves differ by up to "
            f"{largest:.1e}, which is more than rounding explains."
        )
    accuracies = " and ".join(f"{run[-1].held_out_accuracy:.3f}" for run in (alone, together))
    trained = "have trained as one: the" if is_exact else "have trained together: the"
    return (
        f"{ranks} ranks {trained} loss curves differ by {largest:.1e} at most, the accuracies on "
        f"held-out images are {accuracies}, and after each epoch all ranks had the same weights, "
        f"bit by bit ({together[-1].weights} at the end)."
    )


def _announce(title: str, choice: Choice, command: Sequence[str]) -> None:
    where = "the device" if _is_device(choice) else "the CPU (stub)"
    lines = textwrap.wrap(
        " ".join(map(shlex.quote, command)),  # shlex.join is there from 3.8 on
        _COLUMNS - 2,
        initial_indent="$ ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    print("\n" + _fill(f"{title}, on {where}: {choice.reason}."))
    print(" \\\n".join(lines), flush=True)


def _describe_failure(result: LaunchResult) -> str:
    cause = result.cause
    reasons = ["The cause is unknown."] if cause is None else [cause.said, cause.advice]
    logs = result.attempts[-1].folder
    return " ".join(["The job failed.", *filter(None, reasons), f"Its logs: {logs}"])


def _next_commands() -> List[Tuple[str, str]]:
    """Return three commands to try next, each with its purpose."""
    program = Path(sys.executable).with_name("ascend-session")
    short = Path(".venv", "bin", "ascend-session")  # as scripts/demo creates it
    if shutil.which("ascend-session") == str(program):
        name = "ascend-session"
    else:
        name = str(short if short.exists() and short.samefile(program) else _shorten(program))
    return [
        (f"{name} doctor", "what this machine has for a job, and what it lacks"),
        (f"{name} launch -n 8 -m {digits.NAME}", "eight ranks, and their logs"),
        (f"{name} guide getting-started", "how to write or run your own script"),
    ]


def _shorten(path: Path) -> str:
    """Return a path relative to the working directory, if it is below it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _fill(text: str) -> str:
    return textwrap.fill(text, _COLUMNS, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except AscendError as problem:
        sys.exit(str(problem))
    except KeyboardInterrupt:
        sys.exit(130)
