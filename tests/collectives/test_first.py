"""What had to be shown before anything else: lost ranks are named, and nothing waits for threads.

The sessions are the user's own, plain `tf.Session`; no launcher is there that would end the others.
"""

import signal
import time

import pytest

from tests.rank_processes import Ranks


@pytest.mark.parametrize("lost", [0, 1, 2])
@pytest.mark.parametrize("length", [10, 100_000, 4_000_000])
def test_ranks_in_a_collective_name_the_one_that_was_killed_and_end(
    ranks: Ranks, lost: int, length: int
) -> None:
    assert _seconds_to_the_error(ranks, lost, length) < 5


def _seconds_to_the_error(ranks: Ranks, lost: int, length: int) -> float:
    """From the death of a rank until all others have said what it was; all end."""
    with ranks.start("reducing", 3, str(length)) as job:
        job.await_said(2)
        job.send(lost, signal.SIGKILL)
        begun = time.monotonic()
        for other in {0, 1, 2} - {lost}:
            job.await_said(3, other)
        seconds = time.monotonic() - begun
        results = job.results()
    assert results.pop(lost).code == -signal.SIGKILL
    for result in results:
        *sums, (_, message) = result.said
        assert sums == [6.0, 6.0]
        assert f"rank {lost} has exited" in message, message
        assert result.code == 1, result.log
    return seconds


@pytest.mark.parametrize("length", [1, 100_000])  # with the agreement, and in shared memory
def test_more_collectives_than_threads_are_ready_in_another_order_on_each_rank(
    ranks: Ranks, length: int
) -> None:
    results = ranks.run("many_ready", 3, "20", str(length))
    assert [result.said for result in results] == [["done"]] * 3, results[0].log
