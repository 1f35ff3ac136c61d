"""iterations_per_loop on the stub: so many real steps in one run."""

import contextlib
import re
import threading
import time
import warnings
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

import attr
import pytest

from ascend_session import (
    AscendConfig,
    AscendConfigWarning,
    ConfigError,
    LifecycleError,
    UnsupportedError,
    ascend_session,
    ascend_system,
)
from ascend_session.backends.host_loop import HostLoop
from ascend_session.session.conditions import LOOPS_APPLIED
from ascend_session.training import (
    IterationsPerLoopHook,
    estimator,
    iterations_per_loop,
    monitored_session,
)


def looping(n: int) -> AscendConfig:
    """A configuration for loops of n steps, each with a batch of its own."""
    return options(n, enable_data_pre_proc=True)


def options(n: int, **others: Any) -> AscendConfig:
    """A configuration for loops of n steps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return AscendConfig(iterations_per_loop=n, **others)


@pytest.fixture(autouse=True)
def _errors() -> Iterator[None]:
    """The block of a looped session must not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", AscendConfigWarning)
        yield


class Step(NamedTuple):
    """A training step that sums up what it reads."""

    train: Any
    step: Any
    total: Any
    read: Any
    iterator: Any


def step_of(tf: Any, elements: int = 1000) -> Step:
    """Adds 0, 1, 2 ... from a dataset."""
    iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(elements))
    read = iterator.get_next()
    total = tf.get_variable("total", initializer=tf.constant(0, tf.int64))
    step = tf.train.get_or_create_global_step()
    with tf.control_dependencies([tf.assign_add(total, read)]):
        train = tf.assign_add(step, 1).op
    return Step(train, step, total, read, iterator)


def start(tf: Any, sess: Any, own: Step) -> None:
    """Initialises everything."""
    sess.run([tf.global_variables_initializer(), own.iterator.initializer])


@pytest.mark.parametrize("threads", [1, 4])
def test_k_runs_make_k_times_n_steps_with_a_batch_each(tf: Any, threads: int) -> None:
    own = step_of(tf)
    proto = tf.ConfigProto(inter_op_parallelism_threads=threads, use_per_session_threads=True)
    with ascend_session(looping(5), session_config=proto) as sess:
        start(tf, sess, own)
        loop = iterations_per_loop(sess, own.train, 5)
        for k in range(1, 4):
            sess.run(loop)
            assert sess.run([own.step, own.total]) == [5 * k, sum(range(5 * k))]
    assert loop.name == "IterationOp"
    assert tf.get_default_graph().get_collection(LOOPS_APPLIED) == [5]


def test_what_is_fetched_beside_it_draws_no_batch_and_is_the_last_steps(tf: Any) -> None:
    own = step_of(tf)
    with ascend_session(looping(4)) as sess:
        start(tf, sess, own)
        loop = iterations_per_loop(sess, own.train, 4)
        assert [sess.run([loop, own.read])[1] for _ in range(3)] == [3, 7, 11]
        assert sess.run([own.step, own.total]) == [12, sum(range(12))]


@attr.s
class Fetches:
    """What a run fetches, as TensorFlow takes it of a class of attrs."""

    a: Any = attr.ib()
    b: Any = attr.ib()


@pytest.mark.parametrize("way", ["run", "attrs", "callable", "behind"])
def test_each_way_to_run_it_makes_all_steps(tf: Any, way: str) -> None:
    x = tf.placeholder(tf.float32, [])
    total = tf.get_variable("total", initializer=0.0)
    added = tf.assign_add(total, x)
    with ascend_session(looping(3)) as sess:
        sess.run(tf.global_variables_initializer())
        loop = iterations_per_loop(sess, added, 3)
        if way == "callable":
            found = sess.make_callable([loop, added], [x])(2.0)
        elif way == "attrs":
            found = attr.astuple(sess.run(Fetches(loop, added), {x: 2.0}))
        elif way == "behind":
            found = sess.run([tf.group(loop, tf.no_op()), added], {x: 2.0})
        else:
            found = sess.run({"a": loop, "b": added}, {x: 2.0})
        assert 6.0 in (found.values() if isinstance(found, dict) else found)
        assert sess.run(total) == 6.0


