"""A job with a limit for stalls, from its start to its end."""

import os
import signal
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest

from ascend_session.launcher.events import Event
from ascend_session.launcher.job.attempt import Attempt
from ascend_session.launcher.job.events import Ended, Stalled, StallNote, Stopping
from ascend_session.launcher.job.guardian_process import GuardianProcess
from ascend_session.launcher.job.signals import Signals
from ascend_session.launcher.plan.plan import plan_job
from ascend_session.launcher.show.following import Output
from ascend_session.launcher.supervisor import supervise
from ascend_session.rank_folder import STACK_SIGNAL, STACKS_NAME
from tests.launcher.supervised import alive, config

# What the witness does for a rank; the folder of the vendor's logs is in the rank's own.
_OURS = f"""
import faulthandler
folder = os.path.dirname(os.environ["ASCEND_PROCESS_LOG_PATH"])
file = open(os.path.join(folder, "{STACKS_NAME}"), "w")
faulthandler.register({int(STACK_SIGNAL)}, file=file, all_threads=True, chain=False)
def collective():
    while True: signal.pause()
"""


def _job(folder: Path, code: str, ranks: int, **asked: Any) -> Tuple[Attempt, List[Event]]:
    events: List[Event] = []
    null = os.open(os.devnull, os.O_WRONLY)
    output = Output(null, ranks, (), False, False)
    planned = plan_job(config(folder, code, ranks, grace=30, **asked), dict(os.environ))
    try:
        with Signals() as signals:
            guardian = GuardianProcess(planned.config)
            attempt = supervise(planned, guardian, output, signals, events.append)
    finally:
        output.close()
        os.close(null)
    return attempt, events


def test_a_job_that_hangs_is_reported_with_stacks_and_ended(tmp_path: Path) -> None:
    attempt, events = _job(
        tmp_path, _OURS + "print(rank)\ncollective()", ranks=3, stall_timeout=1.0
    )
    assert [rank.status for rank in attempt.ranks] == [-signal.SIGTERM] * 3
    assert attempt.stall[0].startswith(
        "The job stalled: no rank has written anything or used a CPU for 1 s; ranks 0-2 are at "
    )
    assert attempt.stall[0].endswith(" (collective).")
    path = Path(attempt.folder, "stalled.log")
    assert attempt.stall[1:] == (f"Read what each rank was doing, with its stacks, in {path}.",)
    _, *blocks = path.read_text().split("\nRank ")
    for rank, block in enumerate(blocks):
        assert block.startswith(f"{rank} last wrote ")
        assert f": process {attempt.ranks[rank].pid} (" in block
        assert " in collective\n" in block
    assert attempt.left == ()
    assert alive([rank.pid for rank in attempt.ranks if rank.pid is not None]) == []
    kinds = [type(event) for event in events if not isinstance(event, Ended)]
    (stalled,) = [event for event in events if isinstance(event, Stalled)]
    assert stalled.report == attempt.stall
    assert kinds.index(Stalled) < kinds.index(Stopping)
    assert stalled.time <= min(rank.ended or 0 for rank in attempt.ranks)


def test_ranks_that_never_say_and_compute_anything_are_ended_too(tmp_path: Path) -> None:
    code = f"""
signal.signal({int(STACK_SIGNAL)}, signal.SIG_DFL)
sys.exit(0) if rank == 1 else signal.pause()
"""
    attempt, _ = _job(tmp_path, code, 3, stall_timeout=1.0)
    assert [rank.status for rank in attempt.ranks] == [-signal.SIGTERM, 0, -signal.SIGTERM]
    _, zero, two, ended = Path(attempt.folder, "stalled.log").read_text().splitlines()
    assert zero.startswith("Rank 0 has written nothing and last used a CPU ")
    assert two.startswith("Rank 2 has written nothing and last used a CPU ")
    assert ended == "Exited with code 0 before that: rank 1."


def test_a_job_that_lives_longer_than_the_limit_is_left_alone(tmp_path: Path) -> None:
    code = """
end = time.monotonic() + 3
while rank == 0 and time.monotonic() < end: pass
"""
    attempt, events = _job(tmp_path, code, ranks=2, stall_timeout=1.0)
    assert [rank.status for rank in attempt.ranks] == [0, 0]
    assert attempt.stall == ()
    assert not any(isinstance(event, (Stalled, Stopping)) for event in events)


def test_a_process_that_lost_its_parent_counts_for_its_rank(tmp_path: Path) -> None:
    """It loses its parent before it is looked at for the first time, and leaves the session."""
    code = """
read, write = os.pipe()
if not os.fork():
    os.setsid()
    if not os.fork():
        end = time.monotonic() + 3
        while time.monotonic() < end: pass
        os.write(write, b"x")
    os._exit(0)
os.wait()
os.read(read, 1)
"""
    attempt, _ = _job(tmp_path, code, ranks=1, stall_timeout=1.0)
    assert [rank.status for rank in attempt.ranks] == [0]
    assert attempt.stall == ()


def test_a_failure_is_no_stall(tmp_path: Path) -> None:
    code = "sys.exit(7) if rank else signal.pause()"
    attempt, events = _job(tmp_path, code, ranks=2, stall_timeout=30.0)
    assert [rank.status for rank in attempt.ranks] == [-signal.SIGTERM, 7]
    (stopping,) = [event for event in events if isinstance(event, Stopping)]
    assert stopping.why == "failure"
    assert attempt.stall == ()
    assert attempt.ended - attempt.started < 25


_STALL = {"stall_timeout": 1.0}
_NOTE = {"env": {"ASCEND_SESSION_STALL_NOTE": "0.2"}}  # and five times that for all ranks


@pytest.mark.parametrize(
    ("asked", "whom", "names", "why"),
    [
        (_STALL, "launcher", ["SIGINT", "SIGTERM"], ["asked"]),
        (_NOTE, "launcher", ["SIGINT", "SIGTERM"], []),  # the first one asks for stacks, too
        (_STALL, "guardian", ["SIGTERM"], ["told"]),
    ],
)
def test_who_ends_a_job_does_not_wait_for_stacks_that_were_just_asked_for(
    tmp_path: Path, asked: Dict[str, Any], whom: str, names: List[str], why: List[str]
) -> None:
    numbers = [int(getattr(signal, name)) for name in names]
    code = f"""{_OURS}
if rank == 0:  # it does not answer, so that the stacks of both take their time
    signal.pthread_sigmask(signal.SIG_BLOCK, [{int(STACK_SIGNAL)}])
for number in {numbers if whom == "launcher" else []}:
    signal.signal(number, signal.SIG_IGN)
if rank == 1:
    while not os.path.getsize(file.name):
        time.sleep(0.2)  # more often would be a sign of life
    for number in {numbers}:
        os.kill({os.getpid() if whom == "launcher" else "os.getppid()"}, number)
collective()
"""
    attempt, events = _job(tmp_path, code, ranks=2, **asked)
    ended_by = signal.SIGKILL if whom == "launcher" else signal.SIGTERM
    assert [rank.status for rank in attempt.ranks] == [-ended_by] * 2
    assert attempt.is_kill_asked == (whom == "launcher")
    assert [event.why for event in events if isinstance(event, Stopping)] == why
    assert [event for event in events if isinstance(event, (Stalled, StallNote))] == []
