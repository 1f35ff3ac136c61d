"""What the layers of ``npu_dynamic_rnn`` have in common."""

from typing import Any, Callable, Dict, List, TypeVar

from ascend_session.compat.tensorflow_names import absent_class, tf

_Function = TypeVar("_Function", bound=Callable[..., Any])

DYNAMIC_RNN_UNIDIRECTION = "UNIDIRECTIONAL"
DYNAMIC_RNN_BIDIRECTION = "BIDIRECTIONAL"
DYNAMIC_RNN_REDIRECTIONAL = "REDIRECTIONAL"


def _layer_class() -> Any:
    """The layers of graph mode, ``tf.layers.Layer``."""
    try:
        return tf.layers.Layer
    except (AttributeError, ImportError):
        return absent_class(
            "tf.compat.v1.layers.Layer",
            f"This TensorFlow ({tf.__version__}) has Keras 3, which has no layers of graph mode.",
            "Use Python 3.7 with TensorFlow 1.15, which such scripts are written for, or 2.15.",
        )


def as_it_is(function: _Function) -> _Function:
    """Keeps Keras from translating ``call`` for nothing, and its errors into others."""
    return tf.autograph.experimental.do_not_convert(function)  # type: ignore[no-any-return]


class DynamicBasic(_layer_class()):  # type: ignore[misc]
    """What the layers have in common: the attributes of their operator."""

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
        is_training: Any = True,
    ) -> None:
        super().__init__()
        self._hidden_size = hidden_size
        self._dtype = tf.as_dtype(dtype).name
        self._args: Dict[str, Any] = {
            "direction": direction,
            "cell_depth": cell_depth,
            "keep_prob": keep_prob,
            "cell_clip": cell_clip,
            "num_proj": num_proj,
            "time_major": time_major,
            "activation": activation,
            "is_training": is_training,
        }
        self._seq_length: Any = None
        self._init_h: Any = None

    @property
    def direction(self) -> Any:
        """In which direction the steps go."""
        return self._args["direction"]

    @property
    def cell_depth(self) -> Any:
        """1."""
        return self._args["cell_depth"]

    @property
    def keep_prob(self) -> Any:
        """1.0."""
        return self._args["keep_prob"]

    @property
    def cell_clip(self) -> Any:
        """-1.0."""
        return self._args["cell_clip"]

    @property
    def num_proj(self) -> Any:
        """0."""
        return self._args["num_proj"]

    @property
    def time_major(self) -> Any:
        """True."""
        return self._args["time_major"]

    @property
    def activation(self) -> Any:
        """The activation's name."""
        return self._args["activation"]

    @property
    def is_training(self) -> Any:
        """Whether the operator keeps what its gradient needs."""
        return self._args["is_training"]

    def check_direction(self) -> None:
        """Raises ValueError for a direction that the layers do not take."""
        known = (DYNAMIC_RNN_UNIDIRECTION, DYNAMIC_RNN_BIDIRECTION)
        if self.direction not in known:
            raise ValueError(
                f"Invalid direction: {self.direction}, expecting {known[0]} or {known[1]}"
            )

    def reshape(self, shape: Any) -> Any:
        """The shape of a weight: of both directions, if there are two."""
        return [2, *shape] if self.direction == DYNAMIC_RNN_BIDIRECTION else shape

    def build(self, input_shape: Any) -> None:
        """Makes the variable of the sequences' lengths."""
        steps, batch, _ = lengths(input_shape)
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

    @as_it_is
    def call(self, x: Any, seq_length: Any = None) -> Any:
        """Notes the input and the lengths for the operator."""
        self.check_direction()
        self._args["x"] = tf.cast(x, self._dtype)
        self._args["seq_length"] = self._seq_length if seq_length is None else seq_length


def lengths(input_shape: Any) -> List[Any]:
    return list(tf.TensorShape(input_shape).as_list())


def known_input_size(input_shape: Any) -> int:
    size = lengths(input_shape)[2]
    if size is None:
        raise ValueError("Expected input_shape[2] to be known, saw shape: input_size.")
    return int(size)
