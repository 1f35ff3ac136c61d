"""What the examples take on the command line; wrong words are refused before training begins."""

import argparse
import os
from pathlib import Path

__all__ = ["count", "directory"]


def count(text: str) -> int:
    """A whole number of 1 or more, for ``type=`` of an argument."""
    if not (text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more.")
    return int(text)


def directory(text: str) -> Path:
    """A directory to write into, made if it is not there; for ``type=`` of an argument."""
    path = Path(text)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"the directory {text!r} cannot be made: {error.strerror}."
        raise argparse.ArgumentTypeError(message) from error
    if not os.access(text, os.W_OK):
        raise argparse.ArgumentTypeError(f"you may not write into the directory {text!r}.")
    return path.resolve()
