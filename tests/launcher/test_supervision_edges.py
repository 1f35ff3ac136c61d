"""Moments and circumstances in which supervision could go wrong: real programs, real signals."""

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Iterator, List

import psutil
import pytest

from ascend_session import RetryPolicy
from ascend_session.errors import JobError
from ascend_session.launcher.api import launch
from ascend_session.launcher.events import Event, Finished, Restarting
from ascend_session.launcher.job.events import Started, Stopping
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.verdict.result import LaunchResult
from tests.launcher.supervised import PATIENCE, Gate, config, job

_REPOSITORY = Path(__file__).resolve().parents[2]
_TRANSIENT = "sys.exit('EJ0001: Failed to initialize the HCCP process')"

# A rank of `start.start_rank` that gets SIGINT before it is a program.
_EARLY = """
import os, signal
from ascend_session.launcher.job.start import GuardedRank, start_rank
signal.signal(signal.SIGINT, lambda number, frame: None)
os.chdir = lambda folder: os.kill(os.getpid(), signal.SIGINT)
rank = GuardedRank(0, [b"/bin/true"], b"/", {}, None, False, b"/dev/null", b"/dev/null")
pid, pipe = start_rank(rank)
print(os.waitpid(pid, 0)[1])
"""

# A job of which each rank has ended when the next one could be started.
_SLOW = """
import os, socket, sys
from ascend_session.launcher.job import loop, reports
from ascend_session.launcher.job.messages import MessageChannel
start = loop.start_rank
def slowly(rank):
    pid, pipe = start(rank)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid, pipe
loop.start_rank = slowly
ours, theirs = socket.socketpair()
ranks = [(number, [b"/bin/" + name], b"/", {}, None, False, b"/dev/stderr", b"/dev/stderr")
         for number, name in enumerate((b"true", b"false", b"true"))]
listener = reports.open_address()[0]
stall = {"timeout_s": None, "note_s": 0}
asked = {"listener": listener.fileno(), "stall": stall, "ranks": ranks,
         "grace": 1.0, "size": 0, "has_pipes": False}
loop.GuardedJob(MessageChannel(theirs.fileno()), asked).run([])
print([message[:2] for message in MessageChannel(ours.fileno()).receive()])
"""

# A launch by a program that has closed its standard streams.
_CLOSED = """
import os, sys
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.api import launch
told = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
for fd in range(3):
    os.close(fd)
asked = LaunchConfig(program="/bin/sh", args=["-c", "echo some words; sleep 0.5"], processes=3,
                     backend="stub", log_dir=sys.argv[1])
result = launch(asked)
open_now = [fd for fd in range(3) if os.path.exists(f"/proc/self/fd/{fd}")]
os.write(told, repr((result.code, open_now)).encode())
"""

# A launch by a program whose folder of modules has namesakes of Python's own and of this package.
_NAMESAKES = """
import pathlib, sys
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.api import launch
sys.path.insert(0, sys.argv[1])
sys.path += [pathlib.Path(sys.argv[1]), None]
asked = LaunchConfig(program="/bin/true", processes=1, backend="stub", log_dir=sys.argv[2])
print(launch(asked).code)
"""


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path)
    yield made
    made.close()


@pytest.fixture
def null() -> Iterator[int]:
    fd = os.open(os.devnull, os.O_WRONLY)
    yield fd
    os.close(fd)


def _run(code: str, *arguments: object) -> str:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(_REPOSITORY)},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        timeout=PATIENCE,
    ).stdout


def test_a_signal_before_a_rank_is_a_program_ends_it() -> None:
    assert int(_run(_EARLY)) == signal.SIGINT


def test_a_rank_that_fails_while_others_are_started_is_noticed_and_no_other_started() -> None:
    messages = _run(_SLOW)
    kinds = "('start', 0), ('exit', 0), ('start', 1), ('exit', 1), ('over', ())"
    assert messages == f"[{kinds}]\n"


def test_a_grace_of_years_is_waited_for(tmp_path: Path, gate: Gate) -> None:
    code = """
if rank:
    open(os.environ["GATE"]).readline(); sys.exit(3)
def late(number, frame):
    time.sleep(0.5); os._exit(4)
signal.signal(signal.SIGTERM, late)
tell("ready")
signal.pause()
"""
    run = job(tmp_path, code, ranks=2, grace=1e8)
    assert not run.attempt.guardian_died
    assert run.statuses == [4, 3]


