"""Optimizers, loss scaling and callbacks, in a job of which all ranks do what this one does."""

from typing import Any

import numpy as np
import pytest

from ascend_session import AscendConfigWarning, UnsupportedError
from ascend_session.backends.averaging import plan_run
from tests.compat.surface import module, of_estimator
from tests.training.conftest import Equals, equals

optimizers = of_estimator("npu_optimizer")
scaling = of_estimator("npu_loss_scale_optimizer")
managers = of_estimator("npu_loss_scale_manager")
common = of_estimator("npu_common")


@pytest.fixture(autouse=True)
def no_job_yet(monkeypatch: Any) -> None:
    """What is known of the job is read anew."""
    monkeypatch.setattr(common.NPUBasics, "_only", None)


@pytest.fixture
def two(monkeypatch: Any) -> Equals:
    """A job of two ranks, as a launcher describes it."""
    monkeypatch.setenv("JOB_ID", "1")
    monkeypatch.setenv("RANK_ID", "0")
    monkeypatch.setenv("DEVICE_ID", "0")
    return equals(monkeypatch, 2)


def model(tf: Any) -> Any:
    """A variable of two 1s, and a loss whose gradient is [2, 4]."""
    weight = tf.get_variable("weight", [2], tf.float32, tf.ones_initializer(), use_resource=True)
    return weight, tf.reduce_sum(weight * weight * [1.0, 2.0])


def trained(tf: Any, operation: Any, weight: Any) -> Any:
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(operation)
        return sess.run(weight)


def test_alone_nothing_is_averaged(tf: Any) -> None:
    weight, loss = model(tf)
    made = optimizers.NPUDistributedOptimizer(tf.train.GradientDescentOptimizer(0.25))
    np.testing.assert_allclose(trained(tf, made.minimize(loss), weight), [0.5, 0.0])
    assert made.get_name() == "DistributedGradientDescentOptimizer"


def test_gradients_are_averaged_and_slots_are_the_wrapped_ones(tf: Any, two: Equals) -> None:
    weight, loss = model(tf)
    inner = tf.train.MomentumOptimizer(0.25, 0.5)
    made = optimizers.NPUDistributedOptimizer(inner, name="outer")
    step = made.minimize(loss)
    np.testing.assert_allclose(trained(tf, step, weight), [0.5, 0.0])
    assert [call.name for call in two.calls] == ["allreduce"]
    assert made.get_slot_names() == ["momentum"]
    assert made.get_slot(weight, "momentum") is inner.get_slot(weight, "momentum")
    assert made.variables() == inner.variables()
    assert any(one.name.startswith("outer_Allreduce") for one in weight.graph.get_operations())


def test_pairs_of_the_wrapped_optimizer_may_be_lists(
    tf: Any, two: Equals, monkeypatch: Any
) -> None:
    weight, loss = model(tf)
    inner = tf.train.GradientDescentOptimizer(0.25)
    compute = inner.compute_gradients
    monkeypatch.setattr(inner, "compute_gradients", lambda loss: [[*p] for p in compute(loss)])
    made = optimizers.NPUDistributedOptimizer(inner)
    step = made.apply_gradients(made.compute_gradients(loss))
    np.testing.assert_allclose(trained(tf, step, weight), [0.5, 0.0])
    assert [call.name for call in two.calls] == ["allreduce"]


def test_the_name_stands_second_in_releases_of_2020(tf: Any) -> None:
    inner = tf.train.GradientDescentOptimizer(1.0)
    assert optimizers.NPUDistributedOptimizer(inner, "own").get_name() == "own"


def test_a_job_of_two_needs_its_id(tf: Any, two: Equals, monkeypatch: Any) -> None:
    monkeypatch.delenv("JOB_ID")
    _, loss = model(tf)
    made = optimizers.NPUDistributedOptimizer(tf.train.GradientDescentOptimizer(0.25))
    with pytest.raises(AttributeError, match="JOB_ID, which is not set"):  # as the vendor's
        made.minimize(loss)


def test_a_job_of_one_without_an_id_is_warned(tf: Any, monkeypatch: Any) -> None:
    equals(monkeypatch, 1)
    with pytest.warns(AscendConfigWarning, match="On a device this call fails"):
        total = optimizers.allreduce(tf.constant([3.0]))
    with tf.Session() as sess:
        assert sess.run(total) == [3.0]


