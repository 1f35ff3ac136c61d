"""``npu_bridge.estimator.npu.npu_callbacks``: all ranks begin with one's Keras model.

Source: npu_callbacks.py.
"""

from typing import Any

from ascend_session.compat.optimizers import broadcast_values, rank_count
from ascend_session.compat.tensorflow_names import Callback, keras_backend, tf
from ascend_session.compat.vendor_modules import mirror
from ascend_session.errors import UnsupportedError


def broadcast_global_variables(root_rank: int) -> Any:
    """Return an operation that sends the root's values of Keras's variables to all ranks."""
    variables = [
        variable
        for variable in tf.global_variables()
        if getattr(variable, "_keras_initialized", False)
    ]
    return broadcast_values(variables, root_rank)


class BroadcastGlobalVariablesCallbackImpl:
    """Broadcasts once, before the first batch.

    Args:
        root_rank: The rank whose values are broadcast.
        args: Arguments of the base class of `NPUBroadcastGlobalVariablesCallback`.
    """

    def __init__(self, root_rank: int, *args: Any) -> None:
        super().__init__(*args)
        self.root_rank = root_rank
        self.broadcast_done = False

    def on_batch_begin(self, batch: Any, logs: Any = None) -> None:
        """Broadcast the variables, if that was not done before.

        Raises:
            UnsupportedError: Under Keras 3, which has no session.
        """
        if self.broadcast_done:
            return
        if rank_count() > 1:
            if tf.executing_eagerly():
                raise UnsupportedError(
                    "NPUBroadcastGlobalVariablesCallback needs Keras in graph mode, where its "
                    "variables are in a session.",
                    hint="Call tf.disable_eager_execution() first (tf.compat.v1 in TensorFlow 2).",
                )
            session = keras_backend.get_session()
            with session.graph.as_default():
                session.run(broadcast_global_variables(self.root_rank))
        self.broadcast_done = True


class NPUBroadcastGlobalVariablesCallback(
    BroadcastGlobalVariablesCallbackImpl,
    Callback,  # type: ignore[misc]
):
    """A Keras callback that broadcasts the root's variables before the first batch.

    Args:
        root_rank: The rank whose values are broadcast.
    """

    def __init__(self, root_rank: int) -> None:
        super().__init__(root_rank)


__getattr__, __all__ = mirror(
    globals(),
    "os keras backend state_ops control_flow_ops hccl_ops util_lib",
)
