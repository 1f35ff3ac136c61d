"""Operators with a public formula against the same formula in NumPy, and against differences."""

from typing import Any, Callable, List, Sequence

import numpy as np
import pytest

X = np.linspace(-3.0, 3.0, 24).reshape(4, 6).astype(np.float32)


@pytest.fixture
def gen(tf: Any) -> Any:
    """The adapter's library."""
    from ascend_session.compat.npu_bridge.helper import helper

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
    from ascend_session.compat.npu_bridge.estimator import npu_aicore_ops

    x = tf.constant(X)
    y = npu_aicore_ops.fast_gelu_v2(x)
    clipped = np.minimum(np.abs(0.7071 * X), 1.769) - 1.769
    expected = X * (np.sign(X) * (-0.1444 * clipped**2 + 0.5) + 0.5)
    np.testing.assert_allclose(run(tf, y), expected, atol=1e-5)
    np.testing.assert_allclose(run(tf, y), gelu(X), atol=0.03)
    with pytest.raises(LookupError, match="FastGeluV2"):
        tf.gradients(y, x)


@pytest.mark.parametrize("weight", [[0.25], np.linspace(0.1, 0.6, 6)])
def test_prelu_and_its_gradients(tf: Any, gen: Any, weight: Any) -> None:
    from ascend_session.compat.npu_bridge.estimator import npu_aicore_ops

    weight = np.asarray(weight, np.float32)
    x, w = tf.constant(np.where(X == 0, 1.0, X).astype(np.float32)), tf.constant(weight)
    y = npu_aicore_ops.prelu(x, w)
    made = gen.p_relu_grad(tf.ones_like(x), x, w)
    value, given, gradients, own = run(tf, [y, x, tf.gradients(y, [x, w]), made])
    np.testing.assert_allclose(value, np.where(given > 0, given, given * weight), atol=1e-6)
    np.testing.assert_allclose(gradients[0], np.where(given > 0, 1.0, weight + 0 * given))
    by_weight = np.minimum(given, 0)
    expected = by_weight.sum() if weight.size == 1 else by_weight.sum(axis=0)
    np.testing.assert_allclose(gradients[1].ravel(), np.ravel(expected), rtol=1e-5)
    np.testing.assert_allclose(own[1].ravel(), gradients[1].ravel(), rtol=1e-5)


def test_centralization_takes_the_mean_away(tf: Any) -> None:
    from ascend_session.compat.npu_bridge.estimator import npu_aicore_ops

    found = run(tf, npu_aicore_ops.centralization(X, [1]))
    np.testing.assert_allclose(found, X - X.mean(axis=1, keepdims=True), atol=1e-6)


def test_layer_norm_and_its_gradients(tf: Any, gen: Any) -> None:
    from ascend_session.compat.npu_bridge.estimator import npu_aicore_ops

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
    from ascend_session.compat.npu_bridge.estimator import npu_ops

    grad = np.cos(X).astype(np.float32)
    found = run(tf, npu_ops.LARSV2(X, grad, 0.01, rate, use_clip=clip))
    np.testing.assert_allclose(found, lars(X, grad, 0.01, rate, clip), rtol=1e-4)


def test_lars_takes_lists(tf: Any) -> None:
    from ascend_session.compat.npu_bridge.estimator import npu_ops

    grads = [np.cos(X).astype(np.float32), np.sin(X[0]).astype(np.float32)]
    found = run(tf, npu_ops.LARS([X, X[0]], grads, 0.01))
    for made, weight, grad in zip(found, (X, X[0]), grads):
        np.testing.assert_allclose(made, lars(weight, grad, 0.01, 1.0, False), rtol=1e-4)
    with pytest.raises(TypeError, match="inputs_w"):
        npu_ops.LARS(tf.constant(X), grads, 0.01)


def variables(tf: Any, count: int) -> List[Any]:
    """Variables with different positive values."""
    return [tf.get_variable(f"v{n}", initializer=np.abs(X) * (n + 1) + 0.1) for n in range(count)]


