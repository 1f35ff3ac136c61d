"""A rank that has the terminal: real debugger sessions below a shell on a pseudo terminal."""

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from ascend_session import LaunchConfig, launch
from ascend_session.errors import ConfigError, JobError
from ascend_session.launcher.plan.plan import plan_job
from tests.launcher.supervised import PATIENCE
from tests.waiting import wait_until

_REPOSITORY = Path(__file__).resolve().parents[2]


class Shell:
    """An interactive shell, and what it and its programs have shown since this was last asked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.pid, self.terminal = pty.fork()
        if not self.pid:
            os.chdir(str(folder))
            own = {"PYTHONPATH": str(_REPOSITORY), "TERM": "xterm", "PS1": "$ "}
            os.execvpe("sh", ["sh", "-i"], {**os.environ, **own})
        self.until("$ ")

    def write(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def launch(self, *words: str, again_s: float = 3600.0) -> None:
        """Starts a launcher; the shell shows its exit code as ``code=<n>.``.

        A second Ctrl-C ends a job within ``again_s``, so that no test depends on its own speed.
        """
        (self._folder / "launcher.py").write_text(
            "from ascend_session.cli import main\n"
            "from ascend_session.launcher import supervisor\n"
            f"supervisor.AGAIN_S = {again_s}\n"
            "main()\n"
        )
        command = [sys.executable, "launcher.py", "launch", "--backend", "stub"]
        self.write(f"{' '.join([*command, *words])}; echo code=$?.\n")
        self.until("\n")  # what was typed

    def until(self, text: str) -> str:
        """Reads until it has been shown; what has been until then."""
        shown = b""
        while text.encode() not in shown:
            assert select.select([self.terminal], [], [], PATIENCE)[0], shown.decode()
            shown += os.read(self.terminal, 1)
        return shown.decode()

    def close(self) -> None:
        os.kill(self.pid, signal.SIGHUP)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    opened = Shell(tmp_path)
    yield opened
    opened.close()


def log(folder: Path, rank: int, name: str = "stdout.log") -> Path:
    [found] = (folder / "ascend-logs").glob(f"job_*/attempt_1/rank_{rank}")
    return found / name


def test_a_debugger_in_rank_3_of_8_has_the_terminal(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "train.py").write_text(
        "import os\n"
        "rank = int(os.environ['RANK_ID'])\n"
        "print('this is', rank)\n"
        "total = 40 + 2\n"
        "if rank == 3:\n"
        "    breakpoint()\n"
        "    total += 1\n"
        "    print('total is', total)\n"
    )
    shell.launch("-n", "8", "--attach", "3", "train.py")
    shown = shell.until("(Pdb) ")
    assert "this is 3" in shown
    assert "[3]" not in shown
    assert all(f"this is {rank}" not in shown for rank in range(8) if rank != 3)
    shell.write("p rank, total\n")
    assert "(3, 42)" in shell.until("(Pdb) ")
    shell.write("total = 100\n")
    shell.until("(Pdb) ")
    shell.write("c\n")
    shown = shell.until("code=0.")
    assert "total is 101" in shown
    assert log(tmp_path, 2).read_text() == "this is 2\n"
    assert not log(tmp_path, 3).exists()


def test_ctrl_c_goes_to_the_debugger_and_a_second_one_ends_the_job(
    tmp_path: Path, shell: Shell
) -> None:
    (tmp_path / "train.py").write_text(
        "import os, time\n"
        "if os.environ['RANK_ID'] == '1':\n"
        "    breakpoint()\n"
        "    print('runs')\n"
        "while True:\n"
        "    time.sleep(0.05)\n"
    )
    shell.launch("-n", "2", "--attach", "1", "train.py")
    shell.until("(Pdb) ")
    shell.write("c\n")
    shell.until("runs")
    shell.write("\x03")
    shown = shell.until("Program interrupted")
    assert "stops the job" in shown
    shell.until("(Pdb) ")
    shell.write("p 20 + 3\n")
    shell.until("23")
    shell.until("(Pdb) ")
    shell.write("\x03")
    shown = shell.until("code=130.")
    assert "SIGINT: stopping all ranks" in shown


def test_a_ctrl_c_long_after_another_goes_to_the_debugger_too(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "train.py").write_text(
        "import time\nbreakpoint()\nwhile True:\n    print('runs')\n    time.sleep(0.05)\n"
    )
    shell.launch("-n", "1", "--attach", "0", "train.py", again_s=0.0)
    shell.until("(Pdb) ")
    for _ in range(3):
        shell.write("c\n")
        shell.until("runs")
        shell.write("\x03")
        shell.until("Program interrupted")
        shell.until("(Pdb) ")
    shell.write("q\n")
    shell.until("code=1.")


def test_the_summary_names_no_logs_of_a_rank_that_wrote_to_the_terminal(
    tmp_path: Path, shell: Shell
) -> None:
    (tmp_path / "train.py").write_text("import os\nprint('bye', flush=True)\nos._exit(3)\n")
    shell.launch("-n", "1", "--attach", "0", "train.py")
    shown = shell.until("code=3.")
    assert "Rank 0 exited with code 3." in shown
    assert "wrote nothing" not in shown
    assert "stdout.log" not in shown


def test_a_terminal_is_as_before_once_its_rank_has_ended(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "train.py").write_text(
        "import os, time, tty\n"
        "if os.environ['RANK_ID'] == '0':\n"
        "    tty.setraw(0)  # Ctrl-C is a letter now\n"
        "    print('raw')\n"
        "else:\n"
        "    time.sleep(600)\n"
    )
    shell.launch("-n", "2", "--attach", "0", "train.py")
    shell.until("raw")
    wait_until(lambda: termios.tcgetattr(shell.terminal)[3] & termios.ISIG, PATIENCE)
    shell.write("\x03")
    shell.until("code=130.")


def test_what_a_script_asks_for_is_typed_at_the_terminal(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "train.py").write_text("print('hello', input('who? '))\n")
    shell.launch("-n", "1", "--attach", "0", "train.py")
    shell.until("who? ")
    shell.write("me\n")
    assert "hello me" in shell.until("code=0.")


def test_settings_of_the_terminal_are_taken_back_from_a_rank_that_is_killed(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.py").write_text(
        "import os, signal, tty\n"
        "tty.setraw(0)\n"
        "print('raw')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    # Without a shell in between, which would mend them itself.
    ours, theirs = os.openpty()
    try:
        before = termios.tcgetattr(theirs)
        command = [sys.executable, "-m", "ascend_session.cli", "launch", "--backend", "stub"]
        done = subprocess.run(
            [*command, "-n", "1", "--attach", "0", "train.py"],
            cwd=str(tmp_path),
            env={**os.environ, "PYTHONPATH": str(_REPOSITORY)},
            stdin=theirs,
            capture_output=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 137
        assert b"raw" in done.stdout
        assert termios.tcgetattr(theirs) == before
    finally:
        os.close(ours)
        os.close(theirs)


def test_ctrl_z_gives_the_shell_its_terminal_and_fg_the_debugger(
    tmp_path: Path, shell: Shell
) -> None:
    (tmp_path / "train.py").write_text("total = 42\nbreakpoint()\nprint('end')\n")
    shell.launch("-n", "1", "--attach", "0", "train.py")
    shell.until("(Pdb) ")
    shell.write("\x1a")
    shell.until("$ ")
    shell.write("echo $((1200 + 34))\n")
    shell.until("1234\r\n")
    shell.write("bg\n")  # it stops again at once, as a program does that reads in the background
    shell.write("echo $((2300 + 45))\n")
    shell.until("2345\r\n")
    shell.write("fg\n")
    shell.write("p total + 1\n")
    assert "43" in shell.until("(Pdb) ")
    shell.write("c\n")
    shell.until("end")


def test_time_at_a_prompt_is_no_stall(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "train.py").write_text("input('who? ')\n")
    shell.launch("-n", "1", "--stall-timeout", "0.3", "--attach", "0", "train.py")
    shell.until("who? ")
    time.sleep(1.5)  # in which nothing happens
    shell.write("me\n")
    assert "stalled" not in shell.until("code=0.")


def test_a_launcher_in_the_background_has_no_terminal_to_give(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "train.py").write_text("print('never')\n")
    command = f"{sys.executable} -m ascend_session.cli launch --backend stub -n 1 --attach 0"
    shell.write(f"{command} train.py &\n")
    assert "--attach: the launcher runs in the background" in shell.until("hint")
    assert not (tmp_path / "ascend-logs").exists()


def test_without_a_terminal_nothing_is_started(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('never')\n")
    config = LaunchConfig(
        script="train.py", cwd=str(tmp_path), processes=1, backend="stub", attach=0
    )
    null, kept = os.open(os.devnull, os.O_RDONLY), os.dup(0)
    os.dup2(null, 0)
    try:
        with pytest.raises(JobError, match="attach: standard input is not a terminal"):
            launch(config)
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(null)
    assert not (tmp_path / "ascend-logs").exists()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"attach": 2}, "attach=2: there is no rank 2, the job has 2."),
        (
            {"attach": 3, "nnodes": 2, "node_rank": 0},
            "attach=3: rank 3 runs on another node; this one has 0 to 1.",
        ),
        ({"attach": 1, "show": "0"}, "show='0' has no effect"),
        ({"attach": -1}, "attach takes the number of a rank, 0 or more, not -1."),
        ({"attach": True}, "attach takes the number of a rank, 0 or more, not True."),
    ],
)
def test_a_rank_that_cannot_be_attached_is_refused(
    tmp_path: Path, asked: Any, message: str
) -> None:
    (tmp_path / "train.py").write_text("pass\n")

    def plan() -> None:
        job: Any = {"script": "train.py", "cwd": str(tmp_path), "processes": 2, **asked}
        plan_job(LaunchConfig(backend="stub", **job), dict(os.environ))

    with pytest.raises(ConfigError) as caught:
        plan()
    assert message in str(caught.value)


@pytest.mark.parametrize("code", ["breakpoint()\n", "input()\n"])
def test_a_rank_without_a_terminal_that_needs_one_is_told_how_to_get_it(
    tmp_path: Path, code: str
) -> None:
    (tmp_path / "train.py").write_text(f"if True:\n    {code}    print('after')\n")
    config = LaunchConfig(
        script="train.py", cwd=str(tmp_path), processes=1, backend="stub", show="none"
    )
    result = launch(config, output=2)
    assert result.cause is not None
    assert "launch with --attach 0 (in Python, attach=0)" in result.cause.advice


def test_a_result_on_stdout_and_a_rank_there_do_not_go_together(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ascend_session.cli", "launch", "--json", "--attach", "0", "x.py"],
        cwd=str(tmp_path),
        env={**os.environ, "PYTHONPATH": str(_REPOSITORY)},
        capture_output=True,
    )
    assert done.returncode == 2
    assert b"--json" in done.stderr
    assert b"--attach" in done.stderr
