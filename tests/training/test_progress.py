"""Steps that a rank notes: what the launcher hears of them, and which time counts for the pace."""

import gc
import os
import signal
import threading
import time
import weakref
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional

import numpy as np
import pytest

from ascend_session import ConfigError
from ascend_session.backends import run_times
from ascend_session.backends.tf_sessions import remove_observer
from ascend_session.training import (
    CheckRanksHook,
    IterationsPerLoopHook,
    TellMeStepOrLossHook,
    iterations_per_loop,
    note_step,
    progress,
)
from ascend_session.training.step_hook import StepHook
from tests.channels import Launcher
from tests.compat.surface import of_estimator

_STEP_S = 0.25


class Clock:
    """A clock that stands still unless somebody lets time pass."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def let_pass(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


class Rank:
    """A process of a launch that trains with a clock of its own.

    Args:
        tf: TensorFlow 1.
        launcher: What it reports to.
        clock: The time.
    """

    def __init__(self, tf: Any, launcher: Launcher, clock: Clock) -> None:
        self._tf = tf
        self.launcher = launcher
        self.clock = clock
        self._heard: List[Dict[str, Any]] = []
        self.graph = tf.Graph()
        with self.graph.as_default():
            passes = tf.placeholder_with_default(np.float64(_STEP_S), [])
            self._passes = passes
            self._run = tf.py_func(lambda seconds: clock.let_pass(seconds) or 0, [passes], tf.int64)
        self.session = tf.Session(graph=self.graph)

    def run(self, seconds: float = _STEP_S) -> None:
        """Run a session for so long."""
        self.session.run(self._run, {self._passes: seconds})

    def step(self, number: int, **arguments: Any) -> None:
        """Make a step, and note it."""
        self.run()
        note_step(number, **arguments)

    def open_session(self) -> None:
        """Open another session."""
        self._tf.Session(graph=self.graph).close()

    def hear(self) -> List[Dict[str, Any]]:
        """What the launcher has heard of steps since."""
        return [values for kind, values in self.launcher.messages() if kind == "step"]

    def end(self) -> Optional[Dict[str, Any]]:
        """Report as at exit; return the last pace."""
        progress._send()
        last: Optional[Dict[str, Any]] = self.hear()[-1]["pace"]
        return last


@pytest.fixture(name="launcher")
def _launcher(monkeypatch: Any, tmp_path: Path) -> Iterator[Launcher]:
    progress._forget_in_child()
    with Launcher(tmp_path) as launcher:
        for name, value in launcher.environ.items():
            monkeypatch.setenv(name, value)
        run_times.count_runs()
        yield launcher
    remove_observer(run_times.runs)
    progress._forget_in_child()


@pytest.fixture(name="rank")
def _rank(tf: Any, monkeypatch: Any, launcher: Launcher) -> Rank:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return Rank(tf, launcher, clock)


def _pace(
    steps: int,
    seconds: float,
    first_step_s: Optional[float] = _STEP_S,
    samples: float = 0.0,
) -> Dict[str, Any]:
    first = None if first_step_s is None else pytest.approx(first_step_s)
    counted = {"steps": steps, "seconds": pytest.approx(seconds), "samples": samples}
    return {"first_step_s": first, **counted}


def test_the_launcher_hears_of_steps_twice_a_second_and_of_the_last_one(rank: Rank) -> None:
    heard = []
    for step in range(95, 101):
        rank.run(0.2)
        note_step(np.int64(step), of=100)
        heard.append([(each["step"], each["total"], each["time"]) for each in rank.hear()])
    assert heard == [
        [(95, 100, pytest.approx(100.2))],
        [],
        [],
        [(98, 100, pytest.approx(100.8))],
        [],
        [(100, 100, pytest.approx(101.2))],
    ]
    rank.clock.let_pass(1)
    note_step(107)
    assert [(each["step"], each["total"]) for each in rank.hear()] == [(107, None)]


def test_nothing_is_heard_outside_of_a_launch(rank: Rank, monkeypatch: Any) -> None:
    for name in rank.launcher.environ:
        monkeypatch.delenv(name)
    rank.step(1)
    assert rank.hear() == []


def test_the_first_step_is_apart_and_samples_count_from_the_second_on(rank: Rank) -> None:
    rank.run(30.0)  # initialisers
    rank.run(9.0)  # compiles
    note_step(1, samples=1000)
    assert [each["pace"] for each in rank.hear()] == [None]
    for step in range(2, 7):
        rank.clock.let_pass(0.75)  # reads data
        rank.step(step, samples=np.int32(64))
    assert rank.end() == _pace(5, 5.0, first_step_s=9.0, samples=320)


def _evaluate(rank: Rank) -> None:
    for _ in range(3):
        rank.run(20.0)


def _pause(rank: Rank) -> None:
    rank.clock.let_pass(500.0)
    rank.launcher.receiver.send_paused()


def _open_session(rank: Rank) -> None:
    rank.open_session()
    rank.clock.let_pass(60.0)


@pytest.mark.parametrize("interrupt", [_evaluate, _pause, _open_session])
def test_steps_with_something_else_between_them_do_not_count(
    rank: Rank, interrupt: Callable[[Rank], None]
) -> None:
    rank.step(1)
    rank.hear()
    for step in range(2, 12):
        if step in (4, 8):
            interrupt(rank)
        rank.step(step, samples=8)
    assert rank.end() == _pace(8, 8 * _STEP_S, samples=64)


def test_runs_that_belong_to_each_step_count(rank: Rank) -> None:
    rank.run(7.0)
    for step in range(1, 12):
        rank.run(1.0)  # the discriminator
        rank.step(step)
    assert rank.end() == _pace(10, 10 * (1.0 + _STEP_S), first_step_s=1.0 + _STEP_S)


def test_a_run_of_ten_steps_counts_as_ten(rank: Rank) -> None:
    for number in range(1, 6):
        rank.step(10 * number, samples=80)
    assert rank.end() == _pace(40, 4 * _STEP_S, samples=320)


def test_of_a_script_that_notes_each_tenth_step_the_first_one_is_not_known(rank: Rank) -> None:
    for number in range(1, 41):
        rank.run()
        if number % 10 == 0:
            note_step(number)
    assert rank.end() == _pace(30, 30 * _STEP_S, first_step_s=None)


def test_a_step_with_fewer_runs_than_most_counts_and_one_with_more_does_not(rank: Rank) -> None:
    for step in range(1, 14):
        for _ in range(1 if step in (3, 9) else 3 if step == 6 else 2):
            rank.run()
        note_step(step)
    assert rank.end() == _pace(11, 9 * 2 * _STEP_S + 2 * _STEP_S, first_step_s=2 * _STEP_S)


def test_a_process_that_is_forked_while_a_thread_notes_a_step_can_note_its_own(
    rank: Rank, monkeypatch: Any
) -> None:
    rank.step(1)
    is_noting, may_go_on = threading.Event(), threading.Event()
    note_in_thread = threading.Thread(target=lambda: note_step(2))

    def wait_in_thread() -> float:
        if threading.current_thread() is note_in_thread:
            is_noting.set()
            may_go_on.wait(60)
        return rank.clock()

    monkeypatch.setattr(time, "monotonic", wait_in_thread)
    note_in_thread.start()
    assert is_noting.wait(60)
    child = os.fork()
    if not child:
        signal.alarm(60)  # ends a child that waits for a thread which it has not
        note_step(7)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    may_go_on.set()
    note_in_thread.join(60)
    assert status == 0
    assert [each["step"] for each in rank.hear()][-1] == 7


def test_a_second_training_begins_anew_and_adds_its_steps(rank: Rank) -> None:
    for _ in range(2):
        for step in range(1, 6):
            rank.step(step)
    assert rank.end() == _pace(8, 8 * _STEP_S)


def test_what_the_script_notes_itself_is_what_counts(rank: Rank) -> None:
    for number in range(5):
        rank.run()
        progress.note_step_of_hook(number + 1)
        note_step(number, samples=4)
    assert rank.end() == _pace(4, 4 * _STEP_S, samples=16)


def test_samples_of_a_step_that_is_noted_twice_are_added(rank: Rank) -> None:
    for number in range(1, 6):
        rank.step(number)
        note_step(number, samples=4)
    assert rank.end() == _pace(4, 4 * _STEP_S, samples=16)


@pytest.mark.parametrize("step", ["7", 7.0, True, None])
def test_a_step_that_is_no_integer_is_refused(step: Any) -> None:
    with pytest.raises(TypeError, match="note_step: step must be an int, this is "):
        note_step(step)


def test_a_total_that_is_no_integer_is_refused() -> None:
    with pytest.raises(TypeError, match="note_step: of must be an int, this is '1e3'"):
        note_step(1, of="1e3")  # type: ignore[arg-type]


@pytest.mark.parametrize("samples", ["64", True, [64]])
def test_samples_that_are_no_number_are_refused(samples: Any) -> None:
    with pytest.raises(TypeError, match="note_step: samples must be a number, this is "):
        note_step(1, samples=samples)


@pytest.mark.parametrize("samples", [0, -1, float("nan"), float("inf")])
def test_samples_that_are_not_positive_are_refused(samples: float) -> None:
    with pytest.raises(ConfigError, match=r"note_step: samples=.* must be positive"):
        note_step(1, samples=samples)


def test_a_negative_step_is_refused() -> None:
    with pytest.raises(ConfigError, match="step=-1 must not be negative"):
        note_step(-1)


@pytest.mark.parametrize("hook", ["check", "loss", "loop", "npu_bridge"])
@pytest.mark.filterwarnings("ignore:The configuration of this session does not set")
def test_hooks_note_the_global_step(tf: Any, rank: Rank, monkeypatch: Any, hook: str) -> None:
    for name in ("LOSS_NOW", "TARGET_LOSS"):
        monkeypatch.setenv(name, "")  # the hook sets them
    with tf.Graph().as_default():
        train_op = tf.train.get_or_create_global_step().assign_add(1)
        made = 1
        if hook == "check":
            own: Any = CheckRanksHook()
        elif hook == "npu_bridge":
            own = of_estimator("npu_hook").NPUBroadcastGlobalVariablesHook(0, 0)
        elif hook == "loss":
            own = TellMeStepOrLossHook(loss=tf.constant(2.0, name="loss"), final_loss=1.0)
        else:
            made, own = 5, IterationsPerLoopHook()
            train_op = iterations_per_loop(None, train_op, made)
        with tf.train.MonitoredSession(hooks=[own]) as sess:
            for _ in range(6):
                rank.clock.let_pass(1.0)
                sess.run(train_op)
    progress._send()
    last = rank.hear()[-1]
    # The step is read beside the run that makes it.
    assert last["step"] in (6 * made, 6 * made - 1, 5 * made)
    assert 4 * made <= last["pace"]["steps"] <= 6 * made


@pytest.mark.parametrize("kind", ["resource", "reference"])
def test_a_step_is_found_by_its_name_if_the_script_has_not_registered_it(
    tf: Any, rank: Rank, kind: str
) -> None:
    with tf.Graph().as_default():
        is_resource = kind == "resource"
        step = tf.Variable(0, trainable=False, name="global_step", use_resource=is_resource)
        train_op = step.assign_add(1)
        with tf.train.MonitoredSession(hooks=[StepHook()]) as sess:
            for _ in range(3):
                sess.run(train_op)
    progress._send()
    assert rank.hear()[-1]["step"] in (2, 3)


def test_what_is_no_step_but_has_its_name_is_left_alone(tf: Any, rank: Rank) -> None:
    for dtype in (tf.int64, tf.float32):
        with tf.Graph().as_default():
            tf.placeholder(dtype, [], name="global_step")
            three = tf.constant(3)
            with tf.train.MonitoredSession(hooks=[StepHook()]) as sess:
                assert sess.run(three) == 3
    progress._send()
    assert rank.hear() == []


def test_graphs_are_freed_whose_collectives_were_measured(tf: Any, launcher: Launcher) -> None:
    run_times.report_gaps()
    graph = tf.Graph()
    with graph.as_default(), tf.Session() as session:
        session.run(tf.constant(1.0, name="HcomAllReduce"))
    remains = weakref.ref(graph)
    del graph, session
    gc.collect()
    assert remains() is None
    run_times._forget_in_child()


def test_the_first_step_has_its_time_although_a_hook_runs_the_session_after_it(
    tf: Any, rank: Rank
) -> None:
    class Reads(tf.train.SessionRunHook):  # type: ignore[misc,name-defined]
        """Reads the step after the first run, as the hook of TensorFlow that saves summaries."""

        has_read = False

        def begin(self) -> None:
            self.step = tf.train.get_global_step()

        def after_run(self, run_context: Any, run_values: Any) -> None:
            if not self.has_read:
                self.has_read = True
                run_context.session.run(self.step)

    with tf.Graph().as_default():
        passes = tf.py_func(lambda: rank.clock.let_pass(2.0) or np.int64(0), [], tf.int64)
        with tf.control_dependencies([passes]):
            train_op = tf.train.get_or_create_global_step().assign_add(1)
        with tf.train.MonitoredSession(hooks=[Reads(), StepHook()]) as sess:
            for _ in range(6):
                sess.run(train_op)
    pace = rank.end()
    assert pace is not None
    assert pace["first_step_s"] == pytest.approx(2.0)