def test_a_name_that_does_not_exist_is_refused_as_without_a_loop(tf: Any) -> None:
    with ascend_session(looping(3)) as sess:
        iterations_per_loop(sess, tf.no_op(), 3)
        with pytest.raises(ValueError, match="cannot be interpreted as a Tensor"):
            sess.run("IterationOp_2")


def test_a_partial_run_of_it_is_refused(tf: Any) -> None:
    with ascend_session(looping(3)) as sess:
        loop = iterations_per_loop(sess, tf.no_op(), 3)
        with pytest.raises(UnsupportedError, match="IterationOp makes several steps"):
            sess.partial_run_setup([loop], [])


def test_two_loops_in_one_run_are_refused(tf: Any) -> None:
    with tf.Session() as sess:
        loops = [HostLoop(tf.no_op(), 3, sess).operation for _ in range(2)]
        with pytest.raises(UnsupportedError, match=r"IterationOp, IterationOp_1.*supports one"):
            sess.run(loops)


def test_what_a_run_updates_beside_the_step_is_updated_in_each_step(tf: Any) -> None:
    own = step_of(tf)
    metric = tf.get_variable("metric", initializer=0)
    updated = tf.assign_add(metric, 1)
    with ascend_session(looping(4)) as sess:
        start(tf, sess, own)
        loop = iterations_per_loop(sess, own.train, 4)
        assert sess.run([loop, updated])[1] == 4
        assert sess.run([metric, own.step]) == [4, 4]


def test_rows_that_another_optimizer_updates_are_updated_in_each_step(tf: Any) -> None:
    own = step_of(tf)
    table = tf.get_variable("table", initializer=[0.0, 0.0], use_resource=True)
    other = tf.train.MomentumOptimizer(1.0, 0.0).minimize(-tf.reduce_sum(tf.gather(table, [0])))
    with ascend_session(looping(4)) as sess:
        start(tf, sess, own)
        sess.run([iterations_per_loop(sess, own.train, 4), other])
        assert sess.run(table).tolist() == [4.0, 0.0]


def test_what_is_fed_is_fed_to_each_step(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [None])
    scale = tf.placeholder_with_default(2.0, [])
    total = tf.get_variable("total", initializer=0.0)
    train = tf.assign_add(total, tf.reduce_sum(x) * scale)
    with ascend_session(looping(3)) as sess:
        sess.run(tf.global_variables_initializer())
        loop = iterations_per_loop(sess, train, 3)  # a tensor
        with pytest.warns(AscendConfigWarning) as warned:
            sess.run(loop, {x: [1.0, 2.0]})
        [said] = warned.list
        assert said.filename == __file__
        assert str(said.message).startswith(
            "A loop is run with 'Placeholder' fed: all 3 steps of a run train on the same values"
        )
        assert sess.run(total) == 18.0
        sess.run(loop, {x: [1.0], scale: 10.0})
        assert sess.run(total) == 48.0


def test_scopes_do_not_change_the_name_that_the_adapter_looks_for(tf: Any) -> None:
    own = step_of(tf)
    with ascend_session(looping(2)) as sess:
        start(tf, sess, own)
        with tf.name_scope("tower"), tf.variable_scope("tower"):
            with tf.control_dependencies([tf.no_op()]):
                loop = iterations_per_loop(sess, own.train, 2)
        sess.run(loop)
        assert (loop.name, sess.run(own.step)) == ("IterationOp", 2)


def test_one_step_a_loop_is_the_operation_itself(tf: Any) -> None:
    own = step_of(tf)
    with ascend_session() as sess:
        assert iterations_per_loop(sess, own.train, 1) is own.train


