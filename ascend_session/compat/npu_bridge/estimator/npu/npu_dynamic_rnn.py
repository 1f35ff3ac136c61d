"""``npu_bridge.estimator.npu.npu_dynamic_rnn``: layers that are one recurrent operator.

They have the vendor's variables under the vendor's names. The input is cast to the layer's type.
Source: npu_dynamic_rnn.py; docs, npu_dynamic_rnn.
"""

import math
from typing import Any, Dict

from ascend_session.compat.npu_bridge.estimator.npu._dynamic_basic import (
    DYNAMIC_RNN_BIDIRECTION,
    DYNAMIC_RNN_REDIRECTIONAL,
    DYNAMIC_RNN_UNIDIRECTION,
    DynamicBasic,
    as_it_is,
    known_input_size,
    lengths,
)
from ascend_session.compat.npu_bridge.helper import helper
from ascend_session.compat.tensorflow_names import tf

__all__ = [
    "DYNAMIC_RNN_BIDIRECTION",
    "DYNAMIC_RNN_REDIRECTIONAL",
    "DYNAMIC_RNN_UNIDIRECTION",
    "DynamicAUGRU",
    "DynamicGRUV2",
    "DynamicRNN",
    "gen_npu_ops",
]

gen_npu_ops = helper.get_gen_ops()


class _Gru(DynamicBasic):
    """The two layers of GRUs, which differ by the operator alone."""

    _prefix = ""

    def __init__(
        self,
        hidden_size: Any,
        dtype: Any,
        direction: Any = DYNAMIC_RNN_UNIDIRECTION,
        cell_depth: Any = 1,
        keep_prob: Any = 1.0,
        cell_clip: Any = -1.0,
        num_proj: Any = 0,
        time_major: Any = True,
        activation: Any = "tanh",
        gate_order: Any = "zrh",
        reset_after: Any = True,
        is_training: Any = True,
    ) -> None:
        super().__init__(
            hidden_size,
            dtype,
            direction=direction,
            cell_depth=cell_depth,
            keep_prob=keep_prob,
            cell_clip=cell_clip,
            num_proj=num_proj,
            time_major=time_major,
            activation=activation,
            is_training=is_training,
        )
        self._args["gate_order"] = gate_order
        self._args["reset_after"] = reset_after
        self._weights_of_gates: Dict[str, Any] = {}

    @property
    def gate_order(self) -> Any:
        """In which order the weights have the gates."""
        return self._args["gate_order"]

    @property
    def reset_after(self) -> Any:
        """True: the reset gate comes after the product."""
        return self._args["reset_after"]

    def build(self, input_shape: Any) -> None:
        """Makes the weights; ValueError if their shapes are not known."""
        size = known_input_size(input_shape)
        batch = lengths(input_shape)[1]
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
        for name, shape in shapes.items():
            initializer = tf.random_uniform_initializer(-deviation, deviation)
            made = self._variable(f"{self._prefix}/{name}", shape, initializer)
            self._weights_of_gates[name] = made
        self._init_h = tf.zeros([batch, self._hidden_size], dtype=self._dtype)
        super().build(input_shape)

    def _arguments(self, x: Any, seq_length: Any, init_h: Any) -> Dict[str, Any]:
        super().call(x, seq_length=seq_length)
        self._args["init_h"] = self._init_h if init_h is None else init_h
        return {**self._args, **self._weights_of_gates}


class DynamicGRUV2(_Gru):
    """A GRU: y, h, the gates z and r, n, and what the state adds to n, of each step."""

    _prefix = "dynamicgruv2"

    @as_it_is
    def call(self, x: Any, seq_length: Any = None, init_h: Any = None) -> Any:
        """The outputs for ``x [steps, batch, inputs]``."""
        return gen_npu_ops.dynamic_gru_v2(**self._arguments(x, seq_length, init_h))


class DynamicAUGRU(_Gru):
    """A GRU whose gate z is weakened by an attention ``[steps, batch]``."""

    _prefix = "dynamicaugru"

    @as_it_is
    def call(  # type: ignore[override]
        self, x: Any, weight_att: Any, seq_length: Any = None, init_h: Any = None
    ) -> Any:
        """The outputs for ``x [steps, batch, inputs]``."""
        given = self._arguments(x, seq_length, init_h)
        return gen_npu_ops.dynamic_augru(weight_att=weight_att, **given)


class DynamicRNN(DynamicBasic):
    """An LSTM: y, h, c, the gates i, j, f, o, and tanh(c), of each step."""

    def __init__(
        self,
        hidden_size: Any,
        dtype: Any,
        cell_type: Any = "LSTM",
        direction: Any = DYNAMIC_RNN_UNIDIRECTION,
        cell_depth: Any = 1,
        use_peephole: Any = False,
        keep_prob: Any = 1.0,
        cell_clip: Any = -1.0,
        num_proj: Any = 0,
        time_major: Any = True,
        activation: Any = "tanh",
        forget_bias: Any = 0.0,
        is_training: Any = True,
    ) -> None:
        super().__init__(
            hidden_size,
            dtype,
            direction=direction,
            cell_depth=cell_depth,
            keep_prob=keep_prob,
            cell_clip=cell_clip,
            num_proj=num_proj,
            time_major=time_major,
            activation=activation,
            is_training=is_training,
        )
        self._args["cell_type"] = cell_type
        self._args["use_peephole"] = use_peephole
        self._args["forget_bias"] = forget_bias
        self._rnn_w: Any = None
        self._rnn_b: Any = None

    @property
    def cell_type(self) -> Any:
        """LSTM."""
        return self._args["cell_type"]

    @property
    def use_peephole(self) -> Any:
        """False."""
        return self._args["use_peephole"]

    @property
    def forget_bias(self) -> Any:
        """Added to the forget gate."""
        return self._args["forget_bias"]

    def build(self, input_shape: Any) -> None:
        """Makes the weights; ValueError if their shapes are not known."""
        size, gates = known_input_size(input_shape), 4 * self._hidden_size
        self._rnn_w = self._variable(
            "dynamicrnn/w",
            self.reshape([size + self._hidden_size, gates]),
            tf.glorot_uniform_initializer(seed=10, dtype=self._dtype),
        )
        self._rnn_b = self._variable(
            "dynamicrnn/b", self.reshape([gates]), tf.zeros_initializer(dtype=self._dtype)
        )
        super().build(input_shape)

    @as_it_is
    def call(
        self,
        x: Any,
        seq_length: Any = None,
        init_h: Any = None,
        init_c: Any = None,
        weight: Any = None,
        bias: Any = None,
    ) -> Any:
        """The outputs for ``x [steps, batch, inputs]``; of both directions stacked."""
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
