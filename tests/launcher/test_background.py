"""Trainings that a script leaves running in the background, and what else it may leave."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator, List, Tuple

import psutil
import pytest

from ascend_session import LaunchConfig, LaunchResult, launch
from ascend_session.launcher.events import Event
from ascend_session.launcher.job import events
from tests.waiting import wait_until

_ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 240.0

# What the kernel shows of a process with TensorFlow, without the seconds that its import takes.
_LOADED = """
import mmap, os, signal, sys, time
with open("libtensorflow_framework.so.1", "r+b") as library:
    loaded = mmap.mmap(library.fileno(), 0)
"""
_LEAVE = "$PYTHON train.py $RANK_ID > log_$RANK_ID 2>&1 &\n"
# Goes on when the launch has said that it waits for what was left.
_UNTIL_AWAITED = """
from tests.waiting import wait_until
wait_until(lambda: os.path.exists("awaited"))
"""
_TELL = "open('loaded', 'w').close()\n"  # the script, which waits for it: loaded is a named pipe
_WAIT = ": < loaded"


def _launch(
    folder: Path, script: str, code: str = "", ranks: int = 1, **more: Any
) -> Tuple[LaunchResult, List[Event]]:
    (folder / "libtensorflow_framework.so.1").write_bytes(b"\x7fELF")
    (folder / "train.py").write_text(code)
    (folder / "train.sh").write_text(script)
    os.mkfifo(str(folder / "loaded"))
    seen: List[Event] = []

    def note(event: Event) -> None:
        seen.append(event)
        if isinstance(event, (events.Awaiting, events.BackgroundAwaited)):
            (folder / "awaited").touch()

    config = LaunchConfig(
        program="bash",
        args=["train.sh"],
        processes=ranks,
        backend="stub",
        cwd=str(folder),
        show="none",
        env={"PYTHON": sys.executable, "PYTHONPATH": str(_ROOT)},
        **more,
    )
    return launch(config, on_event=note), seen


def _awaited(seen: List[Event]) -> List[events.BackgroundAwaited]:
    return [event for event in seen if isinstance(event, events.BackgroundAwaited)]


def test_tensorflow_in_the_background_is_waited_for_with_one_note(tmp_path: Path) -> None:
    code = f"import os, tensorflow\n{_UNTIL_AWAITED}print('trained')"
    result, seen = _launch(tmp_path, _LEAVE, code, ranks=2)
    assert result.ok, result.cause
    assert result.ranks[0].outcome == "succeeded"
    for rank in range(2):
        assert (tmp_path / f"log_{rank}").read_text().splitlines()[-1] == "trained"
    (awaited,) = _awaited(seen)
    commands = [(rank, command) for rank, _, command in awaited.processes]
    assert sorted(commands) == [(n, f"{sys.executable} train.py {n}") for n in range(2)]
    assert result.attempts[0].swept == ()


@pytest.mark.parametrize(
    "code",
    [
        "from ascend_session import AscendConfig",
        "import npu_bridge.npu_init",
        "import hccl.manage.api",
    ],
)
def test_what_has_loaded_this_package_or_the_vendors_is_waited_for(
    tmp_path: Path, code: str
) -> None:
    end = f"import os\n{_UNTIL_AWAITED}open('trained', 'w').close()"
    result, seen = _launch(tmp_path, _LEAVE, f"{code}\n{end}")
    assert result.ok, result.cause
    assert len(_awaited(seen)) == 1
    assert (tmp_path / "trained").exists()


@pytest.mark.parametrize(
    ("script", "end"),
    [
        (_LEAVE, "sys.exit(3)"),
        (f"nohup env timeout 200 {_LEAVE}", "sys.exit(3)"),
        ("( cd . ; $PYTHON train.py $RANK_ID > log_$RANK_ID 2>&1 ) &", "sys.exit(3)"),
        (_LEAVE, "os.kill(os.getpid(), 9)"),
    ],
    ids=["exits", "in programs around it", "in a shell around it", "is killed"],
)
def test_a_training_in_the_background_that_fails_fails_the_job(
    tmp_path: Path, script: str, end: str
) -> None:
    code = f"{_LOADED}{_UNTIL_AWAITED}if sys.argv[1] == '0': signal.pause()\n"
    code += f"print('no data', file=sys.stderr, flush=True)\n{end}"
    result, _ = _launch(tmp_path, script, code, ranks=2)
    assert result.code == (3 if "exit" in end else 128 + signal.SIGKILL)
    assert result.cause is not None
    assert result.cause.rank == 1
    assert f"{sys.executable} train.py 1), which rank 1 left in the background" in result.cause.said
    how = "exited with code 3." if "exit" in end else "was killed by SIGKILL"
    assert how in result.cause.said
    assert result.cause.said.endswith(f"Its output is in {tmp_path / 'log_1'}.")
    assert result.cause.tail[-1] == "no data"
    # The other one is not left to wait for it.
    assert any("train.py 0" in words for words in result.attempts[0].swept)


def test_a_rank_of_a_script_that_is_waited_for_says_itself_how_it_failed(tmp_path: Path) -> None:
    code = f"{_LOADED}{_UNTIL_AWAITED}if sys.argv[1] == '1': raise ValueError('no data')"
    script = f"export RANK_SIZE=2\nfor RANK_ID in 0 1; do export RANK_ID; {_LEAVE}done"
    result, seen = _launch(tmp_path, script, code)
    assert result.code == 1
    assert result.cause is not None
    assert "rank 1 raised ValueError: no data" in result.cause.said
    assert [event for event in seen if isinstance(event, events.Awaiting)]
    assert not _awaited(seen)


def test_the_next_program_of_a_shell_in_the_background_is_waited_for(tmp_path: Path) -> None:
    script = "for i in 1 2; do $PYTHON train.py; $PYTHON -c 'print(1)'; done > log 2>&1 &"
    code = f"{_LOADED}{_UNTIL_AWAITED}print('trained')"
    result, _ = _launch(tmp_path, script, code)
    assert result.ok, result.cause
    assert (tmp_path / "log").read_text().split() == ["trained", "1"] * 2


_LISTEN = (
    "import socket\nserver = socket.socket()\nserver.bind(('127.0.0.1', {}))\nserver.listen()\n"
)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (_LEAVE, f"{_LISTEN.format(0)}{_LOADED}signal.pause()"),
        (f"$PYTHON tensorboard.py & {_WAIT}", f"{_LOADED}{_TELL}signal.pause()"),
        (f"$PYTHON -u -m jupyter & {_WAIT}", f"{_LOADED}{_TELL}signal.pause()"),
        ("$PYTHON train.py &", "import time\nwhile True: time.sleep(0.1)"),
        ("$PYTHON train.py", f"{_LOADED}if os.fork(): os._exit(0)\nsignal.pause()"),
        (
            "$PYTHON train.py",
            f"{_LOADED}import multiprocessing\n"
            "def work(ready):\n"
            "    ready.set(); signal.pause()\n"
            "if __name__ == '__main__':\n"
            "    context = multiprocessing.get_context('spawn')\n"
            "    ready = context.Event()\n"
            "    context.Process(target=work, args=[ready]).start()\n"
            "    ready.wait()\n"
            "    os._exit(0)",
        ),
        ("while true; do sleep 0.1; done & sleep 2", ""),
    ],
    ids=[
        "listens",
        "TensorBoard",
        "Jupyter",
        "a monitor",
        "a forked worker",
        "a spawned worker",
        "a shell",
    ],
)
def test_what_is_no_training_is_ended_without_a_note(
    tmp_path: Path, script: str, code: str
) -> None:
    for name in ("tensorboard.py", "jupyter.py"):
        (tmp_path / name).write_text(code)
    result, seen = _launch(tmp_path, script, code)
    assert result.ok, result.cause
    assert not _awaited(seen)
    assert result.attempts[0].swept


def test_a_training_may_listen_where_ranks_find_each_other(tmp_path: Path) -> None:
    listen = _LISTEN.format("int(os.environ['CM_CHIEF_PORT'])")
    code = f"{_LOADED}{listen}{_UNTIL_AWAITED}open('trained', 'w').close()"
    free = 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
    result, seen = _launch(tmp_path, f"export CM_CHIEF_PORT=$($PYTHON -c '{free}')\n{_LEAVE}", code)
    assert result.ok, result.cause
    assert (tmp_path / "trained").exists()
    assert len(_awaited(seen)) == 1


@pytest.mark.parametrize(
    "script",
    [
        "$PYTHON -c 'import sys, time; time.sleep(0.5); sys.exit(3)' &",
        f"$PYTHON train.py & {_WAIT}; kill $!",
        f"$PYTHON train.py exits & {_WAIT}",
    ],
    ids=["a helper fails", "a training is stopped by its script", "a training is just exiting"],
)
def test_an_innocent_script_succeeds_without_a_note(tmp_path: Path, script: str) -> None:
    code = f"""{_LOADED}