def test_asking_again_gives_the_same_operation(tf: Any) -> None:
    own = step_of(tf)
    with ascend_session(looping(2)) as sess:
        start(tf, sess, own)
        for _ in range(3):  # as in scripts that ask in each step
            sess.run(iterations_per_loop(sess, own.train, 2))
        assert sess.run(own.step) == 6


class TestSessions:
    def test_each_session_has_its_own_steps(self, tf: Any) -> None:
        own = step_of(tf)
        with ascend_session(looping(3)) as one, ascend_session(looping(3)) as two:
            for sess in (one, two):
                start(tf, sess, own)
                loop = iterations_per_loop(sess, own.train, 3)
            one.run(loop)
            two.run(loop)
            one.run(loop)
            assert [sess.run(own.step) for sess in (one, two)] == [6, 3]

    def test_in_a_session_that_was_not_told_it_does_not_make_steps_elsewhere(self, tf: Any) -> None:
        own = step_of(tf)
        with ascend_session(looping(3)) as one, ascend_session(looping(3)) as two:
            start(tf, one, own)
            start(tf, two, own)
            loop = iterations_per_loop(one, own.train, 3)
            with pytest.raises(tf.errors.FailedPreconditionError):
                two.run(loop)
            assert one.run(own.step) == 0

    def test_initialisers_that_run_afterwards_are_noticed(self, tf: Any) -> None:
        own = step_of(tf)
        with ascend_session(looping(3)) as sess:
            start(tf, sess, own)
            loop = iterations_per_loop(sess, own.train, 3)
            sess.run(tf.local_variables_initializer())
            with pytest.raises(LifecycleError, match="does not know how many steps"):
                sess.run(loop)

    def test_a_session_with_hooks_is_told_by_a_hook(self, tf: Any) -> None:
        own = step_of(tf)
        loop = iterations_per_loop(None, own.train, 5)
        with ascend_system(looping(5)) as system:
            scaffold = tf.train.Scaffold(
                local_init_op=tf.group(tf.local_variables_initializer(), own.iterator.initializer)
            )
            hooks = [IterationsPerLoopHook(), tf.train.StopAtStepHook(last_step=15)]
            runs = 0
            with tf.train.MonitoredTrainingSession(
                master=system.target,
                config=system.session_config(),
                scaffold=scaffold,
                hooks=hooks,
            ) as sess:
                while not sess.should_stop():
                    sess.run(loop)
                    runs += 1
        assert runs == 3

    @pytest.mark.parametrize("kind", ["tf.train", "own", "estimator"])
    @pytest.mark.parametrize(
        ("first", "stop", "makes", "message"),
        [
            (0, {"last_step": 15}, 15, None),
            (0, {"num_steps": 15}, 15, None),
            (2, {"last_step": 12}, 12, None),  # two runs
            (12, {"num_steps": 5}, 17, None),
            (0, {"last_step": 12}, 15, "from step 0 is to stop at step 12, .*Use 10 or 15, or"),
            (2, {"last_step": 15}, 17, "from step 2 is to stop at step 15, .* it stops at 17. Use"),
            (5, {"num_steps": 12}, 20, "is to make 12 steps, .* it makes 15. Use 10 or 15, or"),
            (0, {"last_step": 3}, 5, "Use 5, or another"),
        ],
    )
    def test_a_training_that_stops_within_a_loop_is_warned_of(
        self,
        tf: Any,
        tmp_path: Path,
        kind: str,
        first: int,
        stop: Dict[str, int],
        makes: int,
        message: Optional[str],
    ) -> None:
        if kind == "estimator" and not hasattr(tf, "estimator"):
            pytest.skip("TensorFlow from 2.16 on has no estimators")
        hooks = [tf.train.StopAtStepHook(**stop)]
        with tf.Graph().as_default(), tf.Session() as sess:  # where the training goes on
            step = tf.train.get_or_create_global_step()
            total = tf.get_variable("total", initializer=0.0)
            sess.run(tf.global_variables_initializer())
            sess.run(step.assign(first))
            tf.train.Saver([step, total]).save(sess, str(tmp_path / "model"), first)

        def model(features: Any, mode: str) -> Any:
            total = tf.get_variable("total", initializer=0.0)
            add = tf.assign_add(total, features)
            with tf.control_dependencies([add]):
                train = tf.group(tf.assign_add(tf.train.get_or_create_global_step(), 1))
            return tf.estimator.EstimatorSpec(mode, loss=total + 0.0, train_op=train)

        with warnings.catch_warnings(record=True) as caught, ascend_system(looping(5)) as system:
            warnings.simplefilter("always", AscendConfigWarning)
            if kind == "estimator":
                data = lambda: tf.data.Dataset.from_tensors(1.0).repeat()  # noqa: E731
                made = estimator(model, system, tmp_path)
                made.train(data, hooks=hooks)
                ends = made.get_variable_value("global_step")
            else:
                tf.get_variable("total", initializer=0.0)
                step = tf.train.get_or_create_global_step()
                loop = iterations_per_loop(None, tf.group(tf.assign_add(step, 1)), 5)
                hooks.append(IterationsPerLoopHook())
                opened = (
                    monitored_session(system, tmp_path, hooks)
                    if kind == "own"
                    else tf.train.MonitoredTrainingSession(
                        config=system.session_config(), checkpoint_dir=str(tmp_path), hooks=hooks
                    )
                )
                with opened as sess:
                    sess.run(step)  # no run of the loop
                    while not sess.should_stop():
                        sess.run(loop)
                ends = tf.train.load_variable(str(tmp_path), "global_step")
        assert ends == makes
        texts = [str(each.message) for each in caught if "Training " in str(each.message)]
        assert [each.filename for each in caught if str(each.message) in texts] == [
            __file__ for _ in texts
        ]
        assert len(texts) == (message is not None)
        assert message is None or re.search(message, texts[0])

    @pytest.mark.parametrize("form", ["operation", "name", "structure"])
    def test_with_the_hook_what_is_fetched_is_the_last_steps(self, tf: Any, form: str) -> None:
        own = step_of(tf)
        loop = iterations_per_loop(None, own.train, 4)
        fetches = {
            "operation": [loop, own.read],
            "name": ["IterationOp", own.read],
            "structure": [{"train": (loop,)}, own.read],
        }
        scaffold = tf.train.Scaffold(
            local_init_op=tf.group(tf.local_variables_initializer(), own.iterator.initializer)
        )
        with ascend_system(looping(4)) as system:
            with tf.train.MonitoredTrainingSession(
                config=system.session_config(), scaffold=scaffold, hooks=[IterationsPerLoopHook()]
            ) as sess:
                assert [sess.run(fetches[form])[1] for _ in range(2)] == [3, 7]
                assert sess.run([own.step, own.total]) == [8, sum(range(8))]

    def test_with_the_hook_what_is_fed_is_fed_to_each_step(self, tf: Any) -> None:
        x = tf.placeholder(tf.float32, [])
        total = tf.get_variable("total", initializer=0.0)
        loop = iterations_per_loop(None, tf.assign_add(total, x), 3)
        with ascend_system(looping(3)) as system:
            with tf.train.MonitoredTrainingSession(
                config=system.session_config(), hooks=[IterationsPerLoopHook()]
            ) as sess:
                sess.run(loop, {x: 2.0})
                assert sess.run(total) == 6.0

    @pytest.mark.parametrize("has_default", [False, True])
    def test_what_another_hook_feeds_is_fed_to_each_step(self, tf: Any, has_default: bool) -> None:
        rate = tf.placeholder_with_default(1.0, []) if has_default else tf.placeholder("float", [])
        x = tf.placeholder(tf.float32, [])
        total = tf.get_variable("total", initializer=0.0)
        loop = iterations_per_loop(None, tf.assign_add(total, x * rate), 3)
        hooks = [tf.train.FeedFnHook(lambda: {rate: 10.0}), IterationsPerLoopHook()]
        with ascend_system(looping(3)) as system:
            with tf.train.MonitoredTrainingSession(
                config=system.session_config(), hooks=hooks
            ) as sess:
                sess.run(loop, {x: 2.0})
                assert (
                    sess.run_step_fn(lambda step_context: step_context.session.run(total)) == 60.0
                )

    @pytest.mark.parametrize("key", ["tensor", "name", "sparse"])
    def test_with_the_hook_a_run_that_feeds_all_makes_the_last_step(
        self, tf: Any, key: str
    ) -> None:
        x = tf.sparse_placeholder(tf.float32) if key == "sparse" else tf.placeholder("float", [])
        read = tf.sparse_reduce_sum(x) if key == "sparse" else x
        one = tf.SparseTensorValue([[0]], [2.0], [1]) if key == "sparse" else 2.0
        total = tf.get_variable("total", initializer=0.0)
        added = tf.assign_add(total, tf.reshape(read, []))
        loop = iterations_per_loop(None, added, 3)
        with ascend_system(looping(3)) as system:
            with tf.train.MonitoredTrainingSession(
                config=system.session_config(), hooks=[IterationsPerLoopHook()]
            ) as sess:
                is_batch = key == "sparse"
                with pytest.warns(AscendConfigWarning) if is_batch else contextlib.nullcontext():
                    fetched = sess.run([loop, added], {x.name if key == "name" else x: one})
                assert fetched[1] == 6.0

    def test_a_step_that_bypasses_the_hooks_makes_all_steps_too(self, tf: Any) -> None:
        own = step_of(tf)
        loop = iterations_per_loop(None, own.train, 4)
        scaffold = tf.train.Scaffold(
            local_init_op=tf.group(tf.local_variables_initializer(), own.iterator.initializer)
        )
        with ascend_system(looping(4)) as system:
            with tf.train.MonitoredTrainingSession(
                config=system.session_config(), scaffold=scaffold, hooks=[IterationsPerLoopHook()]
            ) as sess:
                sess.run_step_fn(lambda step_context: step_context.session.run(loop))
                sess.run(loop)
                sess.run_step_fn(lambda step_context: step_context.session.run(loop))
                assert sess.run(own.step) == 12

    def test_the_data_end_a_session_with_hooks_in_order(self, tf: Any) -> None:
        own = step_of(tf, elements=12)
        loop = iterations_per_loop(None, own.train, 5)
        counts: List[int] = []
        scaffold = tf.train.Scaffold(
            local_init_op=tf.group(tf.local_variables_initializer(), own.iterator.initializer)
        )
        with ascend_system(looping(5)) as system:
            with tf.train.MonitoredTrainingSession(
                config=system.session_config(), scaffold=scaffold, hooks=[IterationsPerLoopHook()]
            ) as sess:
                while not sess.should_stop():
                    sess.run(loop)
                    counts.append(sess.run(own.step))
        assert counts == [5, 10]

    def test_a_hook_without_a_loop_is_refused(self, tf: Any) -> None:
        with pytest.raises(LifecycleError, match="has no looped operation"):
            tf.train.MonitoredSession(hooks=[IterationsPerLoopHook()])

    def test_a_hook_in_a_session_for_another_number_of_steps_is_refused(self, tf: Any) -> None:
        iterations_per_loop(None, step_of(tf).train, 4)
        with ascend_system(looping(5)) as system:
            with pytest.raises(ConfigError, match="iterations_per_loop=5, but the loop is to make"):
                tf.train.MonitoredTrainingSession(
                    config=system.session_config(), hooks=[IterationsPerLoopHook()]
                )

    def test_a_hook_for_loops_of_one_step_has_nothing_to_say(self, tf: Any) -> None:
        own = step_of(tf)
        iterations_per_loop(None, own.train, 1)
        with tf.train.MonitoredSession(hooks=[IterationsPerLoopHook()]) as sess:
            assert sess.run(own.step) == 0


