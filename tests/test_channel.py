"""The channel between the processes of ranks and the launcher."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from ascend_session import channel
from tests.channels import Launcher

_REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(name="launcher")
def _launcher(monkeypatch: Any, tmp_path: Path) -> Iterator[Launcher]:
    with Launcher(tmp_path) as launcher:
        for name, value in launcher.environ.items():
            monkeypatch.setenv(name, value)
        yield launcher


def test_messages_come_in_order_and_say_whose_they_are(launcher: Launcher, tmp_path: Path) -> None:
    channel.send("first_step", step=4)
    channel.send("step", step=5, total=None, time=1.5)
    assert list(launcher.receiver.receive()) == [
        (str(tmp_path), os.getpid(), {"kind": "first_step", "step": 4}),
        (str(tmp_path), os.getpid(), {"kind": "step", "step": 5, "total": None, "time": 1.5}),
    ]


def test_a_launcher_that_reads_nothing_holds_up_nobody_and_loses_only_what_is_optional(
    launcher: Launcher,
) -> None:
    for step in range(2000):
        channel.send("step", is_optional=True, step=step, total=None, time=0.0)
    for _ in range(20):
        channel.send("failed", text="x" * 2000)
    kinds = [kind for kind, _ in launcher.messages()]
    steps = kinds.count("step")
    assert 0 < steps < 1000
    assert kinds[steps:] == ["failed"] * 20


def test_a_message_that_is_too_long_is_left_out(launcher: Launcher) -> None:
    channel.send("failed", text="x" * 100_000)
    channel.send("first_step", step=1)
    assert [kind for kind, _ in launcher.messages()] == ["first_step"]


def test_a_process_that_a_rank_starts_or_forks_has_a_connection_of_its_own(
    launcher: Launcher,
) -> None:
    channel.send("first_step", step=0)
    code = "from ascend_session import channel; channel.send('first_step', step=1)"
    subprocess.run([sys.executable, "-c", code], cwd=str(_REPOSITORY), check=True)
    pid = os.fork()
    if not pid:
        channel.send("first_step", step=2)
        os._exit(0)
    os.waitpid(pid, 0)
    channel.send("first_step", step=3)
    reports = list(launcher.receiver.receive())
    pids = {report.message["step"]: report.pid for report in reports}
    assert sorted(pids) == [0, 1, 2, 3]
    assert pids[0] == pids[3] == os.getpid()
    assert pids[2] == pid
    assert len(set(pids.values())) == 3


_INTERRUPTED = """
import signal
from ascend_session import channel

class Interrupted(Exception):
    pass

def interrupt(number, frame):
    raise Interrupted

signal.signal(signal.SIGALRM, interrupt)
for _ in range(200):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005)
        while True:
            channel.send("first_step", step=0)
    except Interrupted:
        pass
channel.send("first_step", step=1)
"""


@pytest.mark.usefixtures("launcher")
def test_a_signal_that_raises_while_there_is_no_room_for_a_message_keeps_nobody_from_sending() -> (
    None
):
    words = [sys.executable, "-c", _INTERRUPTED]
    subprocess.run(words, cwd=str(_REPOSITORY), check=True, timeout=100)


def test_it_is_told_when_the_launcher_asks_it_to_exit(launcher: Launcher, tmp_path: Path) -> None:
    assert channel.read_stop() is None
    channel.send("first_step", step=0)
    launcher.messages()
    launcher.receiver.send_stop(os.getpid() + 1)
    assert channel.read_stop() is None
    began = time.monotonic()
    launcher.receiver.send_stop(1, str(tmp_path))
    told = channel.read_stop()
    assert told is not None
    assert began <= told <= time.monotonic()
    assert channel.read_stop() == told


def test_what_a_process_has_sent_counts_although_it_has_not_read_what_it_was_sent(
    launcher: Launcher, tmp_path: Path
) -> None:
    channel.send("first_step", step=0)
    launcher.messages()
    launcher.receiver.send_stop(1, str(tmp_path))
    channel.send("first_step", step=1)
    channel.send("first_step", step=2)
    channel._forget_in_child()  # closes the connection, as an exit does
    assert [values["step"] for _, values in launcher.messages()] == [1, 2]


@pytest.mark.parametrize("data", [b"", b"no JSON", b"[]", b'{"kind": 3}', b"\xff"])
def test_who_sends_something_else_is_not_heard(launcher: Launcher, data: bytes) -> None:
    import socket

    address = launcher.environ["ASCEND_SESSION_CHANNEL"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
        stranger.connect(f"\0{address}")
        stranger.send(data)
        channel.send("first_step", step=0)
        assert ("first_step", {"step": 0}) in launcher.messages()


def test_nothing_fails_when_the_launcher_has_gone(launcher: Launcher, monkeypatch: Any) -> None:
    channel.send("first_step", step=0)
    launcher.receiver.close()
    channel.send("first_step", step=0)
    monkeypatch.setenv("ASCEND_SESSION_CHANNEL", "nobody-listens-here")
    channel.send("first_step", step=0)
    monkeypatch.delenv("ASCEND_SESSION_CHANNEL")
    channel.send("first_step", step=0)
