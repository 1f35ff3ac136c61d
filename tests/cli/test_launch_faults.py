"""Fault by fault, eight ranks each: the code, the reason, and nothing left behind."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List

import psutil
import pytest

_REPOSITORY = Path(__file__).resolve().parents[2]
_PATIENCE = 120.0
RANKS = 8

_BEGIN = """
import os, signal, subprocess, sys, threading, time
from tests.waiting import wait_until
rank = int(os.environ["RANK_ID"])
def stay():
    while True: signal.pause()
"""


class Ended:
    """A launch that has ended."""

    def __init__(self, code: int, out: bytes, err: str, result: Dict[str, Any]) -> None:
        self.code = code
        self.out = out
        self.err = err
        self.result = result

    @property
    def attempt(self) -> Dict[str, Any]:
        found: Dict[str, Any] = self.result["attempts"][-1]
        return found

    @property
    def cause(self) -> Dict[str, Any]:
        found: Dict[str, Any] = self.attempt["cause"]
        return found

    def outcomes(self, outcome: str) -> List[int]:
        return [one["rank"] for one in self.attempt["ranks"] if one["outcome"] == outcome]


class Launcher:
    """Starts launches, and looks for what they leave behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = f"LAUNCH_OF_{os.getpid()}_{time.monotonic_ns()}"
        self.environ = {**os.environ, "PYTHONPATH": str(_REPOSITORY), self.mark: "1"}

    def start(self, *words: str, **streams: Any) -> "subprocess.Popen[bytes]":
        """Starts a launch of eight ranks in the folder."""
        command = [sys.executable, "-m", "ascend_session.cli", "launch", "-n", str(RANKS)]
        given = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            [*command, "--backend", "stub", *words],
            cwd=str(self.folder),
            env=self.environ,
            start_new_session=True,
            **{**given, **streams},
        )

    def run(self, code: str, *options: str) -> Ended:
        """Runs a script as eight ranks; the result as JSON."""
        (self.folder / "train.py").write_text(_BEGIN + code)
        process = self.start("--json", *options, "train.py")
        out, err = process.communicate(timeout=_PATIENCE)
        try:
            result = json.loads(out.decode())
        except ValueError:
            raise AssertionError((process.returncode, out, err)) from None
        return Ended(process.returncode, out, err.decode("utf-8", "replace"), result)

    def left(self) -> List[psutil.Process]:
        """The processes of its launches that live."""
        found = []
        for process in psutil.process_iter():
            try:
                if self.mark in process.environ() and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    made = Launcher(tmp_path)
    yield made
    left = made.left()
    said = [(one.pid, one.cmdline()) for one in left]
    for process in left:
        process.kill()
    assert said == []


