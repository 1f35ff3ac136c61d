"""What a person sees on a terminal: folded to its width, and all of it there."""

import fcntl
import os
import re
import struct
import termios

import pytest

from ascend_session.cli._output import in_command
from ascend_session.config.reference import all_options
from ascend_session.errors import AscendError
from ascend_session.spelling import option

CODES = re.compile("\x1b\\[[0-9;]*m")


@pytest.fixture
def on_terminal(start):
    """Runs the program on a terminal of a given width; returns what it shows, with codes."""

    def on_terminal(*arguments, columns=80):
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = start(*arguments, stdout=theirs, TERM="xterm-256color", COLUMNS=str(columns))
        os.close(theirs)
        shown = b"".join(iter(lambda: _read(ours), b""))
        os.close(ours)
        _, err = process.communicate()
        assert (process.returncode, err) == (0, b"")
        return shown.decode().replace("\r\n", "\n")

    return on_terminal


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so when the last one has closed the other end
        return b""


def unfolded(text):
    return " ".join(CODES.sub("", text).split())


def test_the_list_fits_into_80_columns_and_has_every_option(on_terminal):
    shown = on_terminal("options")
    lines = CODES.sub("", shown).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 80
    for each in all_options():
        assert f" {each.name} " in shown.replace("\x1b", " \x1b")
        assert each.doc in unfolded(shown)


def test_the_list_is_in_groups_and_explains_the_scopes(on_terminal):
    lines = [line.rstrip() for line in CODES.sub("", on_terminal("options")).splitlines()]
    assert lines[lines.index("Memory") + 1] == "  memory_config"
    assert "  external_weight                      bool                       session" in lines
    assert "session: read for each session." in lines
    assert lines[-1] == "`ascend-session options NAME` shows everything about one option."


def test_long_facts_are_folded_and_not_cut(on_terminal):
    shown = CODES.sub("", on_terminal("options", "precision_mode", columns=60))
    lines = [line.rstrip() for line in shown.splitlines()]
    assert max(map(len, lines)) <= 60
    assert "keeps float32, and takes bfloat16 where the AI Core lacks it" in unfolded(shown)
    assert lines[lines.index("Write       AscendConfig(precision_mode=...)") - 1] == ""


def test_a_table_is_folded_and_not_cut(on_terminal, write):
    long = "a/" * 60
    shown = CODES.sub("", on_terminal("config", "show", write(f"op_precision_mode: {long}\n")))
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= 80
    assert "".join(re.findall("[a/']+(?=\\s)", shown.partition("SCOPE")[2])).count("a/") >= 59


def test_a_terminal_gets_styles_and_a_pipe_none(on_terminal, program):
    assert CODES.search(on_terminal("options"))
    assert CODES.search(on_terminal("options", "dump_path"))
    for arguments in (["options"], ["options", "dump_path"]):
        assert "\x1b" not in program(*arguments).out


def test_a_pipe_is_not_folded_whatever_columns_say(program):
    lines = program("options", COLUMNS="40").out.splitlines()
    assert len(lines) == 1 + len(all_options())


@pytest.mark.parametrize(
    ("message", "in_python", "typed"),
    [
        (f"{option('rank_table')} takes a path.", "rank_table takes", "--rank-table takes"),
        (f"{option('devices', '0 1')}: no.", "devices='0 1': no.", "--devices='0 1': no."),
        (f"Or {option('backend', 'stub')}.", "Or backend='stub'.", "Or --backend=stub."),
        (f"With {option('preflight', False)}.", "With preflight=False.", "With --no-preflight."),
        (f"By {option('wait_for_devices', 600)}.", "wait_for_devices=600", "-for-devices=10m."),
        (f"{option('program', 'a b')}: no.", "program='a b': no.", "--no-python 'a b': no."),
        (f"{option('show', '{x}')}: no.", "show='{x}': no.", "--show='{x}': no."),
        (f"Give {option('module')}.", "Give module.", "Give -m."),
    ],
)
def test_options_in_messages_are_spelt_as_the_caller_writes_them(message, in_python, typed):
    error = AscendError("It is wrong.", hint=message)
    assert in_python in str(error)
    assert typed in in_command(error.hint)


def test_words_of_users_are_no_options(program):
    called = program("launch", "--backend", "stub", "-n", "1", "rank_table {log_dir}")
    assert "There is no script " in called.err
    assert "rank_table {log_dir}." in called.err
