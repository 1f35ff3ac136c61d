"""Whether the ranks of a launch hold one model: what the launcher makes of what they found."""

import json
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

import pytest

from ascend_session import LaunchConfig, LaunchResult, launch
from ascend_session.launcher.events import Event, Finished, Restarting
from tests.launcher.supervised import config

_DIFFERENT = "the 2 ranks hold 2 different models: `w` differs first"

# Ranks that join a job, of which rank 0 reports what a comparison has found.
_RANKS = """
import json, os, sys, time
from ascend_session import channel
from ascend_session.cluster import member
rank = int(os.environ["RANK_ID"])
member.join(rank)
if rank == 0 and "MODELS" in os.environ:
    channel.send("models", **json.loads(os.environ["MODELS"]))
if rank == 0:
    open("compared", "w").close()
while not os.path.exists("compared"):  # a failure of rank 1 comes after that
    time.sleep(0.01)
if rank == 1:
    sys.exit(int(os.environ.get("CODE", "0")))
"""
_EXCHANGED_NOTHING = "The ranks exchanged nothing; if they train, they train 2 models."


def models(is_one_model: Optional[bool], error: Optional[str] = None, *notes: str) -> str:
    found = {"is_one_model": is_one_model, "error": error, "notes": notes}
    return json.dumps({**found, "late_shares": [], "slow_rank": None})


def run(folder: Path, found: str, seen: Optional[List[Event]] = None, **asked: Any) -> LaunchResult:
    """Launch two ranks that compare, or what ``asked`` says instead."""
    (folder / "train.py").write_text(_RANKS)
    env: Dict[str, str] = {"MODELS": found, **asked.pop("env", {})}
    asked = {"processes": 2, **asked}
    config = {"backend": "stub", "cwd": str(folder), "show": "none", "env": env, **asked}
    record = None if seen is None else seen.append
    return launch(LaunchConfig(script=str(folder / "train.py"), **config), on_event=record)


def test_ranks_that_hold_one_model_are_said_to(tmp_path: Path) -> None:
    result = run(tmp_path, models(True))
    assert result.code == 0
    assert str(result).startswith("ascend-session: all 2 ranks succeeded and hold one model in ")
    assert result.as_dict()["attempts"][0]["is_one_model"] is True
    assert result.notes == ()


@pytest.mark.parametrize("found", [models(None), models(False)])
def test_success_without_a_comparison_claims_nothing(tmp_path: Path, found: str) -> None:
    result = run(tmp_path, found)
    assert result.code == 0
    assert str(result).startswith("ascend-session: all 2 ranks succeeded in ")
    assert result.notes == ()


def test_different_models_fail_the_launch_and_say_what_to_do(tmp_path: Path) -> None:
    result = run(tmp_path, models(False, _DIFFERENT))
    assert not result.ok
    assert result.code == 1
    text = str(result)
    assert (
        "ascend-session: the job failed. The 2 ranks hold 2 different models: `w` differs first.\n"
        in text
    )
    assert "  What to do  Let all ranks begin with the variables of rank 0" in text
    assert "training.DistributedOptimizer" in text
    assert "  Failure     different_models, permanent: it fails the same way" in text
    assert "  Succeeded   ranks 0-1\n" in text


def test_programs_read_the_kind_of_a_failure(tmp_path: Path) -> None:
    events: List[Event] = []
    result = run(tmp_path, models(False, _DIFFERENT), events, events=str(tmp_path / "events"))
    [attempt] = json.loads(json.dumps(result.as_dict()))["attempts"]
    assert attempt["cause"]["kind"] == "different_models"
    assert attempt["cause"]["rank"] is None
    assert attempt["cause"]["failure"] == {"code": "different_models", "line": _DIFFERENT}
    assert attempt["is_one_model"] is False
    assert [rank["outcome"] for rank in attempt["ranks"]] == ["succeeded", "succeeded"]
    assert isinstance(events[-1], Finished)
    last = json.loads((tmp_path / "events").read_text().splitlines()[-1])
    assert last["result"]["attempts"][0]["cause"]["kind"] == "different_models"


def test_other_failures_have_no_kind(tmp_path: Path) -> None:
    result = run(tmp_path, models(True), env={"CODE": "7"})
    assert result.code == 7
    assert result.cause is not None
    assert result.cause.as_dict()["kind"] is None