# What goes wrong in rank 5 -> exit code, and the sentence that says it
FAULTS = {
    "an exit code": ("os._exit(7)", 7, "Rank 5 exited with code 7."),
    "sys.exit": ("sys.exit(9)", 9, "9"),
    "an exception": ("raise ValueError('no such image')", 1, "ValueError: no such image"),
    "an import": ("import no_such_package", 1, "No module named 'no_such_package'"),
    "SIGKILL": ("os.kill(os.getpid(), 9)", 137, "SIGKILL"),
    "a segmentation fault": ("import ctypes; ctypes.string_at(0)", 139, "SIGSEGV"),
    "an abort": ("os.abort()", 134, "SIGABRT"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_rank_that_failed_is_the_cause(launcher: Launcher, name: str) -> None:
    code, exit_code, said = FAULTS[name]
    ended = launcher.run(f"if rank == 5: {code}\nstay()")
    assert ended.code == exit_code == ended.result["code"]
    assert ended.cause["rank"] == 5
    assert said in ended.cause["said"]
    assert ended.outcomes("failed") == [5]
    assert ended.outcomes("stopped") == [0, 1, 2, 3, 4, 6, 7]


def test_a_script_that_is_no_python_fails_in_every_rank(launcher: Launcher) -> None:
    ended = launcher.run("\nthis is no python\n")
    assert ended.code == 1
    assert "SyntaxError" in ended.cause["said"]


def test_ranks_that_hang_in_c_and_ignore_sigterm_are_ended(launcher: Launcher) -> None:
    code = """
others = [f"hangs_{one}" for one in range(int(os.environ["RANK_SIZE"])) if one != 3]
if rank == 3:
    wait_until(lambda: all(os.path.exists(name) for name in others))
    os._exit(4)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
import ctypes
pause = ctypes.CDLL(None).pause
open(f"hangs_{rank}", "w").close()
pause()
"""
    ended = launcher.run(code, "--grace", "0.5")
    assert ended.code == 4
    assert ended.cause["rank"] == 3
    assert len(ended.outcomes("stopped")) == 7


def test_children_in_sessions_of_their_own_are_ended_with_their_rank(launcher: Launcher) -> None:
    code = """
for number in range(50):
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
if rank == 0: os.kill(os.getpid(), signal.SIGKILL)
stay()
"""
    ended = launcher.run(code, "--grace", "1")
    assert ended.code == 137
    assert launcher.left() == []


def test_all_that_die_in_the_same_moment_have_the_same_reason(launcher: Launcher) -> None:
    code = """
open(f"here_{rank}", "w").close()
here = [f"here_{one}" for one in range(int(os.environ["RANK_SIZE"]))]
wait_until(lambda: all(os.path.exists(name) for name in here))
at = max(os.stat(name).st_mtime for name in here) + 0.3
time.sleep(max(0, at - time.time()))
os._exit(6)
"""
    ended = launcher.run(code)
    assert ended.code == 6
    assert "code 6" in ended.cause["said"]
    assert ended.cause["rank"] in ended.outcomes("failed")


def test_a_timeout_of_seven_is_not_the_cause_when_the_eighth_has_no_memory(
    launcher: Launcher,
) -> None:
    code = """
if rank == 6:
    print("[ERROR] HCCL: EI0007: Failed to allocate resource", file=sys.stderr, flush=True)
    open("said", "w").close()
    stay()
wait_until(lambda: os.path.exists("said"))
sys.exit("EI0006: Getting socket times out. Reason: Remote Rank did not send the data in time")
"""
    ended = launcher.run(code)
    assert ended.cause["rank"] == 6
    assert ended.cause["failure"]["code"] == "EI0007"
    assert ended.cause["failure_class"] == "permanent"
    assert ended.code == 1


def test_a_transient_failure_is_tried_again_in_new_processes(launcher: Launcher) -> None:
    code = """
if os.path.exists("tried"): sys.exit(0)
if rank: stay()
open("tried", "w").close()
sys.exit("EJ0001: Failed to initialize the HCCP process. Maybe the last one is running")
"""
    begun = time.monotonic()
    ended = launcher.run(code, "--max-restarts", "1")
    assert ended.code == 0, ended.err
    assert time.monotonic() - begun >= 10  # what the vendor asks for
    first, second = ended.result["attempts"]
    assert first["cause"]["failure"]["code"] == "EJ0001"
    assert first["job_id"] != second["job_id"]
    assert first["folder"] != second["folder"]


def test_a_permanent_failure_is_not_tried_again(launcher: Launcher) -> None:
    code = "sys.exit('EI0004: the ranktable is invalid') if rank == 0 else stay()"
    ended = launcher.run(code, "--max-restarts", "3")
    assert ended.code == 1
    assert len(ended.result["attempts"]) == 1
    assert ended.cause["failure"]["code"] == "EI0004"


def test_binary_output_and_a_line_without_end_do_no_harm(launcher: Launcher) -> None:
    code = """
sys.stdout.buffer.write(bytes(range(256)) * 100 + b"\\n" + b"x" * 20_000_000)
sys.stdout.flush()
"""
    ended = launcher.run(code, "--show", "5")
    assert ended.code == 0, ended.err[-2000:]
    assert all(line.startswith("[5] ") for line in ended.err.splitlines() if "\\x00" in line)
    log = Path(ended.attempt["ranks"][3]["stdout"]).read_bytes()
    assert log == bytes(range(256)) * 100 + b"\n" + b"x" * 20_000_000


def _no_file_beyond_a_kilobyte() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))


