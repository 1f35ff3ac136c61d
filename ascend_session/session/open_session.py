"""One open tf.Session with the thread whose default it is."""

import threading
from typing import Any

__all__ = ["OpenSession"]


class OpenSession:
    """A ``tf.Session`` that has been made the default of the current thread, with its graph."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.thread = threading.get_ident()
        try:
            session.__enter__()
        except BaseException:
            session.close()
            raise

    def close(self, *failure: Any) -> None:
        """Takes the session from the defaults of its thread and closes it.

        Args:
            failure: Type, value and traceback of the exception that ends the block, or nothing.
        """
        try:
            if self.thread == threading.get_ident():
                self.session.__exit__(*(failure or (None, None, None)))
        finally:
            self.session.close()

    def interrupt(self) -> None:
        """Closes the session under the feet of a thread that is blocked in it."""
        self.session.close()
