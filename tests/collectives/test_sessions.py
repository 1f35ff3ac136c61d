"""Collectives work in any session of a process that has opened its system."""

from typing import Any, Dict, List

import pytest

from tests.rank_processes import Ranks

# What each of three ranks says; where it is a function, it depends on the rank.
SAID: Dict[str, Any] = {
    "of_the_product": [6.0],
    "monitored": [3.0, 6.0, 9.0],
    "several_graphs": [6.0, 60.0, 6.0, 60.0, 6.0],
    "several_systems": [6.0, 6.0, 6.0],
    "in_threads": [[[number, [3.0 * number] * 5] for number in range(4)]],
    "old_loop": [[3702.0] * 3],
    "new_loop": [[3702.0] * 3],
    "own_variables": lambda rank: [rank + 30.0],
    "changing_shapes": [
        [[[3.0, 3.0]] * rows, [[1.0, float(rank)] for rank in range(3) for _ in range(rows)]]
        for rows in (1, 3, 0, 2, 3)
    ],
    "keras": [[[6.0]]],
    "group_made_again": lambda rank: [[3.0, 3.0, 6.0, 6.0, 3.0, 3.0], [6.0, 6.0]][rank // 2],
    "graph_of_some": lambda rank: [[3.0, 6.0], [6.0]][rank // 2],
    "reduced_to_one": lambda rank: ["[inf, nan, -7.0]" if rank == 1 else "[0.0, 0.0, 0.0]"],
    "after_an_error": lambda rank: [6.0, 3.0] if rank else [6.0],
    "after_a_cancelled_run": lambda rank: [201.0, 30.0] if rank else [30.0],
    "in_a_function": [6.0],
    "passed_in_a_loop": lambda rank: [[4.0], [123.0], []][rank],
    "gradients": lambda rank: [
        [3.0 * (rank + 1), 6.0 * (rank + 1)],
        "No gradient defined for operation",
    ],
}


def expected(scenario: str, rank: int) -> List[Any]:
    found = SAID[scenario]
    return list(found(rank) if callable(found) else found)


@pytest.mark.parametrize("scenario", sorted(SAID))
def test_each_rank_reckons_what_all_ranks_have(ranks: Ranks, scenario: str) -> None:
    results = ranks.run("sessions", 3, scenario)
    for rank, result in enumerate(results):
        assert result.code == 0, result.log
        # The newest Keras has no sessions.
        assert result.said in (expected(scenario, rank), ["Keras 3"][: scenario == "keras"])


def test_a_limit_of_0_seconds_is_none(ranks: Ranks) -> None:
    results = ranks.run("sessions", 2, "of_the_product", HCCL_EXEC_TIMEOUT="0")
    assert [result.said for result in results] == [[3.0], [3.0]], results[0].log


def test_values_of_more_than_ten_ranks_are_in_their_order(ranks: Ranks) -> None:
    results = ranks.run("sessions", 11, "by_many")
    assert [result.said for result in results] == [[list(range(11))]] * 11, results[0].log
