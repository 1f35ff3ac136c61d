"""`launch` from Python: where the lines go, what the result says, and the link to the job."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, List, Set

import pytest

from ascend_session import LaunchResult, launch
from ascend_session.launcher.events import Event
from ascend_session.launcher.job.events import Ended, Started
from tests.launcher.supervised import PATIENCE, config

_SAYS = "print('rank', rank)"
_LINES = ["[0] rank 0", "[1] rank 1"]


def run(folder: Path, code: str = _SAYS, on_event: Any = None, **asked: Any) -> LaunchResult:
    return launch(config(folder, code, 2, **asked), on_event=on_event)


def test_lines_go_to_a_stdout_that_is_kept_in_memory(tmp_path: Path, monkeypatch: Any) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    assert run(tmp_path).ok
    assert sorted(stream.getvalue().splitlines()) == _LINES


class Cell(io.TextIOBase):
    """What a notebook has as sys.stdout: its descriptor is that of the server's log."""

    def __init__(self, log: int) -> None:
        self.log = log
        self.text = ""

    def fileno(self) -> int:
        return self.log

    def write(self, text: str) -> int:
        self.text += text
        return len(text)


def test_lines_go_to_the_cell_of_a_notebook(tmp_path: Path, monkeypatch: Any) -> None:
    read, write = os.pipe()
    cell = Cell(write)
    monkeypatch.setattr(sys, "stdout", cell)
    assert run(tmp_path).ok
    os.close(write)
    assert os.read(read, 100) == b""
    os.close(read)
    assert sorted(cell.text.splitlines()) == _LINES


def test_lines_go_to_what_pytest_captures(tmp_path: Path, capsys: Any) -> None:
    assert run(tmp_path).ok
    assert sorted(capsys.readouterr().out.splitlines()) == _LINES


def test_a_python_without_stdout_can_launch(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert run(tmp_path).ok


def test_what_was_printed_before_stands_above_the_lines(tmp_path: Path, monkeypatch: Any) -> None:
    with open(str(tmp_path / "out"), "w+") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        print("before")
        run(tmp_path)
        print("after")
        stream.seek(0)
        lines = stream.read().splitlines()
    assert [lines[0], *sorted(lines[1:3]), lines[3]] == ["before", *_LINES, "after"]


def test_a_stdout_that_takes_nothing_now_and_does_not_block_is_waited_for(
    tmp_path: Path, monkeypatch: Any
) -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, bytes(1 << 16))
    received = bytearray()

    def receive() -> None:
        for chunk in iter(lambda: os.read(read, 1 << 16), b""):
            received.extend(chunk)

    reader = threading.Thread(target=receive)

    def start_late(event: Event) -> None:
        if isinstance(event, Ended) and reader.ident is None:
            reader.start()

    with open(write, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        print("before")
        result = run(tmp_path, on_event=start_late, independent=True)
    reader.join()
    os.close(read)
    assert result.ok
    assert not any("no record" in note for note in result.notes)
    assert sorted(received.decode().strip("\0").splitlines()) == sorted([*_LINES, "before"])


def test_a_stdout_that_was_closed_is_reported_once(tmp_path: Path, monkeypatch: Any) -> None:
    with open(os.devnull, "w") as stream:
        pass
    monkeypatch.setattr(sys, "stdout", stream)
    result = run(tmp_path, independent=True)
    assert result.ok
    assert ["closed file" in note for note in result.notes] == [True]


def test_a_result_prints_as_the_summary_of_the_command(tmp_path: Path) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    result = launch(config(tmp_path, "", 2), output=null)
    failed = launch(config(tmp_path, "if rank == 1: sys.exit(3)", 2), output=null)
    os.close(null)
    assert str(result).startswith("ascend-session: all 2 ranks succeeded in ")
    assert str(failed).startswith("ascend-session: the job failed. Rank 1 ")
    assert f"  All logs    {failed.attempts[0].folder}" in str(failed).splitlines()


class _StopError(Exception):
    pass


class TestWhatOnEventRaises:
    def test_is_not_held_up_by_a_fork_of_the_program(self, tmp_path: Path) -> None:
        table = tmp_path / "table.json"
        table.write_text('{"status": "initializing"}')
        forks = []

        def fork(event: Event) -> None:
            forks.append(os.fork())
            if not forks[0]:
                time.sleep(PATIENCE)
                os._exit(0)
            raise _StopError

        asked = {"rank_table": str(table), "nnodes": 2, "node_rank": 0, "wait_for_table": PATIENCE}
        with pytest.raises(_StopError):
            run(tmp_path, on_event=fork, **asked)
        assert os.waitpid(forks[0], os.WNOHANG) == (0, 0)  # it still lives
        os.kill(forks[0], signal.SIGKILL)
        os.waitpid(forks[0], 0)

    def test_leaves_a_file_alone_that_gets_the_number_of_a_closed_one(self, tmp_path: Path) -> None:
        numbers: Set[int] = set()
        files: List[int] = []
        is_over = threading.Event()

        def take_numbers() -> None:
            while not is_over.is_set():
                file = os.open(str(tmp_path / f"file_{len(files)}"), os.O_WRONLY | os.O_CREAT)
                if file in numbers:
                    files.append(file)
                else:
                    os.close(file)

        taking = threading.Thread(target=take_numbers)

        def stop(event: Event) -> None:
            if isinstance(event, Started):
                numbers.update(map(int, os.listdir("/proc/self/fd")))
                taking.start()
                raise _StopError

        with pytest.raises(_StopError):
            run(tmp_path, "time.sleep(1000)", stop)
        is_over.set()
        taking.join()
        sizes = [os.fstat(file).st_size for file in files]
        for file in files:
            os.close(file)
        assert sizes
        assert not any(sizes)


class TestTheLinkToTheNewestJob:
    def test_leads_to_it(self, tmp_path: Path) -> None:
        for job in ("one", "two"):
            run(tmp_path, job_id=job)
            assert os.readlink(str(tmp_path / "logs" / "latest")) == job
        assert sorted(os.listdir(str(tmp_path / "logs"))) == ["latest", "one", "two"]

    @pytest.mark.parametrize("kind", ["folder", "file", "link"])
    def test_leaves_what_else_has_the_name_alone(self, tmp_path: Path, kind: str) -> None:
        latest = tmp_path / "logs" / "latest"
        latest.parent.mkdir()
        if kind == "folder":
            latest.mkdir()
        elif kind == "file":
            latest.touch()
        else:
            latest.symlink_to("/elsewhere")
        before = os.lstat(str(latest))
        assert run(tmp_path, job_id="one").ok
        assert os.lstat(str(latest)).st_ino == before.st_ino
        assert sorted(os.listdir(str(tmp_path / "logs"))) == ["latest", "one"]


@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("sys.exit('no data')", "Rank 1 exited with code 1. It wrote last: no data."),
        ("raise SystemExit('no data')", "Rank 1 exited with code 1. It wrote last: no data."),
        ("sys.exit(1)", "Rank 1 exited with code 1."),
        ("print('no data', file=sys.stderr); sys.exit(3)", "Rank 1 exited with code 3."),
    ],
)
def test_the_text_with_which_a_rank_exits_is_the_reason(
    tmp_path: Path, code: str, end: str
) -> None:
    result = run(tmp_path, f"if rank == 1: {code}\nsignal.pause()")
    assert result.cause is not None
    assert (result.cause.said, result.code) == (end, 3 if "3" in end else 1)


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_pythons_that_leave_no_record_are_named(tmp_path: Path, option: str) -> None:
    result = run(tmp_path, args=[option, "-c", "print('done')"])
    assert result.ok
    note = result.notes[0]
    assert note.startswith("Ranks 0-1 have left no record of how they ended, as below python -I")


