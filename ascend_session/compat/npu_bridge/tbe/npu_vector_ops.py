"""``npu_bridge.tbe.npu_vector_ops``: LAMB's steps, and PReLU as a layer of Keras.

Source: npu_vector_ops.py.
"""

from typing import Any

from ascend_session.compat.kernels import updating
from ascend_session.compat.kernels._tensors import refuse_eager
from ascend_session.compat.npu_bridge.estimator.npu_aicore_ops import prelu
from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.tensorflow_names import tf

__all__ = [
    "PReLU",
    "gen_npu_ops",
    "lamb_apply_optimizer_assign",
    "lamb_apply_weight_assign",
    "prelu",
]

gen_npu_ops = helper.get_gen_ops()


def lamb_apply_optimizer_assign(
    input0: Any,
    input1: Any,
    input2: Any,
    input3: Any,
    mul0_x: Any,
    mul1_x: Any,
    mul2_x: Any,
    mul3_x: Any,
    add2_y: Any,
    steps: Any,
    do_use_weight: Any,
    weight_decay_rate: Any,
    name: Any = None,
) -> Any:
    """LAMB's update and moments (`kernels.updating.lamb_apply_optimizer_assign`)."""
    refuse_eager("tf.lamb_apply_optimizer_assign")
    moments = (mul0_x, mul1_x, mul2_x, mul3_x)
    return updating.lamb_apply_optimizer_assign(
        input0,
        input1,
        input2,
        input3,
        *moments,
        add2_y,
        steps,
        do_use_weight,
        weight_decay_rate,
        name,
    )


def lamb_apply_weight_assign(
    input0: Any, input1: Any, input2: Any, input3: Any, input4: Any, name: Any = None
) -> Any:
    """The parameter after LAMB's step (`kernels.updating.lamb_apply_weight_assign`)."""
    refuse_eager("tf.lamb_apply_weight_assign")
    return updating.lamb_apply_weight_assign(input0, input1, input2, input3, input4, name)


class PReLU(tf.keras.layers.Layer):  # type: ignore[misc]
    """`prelu` with a weight of its own for each place, or shared along axes.

    Args:
        alpha_initializer: Of the weight.
        alpha_regularizer: Of the weight.
        alpha_constraint: Of the weight.
        shared_axes: Along which there is one weight; the first after the batch is 1.
        kwargs: As of any layer.
    """

    def __init__(
        self,
        alpha_initializer: Any = "zeros",
        alpha_regularizer: Any = None,
        alpha_constraint: Any = None,
        shared_axes: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.alpha_initializer = tf.keras.initializers.get(alpha_initializer)
        self.alpha_regularizer = tf.keras.regularizers.get(alpha_regularizer)
        self.alpha_constraint = tf.keras.constraints.get(alpha_constraint)
        self.shared_axes = shared_axes
        self.alpha: Any = None

    def build(self, input_shape: Any) -> None:
        """Makes the weight."""
        shape = list(tf.TensorShape(input_shape).as_list())[1:]
        for axis in self.shared_axes or ():
            shape[axis - 1] = 1
        if all(length == 1 for length in shape):
            shape = [1]
        self.alpha = self.add_weight(
            shape=shape,
            name="alpha",
            initializer=self.alpha_initializer,
            regularizer=self.alpha_regularizer,
            constraint=self.alpha_constraint,
        )
        super().build(input_shape)

    def call(self, inputs: Any) -> Any:
        """The inputs where they are positive, else times the weight."""
        return prelu(inputs, self.alpha)