def test_sums_means_and_slices(tf: Any, two: Equals) -> None:
    value = tf.constant([1.0, 3.0])
    slices = tf.IndexedSlices(tf.constant([[2.0]]), tf.constant([1]), tf.constant([4, 1]))
    found = {
        "mean": optimizers.allreduce(value),
        "sum": optimizers.allreduce(value, False),
        "of 2020": optimizers.allreduce(value, tf.constant(0.0), True),
        "slices": optimizers.allreduce(slices),
        "many": optimizers.npu_allreduce([value, value]),
        "one": optimizers.npu_allreduce(value, "sum"),
        "gathered": optimizers.npu_allreduce(slices, "sum").values,
    }
    with tf.Session() as sess:
        found = sess.run(found)
    np.testing.assert_allclose(found["mean"], [1.0, 3.0])
    np.testing.assert_allclose(found["sum"], [2.0, 6.0])
    np.testing.assert_allclose(found["of 2020"], [1.0, 3.0])
    np.testing.assert_allclose(found["slices"].values, [[1.0], [1.0]])
    assert found["slices"].indices.tolist() == [1, 1]
    np.testing.assert_allclose(found["many"], [[1.0, 3.0]] * 2)
    np.testing.assert_allclose(found["one"], [2.0, 6.0])
    np.testing.assert_allclose(found["gathered"], [[2.0], [2.0]])


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ((), (0, -1)),
        (("hccl_world_group", 2, 0), (2, 0)),
        ((2, 0, "hccl_world_group"), (2, 0)),
        ((2, 3, "hccl_world_group"), (2, 3)),
        ((2, 0), (2, 0)),
        ((0, -1), (0, -1)),
    ],
)
def test_a_gather_takes_its_arguments_in_both_orders(
    tf: Any, two: Equals, given: Any, asked: Any
) -> None:
    module("npu_bridge.hccl.hccl_ops").allgather(tf.constant([1.0]), 2, *given)
    assert [(call.fusion, call.fusion_id) for call in two.calls] == [asked]


@pytest.mark.parametrize("is_distributed", [False, True])
def test_a_scaled_loss_changes_nothing_and_an_overflow_leaves_the_step_out(
    tf: Any, two: Equals, is_distributed: bool
) -> None:
    weight, loss = model(tf)
    factor = tf.placeholder(tf.float32, [])
    manager = managers.ExponentialUpdateLossScaleManager(64, 2, 1, 2, 0.5)
    inner = tf.train.GradientDescentOptimizer(0.25)
    made = optimizers.NPUOptimizer(inner, manager, is_distributed, is_loss_scale=True)
    step = made.minimize(loss * factor)
    seen = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for value in (1.0, np.inf, 1.0, 1.0):
            sess.run(step, {factor: value})
            seen.append([*sess.run(weight), sess.run(manager.get_loss_scale())])
    assert seen == [[0.5, 0, 64], [0.5, 0, 32], [0.25, 0, 32], [0.125, 0, 64]]
    assert bool(two.calls) is is_distributed


def test_npuoptimizer_without_a_manager_cannot_scale(tf: Any) -> None:
    inner = tf.train.GradientDescentOptimizer(0.25)
    with pytest.raises(ValueError, match="loss_scale_manager can not be None"):
        optimizers.NPUOptimizer(inner, is_loss_scale=True)
    weight, loss = model(tf)
    step = optimizers.NPUOptimizer(inner).minimize(loss)
    np.testing.assert_allclose(trained(tf, step, weight), [0.5, 0.0])


def test_the_loss_scale_optimizer_leaves_steps_with_an_overflow_out(tf: Any) -> None:
    weight, loss = model(tf)
    factor = tf.placeholder(tf.float32, [])
    manager = managers.FixedLossScaleManager(1024)
    inner = tf.train.MomentumOptimizer(0.25, 0.0)
    made = scaling.NPULossScaleOptimizer(inner, manager)
    pairs = made.compute_gradients(loss * factor)
    step = made.apply_gradients([(tf.clip_by_norm(one, 100.0), var) for one, var in pairs])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(step, {factor: np.nan})
        np.testing.assert_allclose(sess.run(weight), [1, 1])
        sess.run(step, {factor: 1.0})
        np.testing.assert_allclose(sess.run(weight), [0.5, 0])
    assert made.get_slot_names() == ["momentum"]
    assert made._learning_rate == 0.25  # what it has not itself is the wrapped optimizer's


