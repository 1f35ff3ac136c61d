"""The order of an operator's runs: the same on all ranks, whatever order they begin in."""

import threading
from typing import List

import pytest

from ascend_session.backends.ranks import turns
from ascend_session.backends.ranks.turns import Turn, Turns
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
        order.begin("key", "op", Turn(7, turn))
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
    for loop, turn in ((1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (3, 0)):
        order.begin("key", "op", Turn(loop, turn))
        order.end("key")


@pytest.mark.parametrize("late", [Turn(1, 3), Turn(2, 2), Turn(2, 1)])
def test_an_iteration_whose_predecessor_does_not_come_is_refused(
    monkeypatch: pytest.MonkeyPatch, late: Turn
) -> None:
    order = Turns()
    for turn in (0, 1):
        order.begin("key", "op", Turn(1, turn))
        order.end("key")
    monkeypatch.setattr(turns, "_LATE", 0.01)
    with pytest.raises(CollectiveError, match=f"iteration {late.number} of its loop") as refused:
        order.begin("key", "op", late)
    assert "parallel_iterations=1" in str(refused.value.hint)


def test_time_in_which_the_operator_runs_is_no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_LATE", 0.01)
    order, went = Turns(), threading.Event()
    order.begin("key", "op", Turn(1, 0))

    def follow() -> None:
        order.begin("key", "op", Turn(1, 1))
        went.set()

    follower = threading.Thread(target=follow)
    follower.start()
    assert not went.wait(0.2)
    order.end("key")
    assert went.wait(60)
    follower.join(60)


def test_who_waits_goes_when_there_is_nothing_to_wait_for() -> None:
    order = Turns()
    waiting = threading.Thread(target=order.begin, args=("key", "op", Turn(1, 5)))
    waiting.start()
    order.stop()
    waiting.join(60)
    assert not waiting.is_alive()


def test_a_loop_that_begins_in_the_midst_of_itself_is_refused() -> None:
    order = Turns()
    order.begin("key", "op", Turn(1, 0))
    with pytest.raises(CollectiveError, match="began again"):
        order.begin("key", "op", Turn(2, 0))
