"""What ``scripts/demo`` shows: one process that trains, then eight that a launch starts."""

import os
import shlex
import sys
from typing import List, Sequence

from ascend_session import AscendError
from ascend_session.examples import digits

__all__ = ["main"]

RANKS = 8


def main(argv: Sequence[str]) -> None:
    """Trains alone, then becomes the launcher of the ranks, with its exit code."""
    digits.main(argv)
    arguments = digits.parse(argv)
    output = str(arguments.output)
    words = launch_words(output, arguments.epochs)
    said = " ".join(map(shlex.quote, words))  # shlex.join is there from 3.8 on
    print(f"\nNow as a job of {RANKS} ranks:\n$ ascend-session {said}", flush=True)
    os.execv(sys.executable, [sys.executable, "-m", "ascend_session.cli", *words])


def launch_words(output: str, epochs: int) -> List[str]:
    """What to type after ``ascend-session``."""
    program = ["-m", "ascend_session.examples.shards", "--epochs", str(epochs), "--output", output]
    logs = os.path.join(output, "logs")
    return ["launch", "-n", str(RANKS), "--backend", "stub", "--log-dir", logs, *program]


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except AscendError as problem:
        sys.exit(str(problem))
