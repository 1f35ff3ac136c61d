"""How an exception of TensorFlow or the vendor becomes one of this package."""

import logging
from typing import Optional, Type

from ascend_session.errors import AscendError, InitializationError
from ascend_session.failures.cause import root_cause
from ascend_session.failures.definition import Failure
from ascend_session.failures.scanning import LINE_LENGTH, classify

__all__ = ["explain", "failure_of", "translate"]

_logger = logging.getLogger(__name__)

_NODE = "[[{{node"


def translate(
    error: BaseException,
    *,
    asked: str = "initialize_system",
    into: Type[AscendError] = InitializationError,
) -> AscendError:
    """Makes an error of this package out of a foreign one; the caller raises it ``from`` that.

    The text is the exception's ``message``, as TensorFlow's errors have one, else ``str(error)``.
    ``hint`` is the advice for the root cause in it. The result has two attributes more:
    ``failure_class``, a FailureClass, and ``failure``, the Failure; both are None, and so is
    ``hint``, if the text holds no known failure.

    Args:
        error: Any exception.
        asked: What was to be done, as the beginning of a sentence.
        into: The class of the result, a leaf of ``errors``.
    """
    text = _text(error)
    failure = root_cause(classify(text))
    result = into(_message(error, text, failure, asked), hint=failure.advice if failure else None)
    kind = failure.failure_class if failure else None
    # Into the dictionary, which AscendError also takes along when it is pickled.
    vars(result).update(failure=failure, failure_class=kind)
    return result


def explain(error: BaseException) -> Optional[Failure]:
    """Adds to a foreign error what is known about it; its type and message stay as they are.

    The advice is logged and, from Python 3.11 on, a note of the error; `failure_of` finds the
    failure. Nothing happens to an error in which no known failure is found, or to one of ours.
    """
    known = failure_of(error)
    if known is not None or isinstance(error, AscendError):
        return known
    failure = root_cause(classify(_text(error)))
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
    """The failure that ``translate`` found for this error, or None."""
    failure = getattr(error, "failure", None)
    return failure if isinstance(failure, Failure) else None


def _text(error: BaseException) -> str:
    message = getattr(error, "message", None)
    return message if isinstance(message, str) and message else str(error)


def _message(error: BaseException, text: str, failure: Optional[Failure], asked: str) -> str:
    if failure is None:
        said = _said(text)
        name = type(error).__name__
        return f"{asked} failed with {name}" + (f": '{said[:LINE_LENGTH]}'" if said else ".")
    called = f" with {failure.code} ({failure.meaning})" if failure.meaning else ""
    return f"{asked} failed{called}: '{failure.line}'"


def _said(text: str) -> str:
    """The line that says what went wrong: TensorFlow 2 puts where it happened around it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    nodes = [place for place, line in enumerate(lines) if line.startswith(_NODE)]
    place = nodes[0] - 1 if nodes else 0
    return lines[max(place, 0)] if lines else ""
