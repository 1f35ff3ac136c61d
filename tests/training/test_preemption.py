"""SIGTERM during training: what is saved, how the process ends, and where it goes on."""

import os
import signal
from pathlib import Path
from typing import Any, Callable, Iterator, List, Sequence

import numpy as np
import pytest

from ascend_session import LaunchConfig, LaunchResult, LifecycleError, launch
from ascend_session.training import SaveOnPreemptionHook, note_first_step, note_step, progress
from tests.channels import Launcher
from tests.running import Ended, Host
from tests.signals import signal_this_thread
from tests.training.conftest import Equals, install

_PROGRAM = Path(__file__).parent / "programs" / "resumable.py"
_REPOSITORY = Path(__file__).resolve().parents[2]


class TestOneProcess:
    @pytest.fixture
    def preempted(self, programs: Host, tmp_path: Path) -> Callable[..., Ended]:
        """Sends a signal to a program that trains, and says how it ended."""

        def run(when: str, *trained: str, signals: int = 1, number: int = signal.SIGTERM) -> Ended:
            os.mkfifo(str(tmp_path / "gate"))
            with programs.start("preempted", when, str(tmp_path)) as program:
                for line in (*trained, "ready"):
                    program.expect(line)
                for _ in range(signals):
                    program.send(number)
                # Also for reading: then it waits for nobody, if the program has ended already.
                gate = os.open(str(tmp_path / "gate"), os.O_RDWR)
                ended = program.end()
                os.close(gate)
                return ended

        return run

    @pytest.mark.parametrize("signals", [1, 2])
    @pytest.mark.smoke
    def test_a_signal_during_a_step_saves_after_that_step_and_ends_with_143(
        self, tf: Any, preempted: Any, tmp_path: Path, signals: int
    ) -> None:
        ended = preempted("during_a_step", "trained", "trained", signals=signals)
        assert (ended.code, ended.lines) == (143, []), ended.log
        assert f"SIGTERM: saved step 3 in {tmp_path}; the job exits with code 143" in ended.log
        assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model.ckpt-3")
        assert tf.train.load_variable(str(tmp_path), "global_step") == 3
        assert ended.events[-1] == "shutdown"

    def test_ctrl_c_saves_too_where_it_is_asked_for_and_ends_with_130(
        self, tf: Any, preempted: Any, tmp_path: Path
    ) -> None:
        ended = preempted("interrupted", "trained", "trained", number=signal.SIGINT)
        assert (ended.code, ended.lines) == (130, []), ended.log
        assert f"SIGINT: saved step 3 in {tmp_path}; the job exits with code 130" in ended.log
        assert tf.train.load_variable(str(tmp_path), "global_step") == 3
        assert ended.events[-1] == "shutdown"

    def test_ctrl_c_saves_nothing_where_it_is_not_asked_for(
        self, tf: Any, preempted: Any, tmp_path: Path
    ) -> None:
        ended = preempted("during_a_step", "trained", "trained", number=signal.SIGINT)
        assert "KeyboardInterrupt" in ended.log
        assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model.ckpt-0")

    def test_a_signal_after_the_last_step_ends_the_process_when_that_is_saved(
        self, tf: Any, preempted: Any, tmp_path: Path
    ) -> None:
        ended = preempted("after_the_last_step", "trained", "trained", "trained")
        assert (ended.code, ended.lines) == (-signal.SIGTERM, []), ended.log
        assert tf.train.load_variable(str(tmp_path), "global_step") == 3

    def test_a_signal_after_an_error_has_ended_the_training_ends_the_process(
        self, preempted: Any
    ) -> None:
        ended = preempted("after_an_error")
        assert (ended.code, ended.lines) == (-signal.SIGTERM, []), ended.log

    def test_a_session_of_another_thread_is_refused(self, programs: Host, tmp_path: Path) -> None:
        ended = programs.run("preempted", "in_another_thread", str(tmp_path))
        assert ended.lines == ["still there"]
        assert "LifecycleError: SaveOnPreemptionHook takes SIGTERM, which only" in ended.log


class Agreeing(Equals):
    """Ranks that ask for the same; notes at each of their agreements what was saved by then."""

    def __init__(self, folder: Path) -> None:
        super().__init__(2)
        self.saved: List[List[str]] = []
        self._folder = folder

    def allreduce(
        self, tensor: Any, reduction: str, fusion: int, fusion_id: int, group: str
    ) -> Any:
        """What this rank asks for."""
        import tensorflow.compat.v1 as tf

        def agree(request: Any) -> Any:
            self.saved.append([path.name for path in self._folder.glob("*.index")])
            return request

        agreed = tf.numpy_function(agree, [tensor], tensor.dtype)
        agreed.set_shape(tensor.shape)
        return agreed


def test_no_rank_ends_before_the_checkpoint_is_there(
    tf: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    ranks = Agreeing(tmp_path)
    install(monkeypatch, ranks, 2)
    train_op = tf.train.get_or_create_global_step().assign_add(1)

    def train() -> None:
        with tf.train.MonitoredSession(hooks=[SaveOnPreemptionHook(str(tmp_path))]) as sess:
            sess.run(train_op)
            signal_this_thread(signal.SIGTERM)
            sess.run(train_op)

    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit, match="143"):
            train()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ranks.saved == [[], [], ["model.ckpt-2.index"]]


