"""The live line of a launch: what it says, and that a terminal is as if it had never been there."""

import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from ascend_session.cli._launch_run import StatusLine
from ascend_session.launcher.events import Planned, Restarting
from ascend_session.launcher.job.events import (
    Ended,
    Killing,
    NotStarted,
    Reported,
    Started,
    Stopping,
)
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.plan.plan import plan_job
from ascend_session.launcher.show.following import Latest
from tests.channels import Launcher
from tests.cli.screen import Screen
from tests.cli.terminal import Terminal

_ROOT = Path(__file__).resolve().parents[2]
_NOW = 1_000_000.0  # on both clocks, which stand still


class Watched:
    """A status line of a job of three ranks that began a while ago."""

    def __init__(self, tmp_path, columns):
        self.said = {}
        self.terminal = Terminal(columns)
        self.line = StatusLine(self.terminal.theirs, self.said.get, grace_s=10.0)
        self.plan = self._plan(tmp_path)
        self.line.note(Planned(self.plan, _NOW))
        for rank in range(3):
            self.line.note(Started(rank, 100 + rank, _NOW))
        self.line._began -= 42.5
        self.line._attempt_began -= 42.5

    def _plan(self, tmp_path):
        asked = {"program": sys.executable, "processes": 3, "backend": "stub"}
        return plan_job(LaunchConfig(log_dir=str(tmp_path), **asked), dict(os.environ))

    def says(self, rank, text, ago=0.0, since=0.0):
        self.said[rank] = Latest(_NOW - ago, text, _NOW - ago - since)

    def trains(self, rank, step, of=None, ago=0.0):
        message = {"kind": "step", "step": step, "total": of, "time": _NOW - ago}
        self.line.note(Reported(rank, 100 + rank, message, _NOW))

    def shown(self):
        return self.line.draw().decode("utf-8")


@pytest.fixture
def watch(tmp_path, monkeypatch):
    """Makes what is above, for a terminal of so many columns."""
    made = []
    monkeypatch.setattr(time, "monotonic", lambda: _NOW)
    monkeypatch.setattr(time, "time", lambda: _NOW)

    def watch(columns=120):
        made.append(Watched(tmp_path, columns))
        return made[-1]

    yield watch
    for one in made:
        os.close(one.terminal.theirs)
        one.terminal.close()


def test_it_says_who_runs_for_how_long_and_the_newest_line_of_any_rank(watch):
    watched = watch()
    watched.says(0, b"step 8\n", ago=13.0)
    watched.says(1, b"step 6\nstep 7\n", ago=12.5)
    assert watched.shown() == ("2 of 3 ranks running, 1 starting, 0:42 | [1] 0:12 ago: step 7")
    watched.says(2, b"step 9\n", ago=1.0)
    assert watched.shown() == "3 of 3 ranks running, 0:42 | [2] step 9"


def test_a_rank_that_wrote_for_long_and_is_silent_for_long_is_named(watch):
    watched = watch()
    watched.line._attempt_began -= 1000
    watched.says(0, b"step 8\n", since=900.0)
    watched.says(1, b"step 6\n", ago=130.0, since=800.0)
    watched.says(2, b"step 7\n", ago=59.0, since=800.0)
    assert watched.shown() == "3 of 3 ranks running, 0:42 | [1] 2:10 ago: step 6"


def test_a_rank_that_wrote_only_at_its_beginning_is_not_missed(watch):
    watched = watch()
    watched.line._attempt_began -= 1000
    watched.says(0, b"step 8\n", since=900.0)
    watched.says(1, b"a warning\n", ago=880.0, since=2.0)
    assert watched.shown() == "2 of 3 ranks running, 1 starting, 0:42 | [0] step 8"


def test_the_step_comes_with_pace_and_time_left(watch):
    watched = watch()
    watched.says(0, b"loss 1\n")
    watched.trains(1, 100, of=1000, ago=10.0)
    shown = "2 of 3 ranks running, 1 starting, 0:42 | step {} | [0] loss 1"
    assert watched.shown() == shown.format("100 of 1000")
    watched.trains(1, 140, of=1000)
    assert watched.shown() == shown.format("140 of 1000, 4 steps/s, 3:35 left")
    watched.trains(0, 500)  # the first rank that tells
    assert watched.shown() == shown.format("500")


def test_steps_are_shown_of_ranks_that_say_nothing_else(watch):
    watched = watch()
    for rank in range(3):
        watched.trains(rank, 7)
    assert watched.shown() == "3 of 3 ranks running, 0:42 | step 7"


