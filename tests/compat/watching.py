"""Takes back what `watch_run` does to a process, which a script never wants."""

from ascend_session.compat import report, sessions


def unwatch_sessions() -> None:
    """Close the system, put TensorFlow's own constructor back, and forget the sessions."""
    from tensorflow.python.client import session as module

    sessions.close_system()
    if sessions._Watch.original is not None:
        module.BaseSession.__init__ = sessions._Watch.original
    sessions._Watch.original, sessions._Opened.is_kept = None, False
    sessions._Watch.log = sessions.SessionLog()
    report._RunEnd.reset()
