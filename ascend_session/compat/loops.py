"""What a script's loops of steps need: their variables, and a number of steps that is said late.

Source: npu/util.py (``create_or_get_var``, ``IterationPerLoop``) and npu_hook.py.
"""

from typing import Any, Dict, Set

from tensorflow.core.framework import variable_pb2
from tensorflow.python.framework import ops
from tensorflow.python.ops import resource_variable_ops

from ascend_session.backends.npu_training import ITERATION_OP, outermost
from ascend_session.backends.stub_loops import StubLoop
from ascend_session.compat.tensorflow_names import tf
from ascend_session.config.checking import warn
from ascend_session.config.proto import ENTRY_NAME
from ascend_session.session.conditions import refuse_one_shot

__all__ = [
    "LOOP_VARIABLES",
    "LateLoop",
    "check_loop",
    "loop_variable",
    "looped",
    "plain_session",
    "register_loop_variable",
]

_SCOPE = "npu_runconfig"
_ATTRIBUTE = "_npu_bridge_loop"  # of a graph

LOOP_VARIABLES = ("iterations_per_loop", "loop_cond", "zero", "one")

_registered: Set[str] = set()


def register_loop_variable(name: str) -> None:
    """Registers how the collection of such a variable is written into a meta graph."""
    to_proto = getattr(resource_variable_ops, "_to_proto_fn", None)
    if name in _registered or to_proto is None:
        return
    _registered.add(name)
    ops.register_proto_function(
        f"{_SCOPE}_{name}",
        proto_type=variable_pb2.VariableDef,
        to_proto=to_proto,
        from_proto=resource_variable_ops._from_proto_fn,
    )


def loop_variable(name: str) -> Any:
    """The variable of that name in the default graph; made if it has none.

    Raises:
        RuntimeError: If it has several.
    """
    collection = f"{_SCOPE}_{name}"
    found = tf.get_default_graph().get_collection(collection)
    if len(found) > 1:
        raise RuntimeError(f"The graph has {len(found)} variables in the collection {collection}.")
    if found:
        return found[0]
    with tf.variable_scope(_SCOPE, reuse=tf.AUTO_REUSE):
        return tf.get_variable(
            name,
            initializer=tf.zeros_initializer(),
            shape=[],
            dtype=tf.int64,
            trainable=False,
            collections=[collection, tf.GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
        )


def plain_session(session: Any) -> Any:
    """The ``tf.Session`` behind one with hooks."""
    inner = getattr(session, "_tf_sess", None)
    return session if inner is None else inner()


class LateLoop(StubLoop):
    """A looped operation that is told in each session how many steps a run makes.

    Args:
        train_op: The operation that makes one step.
        name: The name of the operation that makes several.
        steps: How many a run makes in a session that was told nothing else.
    """

    def __init__(self, train_op: Any, name: str, steps: int) -> None:
        self._default = steps
        self._told: Dict[int, int] = {}
        with outermost(train_op.graph):
            super().__init__(train_op, name, steps)

    def load_with(self, session: Any, steps: int) -> None:
        """Makes the operation usable in ``session``, with so many steps a run."""
        session = plain_session(session)
        self.load(session)
        self._told[self._numbers[session]] = steps

    def _make_others(self, number: Any, *values: Any) -> Any:
        self._steps = self._told.get(int(number), self._default)
        return super()._make_others(number, *values)


def check_loop(session: Any, steps: int) -> None:
    """Compares a loop with what the session reads, and with its entry.

    Raises:
        LifecycleError: For a graph with a one-shot iterator, where the adapter aborts.

    Warns:
        AscendConfigWarning: If the entry says another number; the vendor demands the same.
    """
    if steps == 1:
        return
    refuse_one_shot(session.graph, steps)
    told = _steps_in_entry(getattr(session, "_config", None))
    if told != steps:
        warn(
            f"Each run makes {steps} steps, but the session's {ENTRY_NAME} entry says "
            f"iterations_per_loop={told}; the vendor demands the same number in both."
        )


def _steps_in_entry(proto: Any) -> int:
    """What the adapter reads: the last entry's number, 1 without one."""
    entries = [] if proto is None else proto.graph_options.rewrite_options.custom_optimizers
    found = [one.parameter_map for one in entries if one.name == ENTRY_NAME]
    key = "iterations_per_loop"
    return int(found[-1][key].i) if found and key in found[-1] else 1


def looped(session: Any, train_op: Any, steps: int) -> Any:
    """The operation of which a run makes so many steps in ``session``.

    A graph has one for an operation; for another operation, or another session, call it again.

    Raises:
        LifecycleError: As `check_loop`.
        UnsupportedError: For a step that cannot be made several times in a run.
    """
    check_loop(session, steps)
    graph = train_op.graph
    known: Dict[str, LateLoop] = getattr(graph, _ATTRIBUTE, {})
    setattr(graph, _ATTRIBUTE, known)
    if train_op.name not in known:
        known[train_op.name] = LateLoop(train_op, ITERATION_OP, 1)
    loop = known[train_op.name]
    loop.load_with(session, steps)
    return loop.operation