def test_training_goes_on_where_the_launchers_folder_is_gone(
    monkeypatch: Any, tmp_path: Path
) -> None:
    with Launcher(tmp_path / "gone") as launcher:
        for name, value in launcher.environ.items():
            monkeypatch.setenv(name, value)
    note_first_step(40)
    note_step(1)
    assert not list(tmp_path.iterdir())


@pytest.fixture(name="launcher")
def _launcher(monkeypatch: Any, tmp_path: Path) -> Iterator[Launcher]:
    progress._forget_in_child()
    with Launcher(tmp_path) as launcher:
        yield launcher
    progress._forget_in_child()


def _launched(monkeypatch: Any, launcher: Launcher) -> None:
    for name, value in launcher.environ.items():
        monkeypatch.setenv(name, value)


def test_steps_of_training_reach_the_launcher(
    tf: Any, monkeypatch: Any, launcher: Launcher, tmp_path: Path
) -> None:
    _launched(monkeypatch, launcher)
    train_op = tf.train.get_or_create_global_step().assign_add(1)
    with tf.train.MonitoredSession(hooks=[SaveOnPreemptionHook(str(tmp_path))]) as sess:
        sess.run(train_op)
    messages = dict(launcher.messages())
    assert messages["first_step"] == {"step": 0}
    assert messages["step"]["step"] in (0, 1)  # read beside the step


class TestTheGraph:
    def test_needs_a_global_step(self, tf: Any, tmp_path: Path) -> None:
        with pytest.raises(LifecycleError, match="the graph has no global step"):
            SaveOnPreemptionHook(str(tmp_path)).begin()

    def test_needs_something_that_advances_it(self, tf: Any, tmp_path: Path) -> None:
        tf.train.get_or_create_global_step()
        with pytest.raises(LifecycleError, match="nothing in the graph advances the global step"):
            SaveOnPreemptionHook(str(tmp_path)).begin()


def test_keras_cannot_have_it_as_a_callback(tf: Any, tmp_path: Path) -> None:
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Dense(1)])
    model.compile("sgd", "mse")
    data = np.ones([4, 1], "float32")
    with pytest.raises(LifecycleError, match="hook of sessions, and Keras takes callbacks"):
        model.fit(data, data, callbacks=[SaveOnPreemptionHook(str(tmp_path))], verbose=0)


def test_an_evaluation_is_told_to_leave_it_out(tf: Any, tmp_path: Path) -> None:
    tf.train.get_or_create_global_step()
    with pytest.raises(LifecycleError, match="To evaluate or predict, leave the hook out"):
        tf.train.MonitoredSession(hooks=[SaveOnPreemptionHook(str(tmp_path))])


@pytest.mark.parametrize("folder", [None, ""])
def test_only_the_rank_that_saves_needs_a_folder(
    tf: Any, monkeypatch: Any, tmp_path: Path, folder: Any
) -> None:
    install(monkeypatch, Agreeing(tmp_path), 2)
    tf.train.get_or_create_global_step().assign_add(1)
    monkeypatch.setenv("RANK_ID", "1")
    SaveOnPreemptionHook(folder).begin()
    monkeypatch.setenv("RANK_ID", "0")
    with pytest.raises(TypeError, match="must be a folder's path on rank 0, this is"):
        SaveOnPreemptionHook(folder).begin()


@pytest.mark.parametrize("folder", [b"here", 3])
def test_the_folder_is_a_path(folder: Any) -> None:
    with pytest.raises(TypeError, match="checkpoint_dir must be a folder's path"):
        SaveOnPreemptionHook(folder)


