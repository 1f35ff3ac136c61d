"""What fails for one device among several: where, and what the others have."""

import contextlib
from typing import Any, Dict, Iterator, Optional

from ascend_session.errors import AscendError, FanOutError
from ascend_session.failures import explain
from ascend_session.fanout.wording import together

__all__ = ["failed", "phase"]


@contextlib.contextmanager
def phase(name: str, device_id: int) -> Iterator[None]:
    """Says which device and phase an exception belongs to; interrupts pass as they are."""
    try:
        yield
    except Exception as error:
        raise failed(name, {device_id: error}) from error


def failed(
    name: str, failures: Dict[int, BaseException], results: Optional[Dict[int, Any]] = None
) -> FanOutError:
    """The error for ``failures`` in the phase ``name``; the caller raises it from the first."""
    sentences = [
        f"Device {device} failed in the phase {name}: {type(error).__name__}: "
        f"{error.message if isinstance(error, AscendError) else error}"
        for device, error in failures.items()
    ]
    hints = [_hint(error) for error in failures.values()]
    message = together(sentences, f"{len(failures)} devices failed:")
    hint = next(filter(None, hints), None)
    return FanOutError(message, hint=hint, phase=name, failures=failures, results=results)


def _hint(error: BaseException) -> Optional[str]:
    if isinstance(error, AscendError):
        return error.hint
    known = explain(error)
    return known.advice if known is not None else None