def test_a_rank_whose_log_file_takes_no_more_fails_and_the_summary_says_why(
    launcher: Launcher,
) -> None:
    (launcher.folder / "train.py").write_text("print('x' * 5000)")
    process = launcher.start("train.py", preexec_fn=_no_file_beyond_a_kilobyte)
    _, err = process.communicate(timeout=_PATIENCE)
    assert process.returncode not in (0, 2), err
    assert b"A file may have at most 1 KB here: a rank that writes a longer log fails." in err
    assert b"Its log files take no more: File too large." in err
    assert b"--log-dir" in err.partition(b"What to do")[2]


def test_log_files_that_a_program_could_not_write_to_the_end_are_said_once(
    launcher: Launcher,
) -> None:
    words = ("--no-python", "seq", "1000")
    process = launcher.start(*words, preexec_fn=_no_file_beyond_a_kilobyte)
    _, err = process.communicate(timeout=_PATIENCE)
    assert process.returncode == 0, err
    before_the_summary = err.partition(b"all 8 ranks succeeded")[0]
    assert before_the_summary.count(b"is not complete: File too large.") == 1


def test_a_folder_for_logs_that_cannot_be_made_is_a_wrong_call(launcher: Launcher) -> None:
    (launcher.folder / "train.py").write_text("open('started', 'w')")
    process = launcher.start("--log-dir", "/dev/null/logs", "train.py")
    out, err = process.communicate(timeout=_PATIENCE)
    assert process.returncode == 2
    assert out == b""
    assert b"The folder /dev/null/logs cannot be created: /dev/null is not a folder." in err
    assert b"Give --log-dir, a folder in which this user may write." in err
    assert not (launcher.folder / "started").exists()


def test_a_reader_that_takes_nothing_does_not_hold_up_an_interrupted_launch(
    launcher: Launcher,
) -> None:
    code = "sys.stdout.write(('y' * 99 + chr(10)) * 100_000)\nstay()"
    (launcher.folder / "train.py").write_text(_BEGIN + code)
    process = launcher.start("--grace", "1", "train.py")
    process.stdout.read(1000)  # type: ignore[union-attr]
    begun = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(_PATIENCE) == 130
    assert time.monotonic() - begun < 100
    process.communicate()


def test_a_reader_that_goes_away_does_not_end_the_job(launcher: Launcher) -> None:
    code = _BEGIN + "print('x' * 100_000, flush=True); open(f'done_{rank}', 'w').close()"
    (launcher.folder / "train.py").write_text(code)
    process = launcher.start("train.py")
    process.stdout.close()  # type: ignore[union-attr]
    process.stdout = None
    process.communicate(timeout=_PATIENCE)
    assert process.returncode == 0
    assert len(list(launcher.folder.glob("done_*"))) == RANKS


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_to_the_launcher_leaves_nothing_behind(
    launcher: Launcher, number: signal.Signals
) -> None:
    (launcher.folder / "train.py").write_text(_BEGIN + "print('here', flush=True)\nstay()")
    process = launcher.start("--grace", "1", "train.py")
    here = [process.stdout.readline() for _ in range(RANKS)]  # type: ignore[union-attr]
    assert sorted(here) == [f"[{rank}] here\n".encode() for rank in range(RANKS)]
    below = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, number)
    process.communicate(timeout=_PATIENCE)
    expected = -number if number == signal.SIGKILL else 128 + number
    assert process.returncode == expected
    _, living = psutil.wait_procs(below, timeout=_PATIENCE)
    assert living == []


def test_a_job_that_stalls_is_ended_with_the_stacks_of_its_scripts(launcher: Launcher) -> None:
    code = """
def wait_for_the_others():
    stay()
wait_for_the_others()
"""
    ended = launcher.run(code, "--stall-timeout", "2")
    assert ended.code == 124
    assert "stalled" in ended.cause["said"]
    assert ended.outcomes("stopped") == list(range(RANKS))
    assert " are at " in ended.cause["said"]
    assert " (stay)." in ended.cause["said"]
    assert "in wait_for_the_others" not in ended.err
    (path,) = [word for word in ended.cause["advice"].split() if word.endswith("stalled.log.")]
    report = Path(path.rstrip(".")).read_text()
    assert report.count("in wait_for_the_others") == RANKS
    assert 'runner.py", line' not in report
