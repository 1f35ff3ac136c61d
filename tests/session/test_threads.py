"""Several threads on one system: who may open, what is shared, who shuts down."""

import contextlib
import logging
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, TimeoutError
from pathlib import Path
from typing import Any, Callable, Iterator, List

import pytest

from ascend_session import (
    InitializationError,
    LifecycleError,
    ShutdownError,
    ascend_session,
    ascend_system,
    current_system,
)
from hardware_tests.backend_contract import open_and_close, steps
from tests.channels import Launcher
from tests.session.backends import FailingStart, FailingStop, Waiting, WaitingStop
from tests.signals import signal_this_thread


@pytest.fixture
def worker() -> Iterator[Callable[..., Any]]:
    """Runs a function in another thread, always the same one, and waits for what it returns."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda work, *arguments: pool.submit(work, *arguments).result(60)


@pytest.fixture
def eager_switching() -> Iterator[None]:
    """Lets threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def leave(block: Any) -> None:
    block.__exit__(None, None, None)


def answer(tf: Any, number: int) -> int:
    """Opens a session with a graph of its own, in whatever thread this is."""
    with tf.Graph().as_default() as graph:
        tensor = tf.constant(number)
    with ascend_session(graph=graph) as sess:
        assert tf.get_default_session() is sess
        assert tf.get_default_graph() is graph
        return int(sess.run(tensor))


def test_a_thread_that_comes_while_another_one_opens_waits_and_shares(stub: Any) -> None:
    stub(Waiting)
    with ThreadPoolExecutor(2) as pool:
        block, later = ascend_system(), ascend_system()
        opening = pool.submit(block.__enter__)
        assert Waiting.begun.wait(60)
        waiting = pool.submit(later.__enter__)
        with pytest.raises(TimeoutError):
            waiting.result(0.3)
        Waiting.go_on.set()
        system = opening.result(60)
        assert waiting.result(60) is system is current_system()
        pool.submit(leave, block).result(60)
        assert system.is_open
        pool.submit(leave, later).result(60)
    assert steps(system) == ["initialize", "shutdown"]


def test_threads_that_open_sessions_at_the_same_moment_are_never_refused(tf: Any) -> None:
    barrier = threading.Barrier(4)

    def work(number: int) -> int:
        barrier.wait(60)
        return answer(tf, number)

    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            assert list(pool.map(work, range(4))) == [0, 1, 2, 3]
    assert current_system() is None


def test_a_block_that_is_left_while_a_signal_shuts_down_waits_until_that_has_ended(
    stub: Any,
) -> None:
    stub(WaitingStop)
    block = ascend_system()
    with ThreadPoolExecutor(2) as pool:
        system = pool.submit(block.__enter__).result(30)
        shutdown = pool.submit(system.close)
        assert WaitingStop.begun.wait(30)
        left = pool.submit(leave, block)
        with pytest.raises(TimeoutError):
            left.result(0.3)
        WaitingStop.go_on.set()
        assert shutdown.result(30) == []
        left.result(30)
    assert steps(system).count("shutdown") == 1


