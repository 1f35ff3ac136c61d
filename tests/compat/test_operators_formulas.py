"""Operators with a public formula against the same formula in NumPy, and against differences."""

from typing import Any, Callable

import numpy as np
import pytest

from tests.compat.surface import module

X = np.linspace(-3.0, 3.0, 24).reshape(4, 6).astype(np.float32)


@pytest.fixture
def gen(tf: Any) -> Any:
    """The adapter's library."""
    helper = module("npu_bridge.helper.helper")
    return helper.get_gen_ops()


def run(tf: Any, fetches: Any, feeds: Any = None) -> Any:
    """What a session makes of it, after its variables."""
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        return sess.run(fetches, feeds)


def slope(function: Callable[[np.ndarray], Any], x: np.ndarray, step: float = 1e-3) -> np.ndarray:
    """The gradient of the sum of a function by differences, in float64."""
    found = np.zeros(x.shape)
    for place in np.ndindex(*x.shape):
        higher, lower = x.astype(np.float64).copy(), x.astype(np.float64).copy()
        higher[place] += step
        lower[place] -= step
        found[place] = (np.sum(function(higher)) - np.sum(function(lower))) / (2 * step)
    return found


def gelu(x: np.ndarray) -> np.ndarray:
    """The formula that the vendor's guide replaces by the operator."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def fast_gelu(x: np.ndarray) -> np.ndarray:
    """As in the public kernel, with two exponentials."""
    return x * np.exp(0.851 * (x - np.abs(x))) / (1 + np.exp(-1.702 * np.abs(x)))


@pytest.mark.parametrize(("name", "formula"), [("gelu", gelu), ("fast_gelu", fast_gelu)])
def test_gelu_and_its_gradient_are_those_of_the_formula(
    tf: Any, gen: Any, name: str, formula: Callable[[np.ndarray], np.ndarray]
) -> None:
    x = tf.constant(X)
    y = getattr(gen, name)(x)
    value, gradient = run(tf, [y, tf.gradients(y, x)[0]])
    np.testing.assert_allclose(value, formula(X.astype(np.float64)), atol=1e-5)
    np.testing.assert_allclose(gradient, slope(formula, X), atol=1e-4)


def lars(weight: np.ndarray, grad: np.ndarray, decay: float, rate: float, clip: bool) -> Any:
    """As in the public kernel's own comment."""
    hyper = 0.001 * np.sqrt((weight**2).sum())
    norm = np.sqrt((grad**2).sum()) + decay * np.sqrt((weight**2).sum()) + 1e-5
    factor = hyper / norm
    if clip:
        factor = max(min(factor / rate, 1), 0)
    return factor * (grad + decay * weight)


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("rate", [0.1, 1e-6])
def test_lars_scales_a_gradient_by_the_norms(tf: Any, rate: float, clip: bool) -> None:
    npu_ops = module("npu_bridge.estimator.npu_ops")
    grad = np.cos(X).astype(np.float32)
    found = run(tf, npu_ops.LARSV2(X, grad, 0.01, rate, use_clip=clip))
    np.testing.assert_allclose(found, lars(X, grad, 0.01, rate, clip), rtol=1e-4)


def test_lars_takes_lists(tf: Any) -> None:
    npu_ops = module("npu_bridge.estimator.npu_ops")
    grads = [np.cos(X).astype(np.float32), np.sin(X[0]).astype(np.float32)]
    found = run(tf, npu_ops.LARS([X, X[0]], grads, 0.01))
    for made, weight, grad in zip(found, (X, X[0]), grads):
        np.testing.assert_allclose(made, lars(weight, grad, 0.01, 1.0, False), rtol=1e-4)
    with pytest.raises(TypeError, match="inputs_w"):
        npu_ops.LARS(tf.constant(X), grads, 0.01)


def test_random_choice_gives_true_places_and_fills_up(tf: Any) -> None:
    npu_cpu_ops = module("npu_bridge.npu_cpu.npu_cpu_ops")
    flags = np.array([[True, False, True], [False, True, True]])
    places = {tuple(place) for place in np.argwhere(flags)}
    few = npu_cpu_ops.randomchoicewithmask(flags, 3, seed=7)
    many = npu_cpu_ops.RandomChoiceWithMask(flags, 6, seed2=7)
    everything = npu_cpu_ops.randomchoicewithmask(flags, 0)
    (y, mask), (more, there), (whole, all_there) = run(tf, [few, many, everything])
    assert y.shape == (3, 2)
    assert mask.all()
    assert {tuple(place) for place in y} <= places
    assert list(there) == [True] * 4 + [False] * 2
    assert {tuple(place) for place in more[:4]} == places
    assert not more[4:].any()
    assert {tuple(place) for place in whole} == places
    assert all_there.all()


def warped(image: np.ndarray, flow: np.ndarray) -> np.ndarray:
    """TensorFlow's dense_image_warp, pixel by pixel."""
    batch, height, width, _ = image.shape
    result = np.zeros(image.shape)
    for b, row, column in np.ndindex(batch, height, width):
        place = np.array([row, column]) - flow[b, row, column]
        low = np.minimum(np.maximum(0, np.floor(place)), [height - 2, width - 2]).astype(int)
        part = np.clip(place - low, 0, 1)
        for dy, dx in np.ndindex(2, 2):
            share = abs(1 - dy - part[0]) * abs(1 - dx - part[1])
            result[b, row, column] += share * image[b, low[0] + dy, low[1] + dx]
    return result


def test_dense_image_warp_reads_between_pixels_and_has_gradients(tf: Any) -> None:
    npu_cpu_ops = module("npu_bridge.npu_cpu.npu_cpu_ops")
    chance = np.random.RandomState(2)
    image = chance.rand(2, 4, 5, 3).astype(np.float32)
    flow = (chance.rand(2, 4, 5, 2) * 6 - 3).astype(np.float32)
    x, f = tf.constant(image), tf.constant(flow)
    y = npu_cpu_ops.dense_image_warp(x, f)
    value, by_image, by_flow = run(tf, [y, *tf.gradients(y, [x, f])])
    np.testing.assert_allclose(value, warped(image, flow), atol=1e-5)
    np.testing.assert_allclose(by_image, slope(lambda i: warped(i, flow), image), atol=1e-3)
    np.testing.assert_allclose(by_flow, slope(lambda g: warped(image, g), flow, 1e-5), atol=1e-2)


def test_operators_take_the_types_that_the_device_takes(tf: Any, gen: Any) -> None:
    with pytest.raises(TypeError, match="'image' of DenseImageWarp has DataType float64"):
        gen.dense_image_warp(np.ones([1, 2, 2, 1]), np.zeros([1, 2, 2, 2]))
    with pytest.raises(TypeError, match="DataType int32"):
        gen.gelu(np.int32([1]))
    half = run(tf, gen.gelu(X.astype(np.float16)))
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, gelu(X), atol=0.02)
