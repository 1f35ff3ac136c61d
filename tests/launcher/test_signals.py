"""What signals to the launcher do to it and to its ranks: real ones, to real processes."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator, List

import psutil
import pytest

from ascend_session import LaunchConfig, launch
from ascend_session.launcher.events import Event
from ascend_session.launcher.job.events import PassedOn
from ascend_session.launcher.job.signals import Signals, catches_signal, drop_signals_for_ranks
from ascend_session.launcher.job.stall import StallWatch
from tests.launcher.supervised import PATIENCE, Gate
from tests.launcher.test_stall import Ranks, complete
from tests.signals import signal_this_thread
from tests.waiting import wait_until

_REPOSITORY = Path(__file__).resolve().parents[2]

# A rank says something to the test through a named pipe, and waits for a file.
_RANK = """
import os, signal, sys, time
def tell(*words):
    with open(os.environ["GATE"], "w") as gate:
        gate.write(" ".join(map(str, (os.environ["RANK_ID"], *words))) + chr(10))
def wait():
    while not os.path.exists(os.environ["GATE"] + ".end"):
        time.sleep(0.02)
"""
_CATCH = "signal.signal(signal.SIGUSR1, lambda number, frame: tell('got', number))\n"


class Launcher:
    """A launcher in a process of its own, in a group of its own as below a shell."""

    def __init__(self, folder: Path, ranks: int, *words: str) -> None:
        self.gate = Gate(folder)
        self._end = folder / "gate.end"
        self.process: Any = subprocess.Popen(
            command(folder, ranks, *words),
            cwd=str(folder),
            env=environment(self.gate),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
            preexec_fn=os.setpgrp,
        )

    def end(self) -> str:
        """Lets the ranks end; what the launcher has said when it has ended."""
        self._end.touch()
        return str(self.process.communicate(timeout=PATIENCE)[0])

    def close(self) -> None:
        self.gate.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def command(folder: Path, ranks: int, *words: str) -> List[str]:
    """The command that launches a program, which may follow more options."""
    call = [sys.executable, "-m", "ascend_session", "launch", "-n", str(ranks)]
    return [*call, "--log-dir", str(folder / "logs"), "--no-python", *words]


def environment(gate: Gate) -> Any:
    stub = {"ASCEND_SESSION_BACKEND": "stub", "GATE": str(gate.path)}
    return {**os.environ, **stub, "PYTHONPATH": str(_REPOSITORY)}


@pytest.fixture
def launchers() -> Iterator[List[Launcher]]:
    """Those that a test starts, which end with it."""
    started: List[Launcher] = []
    yield started
    for launcher in started:
        launcher.close()


def state(pid: int) -> str:
    return str(psutil.Process(pid).status())


def await_state(pids: List[int], wanted: str) -> None:
    wait_until(lambda: {state(pid) for pid in pids} == {wanted})


def test_a_signal_of_the_user_goes_on_to_the_ranks_that_catch_it(
    tmp_path: Path, launchers: List[Launcher]
) -> None:
    code = _RANK + "if os.environ['RANK_ID'] != '1':\n    " + _CATCH + "tell('ready')\nwait()\n"
    launcher = Launcher(tmp_path, 3, sys.executable, "-c", code)
    launchers.append(launcher)
    launcher.gate.lines(3)
    launcher.process.send_signal(signal.SIGUSR1)
    number = str(int(signal.SIGUSR1))
    assert launcher.gate.lines(2) == [["0", "got", number], ["2", "got", number]]
    launcher.process.send_signal(signal.SIGUSR2)
    time.sleep(0.2)  # nothing tells that the launcher has got it
    said = launcher.end()
    assert launcher.process.returncode == 0, said
    assert "SIGUSR1 was passed on to processes" in said
    assert "SIGUSR2 was passed on to nobody: no rank catches it." in said


def test_a_shell_that_does_not_catch_a_signal_is_no_obstacle_for_it(
    tmp_path: Path, launchers: List[Launcher]
) -> None:
    script = tmp_path / "train.py"
    # A worker that was forked has the same handler, but is not meant.
    fork = "tell('ready')\nif os.fork() == 0:\n    wait(); os._exit(0)\nwait()\nos.wait()\n"
    script.write_text(_RANK + _CATCH + fork)
    launcher = Launcher(tmp_path, 1, "sh", "-c", f"{sys.executable} {script}; exit $?")
    launchers.append(launcher)
    launcher.gate.lines(1)
    launcher.process.send_signal(signal.SIGUSR1)
    assert launcher.gate.lines(1) == [["0", "got", str(int(signal.SIGUSR1))]]
    said = launcher.end()
    assert launcher.process.returncode == 0, said
    assert "SIGUSR1 was passed on to process " in said


def test_ctrl_backslash_at_the_terminal_says_where_the_ranks_are_and_ends_nothing(
    tmp_path: Path,
) -> None:
    gate = Gate(tmp_path)
    words = command(tmp_path, 2, sys.executable, "-Sc", _RANK + "tell('ready')\nwait()\n")
    pid, terminal = pty.fork()
    if not pid:
        os.execve(words[0], words, environment(gate))
    gate.lines(2)
    os.write(terminal, b"\x1c")
    shown = b""
    while b"Where the ranks are" not in shown:
        shown += os.read(terminal, 65536)
    (tmp_path / "gate.end").touch()
    while True:
        try:
            shown += os.read(terminal, 65536)
        except OSError:  # the launcher has ended
            break
    os.close(terminal)
    gate.close()
    assert os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 0, shown
    for rank in (b"0", b"1"):
        assert re.search(b"  rank " + rank + rb" is (sleeping|running) \(process ", shown), shown


def test_a_signal_for_ranks_does_not_end_a_launcher_that_has_none_yet() -> None:
    with drop_signals_for_ranks():
        signal_this_thread(signal.SIGUSR1)
        signal_this_thread(signal.SIGUSR2)
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


_ENDING = ["SIGALRM", "SIGVTALRM", "SIGPROF", "SIGXCPU", "SIGIO", "SIGPWR", "SIGRTMIN", "SIGRTMAX"]


def test_a_signal_for_ranks_that_every_process_of_the_job_gets_does_not_end_it(
    tmp_path: Path, launchers: List[Launcher]
) -> None:
    launcher = Launcher(tmp_path, 2, sys.executable, "-c", _RANK + _CATCH + "tell('ready'); wait()")
    launchers.append(launcher)
    launcher.gate.lines(2)
    for process in psutil.Process(launcher.process.pid).children(recursive=True):
        process.send_signal(signal.SIGUSR1)
    assert len(launcher.gate.lines(2)) == 2
    assert "all 2 ranks succeeded" in launcher.end()


@pytest.fixture
def waiting(tmp_path: Path) -> LaunchConfig:
    """A launch that waits for its rank table."""
    table = tmp_path / "table.json"
    table.write_text('{"status": "initializing"}')
    asked = {"nnodes": 2, "node_rank": 0, "wait_for_table": PATIENCE}
    return LaunchConfig(program="/bin/true", rank_table=str(table), **asked)


def find_guardian() -> psutil.Process:
    """Find the guardian of this process's launch, which it has started last."""
    return max(psutil.Process().children(), key=psutil.Process.create_time)


