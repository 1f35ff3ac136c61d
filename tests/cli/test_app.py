"""The program as a whole, as it is run from a shell."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_session import __version__


def test_it_prints_its_version(program):
    assert program("--version") == (0, f"ascend-session {__version__}\n", "")


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_without_a_command_it_prints_help(call, arguments):
    called = call(*arguments)
    assert called.code == 0
    assert called.out.startswith("Usage: ascend-session [OPTIONS] COMMAND")
    assert re.search("\n  options +Print the reference of the options.\n", called.out)
    assert called.err == ""


def test_a_group_without_a_command_prints_help(call):
    called = call("config")
    assert called.code == 0
    assert called.out.startswith("Usage: ascend-session config [OPTIONS] COMMAND")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["optoins"], "No such command 'optoins'"),
        (["--nope"], "No such option"),
        (["config", "chekc"], "No such command 'chekc'"),
        (["config", "check"], "Missing argument"),
    ],
)
def test_a_wrong_call_is_two(call, arguments, said):
    called = call(*arguments)
    assert called.code == 2
    assert called.out == ""
    assert said in called.err


def test_a_wrong_call_is_answered_in_plain_sentences(program):
    called = program("options", "--nope")
    assert called.code == 2
    assert "Error: No such option: --nope" in called.err
    assert max(map(ord, called.err)) < 128


def test_help_loads_neither_tensorflow_nor_the_rooms(program):
    called = program("--help", python=["-X", "importtime"])
    loaded = {line.rpartition("|")[2].strip() for line in called.err.splitlines()}
    assert "ascend_session.cli._output" in loaded
    assert not loaded & {"tensorflow", "pydantic", "ascend_session.config.ascend_config"}


@pytest.mark.parametrize(
    "arguments", [["options"], ["options", "--json"], ["config", "schema"], ["--version"]]
)
def test_a_closed_pipe_ends_it_without_a_word(start, arguments):
    process = start(*arguments)
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), err) == (1, b"")


def test_a_name_that_the_terminal_cannot_show_is_escaped(program):
    called = program("config", "check", "尺寸.yaml", PYTHONIOENCODING="latin-1")
    assert called.code == 1
    assert "\\u5c3a\\u5bf8.yaml: error: cannot be read: No such file or directory." in called.out
    assert called.err == ""


@pytest.mark.parametrize("arguments", [["devices"], ["options", "--json"]])
def test_a_full_disk_is_said_in_one_sentence(arguments):
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "ascend_session.cli", *arguments],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert ended.returncode == 1
    assert ended.stderr == (
        "ascend-session: What was asked for could not be written: No space left on device.\n"
    )
