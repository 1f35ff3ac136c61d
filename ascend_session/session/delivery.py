"""Raise an exception in the main thread, and once more if code in C has dropped it.

The handler of a signal runs between any two instructions of Python, also while code in C has called
back into Python: in a callback, in ``__del__``. Such code may print the exception or drop it in
silence, and the program goes on as if there had been no signal.

So all frames are traced after the exception is raised. What happens next in one of them shows where
it is:

- It arrives there, Python's event "exception". The frame may handle it, for as long as it likes;
  but what goes on for long is no longer traced, which would slow it down. It is caught if the frame
  goes on and handles no exception any more.
- The frame inside has returned: there it was caught.
- The frame inside was left by an exception, but none arrives here, or one that code in C has made
  of it: it was lost in between, and is raised here.

An exception that Python's own code has made of it counts as the same one.
"""

import sys
from opcode import opname
from traceback import walk_stack
from types import FrameType
from typing import Any, Optional

_EVENTS = 5000  # of Python's tracing, while it is handled: some milliseconds


class Delivery:
    """Raises an exception, and follows it from there to the frame that catches it."""

    def __init__(self, error: BaseException) -> None:
        self._error: Optional[BaseException] = error
        self._arrived_in: Optional[FrameType] = None  # the outermost frame that it has reached
        self._is_handled = False  # by that frame
        self._remaining_events = _EVENTS
        self._has_unwound = True  # whether an exception has left the frame inside
        self._is_returning = False  # whether a frame has come to its `return`

    def raise_from_handler(self, frame: Optional[FrameType]) -> None:
        """Raise the exception in the frame that a signal has interrupted; its handler calls this.

        It is not followed where somebody else traces, such as a debugger.
        """
        assert self._error is not None
        if frame is not None and not _is_traced_by_others(frame):
            self.raise_in(frame)
        raise self._error

    def raise_in(self, frame: FrameType) -> None:
        """Raise the exception in a frame that has called others, when it goes on."""
        for each, _ in walk_stack(frame):
            each.f_trace, each.f_trace_opcodes = self._observe, True
        sys.settrace(self._count)

    def _observe(self, frame: FrameType, event: str, argument: Any) -> Any:
        self._count(frame)
        error = self._error
        if error is None:
            return None
        if event in ("opcode", "return"):  # Python 3.7 runs `finally` after the instruction
            name = opname[frame.f_code.co_code[frame.f_lasti]]
            self._is_returning |= name.startswith(("RETURN", "YIELD"))
        if event == "return":
            self._has_unwound, self._is_returning = not self._is_returning, False
            if frame.f_back is None:
                self._stop(frame)
        elif event == "exception" and self._is_made_of_it(argument[1]):
            self._is_handled &= frame is self._arrived_in
            self._arrived_in, self._is_returning = frame, False
        elif frame is self._arrived_in:
            self._look_at_handler(frame)
        elif not self._has_unwound or (event == "exception" and self._is_handled):
            self._stop(frame)
        elif event != "line":  # Python 3.7 would lose it; the event of the instruction follows
            self._stop(frame)
            raise error
        return self._observe

    def _count(self, frame: FrameType, *event: Any) -> None:
        """Count an event; as a trace function, trace none of the functions that are called."""
        self._remaining_events -= self._is_handled
        if self._remaining_events <= 0:
            self._stop(frame)

    def _look_at_handler(self, frame: FrameType) -> None:
        if self._is_made_of_it(sys.exc_info()[1]):
            self._is_handled = True
            frame.f_trace_opcodes = sys.version_info < (3, 8)  # else lines are enough, and faster
        elif self._is_handled:
            self._stop(frame)

    def _is_made_of_it(self, error: Any) -> bool:
        while isinstance(error, BaseException) and error is not self._error:
            error = error.__context__
        return error is self._error

    def _stop(self, frame: FrameType) -> None:
        for each, _ in walk_stack(frame):
            if each.f_trace == self._observe:
                each.f_trace, each.f_trace_opcodes = None, False
        sys.settrace(None)
        self._error = self._arrived_in = None  # which refer to frames, and those to this


def _is_traced_by_others(frame: FrameType) -> bool:
    functions = {each.f_trace for each, _ in walk_stack(frame)} | {sys.gettrace()}
    owners = (getattr(each, "__self__", None) for each in functions - {None})
    return not all(isinstance(each, Delivery) for each in owners)
