"""The order of an operator's runs: the same on all ranks, whatever order they begin in."""

import threading
from typing import List

import pytest

from ascend_session.backends.exchange import process_group
from ascend_session.backends.exchange.process_group import Iteration, RunOrder
from ascend_session.errors import CollectiveError


def test_a_run_that_begins_in_the_midst_of_another_is_refused() -> None:
    order = RunOrder()
    order.begin("key", "HcomAllReduce", None)
    with pytest.raises(CollectiveError, match='"HcomAllReduce" began again before') as refused:
        order.begin("key", "HcomAllReduce", None)
    assert "parallel_iterations=1" in str(refused.value.hint)
    order.end("key")
    order.begin("key", "HcomAllReduce", None)


def test_other_operators_do_not_matter() -> None:
    order = RunOrder()
    order.begin("a", "a", None)
    order.begin("b", "b", None)
    order.end("a")
    order.begin("a", "a", None)


def test_iterations_that_begin_in_any_order_go_in_theirs() -> None:
    order, went = RunOrder(), []  # type: ignore[var-annotated]

    def iterate(number: int) -> None:
        order.begin("key", "op", Iteration(7, number))
        went.append(number)
        order.end("key")

    threads: List[threading.Thread] = []
    for number in (3, 1, 2, 0):
        threads.append(threading.Thread(target=iterate, args=(number,)))
        threads[-1].start()
    for thread in threads:
        thread.join(60)
    assert went == [0, 1, 2, 3]


def test_a_loop_may_begin_anew_before_it_was_through() -> None:
    order = RunOrder()
    for loop, number in ((1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (3, 0)):
        order.begin("key", "op", Iteration(loop, number))
        order.end("key")


@pytest.mark.parametrize("late", [Iteration(1, 3), Iteration(2, 2), Iteration(2, 1)])
def test_an_iteration_whose_predecessor_does_not_come_is_refused(
    monkeypatch: pytest.MonkeyPatch, late: Iteration
) -> None:
    order = RunOrder()
    for number in (0, 1):
        order.begin("key", "op", Iteration(1, number))
        order.end("key")
    monkeypatch.setattr(process_group, "_LATE_S", 0.01)
    with pytest.raises(CollectiveError, match=f"iteration {late.number} of its loop") as refused:
        order.begin("key", "op", late)
    assert "parallel_iterations=1" in str(refused.value.hint)


def test_time_in_which_the_operator_runs_is_no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_group, "_LATE_S", 0.0001)  # the run ends while a wait times out
    order, went = RunOrder(), threading.Event()
    order.begin("key", "op", Iteration(1, 0))

    def follow() -> None:
        order.begin("key", "op", Iteration(1, 1))
        went.set()

    follower = threading.Thread(target=follow)
    follower.start()
    assert not went.wait(0.2)
    order.end("key")
    assert went.wait(60)
    follower.join(60)


def test_who_waits_goes_when_there_is_nothing_to_wait_for() -> None:
    order = RunOrder()
    waiting = threading.Thread(target=order.begin, args=("key", "op", Iteration(1, 5)))
    waiting.start()
    order.stop()
    waiting.join(60)
    assert not waiting.is_alive()


def test_a_loop_that_begins_in_the_midst_of_itself_is_refused() -> None:
    order = RunOrder()
    order.begin("key", "op", Iteration(1, 0))
    with pytest.raises(CollectiveError, match="began again"):
        order.begin("key", "op", Iteration(2, 0))
