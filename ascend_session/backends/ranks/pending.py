"""A call in a thread of its own, of which one may stop waiting."""

import threading
from typing import Any, Callable, Optional

__all__ = ["Pending"]


class Pending:
    """A call whose caller waits for its result or for news that it will never come.

    Its thread is a daemon: one that TensorFlow never gives back does not keep the process alive.
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._settled = threading.Event()
        self._lock = threading.Lock()
        self._value: Any = None
        self._error: Optional[BaseException] = None

    def start(self) -> None:
        """Begins the call."""
        threading.Thread(target=self._call, name="ascend-session-collective", daemon=True).start()

    def wait(self, seconds: Optional[float]) -> bool:
        """Whether there is a result, or the news, within so many seconds; None waits for ever."""
        return self._settled.wait(seconds)

    def fail(self, error: BaseException) -> None:
        """The news; does nothing once there is a result."""
        self._settle(None, error)

    def result(self) -> Any:
        """What the call has returned; raises what it raised, or the news."""
        if self._error is not None:
            raise self._error
        return self._value

    def _call(self) -> None:
        try:
            value = self._function()
        except BaseException as error:
            self._settle(None, error)
        else:
            self._settle(value, None)

    def _settle(self, value: Any, error: Optional[BaseException]) -> None:
        with self._lock:
            if not self._settled.is_set():
                self._value, self._error = value, error
                self._settled.set()
