"""``npu_bridge.estimator.npu.npu_dynamic_rnn``: layers that are one recurrent operator.

They have the vendor's variables under the vendor's names. The input is cast to the layer's type.
Source: npu_dynamic_rnn.py; docs, npu_dynamic_rnn.
"""

import math
from typing import Any, Callable, Dict, TypeVar

from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.signatures import with_signature
from ascend_session.compat.tensorflow_names import absent_class, tf
from ascend_session.compat.vendor_modules import mirror

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


class _DynamicBasic(_layer_class()):  # type: ignore[misc]
    """The base class of the layers.

    Args:
        hidden_size: Size of the states.
        dtype: Type of the weights; the input is cast to it.
        attributes: The attributes of the layer's operator.
    """

    def __init__(self, hidden_size: Any, dtype: Any, **attributes: Any) -> None:
        super().__init__()
        self._hidden_size = hidden_size
        self._dtype = tf.as_dtype(dtype).name
        self._args: Dict[str, Any] = attributes
        self._seq_length: Any = None
        self._init_h: Any = None

    direction = _attribute("direction", "In which direction the steps go.")
    cell_depth = _attribute("cell_depth", "1.")
    keep_prob = _attribute("keep_prob", "1.0.")
    cell_clip = _attribute("cell_clip", "-1.0.")
    num_proj = _attribute("num_proj", "0.")
    time_major = _attribute("time_major", "True.")
    activation = _attribute("activation", "The activation's name.")
    is_training = _attribute("is_training", "Whether the operator keeps what its gradient needs.")

    def check_direction(self) -> None:
        """Raise ValueError for a direction that the layers do not take."""
        known = (DYNAMIC_RNN_UNIDIRECTION, DYNAMIC_RNN_BIDIRECTION)
        if self.direction not in known:
            raise ValueError(
                f"Invalid direction: {self.direction}, expecting {known[0]} or {known[1]}"
            )

    def reshape(self, shape: Any) -> Any:
        """Return the shape of a weight, for both directions if there are two."""
        return [2, *shape] if self.direction == DYNAMIC_RNN_BIDIRECTION else shape

    def build(self, input_shape: Any) -> None:
        """Create the variable with the lengths of the sequences."""
        steps, batch, _ = tf.TensorShape(input_shape).as_list()
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
    def call(self, x: Any, seq_length: Any = None) -> Any:
        """Store the input and the lengths for the operator."""
        self.check_direction()
        self._args["x"] = tf.cast(x, self._dtype)
        self._args["seq_length"] = self._seq_length if seq_length is None else seq_length


def _known_input_size(input_shape: Any) -> int:
    size = tf.TensorShape(input_shape).as_list()[2]
    if size is None:
        raise ValueError("Expected input_shape[2] to be known, saw shape: input_size.")
    return int(size)


class _Gru(_DynamicBasic):
    """The two layers of GRUs, which differ by the operator alone."""

    _prefix = ""

    __init__ = with_signature(
        "(hidden_size, dtype, direction='UNIDIRECTIONAL', cell_depth=1, keep_prob=1.0, "
        "cell_clip=-1.0, num_proj=0, time_major=True, activation='tanh', gate_order='zrh', "
        "reset_after=True, is_training=True)"
    )(_DynamicBasic.__init__)

    gate_order = _attribute("gate_order", "In which order the weights have the gates.")
    reset_after = _attribute("reset_after", "True: the reset gate comes after the product.")

    def build(self, input_shape: Any) -> None:
        """Create the weights; raise ValueError if their shapes are not known."""
        size, batch = _known_input_size(input_shape), tf.TensorShape(input_shape).as_list()[1]
        if batch is None:
            raise ValueError("Expected input_shape[1] to be known, saw shape: batch_size.")
        gates = 3 * self._hidden_size
        deviation = 1.0 / math.sqrt(self._hidden_size)
        shapes = {
            "weight_input": [size, gates],
            "weight_hidden": [self._hidden_size, gates],
            "bias_input": [gates],
            "bias_hidden": [gates],
        }
        self._weights_of_gates: Dict[str, Any] = {}
        for name, shape in shapes.items():
            initializer = tf.random_uniform_initializer(-deviation, deviation)
            self._weights_of_gates[name] = self._variable(
                f"{self._prefix}/{name}", shape, initializer
            )
        self._init_h = tf.zeros([batch, self._hidden_size], dtype=self._dtype)
        super().build(input_shape)

    def _arguments(self, x: Any, seq_length: Any, init_h: Any) -> Dict[str, Any]:
        super().call(x, seq_length=seq_length)
        self._args["init_h"] = self._init_h if init_h is None else init_h
        return {**self._args, **self._weights_of_gates}


class DynamicGRUV2(_Gru):
    """A GRU: y, h, the gates z and r, n, and what the state adds to n, of each step."""

    _prefix = "dynamicgruv2"

    @_as_it_is
    def call(self, x: Any, seq_length: Any = None, init_h: Any = None) -> Any:
        """Return the outputs for ``x [steps, batch, inputs]``."""
        return gen_npu_ops.dynamic_gru_v2(**self._arguments(x, seq_length, init_h))


class DynamicAUGRU(_Gru):
    """A GRU whose gate z is weakened by an attention ``[steps, batch]``."""

    _prefix = "dynamicaugru"

    @_as_it_is
    def call(  # type: ignore[override]
        self, x: Any, weight_att: Any, seq_length: Any = None, init_h: Any = None
    ) -> Any:
        """Return the outputs for ``x [steps, batch, inputs]``."""
        given = self._arguments(x, seq_length, init_h)
        return gen_npu_ops.dynamic_augru(weight_att=weight_att, **given)


class DynamicRNN(_DynamicBasic):
    """An LSTM: y, h, c, the gates i, j, f, o, and tanh(c), of each step."""

    __init__ = with_signature(
        "(hidden_size, dtype, cell_type='LSTM', direction='UNIDIRECTIONAL', cell_depth=1, "
        "use_peephole=False, keep_prob=1.0, cell_clip=-1.0, num_proj=0, time_major=True, "
        "activation='tanh', forget_bias=0.0, is_training=True)"
    )(_DynamicBasic.__init__)

    cell_type = _attribute("cell_type", "LSTM.")
    use_peephole = _attribute("use_peephole", "False.")
    forget_bias = _attribute("forget_bias", "Added to the forget gate.")

    def build(self, input_shape: Any) -> None:
        """Create the weights; raise ValueError if their shapes are not known."""
        size, gates = _known_input_size(input_shape), 4 * self._hidden_size
        self._rnn_w = self._variable(
            "dynamicrnn/w",
            self.reshape([size + self._hidden_size, gates]),
            tf.glorot_uniform_initializer(seed=10, dtype=self._dtype),
        )
        self._rnn_b = self._variable(
            "dynamicrnn/b", self.reshape([gates]), tf.zeros_initializer(dtype=self._dtype)
        )
        super().build(input_shape)

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
        super().call(x, seq_length=seq_length)
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
