"""One attempt at a job: real programs, real signals, and nothing left at the end."""

import json
import os
import resource
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Iterator, List

import psutil
import pytest

from ascend_session.launcher.events import Event, Planned
from ascend_session.launcher.job.events import (
    Ended,
    Killing,
    LeftBehind,
    NotStarted,
    Over,
    Started,
    Stopping,
)
from tests.launcher.supervised import PATIENCE, Gate, alive, in_launcher, job

# A rank that says that it is there and then stays.
_STAY = "tell(os.getpid()); signal.pause()"
# One that nothing but SIGKILL ends.
_STUBBORN = (
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN); "
)
# A grandchild in a session of its own that nobody waits for and that ignores SIGTERM.
_LEAVE = """
if not os.fork():
    os.setsid()
    if not os.fork():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        tell(os.getpid())
        os.close(1); os.close(2)
        signal.pause()
    os._exit(0)
os.wait()
"""


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path)
    yield made
    made.close()


def _told_by(gate: Gate, count: int) -> List[int]:
    return [int(words[1]) for words in gate.lines(count)]


def test_a_job_whose_ranks_end_with_0_is_over_and_nobody_was_stopped(tmp_path: Path) -> None:
    run = job(tmp_path, "print('rank', rank)")
    assert run.statuses == [0, 0, 0]
    assert [run.said(rank) for rank in range(3)] == ["rank 0\n", "rank 1\n", "rank 2\n"]
    assert run.attempt.stopped is None
    assert run.attempt.left == run.attempt.swept == ()
    kinds = [type(event) for event in run.events]
    assert kinds[:4] == [Planned, Started, Started, Started]
    assert sorted(kinds[4:7], key=str) == [Ended] * 3
    assert kinds[7:] == [Over]


def test_the_first_failure_stops_the_others(tmp_path: Path, gate: Gate) -> None:
    code = f"""
if rank == 1:
    sys.stdin.read()
    tell("ready"); sys.exit(7)
{_STAY}
"""
    run = job(tmp_path, code)
    assert run.statuses == [-signal.SIGTERM, 7, -signal.SIGTERM]
    (stopping,) = [event for event in run.events if isinstance(event, Stopping)]
    assert stopping.why == "failure"
    attempt = run.attempt
    first, failed, last = attempt.ranks
    assert failed.ended <= attempt.stopped <= min(first.ended, last.ended) <= attempt.ended


def test_a_signal_that_ends_a_rank_is_its_status(tmp_path: Path) -> None:
    for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT):
        code = f"os.kill(os.getpid(), {int(number)}) if rank == 2 else signal.pause()"
        run = job(tmp_path / number.name, code)
        assert run.statuses == [-signal.SIGTERM, -signal.SIGTERM, -number]


def test_a_rank_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path, gate: Gate) -> None:
    code = f"""
if rank:
    {_STUBBORN}
    {_STAY}
open(os.environ["GATE"]).readline()
sys.exit(3)
"""
    # Rank 0 reads what one of the others tells.
    run = job(tmp_path, code, ranks=2, grace=0.2)
    assert run.statuses == [3, -signal.SIGKILL]
    killing = next(event for event in run.events if isinstance(event, Killing))
    assert killing.time - run.attempt.stopped >= 0.2


def test_what_a_crashed_rank_left_behind_is_ended(tmp_path: Path, gate: Gate) -> None:
    code = f"""
if rank == 0:
    {_LEAVE.replace(chr(10), chr(10) + "    ")}
    os.kill(os.getpid(), signal.SIGKILL)
signal.pause()
"""
    run = job(tmp_path, code, grace=0.2)
    assert run.statuses == [-signal.SIGKILL, -signal.SIGTERM, -signal.SIGTERM]
    (left,) = _told_by(gate, 1)
    assert alive([left]) == []
    assert [words.split()[0] for words in run.attempt.swept] == [str(left)]


def test_what_is_left_when_all_ranks_have_ended_well_is_ended_too(
    tmp_path: Path, gate: Gate
) -> None:
    run = job(tmp_path, _LEAVE, ranks=2, grace=0.2)
    left = _told_by(gate, 2)
    assert run.statuses == [0, 0]
    assert run.attempt.stopped is None
    assert alive(left) == []
    assert sorted(int(words.split()[0]) for words in run.attempt.swept) == sorted(left)