class TestErrors:
    def test_the_end_of_the_data_in_the_midst_leaves_the_steps_before(self, tf: Any) -> None:
        own = step_of(tf, elements=7)
        with ascend_session(looping(5)) as sess:
            start(tf, sess, own)
            loop = iterations_per_loop(sess, own.train, 5)
            sess.run(loop)
            with pytest.raises(tf.errors.OutOfRangeError, match="Step 3 of 5 in this run"):
                sess.run(loop)
            assert sess.run(own.step) == 7
            with pytest.raises(tf.errors.OutOfRangeError):
                sess.run(loop)

    def test_an_error_of_a_step_names_it_and_keeps_its_kind(self, tf: Any) -> None:
        step = tf.train.get_or_create_global_step()
        x = tf.cast(3 - step, tf.float32)
        with tf.control_dependencies([tf.check_numerics(1.0 / x, "x is bad")]):
            train = tf.assign_add(step, 1).op
        with ascend_session(looping(8)) as sess:
            sess.run(tf.global_variables_initializer())
            loop = iterations_per_loop(sess, train, 8)
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)Step 4 of 8 .*x is bad"):
                sess.run(loop)

    def test_closing_the_session_ends_a_loop(self, tf: Any) -> None:
        started = threading.Event()

        def notice() -> float:
            started.set()
            time.sleep(0.01)  # a step takes its time
            return 1.0

        train = tf.py_func(notice, [], tf.float64).op
        with ascend_system(looping(1000000)) as system:
            block = system.session()
            sess = block.__enter__()
            loop = iterations_per_loop(sess, train, 1000000)
            failed: List[BaseException] = []

            def run() -> None:
                try:
                    sess.run(loop)
                except Exception as error:
                    failed.append(error)

            thread = threading.Thread(target=run)
            thread.start()
            assert started.wait(60)
            block.__exit__(None, None, None)
            thread.join(60)
            assert not thread.is_alive()
            assert len(failed) == 1


