"""Begins a run in this process, and takes back what it does, which a script never wants."""

from ascend_session.backends import tf_sessions
from ascend_session.compat import on_stub, script_run
from ascend_session.compat.finder import RunRequest
from ascend_session.compat.sessions import SessionLog


def watch_sessions() -> None:
    """Look after all sessions from now on."""
    on_stub.begin(RunRequest(), ())


def session_log() -> SessionLog:
    """Return the sessions of this process."""
    return script_run.script_run().log


def unwatch_sessions() -> None:
    """Close the system, observe no sessions any more, and forget them."""
    run = script_run.script_run()
    run.close_system()
    for observer in tf_sessions._observers:
        if isinstance(observer, on_stub.OnStub):
            tf_sessions.remove_observer(observer)
    if run.guard is not None:
        run.guard.remove()
    script_run.forget_run()
