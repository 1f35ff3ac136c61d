"""The rank that others name as the reason why they cannot go on is the cause."""

import signal
from pathlib import Path
from typing import Any

import pytest

from ascend_session.launcher.job.reports import NotFinite
from ascend_session.launcher.plan.rank import Outcome
from ascend_session.launcher.verdict.result import LaunchResult
from tests.launcher.situations import Situation, printed

_LOCATION = (
    "[ERROR]HCCL(8356,train):2026-03-02-17:28:06.049.385[task_exception_handler.cc:610][8356]"
    "[TaskExecStage][HeartbeatAbnormal]Cluster Exception Location[IP/ID]:[127.10.0.1/{}], "
    "Arrival Time:[Thu Oct 23 17:25:58 2025], Discoverer:[127.10.0.1/2], ExceptionType:[{}], "
    "Possible Reason:1. Process has exited, 2. Network Disconnected\n"
)
_LOST = "Heartbeat Lost Occurred"
NO_ANSWER = printed("EI0002")


def waiting(situation: Situation, *ranks: int, device: int = 1, kind: str = _LOST) -> Situation:
    """These ranks fail late, and HCCL says in their logs where it saw the failure."""
    for rank in ranks:
        text = NO_ANSWER + _LOCATION.format(device, kind)
        situation.ended(rank, -signal.SIGABRT, 12.0 + rank).wrote(rank, text)
    return situation


def on_devices(situation: Situation, *devices: Any) -> Situation:
    for rank, device in zip(situation.plan.ranks, devices):
        rank.physical_id = device
    return situation


def test_a_rank_that_ended_in_order_while_others_waited_is_named_by_hccl(tmp_path: Path) -> None:
    made = waiting(Situation(tmp_path, 3).ended(1, 0, 9.0), 0, 2)
    ranks, cause = made.judged()
    assert cause is not None
    assert (cause.rank, cause.others, cause.left) == (1, (0, 2), (1,))
    assert cause.said == (
        f"HCCL reports '{_LOST}' at rank 1, on rank 0 (possible reasons: 1. Process has exited, "
        "2. Network Disconnected). Rank 1 had exited with code 0."
    )
    assert cause.exit_code == 128 + signal.SIGABRT
    assert ranks[1].outcome == Outcome.LEFT


def test_the_number_in_hccls_message_is_that_of_the_device(tmp_path: Path) -> None:
    made = on_devices(Situation(tmp_path, 3), 5, 7, 1)
    cause = waiting(made, 0, 1, device=1).stopped(2).cause()
    assert cause.rank == 2
    assert "at rank 2, on rank 0" in cause.said


def test_of_ranks_that_all_failed_late_the_named_one_is_the_cause(tmp_path: Path) -> None:
    cause = waiting(Situation(tmp_path, 3), 0, 1, 2, device=2, kind="Stuck Occurred").cause()
    assert (cause.rank, cause.others) == (2, (0, 1))
    assert cause.said.startswith("Rank 2 was killed by signal 6 (SIGABRT). HCCL reports 'Stuck")


def test_a_timeout_on_the_device_does_not_hide_the_rank_that_is_named(tmp_path: Path) -> None:
    made = waiting(Situation(tmp_path, 2), 0).ended(1, -signal.SIGKILL, 15.0)
    text = "Warning: error code is 507048[Error]:\n" + NO_ANSWER + _LOCATION.format(1, _LOST)
    cause = made.wrote(0, text).cause()
    assert (cause.rank, cause.exit_code) == (1, 137)
    assert cause.said.startswith("Rank 1 was killed by SIGKILL")


@pytest.mark.parametrize("device", [0, 9])
def test_a_location_at_oneself_or_at_no_rank_names_nobody(tmp_path: Path, device: int) -> None:
    cause = waiting(Situation(tmp_path, 2).stopped(1), 0, device=device).cause()
    assert cause.rank == 0
    assert "HCCL reports" not in cause.said


def test_a_failure_of_its_own_is_not_explained_by_a_location(tmp_path: Path) -> None:
    made = waiting(Situation(tmp_path, 2), 0).raised(1, "ValueError", "no data", 11.0)
    assert made.cause().said == "Rank 1 raised ValueError: no data."
    other = Situation(tmp_path / "other", 2).raised(0, "KeyError", "'x'", 11.0).stopped(1)
    other.wrote(1, _LOCATION.format(1, _LOST))
    assert other.cause().rank == 0


def test_whose_gradients_were_the_first_is_the_cause_although_it_then_missed_another(
    tmp_path: Path,
) -> None:
    made = Situation(tmp_path, 2).raised(0, "ValueError", "the loss is NaN", 11.0)
    made.attempt.reports.not_finite[1] = NotFinite(1001, 4, "w", is_own=True)
    cause = waiting(made, 1, device=0).cause()
    assert cause.rank == 1
    assert cause.said.endswith(
        "The first gradient of 'w' that was seen not to be finite came from rank 1, in step 4 "
        "since the start."
    )


def test_who_ended_before_others_timed_out_is_no_success(tmp_path: Path) -> None:
    made = Situation(tmp_path, 3).ended(2, 0, 9.0).wrote(0, NO_ANSWER).wrote(1, NO_ANSWER)
    ranks, cause = made.ended(0, -6, 12.0).ended(1, -6, 13.0).judged()
    assert cause is not None
    assert cause.rank == 0
    assert cause.said.endswith(" Rank 2 had exited with code 0 before that.")
    assert [rank.outcome for rank in ranks] == ["failed", "failed", Outcome.LEFT]


def test_who_ended_after_others_timed_out_is_a_success(tmp_path: Path) -> None:
    made = Situation(tmp_path, 4).ended(2, 0, 12.5).ended(3, 0, 11.5).wrote(0, NO_ANSWER)
    ranks, cause = made.ended(0, -6, 12.0).ended(1, -6, 14.0).wrote(1, NO_ANSWER).judged()
    assert cause is not None
    assert (cause.rank, cause.left) == (0, (3,))
    assert cause.said.endswith(" Rank 3 had exited with code 0 before that.")
    assert [rank.outcome for rank in ranks] == ["failed", "failed", "succeeded", Outcome.LEFT]


def test_the_summary_calls_no_rank_stopped_because_its_victim_failed(tmp_path: Path) -> None:
    sentence = (
        "The job cannot continue: rank 0 and rank 1 have left, but rank 3 waits for them in x."
    )
    made = Situation(tmp_path, 4).raised(3, "some.UnknownError", sentence, 10.0)
    made.ended(1, 0, 9.0).stopped(0, 2)
    cause = made.cause()
    assert cause.left == (0, 1)
    result = LaunchResult(cause.exit_code, "run", "stub", (made.attempt,))
    lines = [" ".join(line.split()) for line in str(result).splitlines()]
    assert "Failed too rank 3, exit code 1 (some.UnknownError)" in lines
    assert "Left early rank 1, exit code 0" in lines
    assert "Stopped rank 2, because rank 0 left early" in lines
    assert not any(line.startswith("Succeeded") for line in lines)
