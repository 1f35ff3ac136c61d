"""Recurrent operators against loops in NumPy, and their gradients against differences."""

import warnings
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import pytest

from ascend_session import UnsupportedError
from tests.compat.surface import module

STEPS, BATCH, INPUTS, HIDDEN = 4, 3, 2, 5
LENGTHS = [4, 2, 1]


def random(*shape: int) -> np.ndarray:
    """Numbers around 0, the same in each run."""
    return (np.random.RandomState(sum(shape)).randn(*shape) * 0.7).astype(np.float32)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


X = random(STEPS, BATCH, INPUTS)


def lstm(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray,
    h: np.ndarray,
    c: np.ndarray,
    bias: float = 0.0,
    lengths: Optional[List[int]] = None,
    backward: bool = False,
) -> List[np.ndarray]:
    """y, h, c, i, j, f, o and tanh(c) of each step."""
    steps: Dict[int, Tuple[np.ndarray, ...]] = {}
    for t in reversed(range(len(x))) if backward else range(len(x)):
        i, j, f, o = np.split(np.concatenate([x[t], h], axis=1) @ w + b, 4, axis=1)
        i, j, f, o = sigmoid(i), np.tanh(j), sigmoid(f + bias), sigmoid(o)
        mask = np.array(
            [[1.0 if lengths is None or t < n else 0.0] for n in lengths or [0] * BATCH]
        )
        c = mask * (c * f + i * j) + (1 - mask) * c
        y = mask * np.tanh(c) * o
        h = mask * y + (1 - mask) * h
        steps[t] = (y, h, c, i, j, f, o, np.tanh(c))
    return [np.stack(one) for one in zip(*(steps[t] for t in range(len(x))))]


@pytest.fixture
def layers(tf: Any) -> Any:
    """The vendor's layer, where TensorFlow has layers of graph mode."""
    npu_dynamic_rnn = module("npu_bridge.estimator.npu.npu_dynamic_rnn")
    if not hasattr(npu_dynamic_rnn.DynamicRNN, "add_weight"):
        with pytest.raises(UnsupportedError, match="Keras 3"):
            npu_dynamic_rnn.DynamicRNN(HIDDEN, tf.float32)
        pytest.skip("this TensorFlow has no layers of graph mode")
    return npu_dynamic_rnn


def run(tf: Any, fetches: Any) -> Any:
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        return sess.run(fetches)


def close(found: Any, expected: Any) -> None:
    for made, right in zip(found, expected):
        np.testing.assert_allclose(made, right, atol=1e-5)


@pytest.mark.parametrize(("lengths", "bias"), [(None, 0.0), (LENGTHS, 1.0)])
def test_an_lstm_gives_all_that_the_formula_gives(
    tf: Any, layers: Any, lengths: Any, bias: float
) -> None:
    layer = layers.DynamicRNN(HIDDEN, tf.float32, forget_bias=bias)
    made = layer(tf.constant(X), seq_length=lengths)
    names = [variable.op.name for variable in tf.global_variables()]
    assert [name.split("/", 1)[1] for name in names] == [
        "dynamicrnn/w",
        "dynamicrnn/b",
        "dynamicbase/seq_length",
    ]
    found, w, b = run(tf, [list(made), *tf.trainable_variables()])
    zeros = np.zeros([BATCH, HIDDEN])
    assert len(found) == 8
    close(found, lstm(X, w, b, zeros, zeros, bias, lengths))


def test_an_lstm_of_both_directions_stacks_them(tf: Any, layers: Any) -> None:
    layer = layers.DynamicRNN(HIDDEN, tf.float32, direction=layers.DYNAMIC_RNN_BIDIRECTION)
    found, w, b = run(tf, [layer(tf.constant(X)), *tf.trainable_variables()])
    zeros = np.zeros([BATCH, HIDDEN])
    close([one[0] for one in found], lstm(X, w[0], b[0], zeros, zeros))
    close([one[1] for one in found], lstm(X, w[1], b[1], zeros, zeros, backward=True))


def test_an_lstm_begins_with_given_states_and_weights(tf: Any, layers: Any) -> None:
    w, b = random(INPUTS + HIDDEN, 4 * HIDDEN), random(4 * HIDDEN)
    h, c = random(1, BATCH, HIDDEN), random(1, BATCH, HIDDEN + 0)[::-1] * 2
    layer = layers.DynamicRNN(HIDDEN, tf.float32)
    made = layer(
        tf.constant(X),
        init_h=tf.constant(h),
        init_c=tf.constant(c),
        weight=tf.constant(w),
        bias=tf.constant(b),
    )
    close(run(tf, list(made)), lstm(X, w, b, h[0], c[0]))


def test_an_lstm_agrees_with_tensorflows_own(tf: Any) -> None:
    helper = module("npu_bridge.helper.helper")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorFlow's own, that such cells are old
        try:
            cell = tf.nn.rnn_cell.BasicLSTMCell(HIDDEN, forget_bias=1.0)
            outputs, _ = tf.nn.dynamic_rnn(cell, tf.constant(X), time_major=True, dtype=tf.float32)
        except (AttributeError, ImportError, NotImplementedError):
            pytest.skip("this TensorFlow has no cells of graph mode")
    w, b = tf.trainable_variables()
    zeros = tf.zeros([1, BATCH, HIDDEN])
    made = helper.get_gen_ops().dynamic_rnn_v2(
        x=X,
        w=w,
        b=b,
        init_h=zeros,
        init_c=zeros,
        cell_type="LSTM",
        direction="UNIDIRECTIONAL",
        activation="tanh",
        forget_bias=1.0,
    )
    own, theirs = run(tf, [made[0], outputs])
    np.testing.assert_allclose(own, theirs, atol=1e-6)


