"""How the launcher starts its threads."""

import threading

from ascend_session.errors import JobError

__all__ = ["start"]


def start(thread: threading.Thread) -> None:
    """Starts a thread.

    Raises:
        JobError: If this user may have no more.
    """
    try:
        thread.start()
    except RuntimeError:
        raise JobError(
            f"The launcher cannot start its thread {thread.name!r}: this user may have no more "
            "processes and threads.",
            hint="`ulimit -u` shows the limit; end others, or raise it.",
        ) from None