def test_scripts_find_scale_and_overflow_by_their_names(tf: Any) -> None:
    _, loss = model(tf)
    factor = tf.placeholder(tf.float32, [])
    manager = managers.ExponentialUpdateLossScaleManager(64, 1000, 1, 2, 0.5)
    inner = tf.train.GradientDescentOptimizer(0.25)
    step = scaling.NPULossScaleOptimizer(inner, manager).minimize(loss * factor)
    by_name = tf.get_default_graph().get_tensor_by_name
    finite, scale = by_name("overflow_status_reduce_all:0"), by_name("loss_scale:0")
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        seen = [(sess.run([step, finite], {factor: x})[1], sess.run(scale)) for x in (1.0, np.inf)]
    assert seen == [(True, 64), (False, 32)]


def test_a_scale_can_be_asked_for_in_a_graph_that_is_final(tf: Any) -> None:
    found = [
        managers.ExponentialUpdateLossScaleManager(64, 1000),
        managers.FixedLossScaleManager(8),
    ]
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        tf.get_default_graph().finalize()
        assert [sess.run(one.get_loss_scale()) for one in found] == [64, 8]


def test_an_overflow_counts_as_none_where_nobody_wants_to_know(tf: Any) -> None:
    weight, loss = model(tf)
    manager = managers.FixedLossScaleManager(8, enable_overflow_check=False)
    inner = tf.train.GradientDescentOptimizer(0.25)
    step = scaling.NPULossScaleOptimizer(inner, manager).minimize(loss * np.inf)
    assert not np.isfinite(trained(tf, step, weight)).all()


def test_the_loss_scale_optimizer_wants_an_optimizer_and_a_scale_of_one_at_least() -> None:
    with pytest.raises(ValueError, match="must be an instance of Optimizer"):
        scaling.NPULossScaleOptimizer(object(), None)
    with pytest.raises(ValueError, match="at least 1"):
        managers.FixedLossScaleManager(0.5)


def test_weight_update_sharding_is_refused_by_name(tf: Any, two: Equals) -> None:
    inner = tf.train.GradientDescentOptimizer(0.25)
    with pytest.raises(UnsupportedError, match=r"^Weight update sharding .* only a device runs it"):
        optimizers.NPUDistributedOptimizer(inner, True)
    assert optimizers.NPUDistributedOptimizer(inner, is_weight_update_sharding=False)


def test_any_optimizer_can_be_made_to_average(tf: Any, two: Equals) -> None:
    weight, loss = model(tf)
    inner = tf.train.GradientDescentOptimizer(0.25)
    made = optimizers.npu_distributed_optimizer_wrapper(inner)
    assert made is inner
    np.testing.assert_allclose(trained(tf, made.minimize(loss), weight), [0.5, 0.0])
    assert [call.name for call in two.calls] == ["allreduce"]


@pytest.mark.parametrize("way", ["optimizer", "wrapper", "loss scale", "keras"])
def test_runs_of_the_vendors_optimizers_are_seen_to_average_a_variable(
    tf: Any, two: Equals, way: str
) -> None:
    weight, loss = model(tf)
    inner = tf.train.GradientDescentOptimizer(0.25)
    if way == "optimizer":
        step = optimizers.NPUDistributedOptimizer(inner).minimize(loss)
    elif way == "wrapper":
        step = optimizers.npu_distributed_optimizer_wrapper(inner).minimize(loss)
    elif way == "loss scale":
        manager = managers.ExponentialUpdateLossScaleManager(2.0**8, 2)
        step = optimizers.NPUOptimizer(
            inner, manager, is_distributed=True, is_loss_scale=True
        ).minimize(loss)
    else:
        legacy = getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers)
        distributed = optimizers.KerasDistributeOptimizer(legacy.SGD(0.25))
        step = distributed.get_updates(loss, [weight])
    graph = tf.get_default_graph()
    plan = plan_run(graph, step if isinstance(step, list) else [step])
    assert [each.name for each in plan.averaged] == [weight.name.partition(":")[0]]
    assert not plan_run(graph, [loss.op]).averaged
