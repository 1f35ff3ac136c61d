"""What follows from what ranks report of their variables."""

import re
from typing import Any, Dict, List, Sequence

import numpy as np
import pytest

from ascend_session.backends.exchange.models import (
    TOLERANCES,
    Advice,
    ModelComparison,
    RankReport,
    compare_models,
    summarize,
)
from ascend_session.backends.exchange.wire import LARGEST, decode

ADVICE = Advice("broadcast()", "average()")


def variable(name: str, values: Any, ranks: Sequence[int], dtype: str = "float32") -> Any:
    return summarize(name, dtype, tuple(ranks), np.asarray(values, dtype))


def compared(
    ends: Sequence[Dict[str, Any]], begins: Sequence[Dict[str, Any]] = (), **settings: Any
) -> ModelComparison:
    """Compares ranks with these variables at the end and in the beginning."""
    ranks = range(len(ends))
    dtype = settings.pop("dtype", "float32")
    reports = {}
    for rank, end in enumerate(ends):
        report = reports[rank] = RankReport()
        report.has_updated = True
        report.averaged = [variable(*each, ranks, dtype) for each in end.items()]
        for each in begins[rank : rank + 1]:
            report.begun = [variable(*item, ranks, dtype) for item in each.items()]
    settings = {"size": len(ends), "has_exchanged": True, "advice": ADVICE, **settings}
    return compare_models(reports, **settings)


def near(values: Any, difference: float) -> Any:
    """Values that differ by so much, relative to their norm."""
    other = np.random.RandomState(7).randn(*values.shape)
    return values + other * difference * np.linalg.norm(values) / np.linalg.norm(other)


VALUES = np.random.RandomState(5).randn(100, 70)


def test_equal_variables_are_one_model() -> None:
    assert compared([{"w": VALUES}] * 8) == ModelComparison(True, None, ())


def test_each_model_is_counted_and_the_first_variable_that_differs_is_named() -> None:
    found = compared([{"b": [0.0], "w": VALUES * each, "x": VALUES * each} for each in range(8)])
    size = ", by roughly 60 % of its norm."
    assert found.error == f"the 8 ranks hold 8 different models: `w` differs first{size}"
    assert found.is_one_model is False
    found = compared([{"w": VALUES * (rank == 2)} for rank in range(3)])
    assert found.error == f"the 3 ranks hold 2 different models: `w` differs first{size}"


@pytest.mark.parametrize("share", [0.001, 0.05, 0.4])
def test_the_size_of_the_difference_is_said_within_a_factor_of_two(share: float) -> None:
    found = compared([{"w": VALUES}, {"w": near(VALUES, share)}])
    assert found.error is not None
    [said] = re.findall(r"differs first, by roughly ([\d.]+) % of its norm\.$", found.error)
    assert share / 2 < float(said) / 100 < share * 2


def test_of_values_that_are_not_finite_no_size_is_said() -> None:
    found = compared([{"w": [1.0, float("nan")]}, {"w": [float("nan"), 1.0]}])
    assert found.error == "the 2 ranks hold 2 different models: `w` differs first."


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_rounding_is_no_difference(dtype: str) -> None:
    tolerance = TOLERANCES[dtype]
    within = compared([{"w": VALUES}, {"w": near(VALUES, tolerance / 5)}], dtype=dtype)
    beyond = compared([{"w": VALUES}, {"w": near(VALUES, tolerance * 10)}], dtype=dtype)
    assert (within.is_one_model, beyond.is_one_model) == (True, False)


def test_one_element_of_many_is_a_difference() -> None:
    other = np.array(VALUES)
    other[50, 50] += 1.0
    assert compared([{"w": VALUES}, {"w": other}]).is_one_model is False


def test_nan_equals_nan_but_nothing_else() -> None:
    nan, inf = float("nan"), float("inf")
    other_nan = -np.array([nan], np.float32)[0]  # with another sign
    assert compared([{"w": [1.0, nan]}, {"w": [1.0, other_nan]}]).is_one_model is True
    assert compared([{"w": [1.0, nan]}, {"w": [nan, 1.0]}]).is_one_model is False
    assert compared([{"w": [1.0, nan]}, {"w": [1.0, inf]}]).is_one_model is False
    assert compared([{"w": [1.0, inf]}, {"w": [1.0, -inf]}]).is_one_model is False
    assert compared([{"w": [2e30, 1.0]}, {"w": [1e30, 1.0]}]).is_one_model is False


def test_where_in_a_large_variable_a_nan_is_makes_a_difference() -> None:
    values = np.zeros(1 << 20, np.float32)
    places = [3, 4, 3 + (1 << 12), 3 + (1 << 18), 3 + (1 << 19)]  # in one row, another, and a block
    for place in places:
        first, second = values.copy(), values.copy()
        first[3], second[place] = float("nan"), float("nan")
        is_one_model = compared([{"w": first}, {"w": second}]).is_one_model
        assert (place, is_one_model) == (place, place == 3)


