"""DistributedOptimizer around optimizers of Keras, where a Keras has a graph mode."""

import importlib
from typing import Any, List

import numpy as np
import pytest

from ascend_session import UnsupportedError
from ascend_session.training import DistributedOptimizer, FixedLossScaleManager
from tests.training.conftest import equals


def graph_keras(tf: Any) -> Any:
    """The optimizers of graphs; the test is skipped where there are none."""
    optimizers = tf.keras.optimizers
    if not hasattr(optimizers.SGD, "get_updates"):
        pytest.skip("this TensorFlow's Keras has no graph mode")
    return optimizers


@pytest.fixture
def keras(tf: Any) -> Any:
    """tf.keras."""
    graph_keras(tf)
    return tf.keras


def trained(tf: Any, optimizer: Any) -> List[Any]:
    """The weights of a small model after one epoch, in a graph and session of its own."""
    keras = tf.keras
    with tf.Graph().as_default(), tf.Session() as sess:
        keras.backend.set_session(sess)
        try:
            return _fitted(keras, optimizer)
        finally:
            keras.backend.set_session(None)


def _fitted(keras: Any, optimizer: Any) -> List[Any]:
    model = keras.models.Sequential(
        [
            keras.layers.Embedding(4, 2, input_length=2, embeddings_initializer="ones"),
            keras.layers.Flatten(),
            keras.layers.Dense(1, kernel_initializer="ones"),
        ]
    )
    model.compile(loss="mse", optimizer=optimizer)
    model.fit(np.array([[0, 1], [2, 2]] * 4), np.zeros([8, 1]), 2, verbose=0, shuffle=False)
    return list(model.get_weights())


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("size", [1, 2])
def test_equal_ranks_train_as_one(
    tf: Any, keras: Any, kind: str, size: int, monkeypatch: Any
) -> None:
    own = getattr(keras.optimizers, kind)
    alone = trained(tf, own(0.125))
    ranks = equals(monkeypatch, size)
    together = trained(tf, DistributedOptimizer(own(0.125)))
    for one, other in zip(alone, together):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    names = [call.name for call in ranks.calls]
    assert names == ([] if size == 1 else ["allreduce"] * 2 + ["allgather"] * 2)


def test_it_is_an_optimizer_of_the_same_class_with_the_same_state(
    tf: Any, keras: Any, monkeypatch: Any
) -> None:
    equals(monkeypatch, 2)
    own = keras.optimizers.SGD(0.5, momentum=0.25)
    optimizer = DistributedOptimizer(own)
    assert isinstance(optimizer, type(own))
    assert type(optimizer).__name__ == "SGD"
    assert optimizer.get_config() == own.get_config()
    assert type(own) is keras.optimizers.SGD


def test_minimize_averages_once(tf: Any, keras: Any, monkeypatch: Any) -> None:
    ranks = equals(monkeypatch, 2)
    weight = tf.get_variable("weight", initializer=1.0, use_resource=True)
    optimizer = DistributedOptimizer(keras.optimizers.SGD(0.25))
    train = optimizer.minimize(lambda: weight * weight, [weight])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(train)
        assert sess.run(weight) == 0.5
    assert [call.name for call in ranks.calls] == ["allreduce"]


def test_what_is_distributed_already_is_refused(tf: Any, keras: Any) -> None:
    once = DistributedOptimizer(keras.optimizers.SGD())
    with pytest.raises(TypeError, match="This SGD is already distributed"):
        DistributedOptimizer(once)


@pytest.mark.parametrize(
    "options", [{"loss_scale_manager": FixedLossScaleManager(2)}, {"is_tailing_optimization": True}]
)
def test_what_keras_has_no_place_for_is_refused(tf: Any, keras: Any, options: Any) -> None:
    with pytest.raises(UnsupportedError, match="is a Keras optimizer"):
        DistributedOptimizer(keras.optimizers.SGD(), **options)


def test_an_optimizer_without_graph_mode_is_refused_by_name(tf: Any) -> None:
    optimizers = importlib.import_module("tensorflow").keras.optimizers
    if hasattr(optimizers.SGD, "get_updates"):
        pytest.skip("this TensorFlow's only Keras has a graph mode")
    with pytest.raises(UnsupportedError, match=r"keras.*\.SGD has no graph mode") as refused:
        DistributedOptimizer(optimizers.SGD())
    assert "tf.compat.v1.train" in str(refused.value.hint)


def test_a_tf_train_optimizer_in_a_keras_model_averages(
    tf: Any, keras: Any, monkeypatch: Any
) -> None:
    ranks = equals(monkeypatch, 2)
    optimizer = DistributedOptimizer(tf.train.GradientDescentOptimizer(0.125))
    together = trained(tf, optimizer)
    assert {call.name for call in ranks.calls} == {"allreduce", "allgather"}
    alone = trained(tf, keras.optimizers.SGD(0.125))
    for one, other in zip(alone, together):
        np.testing.assert_allclose(one, other, rtol=1e-5)
