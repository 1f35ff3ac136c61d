"""gelu and dropout: the vendor's formulas without a device, the vendor's operators on one."""

import inspect
from typing import Any

import numpy as np
import pytest

from ascend_session import LifecycleError, ops
from tests.compat.surface import module
from tests.fake_host.signatures import NPU_OPS, VENDOR_MODULES
from tests.fake_host.vendor import Loaded

X = np.linspace(-4.0, 4.0, 24).reshape(4, 6).astype(np.float32)


def run(tf: Any, fetches: Any) -> Any:
    """The values of tensors."""
    with tf.Session() as sess:
        return sess.run(fetches)


def formula(x: Any) -> Any:
    """The formula that the vendor's manual replaces by the operator."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def test_gelu_and_its_gradient_are_those_of_the_vendors_formula(tf: Any) -> None:
    x = tf.constant(X)
    y = ops.gelu(x)
    value, gradient = run(tf, [y, tf.gradients(y, x)[0]])
    exact = X.astype(np.float64)
    np.testing.assert_allclose(value, formula(exact), atol=1e-5)
    slope = (formula(exact + 1e-4) - formula(exact - 1e-4)) / 2e-4
    np.testing.assert_allclose(gradient, slope, atol=1e-4)


def test_gelu_keeps_type_and_shape(tf: Any) -> None:
    y = ops.gelu(tf.placeholder(tf.float16, [None, 3]), name="act")
    assert (y.dtype.name, y.shape.as_list()) == ("float16", [None, 3])
    assert y.op.name.startswith("act/")


def test_dropout_scales_what_it_keeps(tf: Any) -> None:
    x = tf.ones([64, 64])
    y = ops.dropout(x, 0.25, seed=7)
    first, second, gradient = run(tf, [y, y + 0, tf.gradients(y, x)[0]])
    assert set(np.unique(first)) == {0.0, 4.0}
    assert 0.2 < (first > 0).mean() < 0.3
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, gradient)


def test_dropout_draws_once_for_each_element_of_the_noise_shape(tf: Any) -> None:
    y = run(tf, ops.dropout(tf.ones([32, 8]), 0.5, noise_shape=[32, 1]))
    assert {len(set(row)) for row in y.tolist()} == {1}
    assert set(np.unique(y)) == {0.0, 2.0}


def test_dropout_of_nothing_is_its_input(tf: Any) -> None:
    x = tf.constant(X)
    assert ops.dropout(x, 1.0) is x


@pytest.mark.parametrize("keep_prob", [0, -0.5, 1.5, float("nan")])
def test_a_number_that_is_no_probability_is_refused(tf: Any, keep_prob: float) -> None:
    with pytest.raises(ValueError, match=r"keep_prob must be .* in the range \(0, 1\], got"):
        ops.dropout(X, keep_prob)


def test_types_that_the_operators_do_not_take_are_refused(tf: Any) -> None:
    with pytest.raises(TypeError, match="'features' of Gelu has DataType int32"):
        ops.gelu(np.int32([1]))
    with pytest.raises(ValueError, match="x must be a floating point tensor"):
        ops.dropout(np.int32([1]), 0.5)
    with pytest.raises(TypeError, match="'x' of DropOutDoMask has DataType float64"):
        ops.dropout(X.astype(np.float64), 0.5)


def test_eager_execution_is_refused_with_what_to_call(tf: Any) -> None:
    if not hasattr(tf, "executing_eagerly_outside_functions"):
        pytest.skip("this TensorFlow has no eager execution")
    from tensorflow.python.eager import context

    with context.eager_mode():
        for call in (lambda: ops.gelu(X), lambda: ops.dropout(X, 0.5)):
            with pytest.raises(LifecycleError, match=r"tf\.disable_eager_execution"):
                call()


def test_on_a_device_they_are_the_vendors_operators(tf: Any, ge: Loaded, monkeypatch: Any) -> None:
    from npu_bridge.estimator import npu_ops
    from npu_bridge.helper import helper

    calls = []
    for owner, name in ((type(helper.get_gen_ops()), "gelu"), (npu_ops, "dropout")):
        own = getattr(owner, name)

        def note(*args: Any, _own: Any = own, **kwargs: Any) -> Any:
            calls.append(_own.__name__)
            return _own(*args, **kwargs)

        monkeypatch.setattr(owner, name, note)
    y = ops.dropout(ops.gelu(X), keep_prob=0.5)
    assert calls == ["gelu", "dropout"]
    assert y.shape.as_list() == [4, 6]


def test_the_signatures_are_the_vendors(tf: Any) -> None:
    def plain(function: Any) -> str:
        parameters = inspect.signature(function).parameters.values()
        bare = [each.replace(annotation=inspect.Parameter.empty) for each in parameters]
        return str(inspect.Signature(bare))

    assert plain(ops.dropout) == VENDOR_MODULES[NPU_OPS]["dropout"]
    assert plain(ops.gelu) == plain(module("npu_bridge.helper.helper").get_gen_ops().gelu)
