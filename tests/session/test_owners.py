"""Sessions that others make, all inside ``with ascend_system(cfg)``; read them as examples."""

from pathlib import Path
from typing import Any, Dict, List

import numpy
import pytest

from ascend_session import AscendConfig, LifecycleError, ascend_session, ascend_system
from hardware_tests.backend_contract import entry, steps

pytestmark = pytest.mark.smoke

CONFIG = AscendConfig(precision_mode="allow_mix_precision", deterministic=1)
PARAMETERS = {"deterministic": 1, "precision_mode": "allow_mix_precision"}


def count_to_three(tf: Any) -> Any:
    """A graph that counts its steps, and the hook that ends it after three."""
    train = tf.train.get_or_create_global_step().assign_add(1)
    return train, tf.train.StopAtStepHook(last_step=3)


class KeepSession:
    """A hook that notes which session it saw."""

    def __init__(self, tf: Any) -> None:
        self.entries: List[Dict[str, Any]] = []

        class Hook(tf.train.SessionRunHook):  # type: ignore[misc,name-defined]
            def after_create_session(hook, session: Any, coord: Any) -> None:  # noqa: N805
                self.entries.append(entry(session))

        self.hook = Hook()


def test_monitored_training_session(tf: Any, tmp_path: Path) -> None:
    train, stop = count_to_three(tf)
    seen = KeepSession(tf)
    with ascend_system(CONFIG) as system:
        with tf.train.MonitoredTrainingSession(
            master=system.target,
            config=system.session_config(),
            checkpoint_dir=str(tmp_path),
            hooks=[stop, seen.hook],
        ) as sess:
            done = []
            while not sess.should_stop():
                done.append(sess.run(train))
    assert done == [1, 2, 3]
    assert seen.entries == [PARAMETERS]
    assert "model.ckpt-3" in str(tf.train.latest_checkpoint(str(tmp_path)))


def test_supervisor(tf: Any, tmp_path: Path) -> None:
    train, _ = count_to_three(tf)
    supervisor = tf.train.Supervisor(logdir=str(tmp_path), summary_op=None)
    with ascend_system(CONFIG) as system:
        with supervisor.managed_session(system.target, config=system.session_config()) as sess:
            assert entry(sess) == PARAMETERS
            assert [sess.run(train) for _ in range(3)] == [1, 2, 3]


def test_keras(tf: Any) -> None:
    keras = tf.keras
    if not hasattr(keras.backend, "set_session"):
        # TensorFlow 2.16 and newer have Keras 3, which knows no sessions.
        assert int(keras.__version__.split(".")[0]) >= 3
        return
    x, y = numpy.array([[0.0, 1.0], [1.0, 0.0]]), numpy.array([[1.0], [2.0]])
    with ascend_session(CONFIG) as sess:
        keras.backend.set_session(sess)
        model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
        model.compile("sgd", "mse")
        history = model.fit(x, y, epochs=3, verbose=0)
        assert keras.backend.get_session() is sess
        assert entry(sess) == PARAMETERS
    losses = history.history["loss"]
    assert losses[-1] < losses[0]
    keras.backend.set_session(None)


def test_estimator(tf: Any, tmp_path: Path) -> None:
    if not hasattr(tf, "estimator"):
        # TensorFlow 2.16 and newer have no estimators.
        assert not hasattr(tf.compat.v1, "estimator")
        return

    def model(features: Any, labels: Any, mode: str) -> Any:
        weight = tf.get_variable("weight", initializer=0.0)
        loss = tf.reduce_mean(tf.square(features * weight - labels))
        step = tf.train.get_or_create_global_step()
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    def data() -> Any:
        return tf.data.Dataset.from_tensors(([1.0, 2.0], [2.0, 4.0])).repeat()

    seen = KeepSession(tf)
    with ascend_system(CONFIG) as system:
        run_config = tf.estimator.RunConfig(
            model_dir=str(tmp_path), session_config=system.session_config()
        )
        estimator = tf.estimator.Estimator(model, config=run_config)
        estimator.train(data, steps=20, hooks=[seen.hook])
    assert estimator.get_variable_value("weight") == pytest.approx(2, abs=0.1)
    assert seen.entries == [PARAMETERS]


def test_a_plain_session_of_a_single_process_needs_the_proto_only(tf: Any) -> None:
    with tf.Session(config=CONFIG.to_config_proto()) as sess:
        assert sess.run(tf.constant(7)) == 7
        assert entry(sess) == PARAMETERS


def test_the_proto_may_be_built_on_the_users_own(tf: Any) -> None:
    base = tf.ConfigProto(operation_timeout_in_ms=60000)
    with ascend_system(CONFIG) as system:
        proto = system.session_config(AscendConfig(hcom_parallel=False), base)
    assert proto.operation_timeout_in_ms == 60000
    assert AscendConfig.from_config_proto(proto).parameter_map() == {
        **PARAMETERS,
        "hcom_parallel": False,
    }


def test_a_session_of_others_outlives_the_system(tf: Any) -> None:
    with ascend_system() as system:
        sess = tf.Session(system.target, config=system.session_config())
    with sess:
        assert sess.run(tf.constant(7)) == 7
    assert steps(system) == ["initialize", "shutdown"]


def test_no_proto_is_given_out_after_the_end(tf: Any) -> None:
    with ascend_system() as system:
        pass
    with pytest.raises(LifecycleError, match="is closed"):
        system.session_config()
    assert system.target == ""