@pytest.mark.parametrize("output", [0, 2])
def test_gradients_of_an_lstm_are_the_vendors(tf: Any, output: int) -> None:
    """By y: those of all steps; by the states: of the last step alone (npu_ops.py)."""
    helper = module("npu_bridge.helper.helper")
    w, b = random(INPUTS + HIDDEN, 4 * HIDDEN), random(4 * HIDDEN)
    h, c = random(1, BATCH, HIDDEN), random(1, BATCH, HIDDEN)
    inputs = [tf.constant(one) for one in (X, w, b, h, c)]
    made = helper.get_gen_ops().dynamic_rnn_v2(
        *inputs, cell_type="LSTM", direction="UNIDIRECTIONAL", activation="tanh"
    )
    found = run(tf, tf.gradients(tf.reduce_sum(made[output]), inputs))

    def total(*given: np.ndarray) -> float:
        steps = lstm(*given[:3], given[3][0], given[4][0])[output]  # type: ignore[misc]
        return float(np.sum(steps if output == 0 else steps[-1]))

    given = [one.astype(np.float64) for one in (X, w, b, h, c)]
    for which, gradient in enumerate(found):
        place = tuple(length // 2 for length in gradient.shape)
        moved = [[one.copy() for one in given] for _ in range(2)]
        moved[0][which][place] += 1e-5
        moved[1][which][place] -= 1e-5
        slope = (total(*moved[0]) - total(*moved[1])) / 2e-5
        assert gradient[place] == pytest.approx(slope, abs=1e-4)


def test_gates_have_no_gradient(tf: Any) -> None:
    helper = module("npu_bridge.helper.helper")
    w, zeros = tf.constant(random(INPUTS + HIDDEN, 4 * HIDDEN)), tf.zeros([1, BATCH, HIDDEN])
    made = helper.get_gen_ops().dynamic_rnn_v2(
        X,
        w,
        tf.zeros([4 * HIDDEN]),
        zeros,
        zeros,
        cell_type="LSTM",
        direction="UNIDIRECTIONAL",
        activation="tanh",
    )
    assert tf.gradients(made[3:], w) == [None]


@pytest.mark.parametrize(
    "argument",
    [
        {"cell_depth": 2},
        {"keep_prob": 0.5},
        {"cell_clip": 1.0},
        {"num_proj": 2},
        {"time_major": False},
        {"activation": "relu"},
    ],
)
def test_what_no_device_takes_is_refused_by_name(tf: Any, layers: Any, argument: Any) -> None:
    (name,) = argument
    with pytest.raises(UnsupportedError, match=name):
        layers.DynamicRNN(HIDDEN, tf.float32, **argument)(tf.constant(X))


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("estimator.npu.npu_dynamic_rnn", "DynamicGRUV2"),
        ("estimator.npu.npu_dynamic_rnn", "DynamicAUGRU"),
        ("estimator.npu_ops", "basic_lstm_cell"),
        ("estimator.npu.npu_optimizer", "reduce"),
        ("estimator.npu.util", "fair_division"),
    ],
)
def test_what_few_scripts_call_is_refused_by_name(place: str, name: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"npu_bridge\.{place}\.{name} was used"):
        getattr(module(f"npu_bridge.{place}"), name)(HIDDEN, "float32")


def test_an_unknown_direction_is_a_value_error(tf: Any, layers: Any) -> None:
    layer = layers.DynamicRNN(HIDDEN, tf.float32, direction="BACKWARDS")
    with pytest.raises(ValueError, match="Invalid direction: BACKWARDS"):
        layer(tf.constant(X))


def test_the_layer_casts_its_input_and_trains(tf: Any, layers: Any) -> None:
    half = layers.DynamicRNN(HIDDEN, tf.float16, is_training=False)(tf.constant(X))
    assert {one.dtype for one in half} == {tf.float16}
    y = layers.DynamicRNN(HIDDEN, tf.float32)(tf.constant(X))[0]
    loss = tf.reduce_mean(tf.square(y - 0.5))
    step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        before = sess.run(loss)
        for _ in range(5):
            sess.run(step)
        assert sess.run(loss) < before


def test_an_unrolled_network_is_tensorflows_static_one(tf: Any) -> None:
    npu_rnn = module("npu_bridge.estimator.npu.npu_rnn")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorFlow's own, that such cells are old
        try:
            cell = tf.nn.rnn_cell.GRUCell(HIDDEN)
        except (AttributeError, ImportError, NotImplementedError):
            pytest.skip("this TensorFlow has no cells of graph mode")
        outputs, state = npu_rnn.npu_dynamic_rnn(
            cell, tf.constant(X), dtype=tf.float32, sequence_length=LENGTHS
        )
    found, last = run(tf, [outputs, state])
    assert found.shape == (STEPS, BATCH, HIDDEN)
    for sequence, length in enumerate(LENGTHS):
        assert not found[length:, sequence].any()
        np.testing.assert_array_equal(found[length - 1, sequence], last[sequence])