def test_a_step_of_long_ago_has_no_pace(watch):
    watched = watch()
    watched.says(0, b"evaluating\n")
    watched.trains(0, 100, ago=90.0)
    watched.shown()
    watched.trains(0, 140, of=1000, ago=70.0)
    assert "| step 140 of 1000, 1:10 ago | [0] evaluating" in watched.shown()


def test_another_count_of_steps_begins_its_own_pace(watch):
    watched = watch()
    watched.says(0, b"x\n")
    for step, ago in ((100, 9.0), (140, 5.0), (1, 4.0)):
        watched.trains(0, step, ago=ago)
        watched.shown()
    watched.trains(0, 3)
    assert "| step 3, 0.5 steps/s |" in watched.shown()


def test_ranks_that_have_written_nothing_yet_are_starting(watch):
    assert watch().shown() == "3 of 3 ranks starting, 0:42"


def test_a_silent_rank_that_has_opened_a_system_is_running(watch):
    watched = watch()
    for rank in watched.plan.ranks:
        os.makedirs(rank.folder)
        code = f"from ascend_session.cluster import member; member.join({rank.rank})"
        with Launcher(Path(rank.folder)) as launcher:
            environ = {**os.environ, **launcher.environ}
            subprocess.run([sys.executable, "-c", code], cwd=str(_ROOT), check=True, env=environ)
            for _, pid, message in launcher.receiver.receive():
                watched.line.note(Reported(rank.rank, pid, message, _NOW))
    assert watched.shown() == "3 of 3 ranks running, 0:42"


def test_the_lines_of_ranks_that_have_ended_are_not_the_newest(watch):
    watched = watch()
    watched.says(0, b"one\n", ago=10.0)
    watched.says(1, b"two\n", ago=20.0)
    watched.line.note(Ended(0, 0, _NOW))
    watched.line.note(NotStarted(2, "x", 2, "No such file", _NOW))
    assert watched.shown() == "1 of 3 ranks running, 0:42 | [1] 0:20 ago: two"
    watched.line.note(Ended(1, 0, _NOW))
    assert watched.shown() == "0 of 3 ranks running, 0:42"


def test_a_job_that_stops_says_when_it_is_killed(watch):
    watched = watch()
    watched.line.note(Ended(0, 1, _NOW))
    watched.line.note(Stopping("failure", _NOW - 3))
    assert watched.shown() == "stopping 2 of 3 ranks, killed in 7 s, 0:42"
    watched.line.note(Killing(_NOW))
    assert watched.shown() == "stopping 2 of 3 ranks, killing, 0:42"


def test_a_wait_and_the_next_attempt_are_said(watch):
    watched = watch()
    for rank in range(3):
        watched.line.note(Ended(rank, 1, _NOW))
    watched.line.note(Restarting("It failed.", 60.0, _NOW))
    assert watched.shown() == "attempt 2 in 60 s, 0:42"
    watched.says(0, b"of the first attempt\n", ago=1.0)
    again = watched.plan._replace(attempt=2)
    watched.line.note(Planned(again, _NOW))
    watched.line.note(Started(0, 200, _NOW))
    assert watched.shown() == "attempt 2, 1 of 3 ranks starting, 0:42"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"\x1b[31mred\x1b[0m\n", "red"),
        (b" 10%|#\r 20%|##\r", "20%|##"),
        (b"done\n\n  \n", "done"),
        (b"half a li", "half a li"),
        (b"bell \x07 and \xff\n", "bell and \\xff"),
        (b"clear \x1b[2J\x1b[H me\n", "clear me"),
        (b"a\tb\n", "a b"),
        (b"\xb8" + "尺寸\n".encode(), "尺寸"),
        (b"\n\n", ""),
    ],
)
def test_a_line_can_be_anything(watch, written, shown):
    watched = watch()
    for rank in range(3):
        watched.says(rank, written)
    assert watched.shown() == f"3 of 3 ranks running, 0:42 | [0] {shown}"


@pytest.mark.parametrize("columns", [200, 80, 40, 39, 38, 37, 20, 4, 3, 1])
def test_it_never_reaches_the_last_column_and_follows_the_terminal(watch, columns):
    watched = watch(200)
    for rank in range(3):
        watched.says(rank, "尺寸".encode() * 80)
    size = struct.pack("HHHH", 24, columns, 0, 0)
    fcntl.ioctl(watched.terminal.theirs, termios.TIOCSWINSZ, size)
    screen = Screen(columns)
    screen.write(watched.shown())
    assert len(screen.lines) == 1
    assert screen._column <= max(0, columns - 3)


def test_a_terminal_that_does_not_say_its_size_counts_as_80_columns(watch):
    watched = watch(0)
    for rank in range(3):
        watched.says(rank, b"x" * 400)
    assert len(watched.shown()) == 77