class TestRefusals:
    @pytest.mark.parametrize("n", [0, -1])
    def test_no_steps(self, tf: Any, n: int) -> None:
        with pytest.raises(ConfigError, match="must be at least 1"):
            iterations_per_loop(None, tf.no_op(), n)

    @pytest.mark.parametrize("n", [2.0, "2", True])
    def test_what_is_no_number(self, tf: Any, n: Any) -> None:
        with pytest.raises(TypeError, match="n must be an int"):
            iterations_per_loop(None, tf.no_op(), n)

    def test_what_is_no_operation(self, tf: Any) -> None:
        with pytest.raises(TypeError, match=r"Put several together with tf\.group"):
            iterations_per_loop(None, [tf.no_op()], 2)

    def test_a_session_with_hooks(self, tf: Any) -> None:
        train = tf.no_op()
        with tf.train.MonitoredSession() as sess:
            with pytest.raises(TypeError, match="IterationsPerLoopHook"):
                iterations_per_loop(sess, train, 2)

    def test_a_finalized_graph(self, tf: Any) -> None:
        train = tf.no_op()
        tf.get_default_graph().finalize()
        with pytest.raises(LifecycleError, match="The graph is finalized") as refused:
            iterations_per_loop(None, train, 2)
        assert "IterationsPerLoopHook" in str(refused.value.hint)

    def test_another_operation_or_number_in_the_same_graph(self, tf: Any) -> None:
        train, other = tf.no_op(), tf.no_op()
        iterations_per_loop(None, train, 2)
        with pytest.raises(LifecycleError, match="a loop by its name IterationOp"):
            iterations_per_loop(None, other, 2)
        with pytest.raises(LifecycleError, match="in a loop of 2 steps already"):
            iterations_per_loop(None, train, 3)

    def test_an_operation_of_that_name_by_others(self, tf: Any) -> None:
        train = tf.no_op(name="IterationOp")
        with pytest.raises(LifecycleError, match="did not add it"):
            iterations_per_loop(None, train, 2)

    def test_another_graph_than_the_sessions(self, tf: Any) -> None:
        train = tf.no_op()
        with ascend_session(graph=tf.Graph()) as sess:
            with pytest.raises(LifecycleError, match="in another graph"):
                iterations_per_loop(sess, train, 2)

    def test_a_one_shot_iterator(self, tf: Any) -> None:
        read = tf.data.make_one_shot_iterator(tf.data.Dataset.range(9)).get_next()
        with pytest.raises(LifecycleError, match="one-shot iterator; the adapter aborts"):
            iterations_per_loop(None, read, 2)

    def test_another_number_than_the_configurations(self, tf: Any) -> None:
        train = tf.no_op()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AscendConfigWarning)
            with ascend_session(looping(3)) as sess:
                with pytest.raises(ConfigError, match="iterations_per_loop=3, but the loop is to"):
                    iterations_per_loop(sess, train, 4)

    def test_a_configuration_that_says_nothing_is_warned_of(self, tf: Any) -> None:
        train = tf.no_op()
        with ascend_session() as sess:
            with pytest.warns(AscendConfigWarning, match="does not set iterations_per_loop=4"):
                loop = iterations_per_loop(sess, train, 4)
            sess.run(loop)

    def test_mixed_computing(self, tf: Any) -> None:
        train = tf.no_op()
        with ascend_session(AscendConfig(mix_compile_mode=True)) as sess:
            with pytest.raises(ConfigError, match="mix_compile_mode=True needs"):
                iterations_per_loop(sess, train, 4)

    def test_a_default_that_changes_from_step_to_step(self, tf: Any) -> None:
        iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(9))
        x = tf.placeholder_with_default(iterator.get_next(), [])
        with pytest.raises(UnsupportedError, match="would draw it although it is fed"):
            iterations_per_loop(None, x + 1, 2)