def stop(number, frame):
    time.sleep(0.3)
    os._exit(143)
signal.signal(signal.SIGTERM, stop)
{_TELL}time.sleep(0.3) if sys.argv[1:] else signal.pause()
"""
    result, seen = _launch(tmp_path, script, code)
    assert result.ok, result.cause
    assert result.notes == ()
    assert result.attempts[0].swept == ()
    assert not [event for event in seen if isinstance(event, events.LeftBehind)]
    assert not _awaited(seen)


def test_a_training_in_the_background_of_a_job_that_failed_is_ended(tmp_path: Path) -> None:
    code = f"{_LOADED}{_TELL}signal.pause()"
    result, seen = _launch(tmp_path, f"{_LEAVE}{_WAIT}\nexit 5", code)
    assert result.code == 5
    assert not _awaited(seen)


def test_a_stall_of_what_is_waited_for_ends_the_job(tmp_path: Path) -> None:
    code = f"{_LOADED}signal.pause()"
    result, seen = _launch(tmp_path, _LEAVE, code, ranks=2, stall_timeout=3)
    assert result.code == 124
    assert len(_awaited(seen)) == 1
    assert [event for event in seen if isinstance(event, events.Stalled)]


def test_a_training_that_writes_now_and_then_is_no_stall(tmp_path: Path) -> None:
    code = f"{_LOADED}for i in range(12):\n    print(i, flush=True)\n    time.sleep(0.5)"
    result, _ = _launch(tmp_path, "$PYTHON train.py &", code, stall_timeout=3)
    assert result.ok, result.cause


def test_a_young_python_that_only_waits_does_not_delay_the_end(tmp_path: Path) -> None:
    result, _ = _launch(tmp_path, _LEAVE, "import signal; signal.pause()")
    assert result.ok, result.cause
    assert result.attempts[0].ended - result.attempts[0].started < 20  # not the 30 s of an import


@pytest.fixture
def launched(tmp_path: Path, request: Any) -> Iterator[Any]:
    """A launcher, about to wait for a training that its script has left in the background."""
    (tmp_path / "libtensorflow_framework.so.1").write_bytes(b"\x7fELF")
    (tmp_path / "train.py").write_text(getattr(request, "param", f"{_LOADED}signal.pause()"))
    script = tmp_path / "train.sh"
    script.write_text(f"{sys.executable} train.py &")
    words = ["launch", "-n", "1", "--backend", "stub", "--no-python", "bash", str(script)]
    launcher = subprocess.Popen(
        [sys.executable, "-m", "ascend_session", *words],
        cwd=str(tmp_path),
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        preexec_fn=os.setpgrp,
    )
    assert launcher.stderr is not None
    yield launcher
    launcher.kill()
    launcher.wait()
    launcher.stderr.close()


def test_ctrl_c_ends_the_wait_and_the_note_names_the_process(launched: Any) -> None:
    note = next(line for line in launched.stderr if "in the background" in line)
    assert "rank 0 left process " in note
    assert f"({sys.executable} train.py) running" in note
    launched.send_signal(signal.SIGINT)
    summary = launched.stderr.read()
    assert launched.wait(_PATIENCE) == 130, summary
    assert "SIGINT" in summary


def _is_left(launcher: int) -> bool:
    for guardian in psutil.Process(launcher).children():
        for process in guardian.children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if "train.py" in process.cmdline():
                    return True
    return False


_LOADS_SLOWLY = f"""
import os
while not os.path.exists("go"):
    pass
{_LOADED}
open("trained", "w").close()
"""


@pytest.mark.parametrize("launched", [_LOADS_SLOWLY], indirect=True, ids=["slow"])
def test_a_training_that_is_suspended_before_it_has_loaded_is_waited_for(
    launched: Any, tmp_path: Path
) -> None:
    wait_until(lambda: _is_left(launched.pid))
    launched.send_signal(signal.SIGTSTP)
    wait_until(lambda: psutil.Process(launched.pid).status() == psutil.STATUS_STOPPED)
    time.sleep(4)  # for longer than a Python that loads anything does nothing
    (tmp_path / "go").touch()
    launched.send_signal(signal.SIGCONT)
    summary = launched.stderr.read()
    assert launched.wait(_PATIENCE) == 0, summary
    assert (tmp_path / "trained").exists(), summary


def test_a_signal_before_the_note_is_no_success(launched: Any) -> None:
    wait_until(lambda: _is_left(launched.pid))
    launched.terminate()
    summary = launched.stderr.read()
    assert launched.wait(_PATIENCE) == 128 + signal.SIGTERM
    assert "the job was stopped. The launcher was stopped by SIGTERM." in summary


def test_sigterm_to_every_process_is_no_failure_of_a_training_that_gets_it_first(
    launched: Any,
) -> None:
    assert any("in the background" in line for line in launched.stderr)
    launcher = psutil.Process(launched.pid)
    (training,) = launcher.children()[0].children()
    launcher.suspend()
    wait_until(lambda: launcher.status() == psutil.STATUS_STOPPED)
    launcher.terminate()  # which it gets when it continues
    training.terminate()
    wait_until(lambda: not psutil.pid_exists(training.pid))
    launcher.resume()
    summary = launched.stderr.read()
    assert launched.wait(_PATIENCE) == 128 + signal.SIGTERM
    assert "the job was stopped. The launcher was stopped by SIGTERM." in summary
