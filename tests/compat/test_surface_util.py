"""npu_bridge.estimator.npu.util: loops of steps, marks, divisions and small checks."""

import gc
import weakref
from typing import Any, List

import pytest

from ascend_session import AscendConfigWarning, LifecycleError
from tests.compat.surface import of_estimator

util = of_estimator("util")


def counter(tf: Any) -> Any:
    """A variable, and the operation that adds 1 to it."""
    value = tf.get_variable("value", [], tf.int64, tf.zeros_initializer(), use_resource=True)
    return value, tf.assign_add(value, 1).op


def entries(tf: Any, *numbers: int) -> Any:
    """A proto with an entry for each of these numbers; the adapter reads the last one."""
    proto = tf.ConfigProto()
    for n in numbers:
        entry = proto.graph_options.rewrite_options.custom_optimizers.add()
        entry.name = "NpuOptimizer"
        entry.parameter_map["iterations_per_loop"].i = n
    return proto


def session(tf: Any, *numbers: int) -> Any:
    """A session with these entries."""
    return tf.Session(config=entries(tf, *numbers))


def test_a_run_of_the_loop_makes_all_its_steps(tf: Any) -> None:
    value, step = counter(tf)
    with session(tf, 5) as sess:
        sess.run(tf.global_variables_initializer())
        looped = util.set_iteration_per_loop(sess, step, 5)
        assert looped.name == "IterationOp"
        sess.run(looped)
        sess.run(looped)
        assert sess.run(value) == 10


def test_a_session_with_a_loop_is_freed_when_nothing_refers_to_it(tf: Any) -> None:
    with tf.Graph().as_default():
        _, step = counter(tf)
        sess = session(tf, 5)
        sess.run(tf.global_variables_initializer())
        sess.run(util.set_iteration_per_loop(sess, step, 5))
    remains = weakref.ref(sess)
    del sess
    gc.collect()
    assert remains() is None


def test_a_loop_of_one_step_is_the_step_itself(tf: Any) -> None:
    _, step = counter(tf)
    with session(tf, 1) as sess:
        assert util.set_iteration_per_loop(sess, step) is step


def test_what_is_looped_is_checked_as_by_the_vendors(tf: Any) -> None:
    value, step = counter(tf)
    with session(tf, 5) as sess:
        with pytest.raises(ValueError, match="need type is 'Operation'"):
            util.set_iteration_per_loop(sess, value.read_value(), 5)
        with pytest.raises(TypeError):
            util.set_iteration_per_loop(sess, step, "5")
        with pytest.raises(ValueError, match="positive"):
            util.set_iteration_per_loop(sess, step, 0)


def test_another_number_than_the_entrys_is_warned_of(tf: Any) -> None:
    value, step = counter(tf)
    with session(tf, 6, 5) as sess:
        sess.run(tf.global_variables_initializer())
        with pytest.warns(AscendConfigWarning, match="6 steps, but .* iterations_per_loop=5"):
            looped = util.set_iteration_per_loop(sess, step, 6)
        sess.run(looped)
        assert sess.run(value) == 6


def test_a_one_shot_iterator_is_refused_where_the_adapter_aborts(tf: Any) -> None:
    tf.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next()
    _, step = counter(tf)
    with session(tf, 5) as sess:
        with pytest.raises(LifecycleError, match="one-shot iterator"):
            util.set_iteration_per_loop(sess, step, 5)


def test_the_number_of_steps_can_be_said_later_and_to_each_session(tf: Any) -> None:
    value, step = counter(tf)
    looping = util.IterationPerLoop()
    looped = looping.create_iteration_per_loop_var(step)
    with session(tf, 3) as one, session(tf, 4) as other:
        for sess, n in ((one, 3), (other, 4)):
            sess.run(tf.global_variables_initializer())
            looping.load_iteration_per_loop_var(sess, n)
        one.run(looped)
        other.run(looped)
        assert (one.run(value), other.run(value)) == (3, 4)


def test_hooks_see_the_last_step_of_a_run(tf: Any) -> None:
    seen = []
    step = tf.train.get_or_create_global_step()
    looping = util.IterationPerLoop()
    looped = looping.create_iteration_per_loop_var(tf.group(tf.assign_add(step, 1)))
    hooks = [tf.train.StopAtStepHook(last_step=9)]
    with tf.train.MonitoredTrainingSession(config=entries(tf, 3), hooks=hooks) as sess:
        for _ in range(2):  # as when it is called before each epoch
            looping.load_iteration_per_loop_var(sess, 3)
        while not sess.should_stop():
            sess.run(looped)
            seen.append(sess.run_step_fn(lambda step_context: step_context.session.run(step)))
    assert seen == [3, 6, 9]


def test_what_a_hook_feeds_is_fed_to_each_step_of_a_run(tf: Any) -> None:
    value = tf.get_variable("value", initializer=0.0)
    rate = tf.placeholder(tf.float32, [])
    looping = util.IterationPerLoop()
    looped = looping.create_iteration_per_loop_var(tf.assign_add(value, rate).op)
    hooks = [tf.train.FeedFnHook(lambda: {rate: 2.0})]
    with tf.train.MonitoredTrainingSession(config=entries(tf, 3), hooks=hooks) as sess:
        looping.load_iteration_per_loop_var(sess, 3)
        sess.run(looped)
        assert sess.run_step_fn(lambda step_context: step_context.session.run(value)) == 6.0


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("session_kind", ["MonitoredSession", "SingularMonitoredSession"])
def test_the_hooks_that_a_script_gave_stay_as_they_are(
    tf: Any, kind: Any, session_kind: str
) -> None:
    step = tf.train.get_or_create_global_step()
    looping = util.IterationPerLoop()
    looped = looping.create_iteration_per_loop_var(tf.group(tf.assign_add(step, 1)))
    given = [tf.train.StopAtStepHook(last_step=3)]
    hooks = kind(given)
    proto = entries(tf, 3)
    arguments = (
        {"session_creator": tf.train.ChiefSessionCreator(config=proto)}
        if session_kind == "MonitoredSession"
        else {"config": proto}
    )
    with getattr(tf.train, session_kind)(hooks=hooks, **arguments) as sess:
        looping.load_iteration_per_loop_var(sess, 3)
        sess.run(looped)
        assert sess.should_stop()
    assert hooks == kind(given)