class TestWhatTheHostFeeds:
    """The same for all steps of a run, as by the adapter."""

    @pytest.mark.parametrize(("offloaded", "expected"), [(False, -3.0), (True, -15.0)])
    def test_the_steps_of_a_run_share_a_batch_unless_the_device_draws_it(
        self, tf: Any, offloaded: bool, expected: float
    ) -> None:
        own = step_of(tf, 100)
        weight = tf.get_variable("weight", initializer=0.0)
        loss = weight * tf.cast(own.read, tf.float32)
        train = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
        with ascend_session(options(3, enable_data_pre_proc=offloaded)) as sess:
            start(tf, sess, own)
            loop = iterations_per_loop(sess, train, 3)
            for _ in range(2):
                sess.run(loop)
            assert sess.run(weight) == expected

    def test_sessions_of_one_graph_may_differ(self, tf: Any) -> None:
        own = step_of(tf)
        with ascend_session(options(3)) as one, ascend_session(looping(3)) as two:
            for sess in (one, two):
                start(tf, sess, own)
                sess.run(iterations_per_loop(sess, own.train, 3))
                sess.run(iterations_per_loop(sess, own.train, 3))
            assert [sess.run(own.total) for sess in (one, two)] == [3, sum(range(6))]

    @pytest.mark.parametrize("is_fed_too", [False, True])
    def test_with_the_hook_the_last_step_has_the_batch_of_the_others(
        self, tf: Any, is_fed_too: bool
    ) -> None:
        iterator = tf.data.make_initializable_iterator(
            tf.data.Dataset.range(100).map(lambda number: (number, number * 2))
        )
        read, label = iterator.get_next()
        rate = tf.placeholder_with_default(tf.constant(1, tf.int64), [])
        total = tf.get_variable("total", initializer=tf.constant(0, tf.int64))
        loop = iterations_per_loop(None, tf.assign_add(total, read * rate).op, 3)
        scaffold = tf.train.Scaffold(
            local_init_op=tf.group(tf.local_variables_initializer(), iterator.initializer)
        )
        feeds = {rate: 1} if is_fed_too else None
        with ascend_system(options(3)) as system:
            with tf.train.MonitoredTrainingSession(
                config=system.session_config(), scaffold=scaffold, hooks=[IterationsPerLoopHook()]
            ) as sess:
                found = [sess.run([loop, read, label], feeds)[1:] for _ in range(3)]
                in_all = sess.run_step_fn(lambda step_context: step_context.session.run(total))
        assert found == [[0, 0], [1, 2], [2, 4]]
        assert in_all == 3 * (0 + 1 + 2)

    def test_a_python_function_gives_all_steps_of_a_run_the_same(self, tf: Any) -> None:
        numbers = iter(range(100))
        drawn = tf.py_func(lambda: next(numbers), [], tf.int64)
        total = tf.get_variable("total", initializer=tf.constant(0, tf.int64))
        train = tf.assign_add(total, drawn)
        with ascend_session(looping(3)) as sess:
            sess.run(tf.global_variables_initializer())
            loop = iterations_per_loop(sess, train, 3)
            for _ in range(2):
                sess.run(loop)
            assert sess.run(total) == 3

    def test_sparse_batches_are_refused_unless_the_device_draws_them(self, tf: Any) -> None:
        element = tf.SparseTensor([[0]], [2.0], [1])
        data = tf.data.Dataset.from_tensors(element).repeat()
        iterator = tf.data.make_initializable_iterator(data)
        total = tf.get_variable("total", initializer=0.0)
        train = tf.assign_add(total, tf.sparse_reduce_sum(iterator.get_next()))
        with pytest.raises(UnsupportedError, match=r"IteratorGetNext.*sparse tensors") as refused:
            with ascend_session(options(3)) as sess:
                iterations_per_loop(sess, train, 3)
        assert "enable_data_pre_proc=True" in str(refused.value.hint)
        with ascend_session(looping(3)) as sess:
            sess.run([tf.global_variables_initializer(), iterator.initializer])
            sess.run(iterations_per_loop(sess, train, 3))
            assert sess.run(total) == 6.0

    @pytest.mark.parametrize("place", ["condition", "order"])
    def test_a_batch_that_the_host_cannot_hand_on_is_refused(self, tf: Any, place: str) -> None:
        iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(9))
        total = tf.get_variable("total", initializer=tf.constant(0, tf.int64))
        if place == "condition":
            tf.disable_control_flow_v2()
            flag = tf.placeholder_with_default(True, [])
            train = tf.assign_add(total, tf.cond(flag, iterator.get_next, lambda: total + 0))
        else:
            with tf.control_dependencies([iterator.get_next()]):
                train = tf.assign_add(total, 1)
        with pytest.raises(UnsupportedError, match="cannot be passed from one step to the next"):
            with ascend_session(options(3)) as sess:
                iterations_per_loop(sess, train, 3)


@pytest.mark.parametrize("form", ["tensor", "name of the tensor", "name of the operation"])
def test_what_depends_on_a_loop_makes_its_steps_however_it_is_fetched(tf: Any, form: str) -> None:
    own = step_of(tf)
    loop = iterations_per_loop(None, own.train, 4)
    with tf.control_dependencies([loop]):
        done = tf.identity(7, name="done")
    fetched = {"tensor": done, "name of the tensor": done.name, "name of the operation": "done"}
    hooks = [IterationsPerLoopHook()]
    scaffold = tf.train.Scaffold(
        local_init_op=tf.group(tf.local_variables_initializer(), own.iterator.initializer)
    )
    with ascend_system(looping(4)) as system:
        with tf.train.MonitoredTrainingSession(
            config=system.session_config(), scaffold=scaffold, hooks=hooks
        ) as sess:
            sess.run(fetched[form])
            assert sess.run([own.step, own.total]) == [4, sum(range(4))]
