"""What a rank leaves in unusual situations: signals, forks, no memory, no disk."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ascend_session.failures.record import read_record, read_stacks
from ascend_session.rank_folder import STACK_SIGNAL
from tests.launcher.as_rank import as_rank

PATIENCE = 120


def run(folder: Path, code: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    script = folder / "script.py"
    script.write_text(code)
    command, variables = as_rank([sys.executable, str(script)], folder, options.pop("env", {}))
    return subprocess.run(
        command,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        **options,
    )


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL"])
def test_a_signal_leaves_the_stack_and_says_nothing(tmp_path: Path, name: str) -> None:
    code = f"import os, signal\ndef deep():\n    os.kill(os.getpid(), signal.{name})\ndeep()"
    ended = run(tmp_path, code)
    assert ended.returncode == -signal.Signals[name]
    assert ended.stderr == ""
    assert "in deep" in read_stacks(str(tmp_path))
    assert read_record(str(tmp_path)) is None


def test_who_asked_for_stacks_on_stderr_keeps_them(tmp_path: Path) -> None:
    ended = run(tmp_path, "import os; os.abort()", env={"PYTHONFAULTHANDLER": "1"})
    assert "Fatal Python error: Aborted" in ended.stderr
    assert read_stacks(str(tmp_path)) == ""


def test_stacks_are_written_when_asked_for_and_the_program_goes_on(tmp_path: Path) -> None:
    code = f"""
import signal, threading
go = threading.Event()
def waits():
    go.wait()
thread = threading.Thread(target=waits)
thread.start()
def asks():
    signal.pthread_kill(threading.get_ident(), {int(STACK_SIGNAL)})
asks()
go.set()
thread.join()
print("went on")
"""
    ended = run(tmp_path, code)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "went on\n", "")
    found = read_stacks(str(tmp_path))
    assert "in waits" in found
    assert "in asks" in found


def test_a_program_that_closes_everything_never_gets_stacks_in_its_files(tmp_path: Path) -> None:
    code = """
import os
os.closerange(3, 4096)
file = open("own.txt", "w")
print(file.fileno(), flush=True)
file.flush()
os.abort()
"""
    ended = run(tmp_path, code, cwd=str(tmp_path))
    assert ended.stdout == "3\n"
    assert (tmp_path / "own.txt").read_text() == ""


def test_the_descriptor_is_not_inherited(tmp_path: Path) -> None:
    code = "import os; os.execv('/bin/sh', ['sh', '-c', 'ls -l /proc/self/fd'])"
    assert "stacks.log" not in run(tmp_path, code).stdout


def test_a_forked_child_that_fails_leaves_no_record(tmp_path: Path) -> None:
    code = """
import os
child = os.fork()
if not child:
    raise ValueError("in the child")
print(os.waitpid(child, 0)[1] >> 8)
raise KeyError("in the rank")
"""
    ended = run(tmp_path, code)
    assert ended.stdout == "1\n"
    assert "ValueError: in the child" in ended.stderr
    found = read_record(str(tmp_path))
    assert found is not None
    assert found.type == "KeyError"


def test_only_a_forked_child_fails(tmp_path: Path) -> None:
    run(tmp_path, "import os\nchild = os.fork()\nif not child: 1 / 0\nos.waitpid(child, 0)")
    assert read_record(str(tmp_path)) is None


def test_a_rank_without_memory_is_recorded(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20))

    ended = run(tmp_path, "held = []\nwhile True:\n    held.append('x' * 1000)", preexec_fn=limit)
    assert ended.returncode == 1
    found = read_record(str(tmp_path))
    assert found is not None
    assert found.type == "MemoryError"
    assert "script.py" in found.traceback


def test_a_rank_that_cannot_write_its_record_ends_as_it_would(tmp_path: Path) -> None:
    def limit() -> None:
        # As a full disk: the write fails, the files can be made.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    ended = run(tmp_path, "1 / 0", preexec_fn=limit)
    assert ended.returncode == 1
    assert ended.stderr.endswith("ZeroDivisionError: division by zero\n")
    assert sorted(os.listdir(str(tmp_path))) == ["script.py", "stacks.log"]


def test_without_a_folder_everything_goes_on(tmp_path: Path) -> None:
    for folder in ("", str(tmp_path / "nowhere")):
        ended = run(tmp_path, "1 / 0", env={"ASCEND_SESSION_RANK_FOLDER": folder})
        assert ended.stderr.endswith("ZeroDivisionError: division by zero\n")
    assert os.listdir(str(tmp_path)) == ["script.py"]


def test_what_other_threads_write_meanwhile_is_not_lost(tmp_path: Path) -> None:
    code = """
import sys, threading
stop = threading.Event()
written = []
def writes():
    while not stop.is_set():
        sys.stderr.write("line\\n")
        written.append(1)
threading.Thread(target=writes).start()
class Slow(Exception):
    def __str__(self):
        if not stop.is_set():
            before = len(written)
            while len(written) < before + 100:
                pass
        return "slow"
def hook(*failure):
    stop.set()
    print(len(written))
sys.excepthook = hook
raise Slow
"""
    ended = run(tmp_path, code)
    # The thread may write one more while the number is printed.
    assert abs(ended.stderr.count("line\n") - int(ended.stdout)) <= 1
    found = read_record(str(tmp_path))
    assert found is not None
    assert "line" not in found.traceback.split("\n")


def test_a_rank_imports_nothing_more_than_plain_python(tmp_path: Path) -> None:
    code = "import sys; print(*sorted(sys.modules))"
    (tmp_path / "script.py").write_text(code)
    bare = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")], stdout=subprocess.PIPE, timeout=PATIENCE
    )
    more = set(run(tmp_path, code).stdout.split()) - set(bare.stdout.decode().split())
    assert more <= {"_json", "_signal", "atexit", "faulthandler", "sitecustomize", "time"}
