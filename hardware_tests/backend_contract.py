"""What every backend does in the same way, as one class of tests.

A test module makes a class of it with a fixture ``backend_name``. What a user can tell the stub
from the device by stands in ``tests/backend_differences.py``.
"""

import warnings
from pathlib import Path
from typing import Any, List

import pytest

from ascend_session import (
    AscendConfig,
    AscendConfigWarning,
    ascend_session,
    ascend_system,
    training,
)

FEATURES = {
    "graph execution",
    "option checks",
    "offload",
    "precision modes",
    "data dump",
    "profiling",
    "AOE tuning",
    "iterations per loop",
    "separate devices",
    "collectives",
}


class BackendContract:
    """The tests; `backend_name` says on which backend."""

    @pytest.fixture
    def backend_name(self) -> str:
        """Name of the backend under test."""
        raise NotImplementedError

    @pytest.fixture
    def system(self, backend_name: str) -> Any:
        """An open system with default options."""
        with ascend_system(backend=backend_name) as system:
            yield system

    # What it says of itself

    def test_each_feature_is_a_capability_or_a_missing_one(self, system: Any) -> None:
        assert set(system.capabilities) == FEATURES

    def test_a_missing_capability_says_why(self, system: Any) -> None:
        reasons = [able for able in system.capabilities.values() if able is not True]
        assert all(isinstance(reason, str) and reason for reason in reasons)

    def test_the_system_has_the_name_of_its_backend(self, system: Any, backend_name: str) -> None:
        assert system.backend == backend_name
        assert backend_name in system.backend_reason

    # The order of what is done

    def test_one_session(self, tf: Any, backend_name: str) -> None:
        with ascend_system(backend=backend_name) as system, system.session():
            pass
        assert steps(system) == [
            "initialize",
            "bring up",
            "session open",
            "session close",
            "shutdown",
        ]

    def test_nested_sessions_close_before_the_shutdown(self, tf: Any, backend_name: str) -> None:
        with ascend_system(backend=backend_name) as system:
            with ascend_session() as outer, ascend_session() as inner:
                assert tf.get_default_session() is inner
                assert inner is not outer
        assert steps(system) == (
            ["initialize"] + ["bring up", "session open"] * 2 + ["session close"] * 2 + ["shutdown"]
        )

    def test_two_systems_in_sequence_share_nothing(self, tf: Any, backend_name: str) -> None:
        systems = []
        for deterministic in (1, 0):
            config = AscendConfig(deterministic=deterministic)
            with ascend_system(config, backend=backend_name) as system, system.session() as sess:
                assert sess.run(tf.constant(7)) == 7
                assert entry(sess) == {"deterministic": deterministic}
            systems.append(system)
        assert systems[0] is not systems[1]
        assert steps(systems[0]) == steps(systems[1])

    def test_the_device_is_brought_up_again_for_a_later_session(
        self, tf: Any, backend_name: str
    ) -> None:
        answer = tf.constant(7)
        with ascend_system(backend=backend_name) as system:
            for _ in range(2):
                with system.session() as sess:
                    assert sess.run(answer) == 7
        assert steps(system)[1:-1] == ["bring up", "session open", "session close"] * 2

    def test_a_raising_body_is_closed_in_order(self, tf: Any, backend_name: str) -> None:
        with pytest.raises(ZeroDivisionError):
            with ascend_system(backend=backend_name) as system, system.session() as sess:
                raise ZeroDivisionError
        assert steps(system)[-2:] == ["session close", "shutdown"]
        with pytest.raises(RuntimeError, match="closed"):
            sess.run(tf.no_op())

    def test_an_error_of_the_graph_reaches_the_caller(self, tf: Any, backend_name: str) -> None:
        absent = tf.read_file("/no/such/file")  # which the host reads, on every backend
        with pytest.raises(tf.errors.NotFoundError, match="/no/such/file"):
            with ascend_session(backend=backend_name) as sess:
                sess.run(absent)

    # Whose graph is whose

    def test_user_graphs_get_no_operator(self, tf: Any, backend_name: str) -> None:
        mine = tf.Graph()
        with mine.as_default():
            tf.constant(7)
        before = [(graph.version, names(graph)) for graph in (mine, tf.get_default_graph())]
        with ascend_session(graph=mine, backend=backend_name):
            pass
        after = [(graph.version, names(graph)) for graph in (mine, tf.get_default_graph())]
        assert after == before

    def test_a_finalized_graph_works(self, tf: Any, backend_name: str) -> None:
        answer = tf.constant(7)
        tf.get_default_graph().finalize()
        with ascend_session(backend=backend_name) as sess:
            assert sess.run(answer) == 7

    # What the session was given

    def test_the_proto_has_exactly_the_entry(self, tf: Any, backend_name: str) -> None:
        config = AscendConfig(precision_mode="allow_mix_precision", hcom_parallel=False)
        with ascend_session(config, backend=backend_name) as sess:
            assert entry(sess) == {"precision_mode": "allow_mix_precision", "hcom_parallel": False}

    def test_nothing_is_written_for_what_was_not_said(self, tf: Any, backend_name: str) -> None:
        with ascend_session(backend=backend_name) as sess:
            assert entry(sess) == {}

    def test_an_own_proto_is_built_on_and_not_changed(self, tf: Any, backend_name: str) -> None:
        base = tf.ConfigProto(log_device_placement=False, operation_timeout_in_ms=60000)
        before = base.SerializeToString()
        config = AscendConfig(graph_run_mode=1)
        with ascend_session(config, session_config=base, backend=backend_name) as sess:
            assert sess._config.operation_timeout_in_ms == 60000
            assert entry(sess) == {"graph_run_mode": 1}
        assert base.SerializeToString() == before

    @pytest.mark.parametrize("where", ["argument", "config"])
    def test_a_session_is_on_the_device_it_asks_for(
        self, tf: Any, backend_name: str, where: str
    ) -> None:
        config = AscendConfig(session_device_id=0) if where == "config" else None
        device = 0 if where == "argument" else None
        with ascend_system(backend=backend_name) as system:
            with ascend_session(config, device_id=device) as sess:
                assert entry(sess) == {"session_device_id": 0}
        assert [event.detail for event in system.events if event.name == "session open"] == [
            "device 0"
        ]

    # What training adds

    def test_k_runs_of_a_loop_make_k_times_n_steps(self, tf: Any, backend_name: str) -> None:
        weight = tf.get_variable("weight", initializer=[[1.0]])
        step = tf.train.get_or_create_global_step()
        loss = tf.reduce_sum(tf.matmul(weight, [[1.0]]))
        train = tf.train.GradientDescentOptimizer(1.0).minimize(loss, global_step=step)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AscendConfigWarning)  # there is no dataset
            config = AscendConfig(iterations_per_loop=4, enable_data_pre_proc=True)
        with ascend_session(config, backend=backend_name) as sess:
            sess.run(tf.global_variables_initializer())
            loop = training.iterations_per_loop(sess, train, 4)
            for k in (1, 2):
                sess.run(loop)
                assert sess.run(step) == 4 * k
            assert sess.run(weight) == [[1.0 - 8.0]]

    def test_in_a_job_of_one_a_distributed_optimizer_is_the_optimizer(
        self, tf: Any, backend_name: str
    ) -> None:
        weight = tf.get_variable("weight", initializer=[[3.0]])
        loss = tf.reduce_sum(tf.matmul(weight, weight))
        manager = training.FixedLossScaleManager(8.0)
        with ascend_session(backend=backend_name) as sess:
            optimizer = training.DistributedOptimizer(
                tf.train.GradientDescentOptimizer(0.25), manager
            )
            train = tf.group(optimizer.minimize(loss), training.broadcast_global_variables(0))
            sess.run(tf.global_variables_initializer())
            sess.run(train)
            assert sess.run(weight) == [[1.5]]
        assert not [name for name in names(sess.graph) if "Hcom" in name]

    # A real tf.Session

    def test_it_is_a_session_with_nothing_wrapped_around_run(
        self, tf: Any, backend_name: str
    ) -> None:
        constructor, run = tf.Session.__init__, tf.Session.run
        with ascend_session(backend=backend_name) as sess:
            assert type(sess) is tf.Session
            assert "run" not in vars(sess)
            assert (tf.Session.__init__, tf.Session.run) == (constructor, run)
        assert (tf.Session.__init__, tf.Session.run) == (constructor, run)

    def test_session_and_graph_are_the_defaults_inside_the_block(
        self, tf: Any, backend_name: str
    ) -> None:
        outside, mine = tf.get_default_graph(), tf.Graph()
        with ascend_session(graph=mine, backend=backend_name) as sess:
            assert tf.get_default_session() is sess
            assert tf.get_default_graph() is sess.graph is mine
            assert tf.constant(7).eval() == 7
        assert tf.get_default_session() is None
        assert tf.get_default_graph() is outside

    def test_a_checkpoint_is_restored_in_another_session(
        self, tf: Any, backend_name: str, tmp_path: Path
    ) -> None:
        weights = tf.get_variable("weights", initializer=3.0)
        saver = tf.train.Saver()
        with ascend_session(backend=backend_name) as sess:
            sess.run(weights.assign(42.0))
            path = saver.save(sess, str(tmp_path / "model"))
        with ascend_session(backend=backend_name) as sess:
            saver.restore(sess, path)
            assert sess.run(weights) == 42.0

    def test_feeds_and_several_fetches(self, tf: Any, backend_name: str) -> None:
        x = tf.placeholder(tf.float32, [None])
        with ascend_session(backend=backend_name) as sess:
            fetched = sess.run({"twice": x * 2, "both": [x, x + 1]}, feed_dict={x: [1, 2]})
        assert fetched["twice"].tolist() == [2, 4]
        assert [value.tolist() for value in fetched["both"]] == [[1, 2], [2, 3]]

    def test_partial_runs(self, tf: Any, backend_name: str) -> None:
        x, y = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        total = x + y
        product = total * y
        with ascend_session(backend=backend_name) as sess:
            handle = sess.partial_run_setup([total, product], [x, y])
            assert sess.partial_run(handle, total, feed_dict={x: 1, y: 2}) == 3
            assert sess.partial_run(handle, product) == 6

    def test_callables(self, tf: Any, backend_name: str) -> None:
        x = tf.placeholder(tf.float32, [])
        with ascend_session(backend=backend_name) as sess:
            assert sess.make_callable(x * 2, [x])(21.0) == 42

    def test_queue_runners_under_a_coordinator(self, tf: Any, backend_name: str) -> None:
        queue = tf.FIFOQueue(4, tf.int32, shapes=[[]])
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(7)]))
        with ascend_session(backend=backend_name) as sess:
            coordinator = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(sess, coordinator)
            assert [sess.run(queue.dequeue()) for _ in range(8)] == [7] * 8
            coordinator.request_stop()
            sess.run(queue.close(cancel_pending_enqueues=True))
            coordinator.join(threads)

    def test_hooks_of_training(self, tf: Any, backend_name: str) -> None:
        step = tf.train.get_or_create_global_step()
        tf.get_variable("another", initializer=1.0)  # the adapter cannot look whether one is ready
        train = step.assign_add(1)
        hooks = [tf.train.StopAtStepHook(last_step=3), tf.train.NanTensorHook(tf.constant(1.0))]
        with ascend_system(backend=backend_name) as system:
            creator = tf.train.ChiefSessionCreator(
                master=system.target, config=system.session_config()
            )
            with tf.train.MonitoredSession(creator, hooks) as sess:
                done: List[int] = []
                while not sess.should_stop() and len(done) < 5:
                    done.append(sess.run(train))
        assert done == [1, 2, 3]


def steps(system: Any) -> List[str]:
    """What the system did, in order."""
    return [event.name for event in system.events]


def names(graph: Any) -> List[str]:
    """The names of all operators of the graph."""
    return [operation.name for operation in graph.get_operations()]


def entry(sess: Any) -> Any:
    """The NpuOptimizer entry of the proto that the session was made with."""
    return AscendConfig.from_config_proto(sess._config).parameter_map()


def open_and_close(block: Any) -> None:
    """Enters and leaves a block that does nothing, for those that should not open."""
    with block:
        pass
