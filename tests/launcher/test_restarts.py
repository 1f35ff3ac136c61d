"""After which ends a job is tried again, and where another attempt went on."""

import os
import signal
from pathlib import Path
from typing import Any, Callable, List

import psutil
import pytest

from ascend_session import LaunchResult, launch
from ascend_session.launcher.events import Event, Restarting, Resumed
from ascend_session.launcher.job.events import Over, Started
from tests.launcher.supervised import config

# In the first attempt a rank ends as the test says; in the second all succeed.
_ENDS = """
if not os.environ["ASCEND_SESSION_RANK_FOLDER"].endswith("attempt_2/rank_%d" % rank):
    if rank == 1: {end}
    signal.pause()
"""
_RESUMES = """
sys.path.insert(0, {repository!r})
from ascend_session.training import note_first_step
if rank == 0: note_first_step(40)
"""
_REPOSITORY = str(Path(__file__).resolve().parents[2])


class Retried:
    """A launch, what happened in it, and what it showed."""

    def __init__(self, result: LaunchResult, events: List[Event], screen: str) -> None:
        self.result = result
        self.events = events
        self.screen = screen


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Retried]:
    """Launches two ranks, with one more attempt if the first fails."""

    def run(code: str, on_event: Callable[[Event], None] = lambda event: None) -> Retried:
        events: List[Event] = []

        def note(event: Event) -> None:
            events.append(event)
            on_event(event)

        screen = tmp_path / "screen"
        with screen.open("wb") as file:
            asked = config(tmp_path, code, 2, max_restarts=1)
            result = launch(asked, output=file.fileno(), on_event=note)
        return Retried(result, events, screen.read_text())

    return run


@pytest.mark.parametrize(
    "end",
    [
        "os.kill(os.getpid(), signal.SIGKILL)",
        "os.kill(os.getpid(), signal.SIGTERM)",
        "sys.exit(137)",  # what a shell ends with whose program was killed
        "sys.exit(143)",
    ],
)
def test_a_rank_that_was_killed_is_worth_another_attempt(run: Any, end: str) -> None:
    retried = run(_ENDS.format(end=end))
    first, second = retried.result.attempts
    assert (retried.result.code, second.cause) == (0, None)
    assert first.cause.rank == 1
    (restarting,) = [event for event in retried.events if isinstance(event, Restarting)]
    assert restarting.why.startswith("Attempt 1 failed: Rank 1 ")


@pytest.mark.parametrize(
    "end", ["os.kill(os.getpid(), signal.SIGSEGV)", "sys.exit(1)", "sys.exit(130)"]
)
def test_a_rank_that_failed_by_itself_is_not(run: Any, end: str) -> None:
    retried = run(_ENDS.format(end=end))
    assert len(retried.result.attempts) == 1
    assert retried.result.code != 0


def test_a_crash_is_one_also_if_a_child_of_the_rank_ends_in_order_afterwards(run: Any) -> None:
    code = """
from ascend_session.rank_folder import write_record
if rank == 1:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    if os.fork(): os.kill(os.getpid(), signal.SIGSEGV)
    signal.sigwait([signal.SIGTERM])
    write_record(SystemExit(143), os.environ["ASCEND_SESSION_RANK_FOLDER"])
    os._exit(143)
signal.pause()
"""
    retried = run(f"sys.path.insert(0, {_REPOSITORY!r})" + code)
    assert len(retried.result.attempts) == 1
    assert (retried.result.cause.rank, retried.result.code) == (1, 128 + signal.SIGSEGV)


def test_what_may_pass_is_tried_once_more_however_many_attempts_there_may_be(
    tmp_path: Path,
) -> None:
    code = "if rank == 0: sys.exit('[ERROR] RUNTIME failed, ret[507033].')\nsignal.pause()"
    events: List[Event] = []

    def note(event: Event) -> None:
        if isinstance(event, Restarting):
            events.append(event)
            os.kill(os.getpid(), signal.SIGHUP)  # the wait is the vendor's

    previous = signal.signal(signal.SIGHUP, lambda number, frame: None)
    try:
        with open(os.devnull, "wb") as null:
            asked = config(tmp_path, code, 2, max_restarts=5)
            launch(asked, output=null.fileno(), on_event=note)
    finally:
        signal.signal(signal.SIGHUP, previous)
    (restarting,) = events
    assert isinstance(restarting, Restarting)
    assert restarting.why.endswith(" 507033 may be a temporary failure.")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_so_is_a_guardian_that_was_killed(run: Any, number: int) -> None:
    killed: List[int] = []

    def kill(event: Event) -> None:
        if isinstance(event, Started) and event.rank == 1 and not killed:
            killed.append(psutil.Process(event.pid).ppid())
            os.kill(killed[0], number)

    retried = run(_ENDS.format(end="signal.pause()"), kill)
    assert len(retried.result.attempts) == 2
    assert retried.result.code == 0


@pytest.mark.parametrize(
    ("kind", "end", "code"),
    [
        (Started, "signal.pause()", 128 + signal.SIGHUP),
        (Over, "os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
    ],
)
def test_a_launcher_that_is_told_to_end_makes_no_other_attempt(
    run: Any, kind: Any, end: str, code: int
) -> None:
    ended: List[int] = []
    previous = signal.signal(signal.SIGHUP, lambda number, frame: ended.append(number))

    def tell(event: Event) -> None:
        if isinstance(event, kind) and getattr(event, "rank", 1) == 1:
            os.kill(os.getpid(), signal.SIGHUP)

    try:
        retried = run(_ENDS.format(end=end), tell)
    finally:
        signal.signal(signal.SIGHUP, previous)
    assert len(retried.result.attempts) == 1
    assert (retried.result.code, ended) == (code, [signal.SIGHUP])


def test_only_rank_0_says_at_which_step_its_job_begins(tmp_path: Path) -> None:
    code = _RESUMES.format(repository=_REPOSITORY).replace("if rank == 0: ", "")
    nodes = {"nnodes": 2, "node_rank": 1}
    with open(os.devnull, "wb") as null:
        result = launch(config(tmp_path, code, 1, **nodes), output=null.fileno())
    assert (result.code, result.attempts[0].first_step) == (0, None)


def test_another_attempt_says_at_which_step_it_resumed(run: Any) -> None:
    code = _ENDS.format(end="os.kill(os.getpid(), signal.SIGKILL)")
    retried = run(code + _RESUMES.format(repository=_REPOSITORY))
    assert [attempt.first_step for attempt in retried.result.attempts] == [None, 40]
    assert [event.step for event in retried.events if isinstance(event, Resumed)] == [40]
    assert "Attempt 2 resumed at step 40.\n" in retried.screen
    assert [each["first_step"] for each in retried.result.as_dict()["attempts"]] == [None, 40]
