"""Loops whose number of steps is set for each session: ``set_iteration_per_loop``.

Source: util.py, ``IterationPerLoop``; npu_hook.py, ``SetIterationsVarHook``.
"""

from typing import Any, Dict, Sequence

from ascend_session.backends._tensorflow import keep_on
from ascend_session.backends.host_loop import HostLoop
from ascend_session.compat.script_run import script_run
from ascend_session.config.entry import ENTRY_NAME, read_entries, values_in_force
from ascend_session.errors import warn
from ascend_session.session.conditions import refuse_one_shot
from ascend_session.training.loops import watch_stop

_LOOPS = "_ascend_session_late_loops"  # attribute of a graph: loops by the name of their train_op


def plain_session(session: Any) -> Any:
    """Return the ``tf.Session`` behind one with hooks.

    Raises:
        TypeError: If it is not a session, or is closed.
    """
    inner = getattr(session, "_tf_sess", None)
    plain = session if inner is None else inner()
    if not hasattr(plain, "run"):
        raise TypeError(f"sess must be an open session, this is {session!r}.")
    return plain


class LateLoop(HostLoop):
    """A looped operation that learns in each session how many steps a run makes.

    Args:
        train_op: The operation that makes one step.
    """

    def __init__(self, train_op: Any) -> None:
        super().__init__(train_op, steps=1)

    def load(self, session: Any, steps: int = 0) -> None:
        """Set how many steps a run makes in ``session``."""
        super().load(session, steps)
        watch_stop(session, self.operation, steps, script_run().log.note_part)

    def note_run(self, session: Any, steps: int, fed: Sequence[str] = ()) -> None:
        """Count the run for the report."""
        script_run().log.note_run(session, steps, fed, self._inputs.list_shared(session))


def find_loop(train_op: Any) -> LateLoop:
    """Return the looped operation that its graph has for ``train_op``, made if there is none."""
    loops: Dict[str, LateLoop] = keep_on(train_op.graph, _LOOPS)
    if train_op.name not in loops:
        loops[train_op.name] = LateLoop(train_op)
    return loops[train_op.name]


def check_loop(session: Any, steps: int) -> None:
    """Check a loop against the input and the entry of its session, and note it for the report.

    Raises:
        LifecycleError: For a graph with a one-shot iterator, where the adapter aborts.

    Warns:
        AscendConfigWarning: If the entry says another number; the vendor demands the same.
    """
    if steps == 1:
        return
    script_run().log.note_loop(session, steps)
    refuse_one_shot(session.graph, steps)
    proto = getattr(session, "_config", None)
    options = {} if proto is None else values_in_force(read_entries(proto)[0])
    entry_steps = options.get("iterations_per_loop", 1)
    if entry_steps != steps:
        warn(
            f"Each run makes {steps} steps, but the session's {ENTRY_NAME} entry has "
            f"iterations_per_loop={entry_steps}; the vendor demands the same number in both."
        )
