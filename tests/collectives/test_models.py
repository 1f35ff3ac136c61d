"""What a job of the stub says about the models of its ranks, and where it says nothing."""

import re
from pathlib import Path
from typing import Any, Dict, Tuple

import pytest

from tests.rank_processes import Ranks

_PROGRAM = Path(__file__).resolve().parent.parent / "ranks_programs" / "models.py"
_HONEST = re.findall(r"^def (right\w*)\(", _PROGRAM.read_text(), re.MULTILINE)
# What only our own API has.
_OWN = ("right_checked", "right_checked_shapes", "right_closed_by_a_handler", "right_loop")
_HONEST_OF_VENDOR = [case for case in _HONEST if case not in _OWN]
_ALL_HONEST = [
    *((case,) for case in _HONEST),
    *((case, "npu_bridge") for case in _HONEST_OF_VENDOR),
]
# What `run` reports of a script with which nothing is wrong.
_REPORT = re.compile(
    r"ascend-session: this ran on the stub\.\n"
    r"(  (Sessions? [\d-]+ with|System opened).*\n)*"
)

# Jobs in which no variable is compared, or not on all ranks.
_UNKNOWN = (
    "right_closed_by_a_handler",
    "right_elastic_averaging",
    "right_elastic_averaging_in_each_step",
    "right_inference",
    "right_learner_and_actors",
    "right_mean_of_models",
    "right_mean_of_models_at_last",
    "right_model_parallel",
    "right_nothing",
)


def outcome(ranks: Ranks, case: str, size: int = 2, *how: str) -> Dict[str, Any]:
    first, *others = ranks.run("models", size, case, *how)
    assert {first.code, *(other.code for other in others)} == {0}, first.log
    found = first.said[-1]
    assert isinstance(found, dict)
    assert "AscendConfigWarning" not in first.log
    return found


@pytest.mark.parametrize("case", _ALL_HONEST, ids=" ".join)
def test_nothing_is_said_about_an_honest_script(ranks: Ranks, case: Tuple[str, ...]) -> None:
    found = ranks.run("models", 4 if case[0] == "right_groups" else 2, *case)
    expected = {
        "is_one_model": None if case[0] in _UNKNOWN else True,
        "error": None,
        "notes": [],
    }
    assert found[0].said[-1] == expected
    for rank in found:
        assert rank.code == 0, rank.log
        if "npu_bridge" in case:
            assert _REPORT.fullmatch(rank.log) or not rank.log, rank.log
        else:
            assert rank.log == ""


@pytest.mark.parametrize("api", ["own", "npu_bridge"])
def test_a_job_of_eight_ranks_holds_one_model(ranks: Ranks, api: str) -> None:
    found = outcome(ranks, "right_adam_with_hooks", 8, api)
    assert found == {"is_one_model": True, "error": None, "notes": []}


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("wrong", "net/first/kernel"),
        ("wrong_bfloat16", "as_bfloat16"),
        ("wrong_by_hand", "net/first/kernel"),
        ("wrong_complex64", "as_complex64"),
        ("wrong_keras", "dense/kernel"),
        ("wrong_loss_scale", "net/first/kernel"),
        ("wrong_python_optimizer", "net/first/kernel"),
        ("wrong_restored", "net/first/kernel"),
    ],
)
def test_different_models_are_an_error(ranks: Ranks, case: str, name: str) -> None:
    found = outcome(ranks, case)
    about = f"the 2 ranks hold 2 different models: `{name}` differs first, by roughly "
    assert re.fullmatch(re.escape(about) + r"[\d.]+ % of its norm\.", found["error"])
    assert found["is_one_model"] is False


@pytest.mark.parametrize("api", ["own", "npu_bridge"])
@pytest.mark.parametrize("case", ["wrong_exit_in_block", "wrong_data_end_the_block"])
def test_blocks_that_end_without_a_failure_are_compared(ranks: Ranks, case: str, api: str) -> None:
    error = outcome(ranks, case, 2, api)["error"]
    assert error.startswith("the 2 ranks hold 2 different models: `net/first/kernel` differs")


