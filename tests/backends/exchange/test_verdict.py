"""Whether ranks that wait can ever go on, and what is looked at to tell it."""

import os
import subprocess
import sys
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

import pytest

from ascend_session.backends.exchange import standstill as standstill_module
from ascend_session.backends.exchange.coordinator import Coordinator, Entry, RankInfo
from ascend_session.backends.exchange.messages import Operation
from ascend_session.backends.exchange.standstill import EndedError, RankProcess, Standstill

A, B, C = "abc"
WORLD = (0, 1, 2)

Entered = List[Tuple[int, str]]


class Situation(NamedTuple):
    """Who has entered what, after all of ``before`` was through and ``left`` had left."""

    entered: Entered
    left: Tuple[int, ...] = ()
    before: Tuple[str, ...] = ()
    seconds: float = 3.5
    used_s: Optional[Dict[int, Optional[float]]] = None
    ranks: Optional[Dict[str, Tuple[int, ...]]] = None
    is_small: bool = True


def coordinator_of(situation: Situation, size: int = 3) -> Coordinator:
    coordinator = Coordinator(size, lambda event: None, lambda run: None)
    for rank in range(size):
        coordinator.admit(rank, size, RankInfo(100 + rank))

    def enter(rank: int, key: str) -> None:
        ranks = (situation.ranks or {}).get(key, tuple(range(size)))
        operation = Operation(key, f"op/{key}", ranks, "allreduce sum float32 [4]")
        payload = b"1234" if situation.is_small else None
        coordinator.enter(rank, Entry(operation, "sum float32", 4, payload))

    for key in situation.before:
        for rank in (situation.ranks or {}).get(key, range(size)):
            enter(rank, key)
    for rank in situation.left:
        coordinator.leave(rank)
    for rank, key in situation.entered:
        enter(rank, key)
    return coordinator


def judged(situation: Situation, size: int = 3) -> Optional[str]:
    coordinator = coordinator_of(situation, size)
    used_s: Dict[int, Optional[float]] = dict.fromkeys(range(size), 0.01)
    used_s.update(situation.used_s or {})
    assert coordinator.ended is None
    coordinator.judge(situation.seconds, used_s)
    return coordinator.ended


APART: Entered = [(0, A), (1, B), (2, A)]

FOREVER = {
    "in different collectives": Situation(APART),
    "in several each": Situation([(0, A), (0, B), (1, C), (2, C)]),
    "some again and some for the first time": Situation([(0, A), (1, B), (2, A)], before=(A, A)),
    "in two parts that need each other": Situation(
        [(0, A), (1, B), (2, B)], ranks={A: (0, 1), B: WORLD}
    ),
    "in a ring": Situation([(0, A), (1, B), (2, C)], ranks={A: (0, 1), B: (1, 2), C: (0, 2)}),
    "after one has left that nobody waits for": Situation(
        [(0, A), (1, B)], left=(2,), ranks={A: (0, 1), B: (0, 1)}
    ),
}

PERHAPS_NOT = {
    "somebody does not wait": Situation([(0, A), (1, B)]),
    "it is not long yet": Situation(APART, seconds=2.9),
    "somebody computes": Situation(APART, used_s={1: 1.2}),
    "nobody knows what somebody computes": Situation(APART, used_s={1: None}),
    "all wait in one collective, whose data moves": Situation(
        [(0, A), (1, A), (2, A)], is_small=False
    ),
    "a part of the ranks is together": Situation(
        [(0, A), (1, A), (2, B)], ranks={A: (0, 1)}, is_small=False
    ),
    "one thread of each is": Situation([(0, A), (0, B), (1, A), (2, B), (2, A)], is_small=False),
    "all that waited are through": Situation([(0, A), (1, A), (2, A)]),
    "nobody is there": Situation([], left=WORLD),
}


@pytest.mark.parametrize("name", FOREVER)
def test_ranks_wait_forever(name: str) -> None:
    assert "the ranks wait for different collectives" in str(judged(FOREVER[name]))


@pytest.mark.parametrize("name", PERHAPS_NOT)
def test_ranks_may_go_on_when(name: str) -> None:
    assert judged(PERHAPS_NOT[name]) is None