def test_fifty_children_in_groups_of_their_own_are_ended(tmp_path: Path, gate: Gate) -> None:
    code = f"""
for _ in range(50):
    if not os.fork():
        os.setpgid(0, 0)
        {_STUBBORN}
        os.write(gate, b"%d %d\\n" % (rank, os.getpid())); signal.pause()
os.waitpid(-1, 0)
"""
    code = "gate = os.open(os.environ['GATE'], os.O_WRONLY)\n" + code
    code += "\nsys.exit(0)"
    told: List[int] = []

    def fail_when_all_are_there(event: Event) -> None:
        if isinstance(event, Started) and event.rank == 1:
            told.extend(_told_by(gate, 100))
            os.kill(event.pid, signal.SIGKILL)

    run = job(tmp_path, code, ranks=2, grace=0.2, on_event=fail_when_all_are_there)
    assert len(told) == 100
    assert alive(told) == []
    assert run.statuses[1] == -signal.SIGKILL


def test_a_stopped_rank_is_ended(tmp_path: Path, gate: Gate) -> None:
    code = """
if rank == 0:
    open(os.environ["GATE"]).readline(); sys.exit(5)
tell("stopping"); os.kill(os.getpid(), signal.SIGSTOP)
"""
    run = job(tmp_path, code, ranks=2)
    assert run.statuses == [5, -signal.SIGTERM]


def test_a_stopped_process_that_a_rank_has_left_behind_can_end_in_order(tmp_path: Path) -> None:
    code = """
path = os.path.join(os.environ["ASCEND_SESSION_RANK_FOLDER"], "ended_in_order")
def end(number, frame):
    open(path, "w").close(); os._exit(0)
pid = os.fork()
if pid:
    os.waitpid(pid, os.WUNTRACED); sys.exit()
os.setsid()
signal.signal(signal.SIGTERM, end)
os.kill(os.getpid(), signal.SIGSTOP)
while True: signal.pause()
"""
    run = job(tmp_path, code, ranks=1, grace=20)
    assert run.statuses == [0]
    assert Path(run.plan.ranks[0].folder, "ended_in_order").exists()