@pytest.mark.parametrize("decay", [None, 0.01])
def test_adam_changes_the_variables_in_place(tf: Any, decay: Any) -> None:
    from ascend_session.compat.npu_bridge.estimator import npu_ops

    second, first, weight = variables(tf, 3)
    grad = np.cos(X).astype(np.float32)
    moments = (0.9, 0.1, 0.999, 0.001)
    if decay is None:
        step = npu_ops.adam_apply_one_assign(grad, second, first, weight, 0.1, *moments, 1e-6)
    else:
        step = npu_ops.adam_apply_one_with_decay_assign(
            grad, second, first, weight, 0.1, *moments, decay, 1e-6
        )
    assert isinstance(step, tf.Operation)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        v, m, w = sess.run([second, first, weight])
        sess.run(step)
        after = sess.run([second, first, weight])
    v = v * 0.999 + grad**2 * 0.001
    m = m * 0.9 + grad * 0.1
    w = w - 0.1 * (m / (np.sqrt(v) + 1e-6) + (decay or 0.0) * w)
    for found, expected in zip(after, (v, m, w)):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_adam_refuses_what_cannot_be_changed(tf: Any) -> None:
    from ascend_session import UnsupportedError
    from ascend_session.compat.npu_bridge.estimator import npu_ops

    with pytest.raises(UnsupportedError, match="input1 is changed in place"):
        npu_ops.adam_apply_one_assign(X, X, X, X, 0.1, 0.9, 0.1, 0.999, 0.001, 1e-6)


def test_lamb_updates_moments_and_the_weight(tf: Any) -> None:
    from ascend_session.compat.npu_bridge.tbe import npu_vector_ops

    second, first, weight = variables(tf, 3)
    grad = np.cos(X).astype(np.float32)
    update, next_v, next_m = npu_vector_ops.lamb_apply_optimizer_assign(
        grad, second, first, weight, 0.9, 0.1, 0.999, 0.001, 1e-6, 3.0, 1.0, 0.01
    )
    norms = tf.norm(weight), tf.norm(update)
    stepped = npu_vector_ops.lamb_apply_weight_assign(*norms, 0.1, update, weight)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        v, m, w = sess.run([second, first, weight])
        made = sess.run([update, next_v, next_m, stepped])
        after = sess.run([second, first, weight])
    v = v * 0.999 + grad**2 * 0.001
    m = m * 0.9 + grad * 0.1
    u = (m / (1 - 0.9**3)) / (np.sqrt(v / (1 - 0.999**3)) + 1e-6) + w * 0.01
    w = w - 0.1 * np.linalg.norm(w) / np.linalg.norm(u) * u
    for found, expected in zip(made, (u, v, m, w)):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
    for found, expected in zip(after, (v, m, w)):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


def test_lamb_takes_the_plain_step_where_a_norm_is_zero(tf: Any) -> None:
    from ascend_session.compat.npu_bridge.tbe import npu_vector_ops

    weight = tf.get_variable("w", initializer=np.float32([1.0, 2.0]))
    ops = [
        npu_vector_ops.lamb_apply_weight_assign(*norms, 0.5, [2.0, 4.0], tf.constant([1.0, 2.0]))
        for norms in ((0.0, 3.0), (3.0, 0.0), (2.0, 1.0))
    ]
    assert [list(found) for found in run(tf, ops)] == [[0.0, 0.0], [0.0, 0.0], [-1.0, -2.0]]
    assert list(run(tf, weight)) == [1.0, 2.0]


@pytest.mark.parametrize("transpose", [False, True])
def test_nonzero_gives_the_places(tf: Any, transpose: bool) -> None:
    from ascend_session.compat.npu_bridge.estimator import npu_aicore_ops

    data = np.float32([[0, 2, 0], [3, 0, 4]])
    found = run(tf, npu_aicore_ops.nonzero(data, transpose=transpose, output_type=tf.int32))
    expected = np.argwhere(data)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, expected.T if transpose else expected)


