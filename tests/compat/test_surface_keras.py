"""What the vendor's package has for Keras: optimizers, callbacks, sessions and strategies."""

from typing import Any

import numpy as np
import pytest

from ascend_session import UnsupportedError
from tests.compat.surface import module, of_estimator
from tests.training.conftest import Equals, equals

names = module("tensorflow_names")
optimizers = of_estimator("npu_optimizer")
callbacks = of_estimator("npu_callbacks")
common = of_estimator("npu_common")

has_graph_keras = pytest.mark.skipif(
    not hasattr(names.OptimizerV2, "get_updates"), reason="Keras 3 has no graph mode"
)


@pytest.fixture
def two(monkeypatch: Any) -> Equals:
    """A job of two ranks that do the same."""
    monkeypatch.setattr(common.NPUBasics, "_only", None)
    monkeypatch.setenv("JOB_ID", "1")
    return equals(monkeypatch, 2)


def sgd(tf: Any, rate: float) -> Any:
    legacy = getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers)
    return legacy.SGD(rate)


def model(tf: Any) -> Any:
    """One weight, which begins as 1."""
    layer = tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", input_shape=[1])
    return tf.keras.Sequential([layer])


@has_graph_keras
@pytest.mark.parametrize("way", ["class", "wrapper", "name"])
def test_a_model_is_fitted_with_the_mean_of_all_ranks(tf: Any, two: Equals, way: str) -> None:
    if way == "class":
        optimizer = optimizers.KerasDistributeOptimizer(sgd(tf, 0.25))
    elif way == "wrapper":
        optimizer = optimizers.npu_distributed_optimizer_wrapper(sgd(tf, 0.25))
    else:
        optimizer = optimizers.npu_distributed_optimizer_wrapper("sgd")
    fitted = model(tf)
    fitted.compile(optimizer, "mse")
    callback = callbacks.NPUBroadcastGlobalVariablesCallback(0)
    x = np.ones([2, 1], "float32")
    fitted.fit(x, 3 * x, batch_size=2, epochs=1, verbose=0, callbacks=[callback])
    rate = 0.01 if way == "name" else 0.25
    np.testing.assert_allclose(fitted.get_weights()[0], [[1 + rate * 4]], rtol=1e-6)
    assert [call.name for call in two.calls].count("allreduce") == 1
    assert callback.broadcast_done
    assert [call.name for call in two.calls].count("broadcast") == 1


@has_graph_keras
def test_the_wrapper_has_the_wrapped_ones_configuration(tf: Any) -> None:
    inner = sgd(tf, 0.5)
    made = optimizers.KerasDistributeOptimizer(inner)
    assert made.get_config() == {"name": "NpuKerasOptimizer", "optimizer": inner}


@pytest.mark.skipif(hasattr(names.OptimizerV2, "get_updates"), reason="Keras has graph mode")
def test_without_graph_keras_that_is_said_when_it_is_used() -> None:
    with pytest.raises(UnsupportedError, match="KerasDistributeOptimizer needs a Keras optimizer"):
        optimizers.KerasDistributeOptimizer(None)


def test_a_strategy_has_one_replica_in_each_rank(tf: Any, monkeypatch: Any) -> None:
    strategies = of_estimator("npu_strategy")
    monkeypatch.setenv("RANK_SIZE", "8")
    assert strategies.NPUStrategy().num_replicas_in_sync == 8
    with pytest.raises(ValueError, match="only support"):
        strategies.NPUStrategy("/gpu:0")
