"""``ascend-session explain``: codes, lines, logs and folders; its words are in the golden files."""

import json
import os
import re

import pytest

WAITS = "EI0006: Getting socket times out. dst_rank[5]-remoteUserrank[5]-remote_ip_addr[10.0.0.2]\n"
UNSUPPORTED = "EZ3002: Optype [A] of Ops kernel [B] is unsupported.\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "code",
    [
        *("EI0006", "ei0015", "507033", "EZ3002", "EZ3003", "E40021", "E90003", "500002", "0x91"),
        *("E60012", "EK0003", "107025", "545601"),
    ],
)
def test_a_code_gets_a_meaning_a_kind_what_to_do_and_a_source(call, code):
    called = call("explain", code)
    assert called.code == 0
    assert re.match(f"{code}: [a-z].+\n", called.out, re.I)
    labels = re.findall("^([A-Z][a-z ]+?)  ", called.out, re.M)
    assert [label for label in labels if label != "Wait"] == ["Kind", "What to do", "Source"]
    assert "hicann" in called.out.splitlines()[-1] or "AscendCL" in called.out.splitlines()[-1]


def test_several_logs_are_those_of_one_job(call, folder):
    (folder / "a.log").write_text(WAITS)
    (folder / "b.log").write_text(f"step 1\n{UNSUPPORTED}")
    called = call("explain", "a.log", "b.log")
    assert called.out.startswith("EZ3002: ")
    assert "Where       b.log:2\n" in called.out
    assert "(a.log:1)" in called.out


def test_the_peer_that_a_log_names_is_named(call, folder):
    (folder / "a.log").write_text(WAITS)
    assert "Peer        rank 5 at 10.0.0.2\n" in call("explain", "a.log").out


def test_the_standard_input_is_a_log(program, folder):
    (folder / "a.log").write_bytes(b"step 1 \xff\xe6\x95\n" + UNSUPPORTED.encode())  # no UTF-8
    with open(str(folder / "a.log"), "rb") as log:
        shown = program("explain", "-", "--json", stdin=log)
    cause = json.loads(shown.out)["cause"]
    assert (cause["code"], cause["file"], cause["line"]) == ("EZ3002", "-", 2)


@pytest.mark.parametrize("what", ["missing.log", "some/folder"])
def test_a_file_that_is_not_there_is_said_to_be_missing(call, folder, what):
    called = call("explain", what)
    assert (called.code, called.out) == (2, "")
    assert f"There is no file or folder '{what}'." in called.err


def test_a_missing_file_among_others_is_not_passed_over(call, folder):
    (folder / "a.log").write_text(WAITS)
    called = call("explain", "a.log", "b.log")
    assert (called.code, called.out) == (2, "")
    assert "'b.log'" in called.err


def test_a_code_that_nobody_knows_hides_no_other(call):
    called = call("explain", "EI0006", "507033", "EI9876")
    assert called.code == 1
    assert "Nothing is known about EI9876." in called.err
    assert "EI0006" in called.out
    assert "507033" in called.out


def test_a_pipe_is_not_called_a_log_without_failures(call, tmp_path):
    os.mkfifo(str(tmp_path / "pipe"))
    called = call("explain", str(tmp_path / "pipe"))
    assert called.code == 2
    assert "cannot be read: it is not a regular file" in called.err


def test_a_folder_without_logs_is_said_to_have_none(call, folder):
    (folder / "train.py").write_text("EZ3002: x")
    called = call("explain", str(folder))
    assert (called.code, called.out) == (1, "")
    assert "There is no log in" in called.err


def test_nothing_known_is_an_empty_object_and_exit_code_1(call, folder):
    (folder / "a.log").write_text("fine\n")
    called = call("explain", "--json", "a.log")
    assert called.code == 1
    found = {"cause": None, "others": [], "peers": [], "logs": ["a.log"], "launches": []}
    assert json.loads(called.out) == found


def test_a_terminal_gets_lines_that_fit_it(on_terminal, folder):
    (folder / "a.log").write_text(WAITS)
    shown = on_terminal("explain", "a.log", columns=60).out
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown).replace("\r", "")
    assert "rank 5 at 10.0.0.2" in plain
    assert max(map(len, plain.splitlines())) <= 60


@pytest.mark.parametrize("command", ["options", "guide"])
def test_other_commands_lead_here_for_a_code(call, command):
    called = call(command, "EZ3002")
    assert (called.code, called.out) == (1, "")
    assert "`ascend-session explain EZ3002`" in called.err
