"""The same helpers through the vendor's packages, on the fake host."""

import signal
import warnings
from pathlib import Path
from typing import Any

import pytest

from ascend_session import (
    AscendConfig,
    AscendConfigWarning,
    LifecycleError,
    ascend_session,
    ascend_system,
)
from ascend_session.session.graphs import graph_backend
from ascend_session.training import (
    DistributedOptimizer,
    ExponentialUpdateLossScaleManager,
    FixedLossScaleManager,
    IterationsPerLoopHook,
    SaveOnPreemptionHook,
    initialize,
    iterations_per_loop,
    monitored_session,
)
from tests.fake_host import FakeHost
from tests.fake_host.vendor import Loaded, loaded
from tests.signals import signal_this_thread


def looping(n: int) -> AscendConfig:
    """A configuration for loops of n steps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AscendConfigWarning)
        return AscendConfig(iterations_per_loop=n, enable_data_pre_proc=True)


def model(tf: Any) -> Any:
    """A loss that a supported operator computes, 1 at first, and its global step."""
    weight = tf.get_variable("weight", initializer=[[1.0]], use_resource=True)
    step = tf.train.get_or_create_global_step()
    return tf.reduce_sum(tf.matmul(weight, weight)), step


class TestLoops:
    def test_the_vendors_loop_makes_the_steps(self, tf: Any, ge: Loaded) -> None:
        loss, step = model(tf)
        train = tf.train.GradientDescentOptimizer(0.25).minimize(loss, global_step=step)
        with ascend_session(looping(3)) as sess:
            sess.run(tf.global_variables_initializer())
            with tf.variable_scope("tower"), tf.name_scope("tower"):
                loop = iterations_per_loop(sess, train, 3)
            assert loop.name == "IterationOp"
            # What is fetched is the last iteration's.
            assert sess.run([loop, loss])[1] == 0.0625
            assert sess.run(step) == 3
        assert ge.of("set_iteration_per_loop")[0]["steps"] == 3

    def test_a_session_with_hooks_is_told_by_the_hook(self, tf: Any, ge: Loaded) -> None:
        loss, step = model(tf)
        train = tf.train.GradientDescentOptimizer(1.0).minimize(loss, global_step=step)
        loop = iterations_per_loop(None, train, 5)
        hooks = [IterationsPerLoopHook(), tf.train.StopAtStepHook(last_step=15)]
        runs = 0
        with ascend_system(looping(5)) as system:
            with tf.train.MonitoredTrainingSession(
                master=system.target, config=system.session_config(), hooks=hooks
            ) as sess:
                while not sess.should_stop():
                    sess.run(loop)
                    runs += 1
        assert runs == 3

    def test_a_second_session_is_told_without_a_second_operation(self, tf: Any, ge: Loaded) -> None:
        loss, step = model(tf)
        train = tf.train.GradientDescentOptimizer(1.0).minimize(loss, global_step=step)
        with ascend_system(looping(2)) as system:
            for _ in range(2):
                with system.session() as sess:
                    sess.run(tf.global_variables_initializer())
                    sess.run(iterations_per_loop(sess, train, 2))
                    assert sess.run(step) == 2
        assert len(ge.of("set_iteration_per_loop")) == 1

    def test_a_one_shot_iterator_is_refused(self, tf: Any, ge: Loaded) -> None:
        read = tf.data.make_one_shot_iterator(tf.data.Dataset.range(9)).get_next()
        with pytest.raises(LifecycleError, match="one-shot iterator"):
            iterations_per_loop(None, read, 2)


def training(tf: Any, **options: Any) -> Any:
    """A step with loss scaling, and the variables that it may change."""
    loss, step = model(tf)
    manager = ExponentialUpdateLossScaleManager(64.0, 100, 1, decr_ratio=0.5)
    optimizer = DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0), manager, **options)
    train = optimizer.minimize(loss, global_step=step)
    return train, [step, manager.get_loss_scale()]


class TestSessions:
    def test_a_session_in_the_short_form_saves(self, tf: Any, ge: Loaded, tmp_path: Path) -> None:
        loss, step = model(tf)
        train = tf.train.GradientDescentOptimizer(0.25).minimize(loss, global_step=step)
        with ascend_system() as system, monitored_session(system, str(tmp_path)) as sess:
            sess.run(train)
        assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-1")

    def test_a_saver_of_tensorflows_own_that_fails_is_explained_once(
        self, tf: Any, ge: Loaded, tmp_path: Path, caplog: Any
    ) -> None:
        model(tf)
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value"):
            with ascend_system() as system:
                tf.train.MonitoredTrainingSession(
                    system.target, config=system.session_config(), checkpoint_dir=str(tmp_path)
                )
        assert tf.train.latest_checkpoint(str(tmp_path)) is None
        said = [each for each in caplog.messages if "uninitialized value in SaveV2 is a" in each]
        assert len(said) == 1
        assert "training.monitored_session(system, ...)" in said[0]

    def test_a_plain_session_resumes(self, tf: Any, ge: Loaded, tmp_path: Path) -> None:
        loss, step = model(tf)
        train = tf.train.GradientDescentOptimizer(0.25).minimize(loss, global_step=step)
        saver = tf.train.Saver()
        seen = []
        for _ in range(2):
            with ascend_session() as sess:
                seen.append(initialize(sess, str(tmp_path)))
                sess.run(train)
                saver.save(sess, str(tmp_path / "model"))
        assert seen == [0, 1]


class TestOverflow:
    @pytest.mark.parametrize("opened", ["before", "after"])
    @pytest.mark.parametrize("overflow", [False, True])
    def test_a_device_in_saturation_mode_shows_it_in_its_status(
        self, tf: Any, host: FakeHost, opened: str, overflow: bool
    ) -> None:
        with loaded(host, faults="overflow" if overflow else "") as ge:
            with ascend_system() as system:
                if opened == "after":
                    train, changed = training(tf)
                    with system.session() as sess:
                        found = ran(tf, sess, train, changed)
            if opened == "before":
                train, changed = training(tf)
                with ascend_session() as sess:
                    found = ran(tf, sess, train, changed)
            assert found == ([0, 16.0] if overflow else [2, 64.0])
            # Read and cleared in each step, in this order.
            names = [call for call in ge.calls if "FloatStatus" in call]
            assert names == ["NpuGetFloatStatusV2", "NpuClearFloatStatusV2"] * 2

    def test_a_device_in_inf_nan_mode_shows_it_in_the_values(self, tf: Any, host: FakeHost) -> None:
        with loaded(host, faults="inf-nan,overflow") as ge:
            with ascend_session() as sess:
                train, changed = training(tf)
                assert ran(tf, sess, train, changed) == [2, 64.0]
        assert [call for call in ge.calls if "FloatStatus" in call] == []

    def test_as_long_as_the_mode_is_not_known_both_are_looked_at(self, tf: Any, ge: Loaded) -> None:
        with ascend_system():
            pass
        assert graph_backend().has_inf_and_nan() is None
        factor = tf.placeholder_with_default(1.0, [])
        weight = tf.get_variable("weight", initializer=[[1.0]])
        optimizer = DistributedOptimizer(
            tf.train.GradientDescentOptimizer(1.0), FixedLossScaleManager(4.0)
        )
        train = optimizer.minimize(tf.reduce_sum(tf.matmul(weight, [[1.0]]) * factor))
        with ascend_session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(train, {factor: float("inf")})
            assert sess.run(weight) == [[1.0]]
            sess.run(train)
            assert sess.run(weight) == [[0.0]]
        assert "NpuGetFloatStatusV2" in ge.calls

    def test_the_adapter_without_the_query_is_not_asked(
        self, tf: Any, ge: Loaded, monkeypatch: Any
    ) -> None:
        with ascend_session():
            from npu_bridge import tf_adapter

            assert graph_backend().has_inf_and_nan() is False
            monkeypatch.delattr(tf_adapter, "GetDeviceSatMode")
            assert graph_backend().has_inf_and_nan() is None

    def test_the_last_exchange_waits_for_the_status_in_tailing_optimization(
        self, tf: Any, ge: Loaded, monkeypatch: Any
    ) -> None:
        monkeypatch.setenv("RANK_SIZE", "2")
        weights = [tf.get_variable(name, initializer=[[1.0]]) for name in ("a", "b", "c")]
        loss = tf.reduce_sum(tf.matmul(tf.matmul(weights[0], weights[1]), weights[2]))
        optimizer = DistributedOptimizer(
            tf.train.GradientDescentOptimizer(1.0),
            FixedLossScaleManager(4.0),
            is_tailing_optimization=True,
        )
        optimizer.minimize(loss)
        graph = tf.get_default_graph()
        reductions = [one for one in graph.get_operations() if before(one, "HcomAllReduceExchange")]
        gradients = [one for one in reductions if "_Allreduce" in one.name]
        waits = [bool(ancestors(one, "NpuGetFloatStatusV2")) for one in gradients]
        assert waits == [False, False, True]


def before(operation: Any, kind: str) -> bool:
    """Whether it is an exchange of the fake's."""
    return kind in operation.name