def test_a_program_that_cannot_be_started_says_why_and_stops_the_others(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF this is none")
    program.chmod(0o755)
    run = job(tmp_path, "", program=str(program), args=[])
    said = [event for event in run.events if isinstance(event, NotStarted)]
    assert {(event.tried, event.text) for event in said} == {("started", "Exec format error")}
    # The others may have been stopped before they came so far.
    refused = [r for r in run.attempt.ranks if "Exec format error" in r.trouble]
    assert {(rank.pid, rank.started) for rank in refused} == {(None, None)}


def test_what_ends_by_itself_after_its_rank_was_not_left_behind(tmp_path: Path) -> None:
    for number in range(5):
        arguments = ["-c", "sleep 0.02 & exit 0"]
        run = job(tmp_path / str(number), "", ranks=1, program="/bin/sh", args=arguments)
        left = [event.processes for event in run.events if isinstance(event, LeftBehind)]
        assert () not in left


def test_a_working_directory_that_has_gone_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()

    def remove(planned: Any) -> Any:
        folder.rmdir()
        return planned

    run = job(tmp_path, "", cwd=str(folder), change=remove)
    said = [event for event in run.events if isinstance(event, NotStarted)]
    assert {(event.tried, event.text) for event in said} == {
        (f"started in {folder}", "No such file or directory")
    }


def test_a_rank_finds_nothing_but_what_a_plain_program_finds(tmp_path: Path) -> None:
    code = """
import resource
print(sorted(os.listdir("/proc/self/fd"))[:3], len(os.listdir("/proc/self/fd")))
print(os.getsid(0) == os.getpid(), sys.stdin.read() == "", sys.stdin.isatty())
print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)
print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
print(resource.getrlimit(resource.RLIMIT_NOFILE), os.getcwd())
print(subprocess.call(["sh", "-c", "kill -PIPE $$"]))
"""
    run = job(tmp_path, code, ranks=1)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert run.said(0).splitlines() == [
        # The file for stacks is number 1000; the last is the folder that is listed.
        "['0', '1', '1000'] 5",
        "True True False",
        "True",
        "set()",
        f"{limits} {os.getcwd()}",
        "-13",
    ]
    assert run.said(0, "stderr") == ""


def test_a_job_runs_off_the_main_thread(tmp_path: Path) -> None:
    found: List[Any] = []
    code = "sys.exit(9) if rank == 0 else signal.pause()"  # or there may be nobody to stop
    thread = threading.Thread(target=lambda: found.append(job(tmp_path, code)))
    thread.start()
    thread.join(PATIENCE)
    assert 9 in found[0].statuses
    (stopping,) = [event for event in found[0].events if isinstance(event, Stopping)]
    assert stopping.why == "failure"


def test_an_exception_in_the_launcher_ends_the_job(tmp_path: Path, gate: Gate) -> None:
    told: List[int] = []

    def raise_when_it_runs(event: Event) -> None:
        if isinstance(event, Started) and event.rank == 2:
            told.extend(_told_by(gate, 3))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        job(tmp_path, _STUBBORN + _STAY, on_event=raise_when_it_runs)
    assert len(told) == 3
    assert alive(told) == []


def test_a_launch_of_many_ranks_needs_no_higher_limit_of_open_files(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        run = job(tmp_path, "", ranks=64, program="/bin/sh", args=["-c", "ulimit -n"])
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (256, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert run.statuses == [0] * 64
    assert {run.said(rank) for rank in range(64)} == {"256\n"}


# A launcher in a process of its own


def _all_below(process: "subprocess.Popen") -> List[int]:
    return [child.pid for child in psutil.Process(process.pid).children(recursive=True)]


def _ended(pids: List[int]) -> bool:
    processes = []
    for pid in pids:
        try:
            processes.append(psutil.Process(pid))
        except psutil.NoSuchProcess:
            continue
    _, living = psutil.wait_procs(processes, timeout=PATIENCE)
    return living == []


def test_a_killed_launcher_leaves_nothing_behind(tmp_path: Path, gate: Gate) -> None:
    code = "child = os.fork()\nif not child: os.setsid()\n" + _STUBBORN + _STAY
    process = in_launcher(tmp_path, code, grace=0.2)
    try:
        ranks = _told_by(gate, 6)
        below = _all_below(process)
        assert set(ranks) <= set(below)
    finally:
        process.kill()
        process.communicate()
    assert _ended(below)


def test_a_killed_guardian_leaves_nothing_behind(tmp_path: Path, gate: Gate) -> None:
    code = "child = os.fork()\nif not child: os.setsid()\n" + _STUBBORN + _STAY
    process = in_launcher(tmp_path, code, grace=0.2)
    told = _told_by(gate, 6)
    (guardian,) = psutil.Process(process.pid).children()
    guardian.kill()
    said, trouble = process.communicate(timeout=PATIENCE)
    assert json.loads(said)["guardian_died"], trouble
    assert json.loads(said)["left"] == []
    assert alive(told) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_launcher_ends_the_job(
    tmp_path: Path, gate: Gate, number: signal.Signals
) -> None:
    process = in_launcher(tmp_path, _STAY)
    told = _told_by(gate, 3)
    os.kill(process.pid, number)
    said, trouble = process.communicate(timeout=PATIENCE)
    passed_on = signal.SIGINT if number == signal.SIGINT else signal.SIGTERM
    found = json.loads(said)
    assert found["signal"] == number, trouble
    # Python makes an exception of SIGINT; how it then ends differs between versions.
    allowed = {-int(passed_on), 1} if passed_on == signal.SIGINT else {-int(passed_on)}
    assert set(found["statuses"]) <= allowed
    assert alive(told) == []


def test_a_second_signal_does_not_wait_for_the_grace(tmp_path: Path, gate: Gate) -> None:
    code = """
def again(*ignored): tell("asked")
signal.signal(signal.SIGINT, again)
tell("ready")
while True: signal.pause()
"""
    process = in_launcher(tmp_path, code, grace=1000)
    gate.lines(3)
    begun = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    assert {words[1] for words in gate.lines(3)} == {"asked"}
    os.kill(process.pid, signal.SIGINT)
    said, trouble = process.communicate(timeout=PATIENCE)
    assert json.loads(said)["statuses"] == [-signal.SIGKILL] * 3, trouble
    assert time.monotonic() - begun < 500
