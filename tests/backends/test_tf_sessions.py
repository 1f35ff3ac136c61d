"""Each session of this process is seen while it opens, runs and closes, whoever makes it."""

import gc
import os
import subprocess
import sys
import threading
from typing import Any, Callable, Iterator, List, Optional, Tuple

import pytest

from ascend_session.backends import tf_sessions
from ascend_session.backends._tensorflow import disown
from ascend_session.backends.tf_sessions import (
    SessionObserver,
    add_observer,
    open_sessions,
    remove_observer,
)


class Recorder(SessionObserver):
    """Notes what it sees: the operations of runs by their names."""

    def __init__(self) -> None:
        self.opened: List[Any] = []
        self.runs: List[Tuple[str, ...]] = []
        self.closed: List[Any] = []

    def open(
        self, create: Callable[..., None], session: Any, target: Any, graph: Any, config: Any
    ) -> None:
        create(session, target, graph, config)
        self.opened.append(session)

    def before_run(self, session: Any, list_operations: Callable[[], List[Any]]) -> None:
        self.runs.append(tuple(sorted(each.name for each in list_operations())))

    def before_close(self, session: Any, error: Optional[BaseException]) -> None:
        assert session.run("three:0") == 3
        self.closed.append(session)


@pytest.fixture
def recorder(tf: Any) -> Iterator[Recorder]:
    recorder = Recorder()
    with tf.Graph().as_default():
        tf.constant(3, name="three")
        tf.placeholder_with_default(4, [], name="four")
        add_observer(recorder)
        yield recorder
        remove_observer(recorder)


def _three(tf: Any) -> Any:
    return tf.get_default_graph().get_tensor_by_name("three:0")


def _four(tf: Any) -> Any:
    return tf.get_default_graph().get_tensor_by_name("four:0")


def test_a_session_is_seen_from_its_opening_to_its_end(tf: Any, recorder: Recorder) -> None:
    with tf.Session() as session:
        assert recorder.opened == [session]
        assert session in open_sessions()
    assert recorder.closed == [session]
    assert session not in open_sessions()


def test_sessions_that_a_library_makes_are_seen(tf: Any, recorder: Recorder) -> None:
    with tf.train.MonitoredSession() as monitored:
        assert recorder.opened == [monitored._tf_sess()]
    interactive = tf.InteractiveSession()
    interactive.close()
    assert recorder.closed[-1] is interactive
    assert len(recorder.closed) == 2


@pytest.mark.parametrize(
    "fetches",
    [
        lambda tf: _three(tf),
        lambda tf: "three:0",
        lambda tf: _three(tf).op,
        lambda tf: {"a": [_three(tf), "three:0"], "b": (_three(tf).op,)},
    ],
    ids=["tensor", "name", "operation", "nested"],
)
def test_the_operations_of_a_run_are_known_however_they_are_named(
    tf: Any, recorder: Recorder, fetches: Any
) -> None:
    with tf.Session() as session:
        session.run(fetches(tf))
        assert recorder.runs == [("three",)]


def test_what_several_tensors_stand_for_is_known(tf: Any, recorder: Recorder) -> None:
    sparse = tf.SparseTensor(tf.constant([[0]], tf.int64), tf.constant([1]), [1])
    parts = sparse.indices, sparse.values, sparse.dense_shape
    with tf.Session() as session:
        session.run(sparse)
        assert set(recorder.runs[0]) == {each.op.name for each in parts}


def test_a_run_of_what_cannot_be_fetched_is_refused_by_tensorflow(
    tf: Any, recorder: Recorder
) -> None:
    with tf.Session() as session:
        with pytest.raises(TypeError, match="None"):
            session.run(None)
        with pytest.raises(ValueError, match="missing"):
            session.run("missing:0")
        assert recorder.runs == [(), ()]


def test_each_run_of_a_callable_is_seen_once(tf: Any, recorder: Recorder) -> None:
    three, four = _three(tf), _four(tf)
    with tf.Session() as session:
        plain, fed = session.make_callable(three), session.make_callable([four], [four])
        assert recorder.runs == []
        assert [plain(), plain(), fed(5)] == [3, 3, [5]]
        assert recorder.runs == [("three",), ("three",), ("four",)]


def test_runs_of_keras_callables_are_seen(tf: Any, recorder: Recorder) -> None:
    from tensorflow.core.protobuf import config_pb2

    options = config_pb2.CallableOptions(fetch=["three:0"], target=["four"])
    with tf.Session() as session:
        call = session._make_callable_from_options(options)
        assert call()[0] == 3
        assert recorder.runs == [("four", "three")]


def test_partial_runs_are_seen(tf: Any, recorder: Recorder) -> None:
    fed = tf.placeholder(tf.int32, [], name="fed")
    with tf.Session() as session:
        handle = session.partial_run_setup([fed + 0], [fed])
        first = tf.get_default_graph().get_operations()[-1].outputs[0]
        assert session.partial_run(handle, first, {fed: 2}) == 2
        assert recorder.runs == [(first.op.name,)]


def test_a_run_is_seen_in_its_own_thread(tf: Any) -> None:
    class Threads(SessionObserver):
        def __init__(self) -> None:
            self.names: List[str] = []

        def before_run(self, session: Any, list_operations: Any) -> None:
            self.names.append(threading.current_thread().name)

    observer, three = Threads(), tf.constant(3)
    add_observer(observer)
    with tf.Session() as session:
        thread = threading.Thread(target=session.run, args=[three], name="of the run")
        thread.start()
        thread.join()
    remove_observer(observer)
    assert observer.names == ["of the run"]


