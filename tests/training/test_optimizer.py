"""DistributedOptimizer around optimizers of tf.train."""

import contextlib
import warnings
from typing import Any, Iterator, List

import numpy as np
import pytest

from ascend_session import (
    AscendConfig,
    AscendConfigWarning,
    LifecycleError,
    UnsupportedError,
    ascend_session,
    ascend_system,
)
from ascend_session.session.conditions import TAILING
from ascend_session.training import (
    DistributedOptimizer,
    ExponentialUpdateLossScaleManager,
    FixedLossScaleManager,
)
from tests.training.conftest import Equals, equals


def tailing(on: bool) -> AscendConfig:
    """A configuration; without a second rank its option warns of having no effect."""
    return AscendConfig(is_tailing_optimization=on)


def weights(tf: Any, make: Any, size: int, monkeypatch: Any) -> List[List[float]]:
    """The variables after three steps of an optimizer, in a job of so many equal ranks."""
    equals(monkeypatch, size)
    with tf.Graph().as_default():
        # Resources: TensorFlow 1.15 may read other variables while it updates them.
        options = {"use_resource": True}
        table = tf.get_variable("table", initializer=np.ones([3, 2], np.float32), **options)
        dense = tf.get_variable("dense", initializer=np.ones([2], np.float32), **options)
        rows = tf.nn.embedding_lookup(table, [0, 2, 2])
        loss = tf.reduce_sum(tf.square(rows * dense))
        step = tf.train.get_or_create_global_step()
        train = make().minimize(loss, global_step=step)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            for _ in range(3):
                sess.run(train)
            assert sess.run(step) == 3
            return [value.tolist() for value in sess.run([table, dense])]


class TestAveraging:
    @pytest.mark.parametrize("name", ["GradientDescentOptimizer", "AdamOptimizer"])
    @pytest.mark.parametrize("size", [1, 4])
    def test_equal_ranks_train_as_one(
        self, tf: Any, name: str, size: int, monkeypatch: Any
    ) -> None:
        own = getattr(tf.train, name)
        alone = weights(tf, lambda: own(0.125), 1, monkeypatch)
        together = weights(tf, lambda: DistributedOptimizer(own(0.125)), size, monkeypatch)
        np.testing.assert_allclose(together[0], alone[0], rtol=1e-6)
        np.testing.assert_allclose(together[1], alone[1], rtol=1e-6)

    def test_one_rank_exchanges_nothing(self, tf: Any, monkeypatch: Any) -> None:
        one = equals(monkeypatch, 1)
        weight = tf.get_variable("weight", initializer=1.0)
        manager = FixedLossScaleManager(8.0)
        DistributedOptimizer(tf.train.AdamOptimizer(), manager).minimize(weight * weight)
        assert one.calls == []

    def test_the_optimizers_own_are_asked_through_it(self, tf: Any, two: Equals) -> None:
        weight = tf.get_variable("weight", initializer=1.0)
        own = tf.train.MomentumOptimizer(0.1, 0.9)
        optimizer = DistributedOptimizer(own, name="mine")
        optimizer.minimize(weight * weight)
        assert isinstance(optimizer, tf.train.Optimizer)
        assert optimizer.get_name() == "mine"
        assert optimizer.get_slot_names() == ["momentum"]
        assert optimizer.get_slot(weight, "momentum") is own.get_slot(weight, "momentum")
        assert optimizer.variables() == own.variables() != []

    def test_a_loss_that_is_a_function_is_called(self, tf: Any, two: Equals) -> None:
        weight = tf.get_variable("weight", initializer=3.0, use_resource=True)
        optimizer = DistributedOptimizer(
            tf.train.GradientDescentOptimizer(1.0), FixedLossScaleManager(4.0)
        )
        ((gradient, _),) = optimizer.compute_gradients(weight * weight, var_list=[weight])
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            assert sess.run(gradient) == 6.0

    def test_no_job_id_is_needed(self, tf: Any, two: Equals, monkeypatch: Any) -> None:
        monkeypatch.delenv("JOB_ID", raising=False)
        weight = tf.get_variable("weight", initializer=1.0)
        DistributedOptimizer(tf.train.AdamOptimizer()).minimize(weight * weight)
        assert [call.name for call in two.calls] == ["allreduce"]

    def test_device_id_is_not_taken_for_the_rank(
        self, tf: Any, two: Equals, monkeypatch: Any
    ) -> None:
        monkeypatch.setenv("RANK_ID", "1")
        monkeypatch.setenv("DEVICE_ID", "7")
        with pytest.raises(UnsupportedError, match="takes DEVICE_ID for the rank"):
            DistributedOptimizer(tf.train.AdamOptimizer(), is_weight_update_sharding=True)
        weight = tf.get_variable("weight", initializer=1.0)
        assert DistributedOptimizer(tf.train.AdamOptimizer()).minimize(weight * weight) is not None


class TestRefusals:
    def test_what_is_no_optimizer(self, tf: Any) -> None:
        with pytest.raises(TypeError, match=r"not builtins\.str"):
            DistributedOptimizer("sgd")

    def test_what_is_distributed_already(self, tf: Any) -> None:
        once = DistributedOptimizer(tf.train.AdamOptimizer())
        with pytest.raises(TypeError, match="'DistributedAdamOptimizer' is already distributed"):
            DistributedOptimizer(once)

    def test_a_job_with_parameter_servers(self, tf: Any, monkeypatch: Any) -> None:
        monkeypatch.setenv("TF_CONFIG", '{"cluster": {"ps": ["h:1"], "chief": ["h:2"]}}')
        with pytest.raises(UnsupportedError, match="parameter servers") as refused:
            DistributedOptimizer(tf.train.AdamOptimizer())
        assert "unset TF_CONFIG" in str(refused.value.hint)