def test_signals_to_the_guardian_while_the_job_is_planned_leave_no_traceback(
    waiting: LaunchConfig, capfd: Any
) -> None:
    def interrupt(event: Event) -> None:
        guardian = find_guardian()
        wait_until(lambda: catches_signal(guardian.pid, signal.SIGUSR1))
        guardian.send_signal(signal.SIGUSR1)
        guardian.send_signal(signal.SIGINT)
        wait_until(lambda: guardian.status() == psutil.STATUS_ZOMBIE)
        raise KeyError

    with pytest.raises(KeyError):
        launch(waiting, on_event=interrupt)
    assert capfd.readouterr().err == ""


def test_a_guardian_that_the_program_has_reaped_needs_no_end(waiting: LaunchConfig) -> None:
    def reap(event: Event) -> None:
        guardian = find_guardian()
        guardian.kill()
        os.waitpid(guardian.pid, 0)
        raise KeyError

    with pytest.raises(KeyError):
        launch(waiting, on_event=reap)


@pytest.mark.parametrize("name", [*_ENDING, "41"])
def test_every_signal_that_ends_a_process_ends_the_job_with_a_summary(
    tmp_path: Path, launchers: List[Launcher], name: str
) -> None:
    number = int(getattr(signal, name, 0)) or int(name)
    code = "signal.signal(signal.SIGTERM, lambda *_: (tell('asked'), sys.exit(0)))\n"
    code = _RANK + code + "tell('ready')\nwait()\n"
    launcher = Launcher(tmp_path, 1, sys.executable, "-c", code)
    launchers.append(launcher)
    launcher.gate.lines(1)
    os.kill(launcher.process.pid, number)
    assert launcher.gate.lines(1) == [["0", "asked"]]
    said = launcher.process.communicate(timeout=PATIENCE)[0]
    assert launcher.process.returncode == 128 + number
    known = f"signal {number}" if name == "41" else signal.Signals(number).name
    assert f"the job was stopped. The launcher was stopped by {known}." in said


def test_a_signal_that_the_kernel_repeats_gives_the_ranks_their_time(
    tmp_path: Path, launchers: List[Launcher]
) -> None:
    end = "def end(number, frame):\n    tell('asked')\n    wait()\n    sys.exit(3)\n"
    code = _RANK + end + "signal.signal(signal.SIGTERM, end)\ntell('ready')\nwait()\n"
    launcher = Launcher(tmp_path, 1, sys.executable, "-c", code)
    launchers.append(launcher)
    launcher.gate.lines(1)
    for _ in range(3):
        launcher.process.send_signal(signal.SIGXCPU)
        time.sleep(0.1)  # as the kernel does each second
    launcher.gate.lines(1)
    said = launcher.end()
    assert "killed" not in said.replace("SIGKILL in", "").replace("A second one kills", "")
    assert launcher.process.returncode == 128 + signal.SIGXCPU


