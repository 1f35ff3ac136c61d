"""The system session: it runs the initialise op and stays open as long as the system."""

import threading
from concurrent.futures import ThreadPoolExecutor, TimeoutError
from typing import Any

import pytest

from ascend_session import LifecycleError
from ascend_session.backends import backend_class

StubBackend: Any = backend_class("stub")


@pytest.fixture
def opened(tf: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A backend that is initialised, and the sessions that it made."""
    made = []
    original = tf.Session

    def make(*arguments: Any, **options: Any) -> Any:
        made.append(original(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(tf, "Session", make)
    backend = StubBackend({})
    backend.initialize(tf.ConfigProto(operation_timeout_in_ms=60000), {})
    yield backend, made
    backend.close()


def test_the_ops_are_in_a_graph_of_their_own_that_nobody_can_change(tf: Any, opened: Any) -> None:
    _, (session,) = opened
    assert session.graph is not tf.get_default_graph()
    assert session.graph.finalized
    names = [operation.name for operation in session.graph.get_operations()]
    assert names == ["NPUInit", "NPUShutdown"]
    assert tf.get_default_graph().get_operations() == []


def test_the_graph_is_built_once_a_process_and_kept_for_each_kind_of_backend(
    tf: Any, opened: Any
) -> None:
    class Another(StubBackend):
        def system_ops(self) -> Any:
            return tf.no_op(name="mine"), tf.no_op(name="too")

    _, made = opened
    for kind in (StubBackend, Another):
        backend = kind({})
        backend.initialize(tf.ConfigProto(), {})
        backend.close()
    first, second, other = [session.graph for session in made]
    assert second is first
    assert [operation.name for operation in other.get_operations()] == ["mine", "too"]


def test_it_has_the_systems_proto(opened: Any) -> None:
    _, (session,) = opened
    assert session._config.operation_timeout_in_ms == 60000


def test_it_stays_open_until_it_is_closed(tf: Any, opened: Any) -> None:
    backend, (session,) = opened
    backend.bring_up()
    with backend.session(tf.Graph(), None) as another:
        assert another is not session
    backend.shutdown()
    assert not session._closed
    backend.close()
    assert session._closed


def test_closing_it_again_does_nothing(opened: Any) -> None:
    backend, (session,) = opened
    for _ in range(2):
        backend.close()
    assert session._closed


def test_a_second_thread_that_closes_it_waits_until_the_first_has_closed_it(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, (session,) = opened
    begun, go_on, close = threading.Event(), threading.Event(), session.close

    def close_slowly() -> None:
        begun.set()
        assert go_on.wait(30)
        close()

    monkeypatch.setattr(session, "close", close_slowly)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(backend.close)
        assert begun.wait(30)
        second = pool.submit(backend.close)
        with pytest.raises(TimeoutError):
            second.result(0.3)
        go_on.set()
        assert (first.result(30), second.result(30)) == (None, None)
    assert session._closed


def test_what_comes_after_another_thread_has_closed_it_is_told_so(opened: Any) -> None:
    backend, _ = opened
    backend.close()
    with pytest.raises(LifecycleError, match="has closed this Ascend system"):
        backend.bring_up()
    backend.shutdown()  # of which nothing is left to do


def test_it_is_never_the_default_session(tf: Any, opened: Any) -> None:
    assert len(opened[1]) == 1
    assert tf.get_default_session() is None