class TestTailing:
    @pytest.mark.parametrize("mine", [False, True])
    def test_an_open_system_with_another_one_is_refused(self, tf: Any, mine: bool) -> None:
        with ignoring_warnings():
            config = tailing(not mine)
            with ascend_system(config):
                with pytest.raises(LifecycleError, match=f"is {not mine} in the open system's"):
                    DistributedOptimizer(tf.train.AdamOptimizer(), is_tailing_optimization=mine)
        assert tf.get_default_graph().get_collection(TAILING) == []

    @pytest.mark.parametrize("mine", [False, True])
    def test_a_session_that_opens_later_with_another_one_is_refused(
        self, tf: Any, mine: bool
    ) -> None:
        DistributedOptimizer(tf.train.AdamOptimizer(), is_tailing_optimization=mine)
        with ignoring_warnings():
            with pytest.raises(LifecycleError, match=f"but {mine} in the DistributedOptimizer"):
                ascend_session(tailing(not mine)).__enter__()
            with ascend_session(tailing(mine)) as sess:
                assert sess.graph.get_collection(TAILING) == [int(mine)]

    def test_the_same_in_both_trains(self, tf: Any) -> None:
        weight = tf.get_variable("weight", initializer=1.0)
        with ignoring_warnings(), ascend_session(tailing(True)) as sess:
            manager = FixedLossScaleManager(4.0)
            optimizer = DistributedOptimizer(
                tf.train.GradientDescentOptimizer(0.25), manager, is_tailing_optimization=True
            )
            train = optimizer.minimize(weight * weight)
            sess.run(tf.global_variables_initializer())
            sess.run(train)
            assert sess.run(weight) == 0.5


class TestOverflow:
    @pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    @pytest.mark.parametrize("size", [1, 2])
    def test_a_step_with_one_updates_nothing_and_the_scale_goes_down(
        self, tf: Any, monkeypatch: Any, bad: float, dtype: str, size: int
    ) -> None:
        equals(monkeypatch, size)
        factor = tf.placeholder_with_default(tf.constant(1.0, dtype), [])
        weight = tf.get_variable("weight", initializer=tf.constant([1.0, 2.0], dtype))
        other = tf.get_variable("other", initializer=1.0)
        loss = tf.cast(tf.reduce_sum(weight * factor), tf.float32) + other * other
        manager = ExponentialUpdateLossScaleManager(64.0, 100, 1)
        step = tf.train.get_or_create_global_step()
        optimizer = DistributedOptimizer(tf.train.MomentumOptimizer(0.5, 0.5), manager)
        train = optimizer.minimize(loss, global_step=step)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            everything = [v for v in tf.global_variables() if "_steps" not in v.name]
            sess.run(train)
            before = sess.run(everything)
            sess.run(train, {factor: bad})
            for variable, was, now in zip(everything, before, sess.run(everything)):
                expected = 64 * 0.8 if variable.name.startswith("loss_scale") else was
                np.testing.assert_allclose(now, expected, rtol=1e-6, err_msg=variable.name)
            sess.run(train)
            assert sess.run(step) == 2

    def test_sparse_gradients_are_looked_at_and_stay_sparse(self, tf: Any, two: Equals) -> None:
        table = tf.get_variable("table", initializer=np.ones([4, 2], np.float32))
        factor = tf.placeholder_with_default(1.0, [])
        loss = tf.reduce_sum(tf.nn.embedding_lookup(table, [1, 1])) * factor
        optimizer = DistributedOptimizer(
            tf.train.GradientDescentOptimizer(0.25), FixedLossScaleManager(16.0)
        )
        pairs = optimizer.compute_gradients(loss)
        assert isinstance(pairs[0][0], tf.IndexedSlices)
        train = optimizer.apply_gradients(pairs)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(train, {factor: np.inf})
            assert sess.run(table).tolist() == [[1.0, 1.0]] * 4
            sess.run(train)
            assert sess.run(table[1]).tolist() == [0.5, 0.5]

    def test_an_overflow_that_is_not_looked_for_is_applied(self, tf: Any, two: Equals) -> None:
        weight = tf.get_variable("weight", initializer=1.0)
        factor = tf.placeholder_with_default(1.0, [])
        manager = FixedLossScaleManager(4.0, enable_overflow_check=False)
        optimizer = DistributedOptimizer(tf.train.GradientDescentOptimizer(0.5), manager)
        train = optimizer.minimize(weight * factor)
        assert [call.name for call in two.calls] == ["allreduce"]
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(train, {factor: np.inf})
            assert np.isinf(sess.run(weight))

    def test_the_ranks_tell_each_other_without_merging_it_with_gradients(
        self, tf: Any, two: Equals
    ) -> None:
        weight = tf.get_variable("weight", initializer=1.0)
        manager = FixedLossScaleManager(4.0)
        DistributedOptimizer(tf.train.AdamOptimizer(), manager).minimize(weight * weight)
        assert [(call.dtypes, call.fusion) for call in two.calls] == [
            (["float32"], 1),
            (["int32"], 0),
        ]


@contextlib.contextmanager
def ignoring_warnings() -> Iterator[None]:
    """A block in which nothing is said of a job of one rank."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AscendConfigWarning)
        yield
