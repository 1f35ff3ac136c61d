"""What a script's loops of steps need: their variables, and a number of steps that is said late.

Source: npu/util.py (``create_or_get_var``, ``IterationPerLoop``) and npu_hook.py.
"""

from typing import Any, Dict, Set

from tensorflow.core.framework import variable_pb2
from tensorflow.python.framework import ops
from tensorflow.python.ops import resource_variable_ops

from ascend_session.backends.npu_training import outermost
from ascend_session.backends.stub_loops import StubLoop
from ascend_session.compat.tensorflow_names import tf

__all__ = ["LOOP_VARIABLES", "LateLoop", "loop_variable", "plain_session", "register_loop_variable"]

_SCOPE = "npu_runconfig"

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
