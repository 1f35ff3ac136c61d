"""What training needs of the vendor besides collectives: overflow, and loops on the device.

Sources: npu_optimizer.py, npu_loss_scale_optimizer.py (the operators for overflow; their
registration in npu_mixed_precesion_ops.cc), npu/util.py.
"""

from typing import Any, List, Optional

from ascend_session.backends._tensorflow import outermost, tf1
from ascend_session.backends.base import Loop

__all__ = ["NpuLoop", "read_float_status"]

# npu/util.py and npu_hook.py: the variables by which the device counts, and what they begin with
_COUNTERS = ("iterations_per_loop", "loop_cond", "zero", "one")


def read_float_status(after: List[Any]) -> Any:
    """Add operators that read and then clear the device's status of overflow.

    Args:
        after: The tensors up to which overflows count.

    Returns:
        A tensor, int32 [1]: 1 if there was an overflow, else 0.
    """
    from npu_bridge.helper import helper

    tf, operators = tf1(), helper.get_gen_ops()
    with tf.control_dependencies(after):
        status = operators.npu_get_float_status_v2()  # int32 [8], all 0 if there was none
    with tf.control_dependencies([status]):
        cleared = operators.npu_clear_float_status_v2()
    with tf.control_dependencies([cleared]):
        return tf.cast(tf.reduce_any(tf.not_equal(status, 0), keepdims=True), tf.int32)


class NpuLoop(Loop):
    """The vendor's loop: the device makes the steps by itself.

    Args:
        train_op: The operation that makes one step.
        steps: How many steps a run makes.
        session: A session in which it will run; None if there is none yet.
    """

    def __init__(self, train_op: Any, steps: int, session: Optional[Any]) -> None:
        from npu_bridge.estimator.npu import util

        self._steps = steps
        with outermost(train_op.graph):
            if session is None:
                self.operation = util.IterationPerLoop().create_iteration_per_loop_var(train_op)
            else:
                self.operation = util.set_iteration_per_loop(session, train_op, steps)

    def load(self, session: Any) -> None:
        """Tell the device how many steps a run makes in this session."""
        from npu_bridge.estimator.npu import util

        with session.graph.as_default():
            for name, value in zip(_COUNTERS, (self._steps - 1, 0, 0, 1)):
                util.create_or_get_var(name).load(value, session=session)
