"""What training needs of the vendor besides collectives: overflow, and loops on the device.

Sources: npu_optimizer.py, npu_loss_scale_optimizer.py (the operators for overflow; their
registration in npu_mixed_precesion_ops.cc), npu_plugin.py, npu/util.py.
"""

import contextlib
from typing import Any, Iterator, Optional

from ascend_session.backends._tensorflow import tf1

__all__ = [
    "ITERATION_OP",
    "clear_float_status",
    "float_status",
    "has_inf_and_nan",
    "load_loop",
    "loop_in",
    "loop_later",
    "outermost",
]

# geop_npu.cc, AddNodeAttrs: the adapter knows the operator by exactly this name.
ITERATION_OP = "IterationOp"

# npu/util.py and npu_hook.py: the variables by which the device counts, and what they begin with
_COUNTERS = ("iterations_per_loop", "loop_cond", "zero", "one")


def float_status() -> Any:
    """The operator that reads the status of overflow: int32 [8], all 0 if there was none."""
    return _operators().npu_get_float_status_v2()


def clear_float_status() -> Any:
    """The operator that clears it."""
    return _operators().npu_clear_float_status_v2()


def has_inf_and_nan() -> Optional[bool]:
    """Whether an overflow becomes Inf or NaN on the device; None as long as nobody knows.

    The vendor's ``npu_plugin.is_inf_nan_enabled`` takes "not known" for no: before the device is
    up, the query fails (npu_plugin.h, ``GetDeviceSatMode``: -1).
    """
    from npu_bridge import tf_adapter

    query = getattr(tf_adapter, "GetDeviceSatMode", None)  # which early releases do not have
    return None if query is None else {0: False, 1: True}.get(int(query()))


def loop_in(session: Any, train_op: Any, steps: int) -> Any:
    """The vendor's ``set_iteration_per_loop``: an operator that makes so many steps in a run."""
    from npu_bridge.estimator.npu import util

    with outermost(session.graph):
        return util.set_iteration_per_loop(session, train_op, steps)


def loop_later(train_op: Any) -> Any:
    """The same operator before there is a session; `load_loop` then says how many steps."""
    from npu_bridge.estimator.npu import util

    with outermost(train_op.graph):
        return util.IterationPerLoop().create_iteration_per_loop_var(train_op)


def load_loop(session: Any, steps: int) -> None:
    """Says to the device how many steps a run of the operator makes in this session."""
    from npu_bridge.estimator.npu import util

    with session.graph.as_default():
        for name, value in zip(_COUNTERS, (steps - 1, 0, 0, 1)):
            util.create_or_get_var(name).load(value, session=session)


@contextlib.contextmanager
def outermost(graph: Any) -> Iterator[None]:
    """Outside all scopes, which would begin the names that the adapter and GE look for."""
    tf = tf1()
    root = tf.VariableScope(reuse=tf.AUTO_REUSE, name="")
    with contextlib.ExitStack() as scopes:
        scopes.enter_context(graph.as_default())
        scopes.enter_context(tf.control_dependencies(None))
        scopes.enter_context(tf.device(None))
        scopes.enter_context(tf.variable_scope(root, auxiliary_name_scope=False))
        scopes.enter_context(tf.name_scope(None))
        yield


def _operators() -> Any:
    from npu_bridge.helper import helper

    return helper.get_gen_ops()
