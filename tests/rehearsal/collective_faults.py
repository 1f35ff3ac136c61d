"""For each test of the contract of collectives something that makes it fail, see faults.py."""

from typing import List, Tuple

from tests.rehearsal.fault import Fault

__all__ = ["COLLECTIVE_FAULTS"]

_TWO = ("collectives::TestOnTwo",)
_ALL = (*_TWO, "collectives::TestOnFour", "collectives::TestOnEight")


def on(classes: Tuple[str, ...], *tests: str) -> Tuple[str, ...]:
    """These tests on these numbers of devices."""
    return tuple(f"{one}::test_{test}" for one in classes for test in tests)


def of(test: str, *checks: str) -> List[str]:
    """Some of the checks of a test."""
    return [f"{test}[{check}]" for check in checks]


_REDUCTIONS = ("sum", "prod", "max", "min")
_SINGLE = [f"{reduction} float32" for reduction in _REDUCTIONS]

COLLECTIVE_FAULTS = (
    # One by one, on two devices, and of one type
    Fault(
        "a reduction forgets a rank",
        on(
            _TWO,
            *of("allreduce_is_the_reduction_on_each_rank", *[f"allreduce {s}" for s in _SINGLE]),
            *of("reduce_is_the_reduction_on_the_root", *[f"reduce {s}" for s in _SINGLE]),
            *of(
                "reduce_scatter_is_a_part_of_the_reduction",
                *[f"reduce_scatter {s}" for s in _SINGLE],
            ),
        ),
        engine="hccl-forgets",
    ),
    Fault(
        "an allgather has another order",
        on(_TWO, *of("allgather_has_all_in_the_order_of_ranks", "allgather float32")),
        engine="hccl-order",
    ),
    Fault(
        "a broadcast comes from another rank",
        on(
            _TWO,
            *of("broadcast_is_what_the_root_has", "broadcast float32"),
            *of("reduce_is_the_reduction_on_the_root", *[f"reduce {s}" for s in _SINGLE]),
        ),
        engine="hccl-root",
    ),
    Fault(
        "a rank gets what another should",
        on(
            _TWO,
            *of(
                "reduce_scatter_is_a_part_of_the_reduction",
                *[f"reduce_scatter {s}" for s in _SINGLE],
            ),
            *of("all_to_all_v_moves_ragged_parts", "all_to_all_v float32"),
            *of("all_to_all_v_c_moves_ragged_parts", "all_to_all_v_c float32"),
        ),
        engine="hccl-parts",
    ),
    Fault(
        "what is sent is lost",
        on(
            _TWO,
            *of("what_is_sent_is_received", "there float32"),
            *of("and_answered", "and back float32"),
        ),
        engine="hccl-lost",
    ),
    Fault(
        "ranks get different bits of a sum",
        on(
            _TWO,
            *of("allreduce_is_the_reduction_on_each_rank", *[f"allreduce {s}" for s in _SINGLE]),
        ),
        engine="hccl-differs",
    ),
    # Everything, on any number; the faults are in one run, for each job takes a while
    Fault(
        "no collective does what it should",
        on(
            _ALL,
            "allreduce_is_the_reduction_on_each_rank",
            "reduce_is_the_reduction_on_the_root",
            "reduce_scatter_is_a_part_of_the_reduction",
            "allgather_has_all_in_the_order_of_ranks",
            "broadcast_is_what_the_root_has",
            "all_to_all_v_moves_ragged_parts",
            "all_to_all_v_c_moves_ragged_parts",
            "what_is_sent_is_received",
            "and_answered",
            "scalars_and_a_megabyte",
            "in_a_loop_each_turn_reduces",
            "the_gradient_of_allreduce_is_the_sum_of_all",
            "sessions_of_two_graphs_take_turns",
            *of("a_collective_of_a_group_is_that_of_its_ranks", "group made again"),
        ),
        engine=(
            "hccl-forgets,hccl-order,hccl-root,hccl-parts,hccl-lost,hccl-gradient,hccl-differs"
        ),
    ),
    Fault(
        "a group is the world",
        on(
            _ALL,
            *of(
                "a_collective_of_a_group_is_that_of_its_ranks",
                "group allreduce",
                "group allgather",
                "group broadcast",
                "group reduce",
                "group reduce_scatter",
                "group in the next session",
            ),
        ),
        engine="hccl-world",
    ),
    Fault(
        "a group is said to be the world",
        on(
            _ALL,
            *of(
                "a_group_has_its_own_ranks",
                "group rank",
                "group size",
                "group world ranks",
                "group group ranks",
                "group stranger",
            ),
            # Its ranks see a contradiction, and end.
            "the_job_ends_well",
        ),
        engine="hccl-groups",
    ),
    Fault(
        "a destroyed group is still there",
        on(_ALL, *of("a_group_has_its_own_ranks", "group destroyed")),
        engine="hccl-kept",
    ),
    Fault(
        "a rank is counted that is not there",
        on(_ALL, "each_process_knows_who_it_is"),
        engine="hccl-phantom",
    ),
)
