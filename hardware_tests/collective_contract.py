"""What the collectives of every backend do in the same way, as one class of tests.

A test module makes a class of it for each number of ranks, and has the fixture ``answers``, of the
scope ``class``. One job does everything, and each test looks at what its ranks said of one thing.
"""

from typing import Any, List

import pytest

from hardware_tests.collective_answers import Answers
from hardware_tests.collective_cases import (
    EMPTY,
    GROUP_FACTS,
    GROUP_VALUES,
    MOVED,
    REDUCING,
    SECTIONS,
    SHAPES,
    WORLD_FACTS,
    section_of,
)

__all__ = ["CollectiveContract", "sections_asked_for"]


def reductions(call: str) -> List[str]:
    """The names of all checks of a reduction."""
    return [f"{call} {reduction} {dtype}" for reduction, dtype in REDUCING]


def types(call: str) -> List[str]:
    """The names of all checks of what takes any type."""
    return [f"{call} {dtype}" for dtype in MOVED]


def sections_asked_for(request: Any) -> List[str]:
    """The parts of the program that the chosen tests of a class look at."""
    chosen = [item for item in request.session.items if item.cls is request.cls]
    checks = [item.callspec.params.get("check") for item in chosen if hasattr(item, "callspec")]
    wanted = {section_of(check) for check in checks if check}
    return [section for section in SECTIONS if section in wanted]


def assert_same_bits(answers: Answers, check: str) -> None:
    """Fails if the result of a rank is another than that of the first, to the last bit."""
    digests = [one.get("digest", one.get("error")) for one in answers.of(check)]
    assert digests == [digests[0]] * answers.ranks
    assert len(str(digests[0])) == 40, "what is compared is no SHA-1"


class CollectiveContract:
    """The tests; `answers` are those of a job on the backend under test.

    Attributes:
        ranks: How many ranks it has.
    """

    ranks: int

    def test_the_job_ends_well(self, answers: Answers) -> None:
        assert answers.problems("end", range(answers.ranks)) == {}
        assert answers.code == 0
        assert answers.unfinalised == []

    @pytest.mark.parametrize("check", reductions("allreduce"))
    def test_allreduce_is_the_reduction_on_each_rank(self, answers: Answers, check: str) -> None:
        assert answers.problems(check, range(answers.ranks)) == {}
        assert_same_bits(answers, check)

    @pytest.mark.parametrize("check", reductions("reduce"))
    def test_reduce_is_the_reduction_on_the_root(self, answers: Answers, check: str) -> None:
        assert answers.problems(check, range(answers.ranks)) == {}
        assert [one.get("off") is not None for one in answers.of(check)] == [
            rank == answers.ranks - 1 for rank in range(answers.ranks)
        ]

    @pytest.mark.parametrize("check", reductions("reduce_scatter"))
    def test_reduce_scatter_is_a_part_of_the_reduction(self, answers: Answers, check: str) -> None:
        assert answers.problems(check, range(answers.ranks)) == {}

    @pytest.mark.parametrize("check", types("allgather"))
    def test_allgather_has_all_in_the_order_of_ranks(self, answers: Answers, check: str) -> None:
        assert answers.problems(check, range(answers.ranks)) == {}
        assert_same_bits(answers, check)

    @pytest.mark.parametrize("check", types("broadcast"))
    def test_broadcast_is_what_the_root_has(self, answers: Answers, check: str) -> None:
        assert answers.problems(check, range(answers.ranks)) == {}
        assert_same_bits(answers, check)

    @pytest.mark.parametrize("check", types("all_to_all_v"))
    def test_all_to_all_v_moves_ragged_parts(self, answers: Answers, check: str) -> None:
        assert answers.problems(check, range(answers.ranks)) == {}

    @pytest.mark.parametrize("check", types("all_to_all_v_c"))
    def test_all_to_all_v_c_moves_ragged_parts(self, answers: Answers, check: str) -> None:
        assert answers.problems(check, range(answers.ranks)) == {}

    @pytest.mark.parametrize("check", types("there"))
    def test_what_is_sent_is_received(self, answers: Answers, check: str) -> None:
        assert answers.problems(check, range(1, answers.ranks, 2)) == {}

    @pytest.mark.parametrize("check", types("and back"))
    def test_and_answered(self, answers: Answers, check: str) -> None:
        assert answers.problems(check, range(0, answers.ranks // 2 * 2, 2)) == {}

    @pytest.mark.parametrize("check", [f"world {fact}" for fact in WORLD_FACTS])
    def test_each_process_knows_who_it_is(self, answers: Answers, check: str) -> None:
        assert answers.problems(check, range(answers.ranks)) == {}

    @pytest.mark.parametrize("check", [f"group {fact}" for fact in GROUP_FACTS])
    def test_a_group_has_its_own_ranks(self, answers: Answers, check: str) -> None:
        assert answers.problems(check, range(answers.ranks)) == {}

    @pytest.mark.parametrize("check", [f"group {value}" for value in GROUP_VALUES])
    def test_a_collective_of_a_group_is_that_of_its_ranks(
        self, answers: Answers, check: str
    ) -> None:
        assert answers.problems(check, range(answers.ranks)) == {}

    @pytest.mark.parametrize("check", [f"shape {shape}" for shape in SHAPES])
    def test_scalars_and_a_megabyte(self, answers: Answers, check: str) -> None:
        assert answers.problems(check, range(answers.ranks)) == {}

    @pytest.mark.parametrize("check", [f"empty {call}" for call in EMPTY])
    def test_nothing_of_nothing_is_nothing(self, answers: Answers, check: str) -> None:
        assert answers.problems(check, range(answers.ranks)) == {}

    @pytest.mark.parametrize("check", ["loop"])
    def test_in_a_loop_each_turn_reduces(self, answers: Answers, check: str) -> None:
        assert answers.problems(check, range(answers.ranks)) == {}

    @pytest.mark.parametrize("check", ["gradient sum", "gradient max"])
    def test_the_gradient_of_allreduce_is_the_sum_of_all(
        self, answers: Answers, check: str
    ) -> None:
        assert answers.problems(check, range(answers.ranks)) == {}

    @pytest.mark.parametrize("check", [f"session turn {turn}" for turn in range(4)])
    def test_sessions_of_two_graphs_take_turns(self, answers: Answers, check: str) -> None:
        assert answers.problems(check, range(answers.ranks)) == {}