class BlockAt(logging.Handler):
    """Has this thread, and another one, enter a block at the moment when a failure is recorded."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        super().__init__()
        self.refusals: List[LifecycleError] = []
        self.later: List[Any] = []
        self._pool = pool

    def emit(self, record: logging.LogRecord) -> None:
        if "failure" in record.getMessage() and not self.later:
            self.later.append(self._pool.submit(open_and_close, ascend_system()))
            with pytest.raises(TimeoutError):
                self.later[0].result(0.3)
            with pytest.raises(LifecycleError) as refused:
                open_and_close(ascend_system())
            self.refusals.append(refused.value)


@pytest.mark.parametrize(
    ("backend", "state"), [(FailingStart, "opening"), (FailingStop, "closing")]
)
def test_a_system_that_is_closed_is_shared_by_nobody_before_it_has_made_way(
    stub: Any, backend: Any, state: str
) -> None:
    stub(backend)
    log = logging.getLogger("ascend_session.session.system")
    with ThreadPoolExecutor(1) as pool:
        handler = BlockAt(pool)
        log.addHandler(handler)
        log.setLevel(logging.DEBUG)
        try:
            with pytest.raises((InitializationError, ShutdownError)):
                open_and_close(ascend_system())
            # The other thread has opened a system of its own, which fails in the same way.
            assert isinstance(handler.later[0].exception(60), (InitializationError, ShutdownError))
        finally:
            log.setLevel(logging.NOTSET)
            log.removeHandler(handler)
    assert [f"is {state}" in refusal.message for refusal in handler.refusals] == [True]
    assert current_system() is None


def test_a_block_that_fails_after_its_system_was_closed_is_no_failure_of_the_rank(
    tf: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    launcher = Launcher(tmp_path)
    for name, value in launcher.environ.items():
        monkeypatch.setenv(name, value)
    opened, closed = threading.Event(), threading.Event()

    def fail() -> None:
        with ascend_system():
            opened.set()
            assert closed.wait(30)
            raise RuntimeError("a consequence")

    with ThreadPoolExecutor(1) as pool:
        left = pool.submit(fail)
        assert opened.wait(30)
        system = current_system()
        assert system is not None
        assert system.close() == []  # as a signal does
        closed.set()
        assert str(left.exception(30)) == "a consequence"
    with launcher:
        (*_, (kind, state)) = launcher.messages()
    assert (kind, state["state"], state["error"]) == ("state", "closed", "")


def test_threads_have_sessions_of_their_own_on_one_system(tf: Any, system: Any) -> None:
    barrier = threading.Barrier(4)

    def work(number: int) -> int:
        barrier.wait(30)
        return answer(tf, number)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [0, 1, 2, 3]
    assert steps(system).count("session open") == steps(system).count("session close") == 4


def test_threads_that_share_an_open_system_are_never_refused(
    system: Any, eager_switching: None
) -> None:
    barrier = threading.Barrier(4)

    def work(_: int) -> List[str]:
        barrier.wait(30)
        return [refusal for refusal in (_shared() for _ in range(1000)) if refusal]

    with ThreadPoolExecutor(4) as pool:
        refused = [refusal for refusals in pool.map(work, range(4)) for refusal in refusals]
    assert (len(refused), set(refused)) == (0, set())


def _shared() -> str:
    try:
        with ascend_system():
            return ""
    except LifecycleError as refusal:
        return refusal.message


def test_a_block_closes_no_session_of_another_thread(tf: Any, system: Any, worker: Any) -> None:
    graph = tf.Graph()
    block = system.session(graph=graph)
    sess = worker(block.__enter__)
    with ascend_session():
        pass
    assert not sess._closed
    worker(leave, block)
    assert sess._closed


def test_the_last_one_out_may_be_another_thread(tf: Any, worker: Any) -> None:
    with ascend_system() as system:
        answer = tf.constant(7)
        block = system.session(graph=answer.graph)
        sess = worker(block.__enter__)
    assert system.is_open
    assert sess.run(answer) == 7
    worker(leave, block)
    assert steps(system)[-2:] == ["session close", "shutdown"]
    # Handlers can be given back in the main thread only; the next system does it.
    with ascend_system() as another:
        assert another is not system


def test_a_block_may_be_left_by_a_thread_that_has_entered_none(tf: Any, worker: Any) -> None:
    block = ascend_system()
    system = block.__enter__()
    worker(leave, block)
    assert steps(system) == ["initialize", "shutdown"]
    assert current_system() is None
    with ascend_system():  # gives the handlers back, which only the main thread can
        pass


class Hold(logging.Handler):
    """Holds a thread that closes a session until the test lets it go on."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.begun, self.go_on = threading.Event(), threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "session close" in record.getMessage():
            self.begun.set()
            assert self.go_on.wait(30)


@pytest.fixture
def hold() -> Iterator[Hold]:
    """Closing a session takes as long as the test says."""
    log, handler = logging.getLogger("ascend_session.session.system"), Hold()
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    yield handler
    log.setLevel(logging.NOTSET)
    log.removeHandler(handler)


def test_ctrl_c_reaches_the_main_thread_while_another_one_closes(
    tf: Any, system: Any, worker: Any, hold: Hold
) -> None:
    block = system.session(graph=tf.Graph())
    worker(block.__enter__)
    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as stack:
        leaving = pool.submit(worker, leave, block)
        stack.callback(hold.go_on.set)
        assert hold.begun.wait(30)
        with pytest.raises(KeyboardInterrupt):
            signal_this_thread(signal.SIGINT)
        hold.go_on.set()
        assert leaving.exception(30) is None
