"""Operators with a public formula against the same formula in NumPy, and against differences."""

from typing import Any, Callable, Sequence

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
def test_gelu_and_its_gradients_are_those_of_the_formula(
    tf: Any, gen: Any, name: str, formula: Callable[[np.ndarray], np.ndarray]
) -> None:
    x = tf.constant(X)
    y = getattr(gen, name)(x)
    own = getattr(gen, f"{name}_grad")
    by_operator = own(tf.ones_like(x), x, y) if name == "gelu" else own(tf.ones_like(x), x)
    value, gradient, made = run(tf, [y, tf.gradients(y, x)[0], by_operator])
    np.testing.assert_allclose(value, formula(X.astype(np.float64)), atol=1e-5)
    np.testing.assert_allclose(gradient, slope(formula, X), atol=1e-4)
    np.testing.assert_allclose(made, gradient, atol=1e-5)


def test_fast_gelu_v2_is_a_parabola_and_has_no_gradient(tf: Any) -> None:
    npu_aicore_ops = module("npu_bridge.estimator.npu_aicore_ops")
    x = tf.constant(X)
    y = npu_aicore_ops.fast_gelu_v2(x)
    clipped = np.minimum(np.abs(0.7071 * X), 1.769) - 1.769
    expected = X * (np.sign(X) * (-0.1444 * clipped**2 + 0.5) + 0.5)
    np.testing.assert_allclose(run(tf, y), expected, atol=1e-5)
    np.testing.assert_allclose(run(tf, y), gelu(X), atol=0.03)
    with pytest.raises(LookupError, match="FastGeluV2"):
        tf.gradients(y, x)


def test_centralization_takes_the_mean_away(tf: Any) -> None:
    npu_aicore_ops = module("npu_bridge.estimator.npu_aicore_ops")
    found = run(tf, npu_aicore_ops.centralization(X, [1]))
    np.testing.assert_allclose(found, X - X.mean(axis=1, keepdims=True), atol=1e-6)


def test_layer_norm_and_its_gradients(tf: Any, gen: Any) -> None:
    npu_aicore_ops = module("npu_bridge.estimator.npu_aicore_ops")
    chance = np.random.RandomState(0)
    data = chance.randn(3, 5).astype(np.float32)
    scale, shift = chance.rand(5).astype(np.float32), chance.rand(5).astype(np.float32)
    weights = chance.rand(3, 5).astype(np.float32)

    def formula(x: np.ndarray) -> np.ndarray:
        mean, variance = x.mean(axis=1, keepdims=True), x.var(axis=1, keepdims=True)
        return ((x - mean) / np.sqrt(variance + 1e-7) * scale + shift) * weights

    x, gamma, beta = (tf.constant(one) for one in (data, scale, shift))
    y, mean, variance = npu_aicore_ops.layer_norm(x, gamma, beta, 1, 1)
    gradients = tf.gradients(tf.reduce_sum(y * weights), [x, gamma, beta])
    own = gen.fused_layer_norm_grad(tf.constant(weights), x, variance, mean, gamma)
    found = run(tf, [y, mean, variance, gradients, own])
    np.testing.assert_allclose(found[0] * weights, formula(data), atol=1e-5)
    np.testing.assert_allclose(found[1][:, 0], data.mean(axis=1), atol=1e-6)
    np.testing.assert_allclose(found[2][:, 0], data.var(axis=1), atol=1e-6)
    np.testing.assert_allclose(found[3][0], slope(formula, data, 1e-4), atol=1e-4)
    for made, gradient in zip(found[4], found[3]):
        np.testing.assert_allclose(made, gradient, atol=1e-5)


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


@pytest.mark.parametrize("transpose", [False, True])
def test_nonzero_gives_the_places(tf: Any, transpose: bool) -> None:
    npu_aicore_ops = module("npu_bridge.estimator.npu_aicore_ops")
    data = np.float32([[0, 2, 0], [3, 0, 4]])
    found = run(tf, npu_aicore_ops.nonzero(data, transpose=transpose, output_type=tf.int32))
    expected = np.argwhere(data)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, expected.T if transpose else expected)


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