def test_ranks_stop_and_go_on_with_the_launcher(tmp_path: Path, launchers: List[Launcher]) -> None:
    code = _RANK + "tell(os.getpid())\nwait()\n"
    shell = f"{sys.executable} -c '{code.replace(chr(39), chr(34))}'; exit $?"
    launcher = Launcher(tmp_path, 2, "sh", "-c", shell)
    launchers.append(launcher)
    ranks = [int(pid) for _, pid in launcher.gate.lines(2)]
    launcher.process.send_signal(signal.SIGTSTP)
    await_state([launcher.process.pid, *ranks], psutil.STATUS_STOPPED)
    launcher.process.send_signal(signal.SIGCONT)
    said = launcher.end()
    assert launcher.process.returncode == 0, said
    assert "The ranks were suspended for" in said


def test_ctrl_z_twice_at_once_stops_the_launcher_once() -> None:
    with Signals() as signals, signals.over_ranks():
        for number in (signal.SIGTSTP, signal.SIGTSTP, signal.SIGUSR1):
            signal_this_thread(number)
        assert signals.take() == [signal.SIGTSTP, signal.SIGUSR1]


def test_a_stopped_launcher_that_is_killed_takes_its_stopped_ranks_along(
    tmp_path: Path, launchers: List[Launcher]
) -> None:
    code = _RANK + "tell(os.getpid())\nwait()\n"
    launcher = Launcher(tmp_path, 1, sys.executable, "-c", code)
    launchers.append(launcher)
    ranks = [int(pid) for _, pid in launcher.gate.lines(1)]
    launcher.process.send_signal(signal.SIGTSTP)
    await_state([launcher.process.pid, *ranks], psutil.STATUS_STOPPED)
    launcher.process.kill()
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in ranks))


def test_ctrl_z_at_a_terminal_stops_the_job_and_fg_continues_it(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    code = _RANK + "tell(os.getpid())\nwait()\n"
    (tmp_path / "train.py").write_text(code)
    words = command(tmp_path, 1, sys.executable, str(tmp_path / "train.py"))
    shell, terminal = pty.fork()
    if not shell:
        os.chdir(str(tmp_path))
        os.execvpe("sh", ["sh", "-i"], {**environment(gate), "TERM": "dumb", "PS1": "$ "})
    try:
        os.write(terminal, f"{' '.join(words)}; echo code=$?\n".encode())
        ranks = [int(pid) for _, pid in gate.lines(1)]
        os.write(terminal, b"\x1a")
        await_state(ranks, psutil.STATUS_STOPPED)
        os.write(terminal, b"fg; echo code=$?.\n")
        (tmp_path / "gate.end").touch()
        said = b""
        while b"code=0." not in said:
            assert select.select([terminal], [], [], PATIENCE)[0], said
            said += os.read(terminal, 65536)
        assert b"the rank succeeded" in said
    finally:
        gate.close()
        os.kill(shell, signal.SIGHUP)
        os.kill(shell, signal.SIGKILL)
        os.waitpid(shell, 0)
        os.close(terminal)


def test_a_program_keeps_its_own_handlers(tmp_path: Path) -> None:
    got: List[int] = []
    numbers = (signal.SIGALRM, signal.SIGUSR1)
    before = [signal.signal(number, lambda each, frame: got.append(each)) for number in numbers]
    events: List[Any] = []

    def note(event: Any) -> None:
        events.append(event)
        if type(event).__name__ == "Started":
            for number in numbers:
                os.kill(os.getpid(), number)

    try:
        config = LaunchConfig(
            program="/bin/true", processes=1, backend="stub", log_dir=str(tmp_path)
        )
        result = launch(config, output=2, on_event=note)
    finally:
        for number, handler in zip(numbers, before):
            signal.signal(number, handler)
    assert result.ok
    assert sorted(got) == sorted(numbers)
    assert not any(isinstance(event, PassedOn) for event in events)


def test_a_time_in_which_the_ranks_were_stopped_is_no_silence(tmp_path: Path) -> None:
    with Ranks(tmp_path, [[sys.executable, "-c", "import sys; sys.stdin.read()"]]) as ranks:
        watch: StallWatch = ranks.watch
        began = time.monotonic()
        alive = {0: ranks.processes[0].pid}
        while time.monotonic() < began + 0.7:  # less than the limit of a second
            assert complete(watch.look(alive)) is None
            time.sleep(0.05)  # between two looks
        # As if it had been stopped for most of the time since.
        time.sleep(0.5)  # with what was before, longer than the limit
        watch.leave_out(began + 0.2, time.monotonic())
        assert complete(watch.look(alive)) is None
