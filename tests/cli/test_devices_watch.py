"""``ascend-session devices`` on terminals, and with --watch: how it repeats and how it ends."""

import json
import os
import re
import signal
import subprocess

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
TIME = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}")
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
def watch(start, host):
    """Starts the command on the host; ends it after the test."""
    begun = []

    def watch(*arguments, **settings):
        begun.append(start("devices", *arguments, **settings, **host.environ))
        return begun[-1]

    yield watch
    for process in begun:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def on_terminal(watch):
    """Starts the command on a terminal; returns the process and the terminal."""
    opened = []

    def on_terminal(*arguments, term="xterm-256color", lines=50, **environ):
        opened.append(Terminal(80, lines))
        environ = {"TERM": term, "LC_ALL": "C.UTF-8", **environ}
        process = watch(*arguments, stdout=opened[-1].theirs, **environ)
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


def test_as_json_it_is_an_object_a_line_until_ctrl_c_and_zero(watch, server):
    process = watch("--watch", "--json", "--interval", "0.5")
    reports = [json.loads(process.stdout.readline()) for _ in range(3)]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert [report["visible"] for report in reports] == [[0, 1]] * 3
    assert len(reports[0]["devices"]) == 2


def test_it_sees_what_changes(watch, server):
    process = watch("--watch", "--json", "--interval", "0.5")
    before = json.loads(process.stdout.readline())
    server.process(7, "python3 train.py", devices=[1])
    while not json.loads(process.stdout.readline())["devices"][1]["holders"]:
        pass
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert before["devices"][1]["holders"] == []
    assert process.returncode == 0


def test_in_a_pipe_each_report_has_its_time_above_it(watch, server):
    process = watch("--watch", "--interval", "0.5")
    lines = []
    while len([line for line in lines if TIME.fullmatch(line)]) < 3:
        lines.append(process.stdout.readline().decode().rstrip("\n"))
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 0
    times = [number for number, line in enumerate(lines) if TIME.fullmatch(line)]
    assert times[0] == 0
    first, second = lines[: times[1]], lines[times[1] : times[2]]
    assert first[1:] == second[1:]
    assert first[1].startswith("LOG  PHYS  NAME")
    assert first[-1] == ""
    assert "\x1b" not in "\n".join(lines)


def test_on_a_terminal_it_draws_over_itself(on_terminal, server):
    process, terminal = on_terminal("--watch", "--interval", "0.5")
    terminal.until("\x1b[1A")
    process.send_signal(signal.SIGINT)
    lines = lines_of(terminal)
    _, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert TIME.match(lines[0])
    assert lines[0].endswith(", again in 0.5 s; Ctrl-C ends")
    # The cursor is shown again.
    assert terminal.shown.rindex("\x1b[?25h") > terminal.shown.rindex("\x1b[?25l")


def test_on_a_small_terminal_the_last_report_is_whole(on_terminal, host):
    host.nodes(range(16))
    host.npu_smi(npu_smi_answers("A3", a3_chips(8)))
    process, terminal = on_terminal("--watch", "--interval", "0.5", lines=10)
    terminal.until("\x1b[1A")
    assert "Driver" not in terminal.shown
    process.send_signal(signal.SIGINT)
    lines = lines_of(terminal)
    process.communicate()
    assert process.returncode == 0
    assert [line for line in lines if line.startswith("Driver")] == ["Driver    24.1.rc3.7"]


def test_a_terminal_that_cannot_be_drawn_over_gets_one_after_the_other(on_terminal, server):
    process, terminal = on_terminal("--watch", "--interval", "0.5", term="dumb")
    terminal.until("Toolkit")
    process.send_signal(signal.SIGINT)
    lines = lines_of(terminal)
    process.communicate()
    assert process.returncode == 0
    assert TIME.fullmatch(lines[0])
    assert lines[1].startswith("LOG  PHYS  NAME")


def until_asked(host):
    """Waits until npu-smi hangs with its child; returns the pids of both."""
    wait_until(lambda: len(host.calls()) >= 2)
    return [call.pid for call in host.calls()]


@pytest.mark.parametrize(
    ("arguments", "number", "code"),
    [
        (["--watch"], signal.SIGINT, 0),
        (["--watch"], signal.SIGTERM, 128 + signal.SIGTERM),
        (["--watch", "--json"], signal.SIGHUP, 128 + signal.SIGHUP),
        ([], signal.SIGTERM, 128 + signal.SIGTERM),
        ([], signal.SIGINT, 128 + signal.SIGINT),
    ],
)
def test_a_hanging_npu_smi_is_ended_with_the_command(watch, host, arguments, number, code):
    host.nodes([0])
    host.npu_smi({"": Reply(then="hang")})
    process = watch(*arguments, "--timeout", "600")
    asked = until_asked(host)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert are_gone(asked)
    assert (process.returncode, err) == (code, b"")
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


@pytest.mark.parametrize("arguments", [["--watch"], ["--watch", "--json"], []])
def test_a_closed_pipe_ends_it_without_a_word(watch, server, arguments):
    process = watch(*arguments, *(["--interval", "0.5"] if arguments else []))
    process.stdout.close()
    assert (process.stderr.read(), process.wait()) == (b"", 1)


def test_a_reader_that_takes_one_line_ends_it(watch, server):
    reading, writing = os.pipe()
    process = watch("--watch", "--json", "--interval", "0.5", stdout=writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        head = subprocess.run(["head", "-1"], stdin=pipe, stdout=subprocess.PIPE, check=True)
    _, err = process.communicate(timeout=60)
    assert json.loads(head.stdout)["visible"] == [0, 1]
    assert (process.returncode, err) == (1, b"")