@pytest.mark.parametrize("size", [2, 8])
def test_each_rank_of_its_own_is_a_model_of_its_own(ranks: Ranks, size: int) -> None:
    found = outcome(ranks, "wrong", size)
    assert found["error"].startswith(f"the {size} ranks hold {size} different models: ")
    [note] = found["notes"]
    others = "rank 1" if size == 2 else "ranks 1 to 7"
    assert note.startswith(f"{others} started with other variables than rank 0: ")


@pytest.mark.parametrize("case", ["wrong", "wrong_restored"])
def test_a_rank_that_begins_with_other_variables_is_named(ranks: Ranks, case: str) -> None:
    notes = outcome(ranks, case)["notes"]
    if case == "wrong":
        [note] = notes
        assert note.startswith("rank 1 started with other variables than rank 0: `net/")
    else:  # as a second session did
        assert notes == []


@pytest.mark.parametrize("case", ["wrong_plain_optimizer", "wrong_one_of_two_optimizers"])
def test_gradients_that_nobody_averages_are_a_note(ranks: Ranks, case: str) -> None:
    found = outcome(ranks, case)
    assert (found["is_one_model"], found["error"]) == (None, None)
    [note] = found["notes"]
    if case == "wrong_plain_optimizer":
        assert note.startswith("the ranks exchanged nothing; if they train, they train 2 models.")
    else:
        assert note.startswith("`discriminator/d/kernel` and `discriminator/d/bias`: equal on all")


@pytest.mark.parametrize("case", ["wrong", "wrong_plain_optimizer"])
def test_independent_ranks_are_not_compared(
    ranks: Ranks, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASCEND_SESSION_INDEPENDENT", "1")
    found = outcome(ranks, case)
    assert found == {"is_one_model": None, "error": None, "notes": []}


@pytest.mark.parametrize(
    ("case", "how"), [("wrong", "alone"), ("wrong", "unheard"), ("wrong_left_open", "alone")]
)
def test_without_a_launcher_rank_0_says_it_and_exits_with_1(
    ranks: Ranks, case: str, how: str
) -> None:
    first, other = ranks.run("models", 2, case, how)
    assert (first.code, other.code) == (1, 0)
    *_, error = first.log.splitlines()
    assert error.startswith(
        "ascend-session: error: the 2 ranks hold 2 different models: `net/first/kernel` differs "
        "first, by roughly "
    )
    assert first.log.count("Rank 1 started with other variables than rank 0") == 1
    assert "different models" not in other.log


def test_without_a_launcher_one_model_is_no_news(ranks: Ranks) -> None:
    first, other = ranks.run("models", 2, "right", "alone")
    assert [(each.code, each.log) for each in (first, other)] == [(0, "")] * 2


def test_sessions_that_are_open_when_the_device_is_shut_down_are_compared(ranks: Ranks) -> None:
    found = outcome(ranks, "wrong_keras", 2, "npu_bridge")
    error = "the 2 ranks hold 2 different models: `dense/kernel` differs first, by roughly "
    assert found["error"].startswith(error)


def test_after_an_exception_nothing_is_compared(ranks: Ranks) -> None:
    first, _ = ranks.run("models", 2, "failing")
    assert first.said == [None]


def test_the_hook_fails_at_the_first_step_of_different_models(ranks: Ranks) -> None:
    for number, rank in enumerate(ranks.run("models", 2, "wrong_checked")):
        assert rank.code == 1
        assert rank.said == ([] if number else [None])  # rank 0: nothing was compared at the end
        assert (
            "CollectiveError: after step 1 the 2 ranks hold 2 different models: "
            "`net/first/kernel` differs first, by roughly " in rank.log
        )


def test_the_hook_finds_a_difference_that_comes_later(ranks: Ranks) -> None:
    first, other = ranks.run("models", 2, "right_checked", "spoiled")
    assert (first.code, other.code) == (1, 1)
    assert other.said == [1, 2, 3, 4, 5]
    assert "after step 6 the 2 ranks hold 2 different models" in first.log