def test_nonzero_with_value_is_as_long_as_the_input(tf: Any) -> None:
    from ascend_session import UnsupportedError
    from ascend_session.compat.npu_bridge.estimator import npu_aicore_ops

    data = np.float32([[0, 2, 0], [3, 0, 4]])
    value, index, count = run(tf, npu_aicore_ops.nonzerowithvalue(data, transpose=True))
    assert (value.shape, index.shape, list(count)) == ((6,), (12,), [3])
    assert list(value[:3]) == [2, 3, 4]
    assert (list(index[:3]), list(index[6:9])) == ([0, 1, 1], [1, 0, 2])
    with pytest.raises(UnsupportedError, match="transpose=True"):
        npu_aicore_ops.nonzerowithvalue(data)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter_elements_puts_along_an_axis(tf: Any, axis: int) -> None:
    from ascend_session.compat.npu_bridge.estimator import npu_ops

    data, updates = np.zeros([3, 4], np.float32), np.float32([[1, 2], [3, 4]])
    indices = np.int32([[2, 0], [1, -1]])
    expected = data.copy()
    for row, column in np.ndindex(2, 2):
        place = [row, column]
        place[axis] = indices[row, column]
        expected[tuple(place)] = updates[row, column]
    found = run(tf, npu_ops.scatter_elements(data, indices, updates, axis))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("with_x", [True, False])
def test_k_means_gives_each_sample_to_the_nearest_centre(tf: Any, with_x: bool) -> None:
    from ascend_session.compat.npu_bridge.estimator import npu_ops

    chance = np.random.RandomState(1)
    x, y = chance.randn(20, 3).astype(np.float32), chance.randn(4, 3).astype(np.float32)
    squares = (x**2).sum(axis=1, keepdims=True) if with_x else None
    sums, counts, total = run(
        tf, npu_ops.k_means_centroids(x, y, (y**2).sum(axis=1)[None], squares)
    )
    distances = ((x[:, None] - y[None]) ** 2).sum(axis=2)
    nearest = distances.argmin(axis=1)
    for centre in range(4):
        np.testing.assert_allclose(sums[centre], x[nearest == centre].sum(axis=0), atol=1e-4)
    assert list(counts[:, 0]) == [(nearest == centre).sum() for centre in range(4)]
    missing = 0.0 if with_x else (x**2).sum()
    np.testing.assert_allclose(total, [distances.min(axis=1).sum() - missing], rtol=1e-3, atol=1e-3)


def test_random_choice_gives_true_places_and_fills_up(tf: Any) -> None:
    from ascend_session.compat.npu_bridge.npu_cpu import npu_cpu_ops

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
    from ascend_session.compat.npu_bridge.npu_cpu import npu_cpu_ops

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
def test_deformable_convolution_reads_at_offsets(tf: Any, gen: Any, geometry: Any) -> None:
    stride, pad, kernel, dilation, groups = geometry
    chance = np.random.RandomState(3)
    x = chance.rand(1, 4, 5, 2).astype(np.float32)
    out = [(n + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1 for n in (4, 5)]
    offsets = (chance.rand(1, *out, 3 * groups * kernel**2) * 3 - 1.5).astype(np.float32)
    image, moved = tf.constant(x), tf.constant(offsets)
    read = gen.deformable_offsets(
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
    from ascend_session.compat.npu_bridge.tbe import npu_cube_ops

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
    with pytest.raises(TypeError, match="'x' of PRelu has DataType float64"):
        gen.p_relu(np.float64([1.0]), [0.5])
    with pytest.raises(TypeError, match="DataType int32"):
        gen.gelu(np.int32([1]))
    half = run(tf, gen.gelu(X.astype(np.float16)))
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, gelu(X), atol=0.02)