def ancestors(operation: Any, kind: str) -> Any:
    """The operators of this name that it needs."""
    seen, todo = {operation}, [operation]
    while todo:
        one = todo.pop()
        for other in [*(tensor.op for tensor in one.inputs), *one.control_inputs]:
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return [one for one in seen if kind in one.name]


def ran(tf: Any, sess: Any, train: Any, changed: Any) -> Any:
    """What the variables are after two steps."""
    sess.run(tf.global_variables_initializer())
    for _ in range(2):
        sess.run(train)
    return [float(value) for value in sess.run(changed)]


class TestPreemption:
    def test_sigterm_saves_after_the_vendors_loop(
        self, tf: Any, ge: Loaded, tmp_path: Path
    ) -> None:
        loss, step = model(tf)
        train = tf.train.GradientDescentOptimizer(1.0).minimize(loss, global_step=step)
        loop = iterations_per_loop(None, train, 5)
        hooks = [IterationsPerLoopHook(), SaveOnPreemptionHook(str(tmp_path))]
        try:
            with ascend_system(looping(5)) as system, tf.train.MonitoredTrainingSession(
                master=system.target, config=system.session_config(), hooks=hooks
            ) as sess:
                sess.run(loop)
                signal_this_thread(signal.SIGTERM)
                sess.run(loop)
        except SystemExit as ended:
            code = ended.code
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the hook keeps it to the very end
        assert code == 143
        assert tf.train.load_variable(str(tmp_path), "global_step") == 10
        assert system.events[-1].name == "shutdown"
