"""Who is to blame when ranks that exchange data lose one of them: always that one."""

import os
import signal
from pathlib import Path
from typing import Any, Callable, Dict

import pytest

from ascend_session.failures.failure import FailureClass
from ascend_session.failures.table import JOB_CANNOT_GO_ON
from ascend_session.launcher.api import launch
from ascend_session.launcher.plan.rank import Outcome
from ascend_session.launcher.verdict.result import LaunchResult
from tests.launcher.situations import STOP, Situation
from tests.launcher.supervised import config

_UNKNOWN = "tensorflow.python.framework.errors_impl.UnknownError"
_ENDED = f"{JOB_CANNOT_GO_ON}rank 1 has exited, and rank {{}} waits for it in allreduce 'sum'."
_LEFT = f"{JOB_CANNOT_GO_ON}rank 1 has left, and rank {{}} waits for it in allreduce 'sum'."


def in_tensorflow(sentence: str) -> str:
    """The text of the error that ``run`` raises for a py_func in which that was raised."""
    return (
        "2 root error(s) found.\n"
        f"  (0) Unknown: {{{{function_node f}}}} CollectiveError: {sentence}\n"
        "Traceback (most recent call last):\n\n"
        '  File "script_ops.py", line 235, in __call__\n    ret = func(*args)\n\n'
        "\t [[{{node PyFunc}}]]\n\t [[HcomAllReduce/get]]\n"
    )


def lost(situation: Situation, sentence: str = _ENDED, at: float = 10.5) -> Situation:
    """Ranks 0 and 2 raise what says that rank 1 is no longer there."""
    for rank in (0, 2):
        said = in_tensorflow(sentence.format(rank))
        situation.raised(rank, _UNKNOWN, said, at + rank / 10)
    return situation


@pytest.mark.parametrize("at", [9.0, 10.55, 15.0], ids=["before", "between", "after"])
@pytest.mark.parametrize("kind", ["ValueError", "RuntimeError", "__main__.Wrong"])
def test_what_a_rank_raised_beats_what_the_others_raise_for_it(
    tmp_path: Path, kind: str, at: float
) -> None:
    cause = lost(Situation(tmp_path, 3)).raised(1, kind, "no such batch", at).cause()
    assert (cause.rank, cause.others, cause.failure) == (1, (0, 2), None)
    name = kind.rpartition(".")[2]
    assert cause.said == f"Rank 1 raised {name}: no such batch."


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        (lambda s: s.ended(1, -signal.SIGKILL, 12.0), "Rank 1 was killed by SIGKILL"),
        (lambda s: s.ended(1, -signal.SIGSEGV, 12.0), "Rank 1 was killed by signal 11 (SIGSEGV)."),
        (lambda s: s.ended(1, 7, 12.0), "Rank 1 exited with code 7."),
        (lambda s: s.raised(1, "MemoryError", "", 12.0), "Rank 1 raised MemoryError."),
    ],
    ids=["killed", "crashed", "code", "memory"],
)
def test_the_end_of_a_rank_beats_what_the_others_raise_for_it(
    tmp_path: Path, happens: Callable[[Situation], Situation], said: str
) -> None:
    cause = happens(lost(Situation(tmp_path, 3))).cause()
    assert cause.rank == 1
    assert cause.said.startswith(said)
    assert set(cause.others) == {0, 2}


def test_a_rank_that_was_killed_is_to_blame_if_others_exit_before_it_does(tmp_path: Path) -> None:
    made = lost(Situation(tmp_path, 3)).stopped(1)
    killed = made.ended(1, -signal.SIGKILL, STOP + 0.01).cause()
    assert (killed.rank, killed.others, killed.exit_code) == (1, (0, 2), 137)
    made.attempt.killed = STOP + 0.005  # by the launcher
    cause = made.cause()
    assert (cause.rank, cause.exit_code) == (1, 1)
    assert cause.said == "Rank 1 has exited, and rank 0 waits for it in allreduce 'sum'."


def test_a_rank_that_left_early_is_the_cause_and_no_success(tmp_path: Path) -> None:
    ranks, cause = lost(Situation(tmp_path, 3).ended(1, 0, 9.0), _LEFT).judged()
    assert cause is not None
    assert (cause.rank, cause.others, cause.exit_code, cause.left) == (1, (0, 2), 1, (1,))
    assert cause.said == (
        "Rank 1 has left, and rank 0 waits for it in allreduce 'sum'. Rank 1 had exited with "
        "code 0."
    )
    assert [rank.outcome for rank in ranks] == ["failed", Outcome.LEFT, "failed"]
    assert cause.failure_class is FailureClass.PERMANENT
    assert "the same number of steps" in cause.advice


def test_among_all_that_cannot_go_on_the_first_is_shown(tmp_path: Path) -> None:
    made = Situation(tmp_path, 4)
    for rank, at in enumerate((12.0, 11.0, 13.0)):
        made.raised(rank, _UNKNOWN, in_tensorflow(f"{JOB_CANNOT_GO_ON}shapes differ ({rank})."), at)
    cause = made.cause()
    assert (cause.rank, cause.others) == (1, (0, 2))
    assert cause.said.endswith("The job cannot continue: shapes differ (1).")