def test_a_path_for_modules_of_the_users_own_hides_nothing(tmp_path: Path) -> None:
    env = {"PYTHONPATH": "/nowhere"}
    result = run(tmp_path, args=["-c", "raise ValueError('no data')"], env=env)
    assert result.cause is not None
    assert "raised ValueError: no data." in result.cause.said


@pytest.mark.parametrize("program", ["true", "bash"])
def test_other_programs_that_succeed_get_no_note(tmp_path: Path, program: str) -> None:
    result = run(tmp_path, program=program, args=["-c", "hostname"] if program == "bash" else [])
    assert result.ok
    assert not any("no record" in note for note in result.notes)


# The signal comes to another thread than the one that waits, as it may also come right before the
# wait: nothing interrupts poll(2) then. The launcher waits without a limit once it has loaded what
# judges a failure.
_ELSEWHERE = """
import signal, sys, threading
from pathlib import Path
from ascend_session import launch
from tests.launcher.supervised import config

def say():
    cause = "ascend_session.launcher.verdict.cause"
    while not hasattr(sys.modules.get(cause), "find_first_failed"):
        threading.Event().wait(0.2)
    print("waiting", flush=True)

threading.Thread(target=say).start()
threading.Thread(target=threading.Event().wait, daemon=True).start()
signal.signal(signal.SIGTERM, lambda number, frame: None)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
result = launch(config(Path(sys.argv[1]), "signal.pause()", 1))
print(result.code, flush=True)
"""


def test_a_signal_that_interrupts_no_call_stops_the_job_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _ELSEWHERE, str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True
    ) as job:
        try:
            assert job.stdout is not None
            assert job.stdout.readline() == "waiting\n"
            job.terminate()
            assert job.communicate(timeout=PATIENCE)[0].splitlines()[-1] == "143"
        finally:
            job.kill()
