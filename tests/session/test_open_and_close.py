"""Without blocks, as in the cells of a notebook: ``open()`` and ``close()``."""

from typing import Any

import pytest

from ascend_session import LifecycleError, ascend_session, ascend_system, current_system
from hardware_tests.backend_contract import steps


def test_a_session_is_open_from_open_to_close_and_the_default_meanwhile(tf: Any) -> None:
    with tf.Graph().as_default() as graph:
        answer = tf.constant(7)
    session = ascend_session(graph=graph)
    sess = session.open()
    assert tf.get_default_session() is sess
    assert sess.run(answer) == 7
    system = current_system()
    assert system is not None
    session.close()
    session.close()
    assert tf.get_default_session() is None
    assert current_system() is None
    assert steps(system)[-2:] == ["session close", "shutdown"]


def test_a_system_is_open_from_open_to_close_and_sessions_share_it(tf: Any) -> None:
    opened = ascend_system()
    system = opened.open()
    with system.session(graph=tf.Graph()), ascend_session(graph=tf.Graph()):
        pass
    assert current_system() is system
    opened.close()
    assert not system.is_open


def test_the_same_cell_run_twice_says_what_to_do(tf: Any) -> None:
    graph = tf.Graph()

    def cell() -> Any:
        session = ascend_session(graph=graph)
        return session, session.open()

    session, sess = cell()
    with pytest.raises(LifecycleError, match=r"on the same graph .* run twice") as refused:
        cell()
    assert "current_system().close()" in str(refused.value.hint)
    assert not sess._closed
    session.close()
    session, _ = cell()
    system = current_system()
    assert system is not None
    system.close()  # as the hint has it
    session, _ = cell()
    session.close()


def test_the_same_cell_run_twice_opens_no_second_system(tf: Any) -> None:
    opened = ascend_system()
    opened.open()
    with pytest.raises(LifecycleError, match="still open; was this cell run twice"):
        ascend_system().open()
    opened.close()
    opened = ascend_system()
    opened.open()
    opened.close()


def test_two_graphs_have_sessions_of_their_own(tf: Any) -> None:
    first, second = (ascend_session(graph=tf.Graph()) for _ in range(2))
    assert first.open() is not second.open()
    second.close()
    first.close()
    assert current_system() is None


def test_opening_the_same_object_twice_is_refused(tf: Any) -> None:
    session = ascend_session(graph=tf.Graph())
    session.open()
    with pytest.raises(LifecycleError, match=r"This ascend_session\(...\) is open already"):
        session.open()
    session.close()
    with pytest.raises(LifecycleError, match="was used already") as refused:
        session.open()
    assert "or each open()" in str(refused.value.hint)


def test_closing_what_was_not_opened_is_refused() -> None:
    with pytest.raises(LifecycleError, match="was not entered") as refused:
        ascend_system().close()
    assert ".open()" in str(refused.value.hint)


def test_closing_the_outer_one_first_closes_all_and_says_so(tf: Any) -> None:
    outer, inner = ascend_session(graph=tf.Graph()), ascend_session(graph=tf.Graph())
    outer.open()
    sess = inner.open()
    with pytest.raises(LifecycleError, match="was left while 1 session"):
        outer.close()
    assert sess._closed
    assert current_system() is None
