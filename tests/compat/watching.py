"""Takes back what `watch_run` does to a process, which a script never wants."""

from ascend_session.backends.tf_sessions import remove_observer
from ascend_session.compat import report, sessions


def unwatch_sessions() -> None:
    """Close the system, observe no sessions any more, and forget them."""
    sessions.close_system()
    if sessions._Watch.observer is not None:
        remove_observer(sessions._Watch.observer)
    sessions._Watch.observer, sessions._Opened.is_kept = None, False
    sessions._Watch.log = sessions.SessionLog()
    report._RunEnd.reset()