def test_other_variables_in_the_beginning_are_a_note_whatever_the_end_is() -> None:
    ends = [{"w": VALUES}] * 4
    begins = [{"w": [rank % 2], "b": [rank], "c": [rank], "d": [rank]} for rank in range(4)]
    found = compared(ends, begins)
    assert found.is_one_model is True
    assert found.notes == (
        "rank 1 and rank 3 started with other variables than rank 0: `w`; broadcast them with "
        "broadcast().",
        "ranks 1 to 3 started with other variables than rank 0: `b`, `c` and `d`; broadcast them "
        "with broadcast().",
    )


def test_many_variables_are_not_all_named() -> None:
    begins = [{f"w{number}": [rank] for number in range(40)} for rank in range(2)]
    [note] = compared([{}, {}], begins).notes
    assert note.startswith(
        "rank 1 started with other variables than rank 0: `w0`, `w1`, `w2` and 37"
    )


def report_of(**parts: Any) -> RankReport:
    report = RankReport()
    vars(report).update(parts)
    return report


def test_variables_of_a_group_are_compared_within_it_alone() -> None:
    values = {0: 1.0, 1: 1.0, 2: 5.0, 3: 6.0}
    reports = {
        rank: report_of(
            averaged=[variable("table", [each], (rank - rank % 2, rank - rank % 2 + 1))]
        )
        for rank, each in values.items()
    }
    found = compare_models(reports, 4, True, ADVICE)
    error = "rank 2 and rank 3 hold 2 different models: `table` differs first, by roughly 20 %"
    assert found.error == f"{error} of its norm."
    reports[3] = report_of(averaged=[variable("table", [5.0], (2, 3))])
    # Nothing says what these two groups have in common.
    assert compare_models(reports, 4, True, ADVICE) == ModelComparison(None, None, ())


def test_ranks_that_updated_variables_and_exchanged_nothing_are_noted() -> None:
    [note] = compared([{}] * 4, has_exchanged=False).notes
    assert note.startswith("the ranks exchanged nothing; if they train, they train 4 models.")
    assert "average()" in note
    assert "ASCEND_SESSION_INDEPENDENT=1" in note


def test_a_single_rank_that_trains_is_no_news() -> None:
    reports = {rank: report_of(has_updated=rank == 0) for rank in range(4)}
    assert compare_models(reports, 4, False, ADVICE) == ModelComparison(None, None, ())


@pytest.mark.parametrize("is_different", [False, True])
def test_variables_of_a_forgotten_optimizer_are_a_note(is_different: bool) -> None:
    reports = {
        rank: report_of(
            averaged=[variable("g", [1.0], (0, 1))],
            separate=[variable("d", [float(rank * is_different)], (0, 1))],
        )
        for rank in range(2)
    }
    found = compare_models(reports, 2, True, ADVICE)
    assert found.error is None
    assert found.is_one_model is (None if is_different else True)
    assert [note.partition(":")[0] for note in found.notes] == ["`d`"] * is_different


def test_a_variable_that_not_all_of_its_ranks_report_proves_no_model() -> None:
    reports = {rank: report_of(averaged=[variable("w", [1.0], range(3))]) for rank in range(3)}
    assert compare_models(reports, 3, True, ADVICE).is_one_model is True
    reports[2] = report_of()
    assert compare_models(reports, 3, True, ADVICE) == ModelComparison(None, None, ())
    # Those that do report it may differ all the same.
    reports[1] = report_of(averaged=[variable("w", [2.0], range(3))])
    assert compare_models(reports, 3, True, ADVICE).is_one_model is False


def test_a_report_of_any_size_passes_in_messages_of_limited_size() -> None:
    sent = report_of(
        begun=[variable(f"{'long/' * 100}{number}", [1.0], range(64)) for number in range(500)],
        averaged=[variable("w", VALUES, (0, 1))],
        separate=[variable("v", [float("nan")], (0, 1))],
    )
    received = RankReport()
    messages: List[bytes] = list(sent.encode())
    for message in messages:
        received.add(decode(message)[0])
    assert max(map(len, messages)) < LARGEST
    for part in ("begun", "averaged", "separate"):
        assert getattr(received, part) == getattr(sent, part)


def test_a_name_longer_than_a_message_is_cut() -> None:
    received = RankReport()
    name = "x" * (LARGEST + 1)
    for message in report_of(averaged=[variable(name, [1.0], (0, 1))]).encode():
        assert len(message) < LARGEST
        received.add(decode(message)[0])
    assert [each.name for each in received.averaged] == ["x" * 1000]


def test_a_rank_that_reports_nothing_is_one_of_those_that_may_train() -> None:
    reports = {rank: report_of(has_updated=True) for rank in range(3)}
    [note] = compare_models(reports, 4, False, ADVICE).notes
    assert note.startswith("the ranks exchanged nothing; if they train, they train 4 models.")
