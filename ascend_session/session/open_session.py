"""One open tf.Session with the thread that it belongs to."""

import threading
from typing import Any, Mapping

from ascend_session.backends._tensorflow import destroy

__all__ = ["OpenSession"]


class OpenSession:
    """A ``tf.Session``, with the thread that has opened it.

    Args:
        session: The session; closed if it cannot be made the default.
        parameters: The keys and values of its NpuOptimizer entry.
        as_default: Whether it and its graph become the defaults of the current thread.
    """

    def __init__(self, session: Any, parameters: Mapping[str, Any], as_default: bool) -> None:
        self.session = session
        self.graph = session.graph
        self.parameters = parameters
        self.thread = threading.get_ident()
        self._is_default = as_default
        if not as_default:
            return
        try:
            session.__enter__()
        except BaseException:
            session.close()
            raise

    def close(self, *failure: Any) -> None:
        """Takes the session from the defaults of its thread, closes and frees it.

        Args:
            failure: Type, value and traceback of the exception that ends the block, or nothing.
        """
        try:
            if self._is_default and self.thread == threading.get_ident():
                self.session.__exit__(*(failure or (None, None, None)))
        finally:
            destroy(self.session)

    def interrupt(self) -> None:
        """Closes the session under the feet of a thread that is blocked in it."""
        self.session.close()
