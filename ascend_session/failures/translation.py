"""How an exception of TensorFlow or the vendor becomes one of this package, or is explained."""

import logging
from typing import Optional, Type

from ascend_session.errors import AscendError, InitializationError
from ascend_session.failures.failure import Failure
from ascend_session.failures.scanner import LINE_LENGTH, classify, root_cause

_logger = logging.getLogger(__name__)

_NODE = "[[{{node"


def translate(
    error: BaseException,
    *,
    action: str = "initialize_system",
    into: Type[AscendError] = InitializationError,
) -> AscendError:
    """Make an error of this package out of a foreign one; the caller raises it ``from`` that.

    Its ``hint`` is the advice for the root cause, ``failure`` the Failure and ``failure_class`` the
    FailureClass; all are None if the text of the error holds no known failure.

    Args:
        error: Any exception.
        action: What was to be done, as the beginning of a sentence.
        into: The class of the result, a leaf of ``errors``.
    """
    text = _get_text(error)
    failure = root_cause(classify(text))
    if failure is None:
        line = _find_line(text)[:LINE_LENGTH]
        message = f"{action} failed with {type(error).__name__}" + (f": '{line}'" if line else ".")
        return into(message)
    code = f" with {failure.code} ({failure.meaning})" if failure.meaning else ""
    result = into(f"{action} failed{code}: '{failure.line}'", hint=failure.advice)
    result.failure, result.failure_class = failure, failure.failure_class
    return result


def explain(error: BaseException) -> Optional[Failure]:
    """Add to a foreign error what is known about it; its type and message stay as they are.

    The advice is logged and, from Python 3.11 on, a note of the error; `failure_of` finds the
    failure. Nothing happens to an error in which no known failure is found, or to one of ours.
    """
    known = failure_of(error)
    if known is not None or isinstance(error, AscendError):
        return known
    failure = root_cause(classify(_get_text(error)))
    if failure is None:
        return None
    kind = failure.failure_class
    text = f"{failure.code} is a known failure ({kind.value}). {failure.advice}"
    vars(error).update(failure=failure, failure_class=kind)
    _logger.error("%s", text)
    add_note = getattr(error, "add_note", None)
    if add_note is not None:
        add_note(text)
    return failure


def failure_of(error: BaseException) -> Optional[Failure]:
    """Give the failure that `translate` or `explain` found for this error, or None."""
    failure = getattr(error, "failure", None)
    return failure if isinstance(failure, Failure) else None


def _get_text(error: BaseException) -> str:
    """Give an exception's ``message``, as TensorFlow's errors have one, else ``str(error)``."""
    message = getattr(error, "message", None)
    return message if isinstance(message, str) and message else str(error)


def _find_line(text: str) -> str:
    """Find the line with what went wrong: TensorFlow 2 puts where it happened around it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    nodes = [number for number, line in enumerate(lines) if line.startswith(_NODE)]
    number = nodes[0] - 1 if nodes else 0
    return lines[max(number, 0)] if lines else ""
