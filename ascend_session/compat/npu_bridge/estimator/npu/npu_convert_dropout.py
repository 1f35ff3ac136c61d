"""``npu_bridge.estimator.npu.npu_convert_dropout``: importing it makes Keras' Dropout the vendor's.

Only under TensorFlow 1, which the vendor's package is for; the mathematics is the same either way.
Source: npu_convert_dropout.py.
"""

from typing import Any

from ascend_session.compat.npu_bridge.estimator import npu_ops
from ascend_session.compat.tensorflow_names import tf
from ascend_session.compat.vendor_modules import mirror

Dropout: Any = tf.keras.layers.Dropout


def dropout_call(self: Any, inputs: Any, training: Any = None) -> Any:
    """Apply dropout in training; return the inputs otherwise."""
    if training is None:
        training = tf.keras.backend.learning_phase()
    noise_shape = self._get_noise_shape(inputs)

    def dropped() -> Any:
        if noise_shape is not None:
            return tf.nn.dropout(inputs, noise_shape=noise_shape, seed=self.seed, rate=self.rate)
        return npu_ops.dropout(inputs, seed=self.seed, keep_prob=1.0 - self.rate)

    from tensorflow.python.keras.utils import tf_utils

    return tf_utils.smart_cond(training, dropped, lambda: tf.identity(inputs))


if tf.__version__.startswith("1."):
    Dropout.call = dropout_call


__getattr__, __all__ = mirror(globals(), "Dropout npu_ops")