def test_a_session_that_recovers_keeps_the_hook_of_its_loop(tf: Any) -> None:
    seen: List[int] = []
    step = tf.train.get_or_create_global_step()
    train = tf.assign_add(step, 1)
    looping = util.IterationPerLoop()
    looped = looping.create_iteration_per_loop_var(train.op)

    class FailsOnce(tf.train.SessionRunHook):  # type: ignore[misc]
        def before_run(self, run_context: Any) -> Any:
            return tf.train.SessionRunArgs(train)

        def after_run(self, run_context: Any, run_values: Any) -> None:
            seen.append(int(run_values.results))
            if len(seen) == 1:
                raise tf.errors.AbortedError(None, None, "lost")

        def after_create_session(self, session: Any, coord: Any) -> None:
            if seen:
                looping.load_iteration_per_loop_var(session, 3)

    with tf.train.MonitoredTrainingSession(config=entries(tf, 3), hooks=[FailsOnce()]) as sess:
        looping.load_iteration_per_loop_var(sess, 3)
        sess.run(looped)
    assert seen == [3, 3]


def test_a_session_that_was_told_no_number_is_refused(tf: Any) -> None:
    _, step = counter(tf)
    looping = util.IterationPerLoop()
    with pytest.raises(AttributeError, match="create_iteration_per_loop_var"):
        looping.load_iteration_per_loop_var(None, 2)
    with pytest.raises(TypeError, match="sess must be an open session, this is None"):
        util.set_iteration_per_loop(None, step, 2)
    looped = looping.create_iteration_per_loop_var(step)
    with session(tf, 2) as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        with pytest.raises(LifecycleError, match="how many steps"):
            sess.run(looped)


def test_the_variables_of_the_devices_loop_are_local_and_made_once(tf: Any) -> None:
    one = util.create_or_get_var("iterations_per_loop")
    assert util.create_or_get_var("iterations_per_loop") is one
    assert one.name == "npu_runconfig/iterations_per_loop:0"
    assert tf.get_collection("npu_runconfig_iterations_per_loop") == [one]
    assert one in tf.local_variables()
    assert one not in tf.global_variables()


def test_marks_stand_on_the_operators(tf: Any) -> None:
    one = tf.constant([1.0], name="one")
    two = tf.identity(one, name="two")
    assert util.set_graph_exec_config([one.op, two], dynamic_input=True) == [one.op, two]
    assert util.set_graph_exec_config("two:0", is_train_graph=True) is two
    util.set_op_tensor_max_range(two, "4,4")
    util.set_op_tensor_max_size(two.op, 64)
    util.set_op_input_tensor_multi_dims(two, "x:-1", "1;2")
    util.keep_tensors_dtypes(two.graph, ["two:0"])
    assert one.op.get_attr("_graph_dynamic_input") is True
    assert two.op.get_attr("_is_train_graph") is True
    assert two.op.get_attr("_op_max_shape") == b"4,4"
    assert (two.op.get_attr("_op_max_size"), two.op.get_attr("_keep_dtype")) == (64, 1)
    with tf.Session() as sess:
        assert sess.run(two) == [1.0]
    for wrong in ({"fetch": 5}, {"fetch": two, "dynamic_graph_execute_mode": "x"}):
        with pytest.raises(ValueError, match=r"should be"):
            util.set_graph_exec_config(**wrong)


def test_values_are_kept_from_when_the_dict_is_made(monkeypatch: Any) -> None:
    monkeypatch.setattr(util, "_VALUES", [])
    with pytest.raises(NameError, match="init_resource"):
        util.get_value("npu_rank_id", 0)
    util.global_dict_init()
    assert util.get_value("npu_rank_id", 0) == 0
    util.set_value("npu_rank_id", 3)
    assert util.get_value("npu_rank_id", 0) == 3


def test_the_number_of_ranks_comes_from_one_variable_of_two(monkeypatch: Any) -> None:
    assert util.get_ranksize() == "1"
    monkeypatch.setenv("CM_WORKER_SIZE", "4")
    assert util.get_ranksize() == "4"
    monkeypatch.setenv("RANK_SIZE", "8")
    with pytest.raises(ValueError, match="at the same time"):
        util.get_ranksize()


def test_small_checks(tmp_path: Any) -> None:
    assert util.convert_bool_to_int(True) == 1
    assert util.convert_bool_to_int(1) == -1
    assert util.format_string(None, "x") == ""
    assert util.check_profiling_options(["task_time", "op_trace"]) == "task_time:op_trace"
    assert util.check_path(str(tmp_path)) == str(tmp_path.resolve())
    refused = [
        lambda: util.check_not_none(None, "x"),
        lambda: util.check_nonnegative_integer(-1, "x"),
        lambda: util.check_bool_type(1, "x"),
        lambda: util.format_string(1, "x"),
        lambda: util.check_profiling_options([]),
        lambda: util.check_profiling_options(["task_trace"]),
        lambda: util.check_path(str(tmp_path / "none")),
        lambda: util.check_aoe_mode("3"),
    ]
    for call in refused:
        with pytest.raises((ValueError, TypeError)):
            call()