def test_an_observer_may_refuse_a_session(tf: Any, recorder: Recorder) -> None:
    class Refusing(SessionObserver):
        def open(self, create: Any, session: Any, *arguments: Any) -> None:
            raise ValueError("no session today")

    observer = Refusing()
    add_observer(observer)
    with pytest.raises(ValueError, match="no session today"):
        tf.Session()
    remove_observer(observer)
    gc.collect()  # TensorFlow's __del__ has nothing to complain about (filterwarnings: error)
    assert (recorder.opened, recorder.closed) == ([], [])
    tf.Session().close()
    assert len(recorder.opened) == 1


def test_an_observer_may_replace_what_a_session_is_opened_with(tf: Any, recorder: Recorder) -> None:
    other = tf.Graph()
    with other.as_default():
        tf.constant(3, name="three")

    class Replacing(SessionObserver):
        def open(self, create: Any, session: Any, target: Any, graph: Any, config: Any) -> None:
            create(session, target, other, config)

    observer = Replacing()
    add_observer(observer)
    with tf.Session() as session:
        assert session.graph is other
    remove_observer(observer)


def test_an_observer_that_fails_keeps_no_session_open(tf: Any, recorder: Recorder) -> None:
    class Failing(SessionObserver):
        def before_close(self, session: Any, error: Optional[BaseException]) -> None:
            raise RuntimeError("no digest")

    observer = Failing()
    add_observer(observer)
    session = tf.Session()
    with pytest.raises(RuntimeError, match="no digest"):
        session.close()
    remove_observer(observer)
    assert recorder.closed == [session]
    with pytest.raises(RuntimeError, match="closed"):
        session.run(_three(tf))
    session.close()
    assert recorder.closed == [session]


def test_observers_know_the_exception_that_ends_a_block(tf: Any) -> None:
    errors: List[Optional[BaseException]] = []

    class Noting(SessionObserver):
        def before_close(self, session: Any, error: Optional[BaseException]) -> None:
            errors.append(error)

    observer = Noting()
    add_observer(observer)
    with tf.Session():
        pass
    with pytest.raises(SystemExit) as caught, tf.Session():
        raise SystemExit(0)
    session = tf.Session()
    handled = KeyError("handled")
    try:
        raise handled
    except KeyError:
        session.close()
    remove_observer(observer)
    assert errors == [None, caught.value, handled]


def test_a_reset_closes_the_sessions_of_its_target(tf: Any, recorder: Recorder) -> None:
    session = tf.Session()
    tf.Session.reset("")
    assert recorder.closed == [session]
    assert open_sessions() == []
    with pytest.raises(tf.errors.OpError):
        session.run(_three(tf))
    session.close()
    assert recorder.closed == [session]


def test_a_session_that_nothing_refers_to_is_seen_closing(tf: Any, recorder: Recorder) -> None:
    session = tf.Session()
    recorder.opened.clear()
    del session
    gc.collect()
    assert len(recorder.closed) == 1
    recorder.closed.clear()


def test_a_forked_process_closes_no_session_of_its_parent(tf: Any, recorder: Recorder) -> None:
    session = tf.Session()
    child = os.fork()
    if child == 0:
        disown(session)  # TensorFlow's own close might wait for a lock of the parent
        session.close()
        os._exit(len(recorder.closed) + len(open_sessions()))
    assert os.waitpid(child, 0)[1] == 0
    assert open_sessions() == [session]
    session.close()


def test_an_observer_that_was_removed_sees_nothing(tf: Any, recorder: Recorder) -> None:
    with tf.Session() as session:
        call = session.make_callable(_three(tf))
        remove_observer(recorder)
        session.run(_three(tf))
        call()
    assert (recorder.runs, recorder.closed) == ([], [])


def test_nothing_is_replaced_before_there_is_an_observer() -> None:
    program = (
        "from ascend_session.backends import tf_sessions\n"
        "import tensorflow.compat.v1 as tf\n"
        "from tensorflow.python.client.session import BaseSession as base\n"
        "def methods(): return [base.__init__, base.close, base._run, base.make_callable]\n"
        "before = methods()\n"
        "tf_sessions.open_sessions()\n"
        "assert methods() == before\n"
        "tf_sessions.add_observer(tf_sessions.SessionObserver())\n"
        "once = methods()\n"
        "assert not set(once) & set(before)\n"
        "tf_sessions.add_observer(tf_sessions.SessionObserver())\n"
        "assert methods() == once\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 0, ended.stderr


def test_fetches_are_not_walked_unless_an_observer_asks(
    tf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Idle(SessionObserver):
        def before_run(self, session: Any, list_operations: Any) -> None:
            self.asks = list_operations

    def fail(*arguments: Any) -> None:
        raise AssertionError("the fetches were walked")

    observer = Idle()
    monkeypatch.setattr(tf_sessions, "list_fetched", fail)
    add_observer(observer)
    with tf.Session() as session:
        assert session.run(tf.constant(3)) == 3
    remove_observer(observer)
    with pytest.raises(AssertionError, match="walked"):
        observer.asks()