def test_a_rank_that_fails_is_the_cause_whatever_the_models_are(tmp_path: Path) -> None:
    result = run(tmp_path, models(False, _DIFFERENT), env={"CODE": "7"})
    assert result.code == 7
    assert result.cause is not None
    assert result.cause.rank == 1
    assert "different models" not in str(result)


def test_different_models_are_not_tried_again(tmp_path: Path) -> None:
    events: List[Event] = []
    result = run(tmp_path, models(False, _DIFFERENT), events, max_restarts=2)
    assert result.code == 1
    assert len(result.attempts) == 1
    assert not any(isinstance(event, Restarting) for event in events)


@pytest.mark.parametrize("error", [None, _DIFFERENT])
def test_notes_about_models_are_notes_of_the_launch(tmp_path: Path, error: Optional[str]) -> None:
    note = "ank 1 started with other variables than rank 0: `w`; broadcast them."
    result = run(tmp_path, models(error is None, error, f"r{note}"))
    assert result.code == (0 if error is None else 1)
    assert result.notes == (f"R{note}",)
    assert str(result).count(note) == 1


@pytest.mark.parametrize("broken", ["{}", '{"is_one_model": true, "notes": 1}'])
def test_a_message_that_cannot_be_read_is_none(tmp_path: Path, broken: str) -> None:
    result = run(tmp_path, broken)
    assert result.code == 0
    assert str(result).startswith("ascend-session: all 2 ranks succeeded in ")


@pytest.mark.parametrize("by_variable", [False, True])
def test_independent_ranks_may_hold_different_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_variable: bool
) -> None:
    if by_variable:
        monkeypatch.setenv("ASCEND_SESSION_INDEPENDENT", "1")
    found = models(False, _DIFFERENT, "A note.")
    result = run(tmp_path, found, independent=not by_variable)
    assert result.code == 0
    assert result.notes == ()
    assert str(result).startswith("ascend-session: all 2 ranks succeeded in ")


def test_independent_ranks_know_that_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASCEND_SESSION_INDEPENDENT", "0")
    code = "print(os.environ['ASCEND_SESSION_INDEPENDENT'])"
    for independent in (False, True):
        result = launch(config(tmp_path, code, 1, independent=independent, show="none"))
        said = Path(result.ranks[0].stdout).read_text()
        assert said == f"{int(independent)}\n"


def test_a_failure_ends_independent_ranks_as_it_does_others(tmp_path: Path) -> None:
    code = "sys.exit(7) if rank else signal.pause()"
    result = launch(config(tmp_path, code, 2, independent=True, show="none"))
    assert result.code == 7
    assert [rank.outcome for rank in result.ranks] == ["stopped", "failed"]


@pytest.mark.parametrize("is_one", [True, False])
def test_ranks_that_a_script_starts_are_compared_too(tmp_path: Path, is_one: bool) -> None:
    (tmp_path / "train.py").write_text(_RANKS)
    python = f"RANK_SIZE=2 RANK_ID=$rank {sys.executable} train.py"
    (tmp_path / "train.sh").write_text(f"for rank in 0 1; do {python} & done; wait\n")
    asked = {"program": "bash", "args": ["train.sh"], "cwd": str(tmp_path), "show": "none"}
    env = {"MODELS": models(is_one, None if is_one else _DIFFERENT)}
    result = launch(config(tmp_path, "", 1, **{**asked, "env": env}))
    sentence = "the rank succeeded, and the ranks below it hold one model, in "
    assert (sentence in str(result)) is is_one
    assert ("the job failed. The 2 ranks hold 2 different" in str(result)) is not is_one


def test_ranks_of_which_none_joined_a_job_exchanged_nothing(tmp_path: Path) -> None:
    result = launch(config(tmp_path, "", 2, show="none"))
    assert result.code == 0
    [note] = result.notes
    assert note.startswith(_EXCHANGED_NOTHING)
    assert "independent=True" in note
    assert str(result).count(_EXCHANGED_NOTHING) == 1


def test_ranks_that_joined_a_job_are_not_said_to_have_exchanged_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, "").notes == ()


@pytest.mark.parametrize(
    ("code", "ranks", "independent"),
    [("", 1, False), ("", 2, True), ("if rank == 1: sys.exit(3)", 2, False)],
)
def test_one_rank_independent_ones_and_failures_get_no_note(
    tmp_path: Path, code: str, ranks: int, independent: bool
) -> None:
    asked = config(tmp_path, code, ranks, independent=independent, show="none")
    assert launch(asked).notes == ()
