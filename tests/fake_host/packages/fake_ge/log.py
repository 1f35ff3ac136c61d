"""Lines of the adapter's log on stderr."""

import datetime
import os
import sys

__all__ = ["warn", "write"]

_WARNING = 1  # of TF_CPP_MIN_LOG_LEVEL


def warn(message: str, source: str) -> None:
    """``LOG(WARNING)``, which TF_CPP_MIN_LOG_LEVEL silences from 2 on.

    Args:
        message: What is said.
        source: The file of the adapter that says it, with the line.
    """
    try:
        lowest = int(os.environ.get("TF_CPP_MIN_LOG_LEVEL") or 0)
    except ValueError:
        lowest = 0
    if lowest <= _WARNING:
        write("W", message, source)


def write(severity: str, message: str, source: str) -> None:
    """Write one line in the form of TensorFlow 1.15.

    That is: time, severity, ``file:line]``, message (core/platform/default/logging.cc).
    """
    now = datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S.%f")
    sys.stdout.flush()
    sys.stderr.write(f"{now}: {severity} {source}] {message}\n")
    sys.stderr.flush()
