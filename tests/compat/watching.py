"""Begins a run in this process, and takes back what it does, which a script never wants."""

from typing import Any

from ascend_session.backends.tf_sessions import remove_observer
from ascend_session.compat import script_run
from ascend_session.compat.finder import RunRequest
from ascend_session.compat.sessions import SessionLog


def watch_sessions() -> None:
    """Look after all sessions from now on."""
    script_run.begin(RunRequest())


def session_log() -> SessionLog:
    """Return the sessions of this process."""
    return script_run.script_run().log


def unwatch_sessions() -> None:
    """Close the system, observe no sessions any more, and forget them."""
    run: Any = script_run.script_run()
    run.close_system()
    remove_observer(script_run._ON_STUB)
    if run._guard is not None:
        run._guard.remove()
    script_run._current = None
