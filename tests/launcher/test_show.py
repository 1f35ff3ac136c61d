"""``--show`` and its faults."""

from typing import Set

import pytest

from ascend_session.errors import ConfigError
from tests.launcher.jobs import Bench, bench

__all__ = ["bench"]


@pytest.mark.parametrize(
    ("text", "size", "ranks"),
    [
        ("all", 3, {0, 1, 2}),
        ("none", 3, set()),
        ("0,4-7", 8, {0, 4, 5, 6, 7}),
        ("10-12, 0,0", 16, {0, 10, 11, 12}),
        ("255", 256, {255}),
    ],
)
def test_ranks_of_any_width_are_shown(bench: Bench, text: str, size: int, ranks: Set[int]) -> None:
    assert set(bench.plan(processes=size, show=text).shown) == ranks


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (" ", "'' is neither a rank nor a range"),
        ("0,,1", "'' is neither"),
        ("All", "'All' is neither"),
        ("-1", "'-1' is neither"),
        ("7-4", "the range 7-4 ends before it begins"),
        ("0,8", "there is no rank 8, the job has 8"),
        ("0-9999999", "there is no rank 9999999"),
    ],
)
def test_what_names_no_ranks_of_the_job_is_refused(bench: Bench, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        bench.plan(processes=8, show=text)
    assert said in refused.value.message
    assert refused.value.hint
    assert refused.value.problems[0].option == "show"
