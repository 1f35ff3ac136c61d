"""``npu_bridge.estimator.npu.npu_dynamic_rnn``: a layer that is one recurrent operator.

It has the vendor's variables under the vendor's names. The input is cast to the layer's type.
Source: npu_dynamic_rnn.py; docs, npu_dynamic_rnn.
"""

from typing import Any, Callable, Dict, TypeVar

from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.tensorflow_names import absent_class, tf
from ascend_session.compat.vendor_modules import mirror, with_signature

_Function = TypeVar("_Function", bound=Callable[..., Any])

gen_npu_ops = helper.get_gen_ops()

DYNAMIC_RNN_UNIDIRECTION = "UNIDIRECTIONAL"
DYNAMIC_RNN_BIDIRECTION = "BIDIRECTIONAL"
DYNAMIC_RNN_REDIRECTIONAL = "REDIRECTIONAL"


def _layer_class() -> Any:
    """Return the base class of layers in graph mode, ``tf.layers.Layer``."""
    try:
        return tf.layers.Layer
    except (AttributeError, ImportError):
        return absent_class(
            "tf.compat.v1.layers.Layer",
            f"This TensorFlow ({tf.__version__}) has Keras 3, which has no layers of graph mode.",
        )


def _as_it_is(function: _Function) -> _Function:
    """Keep autograph from converting ``call``, which is not needed and changes its errors."""
    return tf.autograph.experimental.do_not_convert(function)  # type: ignore[no-any-return]


def _attribute(name: str, meaning: str) -> Any:
    """Return a property that reads an attribute of the layer's operator."""
    return property(lambda layer: layer._args[name], doc=meaning)


class DynamicRNN(_layer_class()):  # type: ignore[misc]
    """An LSTM: y, h, c, the gates i, j, f, o, and tanh(c), of each step.

    Args:
        hidden_size: Size of the states.
        dtype: Type of the weights; the input is cast to it.
        attributes: The attributes of the layer's operator.
    """

    @with_signature(
        "(hidden_size, dtype, cell_type='LSTM', direction='UNIDIRECTIONAL', cell_depth=1, "
        "use_peephole=False, keep_prob=1.0, cell_clip=-1.0, num_proj=0, time_major=True, "
        "activation='tanh', forget_bias=0.0, is_training=True)"
    )
    def __init__(self, hidden_size: Any, dtype: Any, **attributes: Any) -> None:
        super().__init__()
        self._hidden_size = hidden_size
        self._dtype = tf.as_dtype(dtype).name
        self._args: Dict[str, Any] = attributes
        self._seq_length: Any = None

    cell_type = _attribute("cell_type", "LSTM.")
    direction = _attribute("direction", "In which direction the steps go.")
    cell_depth = _attribute("cell_depth", "1.")
    use_peephole = _attribute("use_peephole", "False.")
    keep_prob = _attribute("keep_prob", "1.0.")
    cell_clip = _attribute("cell_clip", "-1.0.")
    num_proj = _attribute("num_proj", "0.")
    time_major = _attribute("time_major", "True.")
    activation = _attribute("activation", "The activation's name.")
    forget_bias = _attribute("forget_bias", "Added to the forget gate.")
    is_training = _attribute("is_training", "Whether the operator keeps what its gradient needs.")

    def check_direction(self) -> None:
        """Raise ValueError for a direction that the layer does not take."""
        known = (DYNAMIC_RNN_UNIDIRECTION, DYNAMIC_RNN_BIDIRECTION)
        if self.direction not in known:
            raise ValueError(
                f"Invalid direction: {self.direction}, expecting {known[0]} or {known[1]}"
            )

    def reshape(self, shape: Any) -> Any:
        """Return the shape of a weight, for both directions if there are two."""
        return [2, *shape] if self.direction == DYNAMIC_RNN_BIDIRECTION else shape

    def build(self, input_shape: Any) -> None:
        """Create the variables; raise ValueError if the size of the input is not known."""
        steps, batch, size = tf.TensorShape(input_shape).as_list()
        if size is None:
            raise ValueError("Expected input_shape[2] to be known, saw shape: input_size.")
        gates = 4 * self._hidden_size
        self._rnn_w = self._variable(
            "dynamicrnn/w",
            self.reshape([size + self._hidden_size, gates]),
            tf.glorot_uniform_initializer(seed=10, dtype=self._dtype),
        )
        self._rnn_b = self._variable(
            "dynamicrnn/b", self.reshape([gates]), tf.zeros_initializer(dtype=self._dtype)
        )
        self._seq_length = self._variable(
            "dynamicbase/seq_length",
            [16 if batch is None else batch],
            tf.constant_initializer(1 if steps is None else steps, dtype=tf.int32),
            dtype=tf.int32,
            trainable=False,
        )
        super().build(input_shape)

    def _variable(
        self, name: str, shape: Any, initializer: Any, dtype: Any = None, trainable: bool = True
    ) -> Any:
        return self.add_weight(
            name,
            shape=shape,
            dtype=dtype or self._dtype,
            initializer=initializer,
            trainable=trainable,
        )

    @_as_it_is
    def call(
        self,
        x: Any,
        seq_length: Any = None,
        init_h: Any = None,
        init_c: Any = None,
        weight: Any = None,
        bias: Any = None,
    ) -> Any:
        """Return the outputs for ``x [steps, batch, inputs]``; two directions are stacked."""
        self.check_direction()
        self._args["x"] = tf.cast(x, self._dtype)
        self._args["seq_length"] = self._seq_length if seq_length is None else seq_length
        directions = 2 if self.direction == DYNAMIC_RNN_BIDIRECTION else 1
        batch = x.shape.as_list()[1]
        shape = [directions, tf.shape(x)[1] if batch is None else batch, self._hidden_size]
        state_h = tf.zeros(shape, dtype=self._dtype) if init_h is None else init_h
        state_c = tf.zeros(shape, dtype=self._dtype) if init_c is None else init_c
        w = self._rnn_w if weight is None else weight
        b = self._rnn_b if bias is None else bias
        if directions == 1:
            return self._one(w, b, state_h, state_c, DYNAMIC_RNN_UNIDIRECTION, seq_length)
        ways = (DYNAMIC_RNN_UNIDIRECTION, DYNAMIC_RNN_REDIRECTIONAL)
        both = [
            self._one(w[n], b[n], state_h[n : n + 1], state_c[n : n + 1], way, seq_length)
            for n, way in enumerate(ways)
        ]
        return [tf.stack(pair, axis=0) for pair in zip(*both)]

    def _one(self, w: Any, b: Any, h: Any, c: Any, direction: Any, seq_length: Any) -> Any:
        given = {**self._args, "w": w, "b": b, "init_h": h, "init_c": c, "direction": direction}
        if seq_length is None:
            given.pop("seq_length")
            return gen_npu_ops.dynamic_rnn_v2(**given)
        return gen_npu_ops.dynamic_rnn(**given)


__getattr__, __all__ = mirror(
    globals(),
    "DYNAMIC_RNN_BIDIRECTION DYNAMIC_RNN_REDIRECTIONAL DYNAMIC_RNN_UNIDIRECTION gen_npu_ops",
)