def test_the_sentence_says_where_each_waits_in_groups() -> None:
    entered = [(rank, B if rank == 5 else A) for rank in range(8)]
    sentence = str(judged(Situation(entered, before=(A,) * 11 + (B,)), size=8))
    assert (
        'ranks 0 to 4, 6 and 7 wait in "op/a" (allreduce sum float32 [4]) for the 12th time; '
        'rank 5 waits in "op/b" (allreduce sum float32 [4]) for the 2nd time.'
    ) in sentence
    sentence = str(judged(Situation(APART)))
    assert 'rank 1 waits in "op/b" (allreduce sum float32 [4]) to begin it' in sentence


def test_how_much_computing_counts_depends_on_the_time() -> None:
    assert judged(Situation(APART, seconds=3.5, used_s={0: 0.2})) is None
    assert judged(Situation(APART, seconds=35, used_s={0: 0.2})) is not None


class Clock:
    """Stands for the time, which goes on only when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(standstill_module, "time", clock)
    return clock


@pytest.fixture
def apart() -> Coordinator:
    return coordinator_of(Situation(APART))


def judge(standstill: Standstill, coordinator: Coordinator, used_s: Mapping[int, float]) -> None:
    """Judge when a look at ranks has shown so much."""
    for rank, seconds in used_s.items():
        standstill.report(rank, seconds, coordinator.version)
    coordinator.judge(*standstill.measure(coordinator.version))


def look(
    standstill: Standstill, coordinator: Coordinator, clock: Clock, *, seconds: float, used_s: float
) -> None:
    """Look each second; all processes have used so much of each."""
    for count in range(round(seconds) + 1):
        judge(standstill, coordinator, dict.fromkeys(WORLD, count * used_s))
        clock.now += 1.0


def test_ranks_that_compute_nothing_for_some_seconds_are_at_a_standstill(
    apart: Coordinator, clock: Clock
) -> None:
    standstill = Standstill()
    look(standstill, apart, clock, seconds=2, used_s=0.01)
    assert apart.ended is None
    judge(standstill, apart, dict.fromkeys(WORLD, 0.03))
    assert apart.ended is not None


def test_ranks_that_compute_are_not(apart: Coordinator, clock: Clock) -> None:
    look(Standstill(), apart, clock, seconds=60, used_s=0.1)
    assert apart.ended is None


def test_every_change_begins_the_time_anew(apart: Coordinator, clock: Clock) -> None:
    standstill = Standstill()
    for _ in range(4):
        look(standstill, apart, clock, seconds=2, used_s=0.0)
        apart.version += 1
    assert apart.ended is None


def test_a_job_that_was_stopped_for_an_hour_is_not_at_a_standstill(
    apart: Coordinator, clock: Clock
) -> None:
    standstill = Standstill()
    judge(standstill, apart, dict.fromkeys(WORLD, 0.0))
    clock.now += 3600
    judge(standstill, apart, dict.fromkeys(WORLD, 0.0))
    assert apart.ended is None


def test_what_another_node_has_reported_counts_as_long_as_it_is_fresh(
    apart: Coordinator, clock: Clock
) -> None:
    standstill = Standstill()
    here = dict.fromkeys((0, 1), 0.0)
    for _ in range(10):  # nothing is known of rank 2
        judge(standstill, apart, here)
        clock.now += 1.0
    assert apart.ended is None
    standstill.report(2, 7.0, apart.version - 1)  # of what was before
    for _ in range(3):
        judge(standstill, apart, here)
        clock.now += 1.0
    assert apart.ended is None
    standstill.report(2, 7.0, apart.version)
    clock.now += 20  # it reports no more
    judge(standstill, apart, here)
    assert apart.ended is None
    for _ in range(8):  # of which some may still belong to the time before
        standstill.report(2, 7.0, apart.version)
        judge(standstill, apart, here)
        clock.now += 1.0
    assert apart.ended is not None


def test_of_a_process_that_has_ended_it_is_seen() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with pytest.raises(EndedError):
        RankProcess(ended.pid).processor_seconds()


def test_of_a_process_that_has_ended_it_is_seen_though_nobody_has_waited_for_it() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(EndedError):
            RankProcess(zombie.pid).processor_seconds()
