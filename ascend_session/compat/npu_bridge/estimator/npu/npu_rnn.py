"""``npu_bridge.estimator.npu.npu_rnn``: a recurrent network, unrolled.

Source: npu_rnn.py.
"""

from typing import Any

from ascend_session.compat.tensorflow_names import tf
from ascend_session.compat.vendor_modules import mirror


def npu_dynamic_rnn(
    cell: Any,
    inputs: Any,
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> Any:
    """Run the cell over all steps; return its outputs, and its last state.

    Args:
        cell: An RNNCell of TensorFlow.
        inputs: ``[steps, batch, ...]``; the number of steps must be known.
        initial_state: The cell's first state.
        dtype: Type of the states, without ``initial_state``.
        sequence_length: int32 ``[batch]``; after it outputs are 0, and the state stays.
        scope: The scope of the variables.
    """
    outputs, state = tf.nn.static_rnn(
        cell,
        tf.unstack(inputs, axis=0),
        initial_state=initial_state,
        dtype=dtype,
        sequence_length=sequence_length,
        scope=scope,
    )
    return tf.stack(outputs, axis=0), state


__getattr__, __all__ = mirror(globals())
