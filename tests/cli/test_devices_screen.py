"""``ascend-session devices`` on terminals, and how it ends."""

import os
import re
import signal

import pytest

from tests.cli.terminal import Terminal
from tests.fake_host import (
    FakeHost,
    Reply,
    a2_chips,
    a3_chips,
    atlas_chips,
    inference_chips,
    npu_smi_answers,
)
from tests.fake_host.program import are_gone
from tests.waiting import wait_until

CODES = re.compile("\x1b\\[[0-9;?]*[A-Za-z]")
LONG = "python3 -u /home/user/projects/model/train.py --data=/data/part-0001 --out=/out --epochs=90"


@pytest.fixture
def host(tmp_path):
    made = FakeHost(tmp_path / "host")
    yield made
    made.close()


@pytest.fixture
def server(host):
    """A host with two devices."""
    host.nodes([0, 1])
    host.npu_smi(npu_smi_answers("910B", a2_chips(2)))
    return host


@pytest.fixture
def begin(start, host):
    """Starts the command on the host; ends it after the test."""
    begun = []

    def begin(*arguments, **settings):
        begun.append(start("devices", *arguments, **settings, **host.environ))
        return begun[-1]

    yield begin
    for process in begun:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def on_terminal(begin):
    """Starts the command on a terminal; returns the process and the terminal."""
    opened = []

    def on_terminal(**environ):
        opened.append(Terminal(80, 50))
        environ = {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **environ}
        process = begin(stdout=opened[-1].theirs, **environ)
        os.close(opened[-1].theirs)
        return process, opened[-1]

    yield on_terminal
    for terminal in opened:
        terminal.close()


def lines_of(terminal):
    while terminal.read():
        pass
    text = CODES.sub("", terminal.shown.replace("\r\n", "\n"))
    return [line.rstrip() for line in text.split("\n")]


@pytest.mark.parametrize(
    ("layout", "chips"),
    [
        ("910A", atlas_chips(8)),
        ("910B", a2_chips(8)),
        ("A3", a3_chips(8)),
        ("26-A3", a3_chips(8)),
        ("310", inference_chips((0, 32, 96))),
    ],
)
def test_every_layout_is_readable_within_80_columns(on_terminal, host, layout, chips):
    host.nodes([chip.physical for chip in chips])
    host.npu_smi(npu_smi_answers(layout, chips))
    host.hccn_conf({f"address_{chip.physical}": "192.168.100.100" for chip in chips})
    host.process(123456, LONG, devices=[0, 1])
    process, terminal = on_terminal()
    lines = lines_of(terminal)
    assert process.wait() == 0
    assert max(map(len, lines)) <= 80
    rows = [line.split()[:3] for line in lines[1 : 1 + len(chips)]]
    assert rows == [[str(c.physical), str(c.physical), c.name] for c in chips]
    heading, first, second = lines[len(chips) + 2 : len(chips) + 5]
    assert heading.split("  ")[0] == "HOLDER OF"
    assert re.match("davinci0 +123456 +[0-9]+ d( [0-9]+ h)? +python3 -u /home/user/", first)
    assert first.endswith("\u2026")
    assert second.startswith("davinci1 ")


def test_sick_and_hidden_devices_look_different(on_terminal, host):
    chips = a2_chips(3)
    host.nodes(range(3))
    host.npu_smi(npu_smi_answers("910B", [chips[0], chips[1]._replace(health="Alarm"), chips[2]]))
    process, terminal = on_terminal(ASCEND_RT_VISIBLE_DEVICES="0,1")
    lines = lines_of(terminal)
    assert process.wait() == 1
    assert "\x1b[32mOK" in terminal.shown
    assert "\x1b[1;31mAlarm" in terminal.shown
    assert lines[3].startswith("  -     2  910B3")
    assert "\x1b[2m" in terminal.shown


def until_asked(host):
    """Waits until npu-smi hangs with its child; returns the pids of both."""
    wait_until(lambda: len(host.calls()) >= 2)
    return [call.pid for call in host.calls()]


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        (["--json"], signal.SIGHUP),
        ([], signal.SIGTERM),
        ([], signal.SIGINT),
    ],
)
def test_a_hanging_npu_smi_is_ended_with_the_command(begin, host, arguments, number):
    host.nodes([0])
    host.npu_smi({"": Reply(then="hang")})
    process = begin(*arguments, "--timeout", "600")
    asked = until_asked(host)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert are_gone(asked)
    assert (process.returncode, err) == (128 + number, b"")
    assert b"LOG" not in out


def test_nohup_keeps_its_meaning(start, host):
    host.nodes([0])
    host.npu_smi({"": Reply(then="hang")})
    ignored = [
        "-c",
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN);"
        " os.execv(sys.executable, [sys.executable, *sys.argv[1:]])",
    ]
    process = start("devices", "--timeout", "600", python=ignored, **host.environ)
    until_asked(host)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("arguments", [["--json"], []])
def test_a_closed_pipe_ends_it_without_a_word(begin, server, arguments):
    process = begin(*arguments)
    process.stdout.close()
    assert (process.stderr.read(), process.wait()) == (b"", 1)
