"""The order of an operator's runs: the same on all ranks, whatever order they begin in."""

import threading
from typing import List

import pytest

from ascend_session.backends.ranks import turns
from ascend_session.backends.ranks.turns import Turns
from ascend_session.errors import CollectiveError


def test_a_run_that_begins_in_the_midst_of_another_is_refused() -> None:
    order = Turns()
    order.begin("key", "HcomAllReduce", None)
    with pytest.raises(CollectiveError, match='"HcomAllReduce" began again before') as refused:
        order.begin("key", "HcomAllReduce", None)
    assert "parallel_iterations=1" in str(refused.value.hint)
    order.end("key")
    order.begin("key", "HcomAllReduce", None)


def test_other_operators_do_not_matter() -> None:
    order = Turns()
    order.begin("a", "a", None)
    order.begin("b", "b", None)
    order.end("a")
    assert not order.are_idle
    order.end("b")
    assert order.are_idle


def test_iterations_that_begin_in_any_order_go_in_theirs() -> None:
    order, went = Turns(), []  # type: ignore[var-annotated]

    def iterate(turn: int) -> None:
        order.begin("key", "op", turn)
        went.append(turn)
        order.end("key")

    threads: List[threading.Thread] = []
    for turn in (3, 1, 2, 0):
        threads.append(threading.Thread(target=iterate, args=(turn,)))
        threads[-1].start()
    for thread in threads:
        thread.join(60)
    assert went == [0, 1, 2, 3]


def test_a_loop_may_begin_anew_before_it_was_through() -> None:
    order = Turns()
    for turn in (0, 1, 0, 1, 2, 0):
        order.begin("key", "op", turn)
        order.end("key")


def test_an_iteration_whose_predecessor_does_not_come_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "_LATE", 0.01)
    with pytest.raises(CollectiveError, match="began again"):
        Turns().begin("key", "op", 1)


def test_a_loop_that_begins_in_the_midst_of_itself_is_refused() -> None:
    order = Turns()
    order.begin("key", "op", 0)
    with pytest.raises(CollectiveError, match="began again"):
        order.begin("key", "op", 0)