def test_a_stopped_guardian_ends_the_job_when_it_is_asked_to(tmp_path: Path) -> None:
    timers: List[threading.Timer] = []

    def stop_the_guardian(event: Event) -> None:
        if isinstance(event, Started) and event.rank == 2:
            guardian = psutil.Process(event.pid).ppid()
            os.kill(guardian, signal.SIGSTOP)
            timers.append(threading.Timer(PATIENCE, os.kill, (guardian, signal.SIGCONT)))
            timers[0].start()
            os.kill(os.getpid(), signal.SIGTERM)

    run = job(tmp_path, "signal.pause()", on_event=stop_the_guardian)
    was_waited_for = not timers[0].is_alive()
    timers[0].cancel()
    timers[0].join()
    assert not was_waited_for
    assert run.statuses == [-signal.SIGTERM] * 3


def test_a_signal_to_a_fork_of_the_launcher_ends_the_fork_and_not_the_job(
    tmp_path: Path, gate: Gate
) -> None:
    ends: List[int] = []

    def fork_and_end_it(event: Event) -> None:
        if isinstance(event, Started) and event.rank == 2:
            read, write = os.pipe()
            pid = os.fork()
            if not pid:
                signal.alarm(int(PATIENCE))
                os.write(write, b"!")  # Python forgets signals that come during a fork
                while True:
                    signal.pause()
            os.read(read, 1)
            os.close(read)
            os.close(write)
            os.kill(pid, signal.SIGTERM)
            ends.append(os.waitpid(pid, 0)[1])
            gate.path.write_text("go on\n" * 3)

    code = "open(os.environ['GATE']).readline() if rank == 2 else None"
    run = job(tmp_path, code, on_event=fork_and_end_it)
    assert ends == [signal.SIGTERM]
    assert run.attempt.signal is None
    assert run.statuses == [0, 0, 0]


def test_closed_standard_streams_are_not_taken_by_the_launcher(tmp_path: Path) -> None:
    _run(_CLOSED, tmp_path / "logs", tmp_path / "told")
    assert (tmp_path / "told").read_text() == "(0, [])"


def test_modules_of_the_users_do_not_take_the_place_of_the_guardians_own(tmp_path: Path) -> None:
    folder = tmp_path / "modules"
    folder.mkdir()
    for name in ("abc", "types", "select", "selectors", "runpy", "struct", "ascend_session"):
        (folder / f"{name}.py").write_text("raise SystemExit(9)\n")
    assert _run(_NAMESAKES, folder, tmp_path / "logs").splitlines()[-1] == "0"


def test_a_job_that_is_told_to_end_is_not_started_again(tmp_path: Path, null: int) -> None:
    events: List[Event] = []

    def interrupt(event: Event) -> None:
        events.append(event)
        if isinstance(event, Stopping):
            os.kill(os.getpid(), signal.SIGINT)

    asked = config(tmp_path, f"{_TRANSIENT} if rank == 1 else signal.pause()", 3, max_restarts=2)
    with pytest.raises(KeyboardInterrupt):
        launch(asked, output=null, on_event=interrupt)
    assert not any(isinstance(event, Restarting) for event in events)
    last = events[-1]
    assert isinstance(last, Finished)
    assert (last.result.code, len(last.result.attempts)) == (1, 1)


def test_an_attempt_that_cannot_be_planned_does_not_hide_the_one_before(
    tmp_path: Path, null: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(RetryPolicy, "wait_before_next", lambda policy, failure: 0.0)
    script = tmp_path / "once.py"
    script.write_text(f"import os, sys\nos.unlink(__file__)\n{_TRANSIENT}\n")
    asked = LaunchConfig(
        script=str(script),
        processes=1,
        backend="stub",
        log_dir=str(tmp_path / "logs"),
        max_restarts=2,
    )
    result: LaunchResult = launch(asked, output=null)
    assert (result.code, len(result.attempts)) == (1, 1)
    assert any(note.startswith("Attempt 2 could not be planned: ") for note in result.notes)


def test_without_a_socket_for_the_guardian_no_file_stays_open(
    tmp_path: Path, monkeypatch: Any
) -> None:
    def none_left() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("socket.socketpair", none_left)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(JobError, match="could not be started: Too many open files"):
        job(tmp_path, "")
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_a_launcher_that_may_have_no_more_threads_says_so_and_closes_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The limit of processes does not hold for root, who may run the tests.
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "launch-follower":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(JobError, match="cannot start its thread 'launch-follower'"):
        job(tmp_path, "")
    assert len(os.listdir("/proc/self/fd")) <= before + 1