def deformed(x: np.ndarray, offsets: np.ndarray, geometry: Sequence[Any]) -> np.ndarray:
    """What is read, pixel by pixel (the reference function of the public tests)."""
    stride, pad, kernel, dilation, groups = geometry
    batch, height, width, channels = x.shape
    out_height, out_width = offsets.shape[1:3]
    cut = offsets.reshape(batch, out_height, out_width, 3, groups, kernel, kernel)
    image = x.reshape(batch, height, width, groups, channels // groups)
    result = np.zeros([batch, out_height, kernel, out_width, kernel, groups, channels // groups])
    for b, oh, ow, g, kh, kw in np.ndindex(batch, out_height, out_width, groups, kernel, kernel):
        place_x = cut[b, oh, ow, 0, g, kh, kw] + ow * stride - pad + kw * dilation
        place_y = cut[b, oh, ow, 1, g, kh, kw] + oh * stride - pad + kh * dilation
        low_y, low_x = int(np.floor(place_y)), int(np.floor(place_x))
        for dy, dx in np.ndindex(2, 2):
            row, column = low_y + dy, low_x + dx
            if 0 <= row < height and 0 <= column < width:
                share = (1 - abs(place_y - row)) * (1 - abs(place_x - column))
                result[b, oh, kh, ow, kw, g] += share * image[b, row, column, g]
        result[b, oh, kh, ow, kw, g] *= cut[b, oh, ow, 2, g, kh, kw]
    return result.reshape(batch, out_height * kernel, out_width * kernel, channels)


@pytest.mark.parametrize("geometry", [(1, 1, 3, 1, 1), (2, 1, 2, 2, 2)])
def test_deformable_convolution_reads_at_offsets(tf: Any, geometry: Any) -> None:
    npu_cube_ops = module("npu_bridge.tbe.npu_cube_ops")
    stride, pad, kernel, dilation, groups = geometry
    chance = np.random.RandomState(3)
    x = chance.rand(1, 4, 5, 2).astype(np.float32)
    out = [(n + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1 for n in (4, 5)]
    offsets = (chance.rand(1, *out, 3 * groups * kernel**2) * 3 - 1.5).astype(np.float32)
    image, moved = tf.constant(x), tf.constant(offsets)
    read = npu_cube_ops._deformable_offsets(
        image,
        moved,
        [1, stride, stride, 1],
        [pad] * 4,
        [kernel] * 2,
        [1, dilation, dilation, 1],
        deformable_groups=groups,
    )
    value, by_x, by_offsets = run(tf, [read, *tf.gradients(read, [image, moved])])
    np.testing.assert_allclose(value, deformed(x, offsets, geometry), atol=1e-4)
    np.testing.assert_allclose(by_x, slope(lambda i: deformed(i, offsets, geometry), x), atol=1e-2)
    if geometry[2] == 2:
        by_difference = slope(lambda o: deformed(x, o, geometry), offsets, 1e-5)
        np.testing.assert_allclose(by_offsets, by_difference, atol=1e-2)


def test_a_deformable_convolution_without_offsets_is_a_plain_one(tf: Any) -> None:
    npu_cube_ops = module("npu_bridge.tbe.npu_cube_ops")
    chance = np.random.RandomState(4)
    x = chance.rand(2, 5, 5, 3).astype(np.float32)
    weights = chance.rand(3, 3, 3, 2).astype(np.float32)
    offsets = np.zeros([2, 5, 5, 27], np.float32)
    offsets[..., 18:] = 1.0
    found = npu_cube_ops.deformable_conv2d(x, weights, offsets, [1, 1, 1, 1], [1, 1, 1, 1])
    plain = tf.nn.conv2d(x, weights, strides=[1, 1, 1, 1], padding="SAME")
    made, expected = run(tf, [found, plain])
    np.testing.assert_allclose(made, expected, rtol=1e-4)
    with pytest.raises(RuntimeError, match="groups is 1"):
        npu_cube_ops.deformable_conv2d(x, weights, offsets, groups=2)


def test_operators_take_the_types_that_the_device_takes(tf: Any, gen: Any) -> None:
    with pytest.raises(TypeError, match="'x' of Centralization has DataType float64"):
        gen.centralization(np.float64([1.0]), [0])
    with pytest.raises(TypeError, match="DataType int32"):
        gen.gelu(np.int32([1]))
    half = run(tf, gen.gelu(X.astype(np.float16)))
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, gelu(X), atol=0.02)
