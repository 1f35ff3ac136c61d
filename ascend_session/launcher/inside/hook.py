"""How an exception that ends a rank's program is printed: as if there were no runner."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Callable, Container, Optional, Type

    Trace = Optional[TracebackType]

__all__ = ["print_as_without", "stripped"]


def print_as_without(files: "Container[str]") -> None:
    """From now on Python prints the exception without the outermost frames of these files.

    The program's own ``sys.excepthook`` is called, and is in its place when it is.
    """
    sys.excepthook = _Hook(getattr(sys, "excepthook", _missing), files).show


def stripped(trace: "Trace", files: "Container[str]") -> "Trace":
    """A traceback without its outermost frames, as far as they are of these files."""
    while trace is not None and trace.tb_frame.f_code.co_filename in files:
        trace = trace.tb_next
    return trace


class _Hook:
    def __init__(self, hook: "Callable[..., object]", files: "Container[str]") -> None:
        self._hook = hook
        self._files = files

    def show(self, kind: "Type[BaseException]", error: BaseException, trace: "Trace") -> None:
        """Does what Python does with an exception that nothing caught."""
        if self._hook is _missing:
            del sys.excepthook
        else:
            sys.excepthook = self._hook
        trace = stripped(trace, self._files)
        error.__traceback__ = sys.last_traceback = trace
        try:
            self._hook(kind, error, trace)
        except SystemExit:
            raise
        except BaseException as second:
            _say("Error in sys.excepthook:\n")
            second.__traceback__ = stripped(second.__traceback__, self._files)
            sys.__excepthook__(type(second), second, second.__traceback__)
            _say("\nOriginal exception was:\n")
            sys.__excepthook__(kind, error, trace)


def _missing(kind: "Type[BaseException]", error: BaseException, trace: "Trace") -> None:
    _say("sys.excepthook is missing\n")
    sys.__excepthook__(kind, error, trace)


def _say(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(text)
