"""The two ways the adapter ends a run: an exception, or the end of the process."""

import datetime
import os
import sys
import time
from typing import Any

from fake_ge.journal import note

__all__ = ["abort", "internal_error", "invalid_argument"]

_SLEEP = 3.0  # seconds; ge_plugin.cc kFatalSleepTime


def abort(message: str, source: str, sleep: bool = True) -> None:
    """LOG(FATAL): says so and aborts the process.

    The three seconds before it are ``FAKE_GE_FATAL_SLEEP`` here (default 0); the record has the
    three.
    """
    # launch_facts.md, "Init failures abort": LOG(FATAL), after a short sleep (kFatalSleepTime)
    note("abort", message=message, sleep=_SLEEP if sleep else 0.0)
    if sleep:
        time.sleep(float(os.environ.get("FAKE_GE_FATAL_SLEEP") or 0))
    now = datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S.%f")
    sys.stdout.flush()
    sys.stderr.write(f"{now}: F {source}] {message}\n")
    sys.stderr.flush()
    os.abort()


def internal_error(message: str) -> Any:
    """TensorFlow's InternalError."""
    return _errors().InternalError(None, None, message)


def invalid_argument(message: str) -> Any:
    """TensorFlow's InvalidArgumentError."""
    return _errors().InvalidArgumentError(None, None, message)


def _errors() -> Any:
    from tensorflow.python.framework import errors

    return errors
