"""Ranks that do not do the same hear of it, with the rank and the collective; none hangs."""

import re
import signal
from pathlib import Path
from typing import List

import pytest

from tests.rank_processes import Ranks, Result

_PROGRAM = Path(__file__).resolve().parent.parent / "ranks_programs" / "differing.py"

# The scenario, and what each of the ranks is told.
TOLD = {
    "other_shape": [
        "rank 1 disagrees with the others about graph 1",
        '"HcomAllReduce" as allreduce sum float32 [3]',
        "rank 1 runs",
        "float32 [4]",
    ],
    "other_dtype": ["allreduce sum int32 [4]", "allreduce sum float32 [4]", "rank 1 runs"],
    "other_reduction": ["allreduce prod float32 [4]", "rank 1 runs", "allreduce sum float32 [4]"],
    "other_root": ["broadcast from 1 float32 [4]", "broadcast from 0", "rank 1 runs"],
    "other_order": ['"first/HcomAllReduce" as allreduce sum float32 [5]', "rank 1 runs"],
    "other_order_of_running": ['rank 1 waits in "HcomAllReduce_1"', "rank 1 waits for another"],
    "other_place": [
        '"HcomAllReduce" (allreduce sum float32 [2]) of ',
        "differing.py:{first} to begin it; rank 1 waits in",
        "differing.py:{second} to begin it.",
    ],
    "other_place_of_another_shape": [
        "allreduce sum float32 [2] of ",
        "differing.py:{third}",
        "differing.py:{fourth}",
    ],
    "one_less": ["rank 1 has left", '"HcomAllReduce_1" (allreduce sum float32 [3])'],
    "one_less_in_each_step": [
        "rank 1 waits for another collective than the others, and none",
        'rank 1 waits in "HcomAllReduce" (allreduce sum float32 [2]) of ',
        " for the second time",
        'rank 0 and rank 2 wait in "HcomAllReduce_1"',
    ],
    "twice_at_once": ["rank 1 failed", '"HcomAllReduce" started again before it had finished'],
    "much_twice_at_once": ["rank 1 failed", '"HcomAllReduce" started again before it had finished'],
    "wrong_counts": ["sends 2 elements to rank 1, which expects 3 of it"],
    "raising": ["rank 1 failed: ValueError: nothing to train on"],
}


def told(results: List[Result]) -> List[str]:
    """The sentences of the ranks that got one."""
    return [value for result in results for value in result.said if isinstance(value, str)]


@pytest.mark.parametrize("scenario", sorted(TOLD))
def test_ranks_that_differ_are_told_which_and_in_what(ranks: Ranks, scenario: str) -> None:
    results = ranks.run("differing", 3, scenario)
    first, _, last = results
    sentences = told([first, last])
    assert len(sentences) == 2, first.log
    lines = {
        mark: number
        for number, line in enumerate(_PROGRAM.read_text().splitlines(), 1)
        for mark in re.findall(r"# (first|second|third|fourth)$", line)
    }
    for sentence in sentences:
        for part in TOLD[scenario]:
            assert part.format(**lines) in sentence, sentence
    assert first.code == last.code == 1


def test_a_rank_that_does_not_come_in_time_is_named(ranks: Ranks) -> None:
    with ranks.start("differing", 3, "late") as job:
        job.await_said(1, rank=0)
        job.await_said(1, rank=2)
        job.send(1, signal.SIGKILL)
        first, _, last = job.results()
    for sentence in told([first, last]):
        assert "rank 1 did not join" in sentence
        assert '"HcomAllReduce"' in sentence
        assert "within 4 s" in sentence
    assert first.code == last.code == 1


def test_a_rank_that_fails_beside_a_waiting_thread_says_so_at_once(ranks: Ranks) -> None:
    first, second = ranks.run("threading_failure", 2)
    assert first.code == second.code == 1
    assert "ValueError: out of disk" in first.log
    assert "rank 0 failed: ValueError: out of disk" in second.said[0]
