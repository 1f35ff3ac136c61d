"""Loops whose number of steps is said late, and to each session: ``set_iteration_per_loop``.

Source: util.py, ``IterationPerLoop``; npu_hook.py, ``SetIterationsVarHook``.
"""

from typing import Any, Dict, Optional

from ascend_session.backends.host_loop import HostLoop
from ascend_session.compat.sessions import session_log
from ascend_session.compat.tensorflow_names import tf
from ascend_session.config.entry import ENTRY_NAME, read_entries, values_in_force
from ascend_session.errors import warn
from ascend_session.session.conditions import refuse_one_shot
from ascend_session.training.loops import make_steps_before

_Hook: Any = tf.train.SessionRunHook


def plain_session(session: Any) -> Any:
    """Give the ``tf.Session`` behind one with hooks.

    Raises:
        TypeError: If it is no session, or one that is closed.
    """
    inner = getattr(session, "_tf_sess", None)
    plain = session if inner is None else inner()
    if not hasattr(plain, "run"):
        raise TypeError(f"sess must be an open session, this is {session!r}.")
    return plain


class LateLoop(HostLoop):
    """A looped operation that learns in each session how many steps a run makes.

    Args:
        train_op: The operation that makes one step; so does a run where `load_with` was not called.
    """

    def __init__(self, train_op: Any) -> None:
        self._steps_by_session: Dict[int, int] = {}
        super().__init__(train_op, steps=1)

    def load_with(self, session: Any, steps: int) -> None:
        """Make the operation usable in ``session``, with so many steps a run.

        Hooks of the session see what they would on a device, the last step of each run, unless
        one of them may feed the step: see `HostLoop.make_before`.
        """
        self._add_hook(session)
        session = plain_session(session)
        self.load(session)
        self._steps_by_session[self._numbers[session]] = steps

    def _add_hook(self, session: Any) -> None:
        """Add a hook to a MonitoredSession, whose list of hooks may be the script's own."""
        creator = getattr(session, "_coordinated_creator", None)
        if creator is None or any(getattr(hook, "loop", None) is self for hook in creator._hooks):
            return
        inner = session._sess
        while inner is not None and not hasattr(inner, "_hooks"):  # a recovery, a coordinator
            inner = inner._sess
        if inner is not None:
            inner._hooks = creator._hooks = [*inner._hooks, _StepsBefore(self)]

    def make_before(self, session: Any, feeds: Any) -> Optional[Dict[Any, Any]]:
        """Make all steps but the last, which the next run of the operation makes."""
        self._steps = self._steps_by_session.get(self._numbers.get(session, 0), 1)
        return super().make_before(session, feeds) if self._steps > 1 else None

    def _make_others(self, number: Any, *values: Any) -> Any:
        self._steps = self._steps_by_session.get(int(number), 1)
        for session, each in list(self._numbers.items()):
            if each == int(number):
                session_log().note_loop(session, self._steps, runs=1)
        return super()._make_others(number, *values)


class _StepsBefore(_Hook):  # type: ignore[misc]
    """Has the runs of a looped operation make its last step; the others come before the run."""

    def __init__(self, loop: LateLoop) -> None:
        self.loop = loop

    def before_run(self, run_context: Any) -> Any:
        return make_steps_before(self.loop, run_context)


def check_loop(session: Any, steps: int) -> None:
    """Compare a loop with what the session reads, and with its entry; the report counts its runs.

    Raises:
        LifecycleError: For a graph with a one-shot iterator, where the adapter aborts.

    Warns:
        AscendConfigWarning: If the entry says another number; the vendor demands the same.
    """
    if steps == 1:
        return
    session_log().note_loop(session, steps)
    refuse_one_shot(session.graph, steps)
    proto = getattr(session, "_config", None)
    options = {} if proto is None else values_in_force(read_entries(proto)[0])
    entry_steps = options.get("iterations_per_loop", 1)
    if entry_steps != steps:
        warn(
            f"Each run makes {steps} steps, but the session's {ENTRY_NAME} entry says "
            f"iterations_per_loop={entry_steps}; the vendor demands the same number in both."
        )
