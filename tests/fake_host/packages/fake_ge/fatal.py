"""The two ways the adapter ends a run: an exception, or the end of the process."""

import os
import time
from typing import Any

from fake_ge import log
from fake_ge.journal import note

__all__ = ["DEVICE_ID", "abort", "error_of", "internal_error", "invalid_argument"]

_SLEEP = 3.0  # seconds; ge_plugin.cc kFatalSleepTime

# guides/facts/process.md#a-failed-initialisation: ge_plugin.cc, lines 198, 327, 341, 365. There the
# adapter's own log gets the message; LOG(FATAL), which ends the process, is one line below (two
# for 365). engine.py has the other three.
DEVICE_ID = "tf_adapter/util/ge_plugin.cc:198"


def abort(message: str, source: str, sleep: bool = True) -> None:
    """LOG(FATAL): says so and aborts the process.

    The three seconds before it are ``FAKE_GE_FATAL_SLEEP`` here (default 0); the record has the
    three.

    Args:
        message: What is said.
        source: The file of the adapter that says it, with the line where one is known.
        sleep: Whether it waits before; a bad option and a bad device id do not
            (guides/facts/process.md#a-failed-initialisation).
    """
    # guides/facts/process.md#a-failed-initialisation: LOG(FATAL), after kFatalSleepTime
    note("abort", message=message, sleep=_SLEEP if sleep else 0.0)
    if sleep:
        time.sleep(float(os.environ.get("FAKE_GE_FATAL_SLEEP") or 0))
    log.write("F", message, source)
    os.abort()


def internal_error(message: str) -> Any:
    """TensorFlow's InternalError: ``errors::Internal`` of the adapter."""
    return _errors().InternalError(None, None, message)


def invalid_argument(message: str) -> Any:
    """TensorFlow's InvalidArgumentError: ``errors::InvalidArgument`` of the adapter."""
    return _errors().InvalidArgumentError(None, None, message)


def error_of(kind: str, message: str) -> Any:
    """An error of ``tf.errors``, by its name."""
    return getattr(_errors(), kind)(None, None, message)


def _errors() -> Any:
    from tensorflow.python.framework import errors

    return errors