def test_a_script_that_catches_the_error_and_exits_is_not_to_blame(tmp_path: Path) -> None:
    made = Situation(tmp_path, 3).raised(0, "SystemExit", "3", 10.0, code=3)
    made.wrote(0, f"lost: CollectiveError: {_ENDED.format(0)}\n").stopped(2)
    killed = made.ended(1, -signal.SIGKILL, 10.5).cause()
    assert (killed.rank, killed.others) == (1, (0,))
    ranks, alone = made.stopped(1).judged()
    assert alone is not None
    assert (alone.rank, alone.exit_code) == (1, 3)
    assert alone.said == (
        "Rank 1 has exited, and rank 0 waits for it in allreduce 'sum'. Rank 0 exited with code 3."
    )
    assert ranks[1].outcome == Outcome.LEFT


def test_what_another_exception_was_raised_from_is_reported(tmp_path: Path) -> None:
    made = Situation(tmp_path, 2).raised(0, "RuntimeError", "the epoch failed", 10.0).stopped(1)
    record = Path(made.plan.ranks[0].folder, "error.json")
    chain = f"CollectiveError: {_ENDED.format(0)}\\n\\nThe above exception was the direct cause"
    record.write_text(
        record.read_text().replace("Traceback (most", f"{chain}\\n\\nTraceback (most")
    )
    cause = made.cause()
    assert cause.said == (
        "Rank 1 has exited, and rank 0 waits for it in allreduce 'sum'. Rank 0 raised "
        "RuntimeError: the epoch failed."
    )


def test_a_stopped_rank_with_a_failure_of_its_own_explains_it(tmp_path: Path) -> None:
    made = Situation(tmp_path, 3).raised(0, _UNKNOWN, in_tensorflow(_ENDED.format(0)), 10.0)
    made.stopped(1, 2).wrote(1, "[ERROR] RUNTIME(1,python): EI0007: no memory\n")
    assert made.cause().rank == 1
    assert STOP > 10.0


# Jobs that run. The ranks wait for each other through named pipes, as through an exchange.
_BEGIN = f"""
class CollectiveError(RuntimeError):
    pass
def wait():
    open(os.environ["GATE"] + str(rank)).read()
def lose(other, how):
    raise CollectiveError("somewhere\\n  {JOB_CANNOT_GO_ON}rank %d has %s.\\nmore" % (other, how))
def go_on(*others):
    for other in others:
        open(os.environ["GATE"] + str(other), "w").close()
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., LaunchResult]:
    """Launches a script of three ranks and returns what became of it."""
    for rank in range(3):
        os.mkfifo(str(tmp_path / f"gate{rank}"))

    def run(code: str) -> LaunchResult:
        script = tmp_path / "train.py"
        head = 'import os, signal, sys\nrank = int(os.environ["RANK_ID"])\n'
        script.write_text(head + _BEGIN + code)
        asked: Dict[str, Any] = {"program": None, "args": (), "script": str(script)}
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            return launch(config(tmp_path, "", 3, **asked), output=null)
        finally:
            os.close(null)

    return run


def test_a_job_of_which_a_rank_raises_first(run: Callable[..., LaunchResult]) -> None:
    # It tells the others while it unwinds, and takes its time to end.
    code = """
if rank == 1:
    import atexit
    atexit.register(lambda: (go_on(0, 2), wait()))
    raise ValueError("no such batch")
wait()
if rank == 2:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
lose(1, "exited")
"""
    cause = run(code).cause
    assert cause is not None
    assert (cause.rank, cause.said) == (1, "Rank 1 raised ValueError: no such batch.")


def test_a_job_of_which_a_rank_raises_last(run: Callable[..., LaunchResult]) -> None:
    # Its record comes after those of the others, who cannot end before.
    code = """
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
import atexit
if rank == 1:
    atexit.register(go_on, 0, 2)
    try:
        go_on(0, 2)
        wait()
    finally:
        raise ValueError("no such batch")
wait()
def end():
    if rank == 0:
        go_on(1)
    open(os.environ["GATE"] + str(rank)).read()
atexit.register(end)
lose(1, "exited")
"""
    result = run(code)
    cause = result.cause
    assert cause is not None
    assert (cause.rank, cause.said) == (1, "Rank 1 raised ValueError: no such batch.")
    errors = [rank.error for rank in result.ranks]
    assert errors[0] is not None
    assert errors[1] is not None
    assert errors[0].time < errors[1].time


def test_a_job_of_which_a_rank_is_killed(run: Callable[..., LaunchResult]) -> None:
    code = """
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
if rank == 1:  # the others see the end of its streams
    streams = [open(os.environ["GATE"] + str(other), "w") for other in (0, 2)]
    os.kill(os.getpid(), signal.SIGKILL)
wait()
lose(1, "exited")
"""
    cause = run(code).cause
    assert cause is not None
    assert (cause.rank, cause.exit_code) == (1, 137)
    assert cause.said.startswith("Rank 1 was killed by SIGKILL")


def test_a_job_that_a_rank_leaves_early(run: Callable[..., LaunchResult]) -> None:
    code = """
if rank == 1:
    go_on(0, 2)
    sys.exit(0)
wait()
lose(1, "left")
"""
    result = run(code)
    cause = result.cause
    assert cause is not None
    assert (cause.rank, cause.exit_code, cause.left) == (1, 1, (1,))
    assert cause.said.startswith("Rank 1 has left.")
    assert "lose" in "".join(cause.place)  # where one of the others missed it
    assert result.ranks[1].outcome == Outcome.LEFT