def test_a_job_that_has_just_begun_has_none(watch):
    watched = watch()
    watched.line._began = _NOW
    assert watched.shown() == ""


_JOB = """
import os, sys, time
rank = os.environ["RANK_ID"]
def say(text):
    sys.stdout.write(text); sys.stdout.flush()
with open(os.environ["GATE"]) as gate:
    say("begin " + rank + chr(10))
    gate.read()
for number in range(200):
    say("line %d of %s %s%s" % (number, rank, "x" * (number % 70), chr(10)))
"""


def _launch(start, terminal, tmp_path, *words, **environ):
    logs = ("--backend", "stub", "--log-dir", str(tmp_path / "logs"))
    process = start(
        *("launch", "-n", "2", *logs, *words),
        stdout=terminal.theirs,
        stderr=terminal.theirs,
        **environ,
    )
    os.close(terminal.theirs)
    return process


@pytest.fixture
def start_on():
    """As `start`, with a stderr of one's own."""

    def start_on(*arguments, stdout, stderr, **environ):
        return subprocess.Popen(
            [sys.executable, "-m", "ascend_session.cli", *arguments],
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, "PYTHONPATH": str(_ROOT), "TERM": "xterm", **environ},
        )

    return start_on


def _gate(tmp_path):
    path = tmp_path / "gate"
    os.mkfifo(str(path))
    return path


def test_a_terminal_shows_it_and_in_the_end_only_whole_lines(start_on, tmp_path):
    terminal, gate = Terminal(80), _gate(tmp_path)
    words = ("--independent", "--no-python", sys.executable, "-c", _JOB)
    process = _launch(start_on, terminal, tmp_path, *words, GATE=str(gate))
    writing = os.open(str(gate), os.O_WRONLY)
    terminal.until("2 of 2 ranks running, 0:02 | ")
    os.close(writing)
    while terminal.read():
        pass
    terminal.close()
    assert process.wait() == 0
    screen = Screen(200)  # wide enough for the path of the logs
    screen.write(terminal.shown)
    first, *lines, last, empty = screen.lines
    assert first.startswith("ascend-session: 2 ranks, backend stub: ")
    assert re.match("ascend-session: all 2 ranks succeeded in [0-9.]+ s; logs in /", last)
    assert empty == ""
    wanted = [f"[{rank}] begin {rank}" for rank in range(2)]
    wanted += [f"[{r}] line {n} of {r} {'x' * (n % 70)}" for r in range(2) for n in range(200)]
    assert sorted(line.rstrip() for line in lines) == sorted(line.rstrip() for line in wanted)


def test_after_ctrl_c_the_line_is_gone_and_the_summary_stands_alone(start_on, tmp_path):
    terminal = Terminal(80)
    words = ("--no-python", sys.executable, "-S", "-c", "import signal; signal.pause()")
    process = _launch(start_on, terminal, tmp_path, *words)
    terminal.until("2 of 2 ranks starting, 0:01")
    process.send_signal(signal.SIGINT)
    while terminal.read():
        pass
    terminal.close()
    assert process.wait() == 128 + signal.SIGINT
    screen = Screen(200)
    screen.write(terminal.shown)
    assert any("SIGINT: stopping all ranks" in line for line in screen.lines)
    assert not any("ranks starting" in line for line in screen.lines)
    assert any("ascend-session: the job was interrupted." in line for line in screen.lines)


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_dumb_terminal_gets_lines_without_controls(start_on, tmp_path, term):
    terminal = Terminal(80)
    code = "import time; print('one', flush=True); time.sleep(2); print('two')"
    words = ("--independent", "--no-python", sys.executable, "-c", code)
    process = _launch(start_on, terminal, tmp_path, *words, TERM=term)
    while terminal.read():
        pass
    terminal.close()
    assert process.wait() == 0
    assert "\x1b" not in terminal.shown
    assert "\r" not in terminal.shown.replace("\r\n", "\n")
    assert terminal.shown.count("one") == terminal.shown.count("two") == 2


def test_words_to_the_same_terminal_do_not_tear_it(start_on, tmp_path):
    terminal = Terminal(80)
    code = "import os, sys, time; time.sleep(1.5 + 9 * int(os.environ['RANK_ID'])); sys.exit(3)"
    words = ("--no-python", sys.executable, "-S", "-c", code)
    process = _launch(start_on, terminal, tmp_path, *words)
    while terminal.read():
        pass
    terminal.close()
    assert process.wait() == 3
    screen = Screen(200)
    screen.write(terminal.shown)
    assert screen.lines[1].startswith("ascend-session: Rank 0 exited with code 3. The")
