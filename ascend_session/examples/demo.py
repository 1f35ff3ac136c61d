"""What ``scripts/demo`` shows: one process, a job of eight that train as one, and both curves."""

import os
import shlex
import sys
from typing import Sequence

from ascend_session import AscendError, LaunchConfig, LaunchResult, launch
from ascend_session.examples import digits
from ascend_session.examples._report import Epoch, difference, load, print_both

__all__ = ["RANKS", "main", "verdict"]

RANKS = 8
ROUNDING = 1e-4  # of a loss: ranks add the same numbers in another order, step after step


def main(argv: Sequence[str], ranks: int = RANKS) -> int:
    """Trains in one process, then on so many ranks, and compares; gives the exit code."""
    arguments = digits.parse(argv, "scripts/demo")
    # Both on the CPU: the ranks of a job on devices need more than this machine may have.
    os.environ.setdefault("ASCEND_SESSION_BACKEND", "stub")
    folder, batch = arguments.output, arguments.batch
    words = ["--epochs", str(arguments.epochs), "--brief", "--batch"]

    one = [*words, str(ranks * batch), "--output", str(folder / "one_process")]
    _announce(
        f"One process, {ranks * batch} images in each step", ["python", "-m", digits.NAME, *one]
    )
    digits.main(one)

    each = [*words, str(batch), "--output", str(folder / "job")]
    command = ["ascend-session", "launch", "-n", str(ranks), "-m", digits.NAME, *each]
    _announce(f"A job of {ranks} ranks, {batch} of these images on each", command)
    logs = str(folder / "logs")
    result = launch(LaunchConfig(module=digits.NAME, args=each, processes=ranks, log_dir=logs))
    if not result.ok:
        print(_why(result), file=sys.stderr)
        return result.code

    alone, together = load(folder / "one_process"), load(folder / "job")
    print("\nBoth:")
    print_both(alone, together, (f"1 x {ranks * batch}", f"{ranks} x {batch}"))
    print(verdict(alone, together, ranks))
    return 0 if difference(alone, together) <= ROUNDING else 1


def verdict(alone: Sequence[Epoch], together: Sequence[Epoch], ranks: int) -> str:
    """What came of the comparison, in a sentence or two."""
    largest = difference(alone, together)
    if largest > ROUNDING:
        return (
            f"The {ranks} ranks have not trained as one: the loss curves differ by up to "
            f"{largest:.1e},\nwhich is more than rounding explains."
        )
    return (
        f"{ranks} ranks have trained as one: the loss curves differ by {largest:.1e} at most, and "
        f"after\neach epoch all ranks had the same weights, bit by bit "
        f"({together[-1].weights} at the end)."
    )


def _announce(what: str, command: Sequence[str]) -> None:
    said = " ".join(map(shlex.quote, command))  # shlex.join is there from 3.8 on
    print(f"\n{what}:\n$ {said}", flush=True)


def _why(result: LaunchResult) -> str:
    cause = result.cause
    said = ["It is not known why."] if cause is None else [cause.said, cause.advice]
    logs = result.attempts[-1].folder
    return " ".join(["The job failed.", *filter(None, said), f"Its logs: {logs}"])


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except AscendError as problem:
        sys.exit(str(problem))
    except KeyboardInterrupt:
        sys.exit(130)