def test_a_saver_and_a_scaffold_are_refused_on_each_rank(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a saver or a scaffold"):
        SaveOnPreemptionHook(str(tmp_path), saver=object(), scaffold=object())


@pytest.fixture(scope="module")
def train(tmp_path_factory: Any, forking_python: str) -> Callable[[int], LaunchResult]:
    """Trains on three ranks, the last of which sends itself a signal before the fifth step."""

    def run(number: int) -> LaunchResult:
        folder = tmp_path_factory.mktemp("job")
        null = os.open(os.devnull, os.O_WRONLY)
        config = LaunchConfig(
            python=forking_python,
            script=str(_PROGRAM),
            args=[str(folder / "checkpoints"), str(int(number))],
            processes=3,
            backend="stub",
            env={"PYTHONPATH": str(_REPOSITORY), "TF_CPP_MIN_LOG_LEVEL": "2"},
            log_dir=str(folder / "logs"),
            max_restarts=1,
            stall_timeout=120,
        )
        try:
            return launch(config, output=null)
        finally:
            os.close(null)

    return run


@pytest.fixture(scope="module")
def untouched(train: Callable[[int], LaunchResult]) -> LaunchResult:
    """The same without a signal."""
    return train(0)


class TestAJob:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
    def test_goes_on_in_the_next_attempt_and_comes_to_the_same_weights(
        self, train: Any, untouched: LaunchResult, number: int
    ) -> None:
        disturbed = train(number)
        assert (untouched.code, disturbed.code) == (0, 0)
        first, second = disturbed.attempts
        assert first.cause.exit_code == 128 + number
        assert (first.first_step, second.cause) == (0, None)
        # The signal comes before the fifth step; checkpoints are made of every second.
        assert second.first_step == (5 if number == signal.SIGTERM else 4)
        weights = _stdout(untouched, 0)
        assert len(weights) == 1
        assert _stdout(disturbed, 0) == _stdout(disturbed, 1) == _stdout(disturbed, 2) == weights


def _stdout(result: LaunchResult, rank: int) -> List[str]:
    return Path(result.ranks[rank].stdout).read_text().splitlines()


class TestTheSaver:
    """Of the hook, in a job of one."""

    @pytest.fixture(autouse=True)
    def _sigterm(self) -> Iterator[None]:
        before = signal.getsignal(signal.SIGTERM)
        yield
        signal.signal(signal.SIGTERM, before)

    @staticmethod
    def _train(tf: Any, folder: Path, hooks: Sequence[Any], **arguments: Any) -> None:
        """Two steps, and SIGTERM in the second; the session itself saves before the first."""
        train_op = tf.train.get_or_create_global_step().assign_add(1)

        def train() -> None:
            with tf.train.MonitoredTrainingSession(
                checkpoint_dir=str(folder),
                hooks=hooks,
                save_checkpoint_secs=None,
                save_checkpoint_steps=100,
                save_summaries_steps=None,
                **arguments,
            ) as sess:
                sess.run(train_op)
                signal_this_thread(signal.SIGTERM)
                sess.run(train_op)

        with pytest.raises(SystemExit, match="143"):
            train()

    @pytest.mark.parametrize("is_given", [False, True])
    def test_a_sharded_saver_is_not_used(self, tf: Any, tmp_path: Path, is_given: bool) -> None:
        weight = tf.get_variable("weight", initializer=5.0)
        other = tf.get_variable("other", initializer=6.0)
        tf.train.get_or_create_global_step()
        variables = [weight, *tf.get_collection(tf.GraphKeys.GLOBAL_STEP)]
        saver = tf.train.Saver(variables, sharded=True, max_to_keep=3) if is_given else None
        hook = SaveOnPreemptionHook(str(tmp_path), saver)
        self._train(tf, tmp_path, [hook])
        assert not hook._saver._sharded
        saved = {name for name, _ in tf.train.list_variables(str(tmp_path / "model.ckpt-2"))}
        assert saved == {"global_step", "weight", *([] if is_given else [other.op.name])}
        # The one that the session's own saver has written is kept.
        kept = [Path(each).name for each in _checkpoints(tf, tmp_path)]
        assert kept == ["model.ckpt-0", "model.ckpt-2"]

    def test_the_graphs_saver_is_taken_as_it_is_if_it_is_not_sharded(
        self, tf: Any, tmp_path: Path
    ) -> None:
        tf.train.get_or_create_global_step()
        saver = tf.train.Saver(max_to_keep=1)
        tf.add_to_collection(tf.GraphKeys.SAVERS, saver)
        hook = SaveOnPreemptionHook(str(tmp_path))
        self._train(tf, tmp_path, [hook])
        assert hook._saver is saver
        assert [Path(each).name for each in _checkpoints(tf, tmp_path)] == ["model.ckpt-2"]

    def test_a_scaffold_may_have_a_saver_of_its_own(self, tf: Any, tmp_path: Path) -> None:
        tf.train.get_or_create_global_step()
        scaffold = tf.train.Scaffold(saver=tf.train.Saver())
        self._train(tf, tmp_path, [SaveOnPreemptionHook(str(tmp_path))], scaffold=scaffold)
        assert tf.train.load_variable(str(tmp_path), "global_step") == 2

    def test_variables_of_a_later_hook_are_refused_rather_than_left_out(
        self, tf: Any, tmp_path: Path
    ) -> None:
        class Adds(tf.train.SessionRunHook):  # type: ignore[misc,name-defined]
            def begin(self) -> None:
                tf.get_variable("late", initializer=1.0)

        tf.train.get_or_create_global_step().assign_add(1)
        with pytest.raises(LifecycleError, match="would not save late:0") as refused:
            tf.train.MonitoredSession(hooks=[SaveOnPreemptionHook(str(tmp_path)), Adds()])
        assert "last among the hooks" in str(refused.value.hint)

    def test_several_savers_are_refused(self, tf: Any, tmp_path: Path) -> None:
        tf.train.get_or_create_global_step().assign_add(1)
        for _ in range(2):
            tf.add_to_collection(tf.GraphKeys.SAVERS, tf.train.Saver())
        with pytest.raises(LifecycleError, match="The graph has 2 savers"):
            SaveOnPreemptionHook(str(tmp_path)).begin()


def _checkpoints(tf: Any, folder: Path) -> Sequence[str]:
    """The checkpoints that the folder's state file names, the oldest first."""
    paths: Sequence[str] = tf.train.get_checkpoint_state(str(folder)).all_model_checkpoint_paths
    return paths
