"""The program as a whole, as it is run from a shell."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from ascend_session import __version__
from ascend_session.cli import app
from ascend_session.cli._removed import REMOVED


def test_it_prints_its_version(program):
    assert program("--version") == (0, f"ascend-session {__version__}\n", "")


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_without_a_command_it_prints_help(call, arguments):
    called = call(*arguments)
    assert called.code == 0
    assert called.out.startswith("Usage: ascend-session [OPTIONS] COMMAND")
    assert re.search("\n  options +Look up the options of AscendConfig.\n", called.out)
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


@pytest.mark.parametrize("name", REMOVED)
def test_what_was_removed_is_refused_by_name_with_what_to_do_instead(call, name):
    called = call(*name.split(), "x")
    assert (called.code, called.out) == (2, "")
    (said,) = (line for line in called.err.splitlines() if "error: " in line)
    assert said == f"ascend-session: error: `{name}` has been removed; {REMOVED[name]}."


def test_only_what_was_removed_is_refused_as_such(call):
    for words in (["precision", "preflight"], ["aoe", "run", "--html", "x"], ["aoe", "reflight"]):
        assert "has been removed" not in call(*words).err


def test_a_wrong_call_is_answered_in_plain_sentences(program):
    called = program("options", "--nope")
    assert called.code == 2
    assert "\nascend-session: error: No such option: --nope.\n" in called.err
    assert called.err.endswith("  hint: See `ascend-session options --help`.\n")
    assert max(map(ord, called.err)) < 128


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["lanch"], "launch"),
        (["ranktabel", "make"], "ranktable"),
        (["config", "chekc"], "check"),
        (["devices", "--jsn"], "--json"),
        (["launch", "--max-restart", "1", "x.py"], "--max-restarts"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_one_that_may_be_meant(program, arguments, meant):
    called = program(*arguments)
    assert called.code == 2
    assert f". Did you mean {meant}?\n" in called.err


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "ascend_session", "--version"]
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    ended = subprocess.run(command, env=environ, stdout=subprocess.PIPE, check=True)
    assert ended.stdout.decode() == f"ascend-session {__version__}\n"


def test_a_shell_can_complete_commands_and_options(program):
    words = {"COMP_WORDS": "ascend-session ra", "COMP_CWORD": "1"}
    called = program(_ASCEND_SESSION_COMPLETE="complete_bash", **words)
    assert called.out.split() == ["ranktable"]


def list_commands(command, path=()):
    """Yield each command of the program with its path."""
    yield path, command
    context = typer.Context(command)
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from list_commands(command.get_command(context, name), (*path, name))


COMMANDS = list(list_commands(typer.main.get_command(app)))


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=["-".join(p) for p, _ in COMMANDS])
def test_help_begins_with_a_sentence_and_has_two_examples(call, path, command):
    out = call(*path, "--help").out
    usage, summary, rest = (out + "\n\n").split("\n\n", 2)
    assert usage.startswith(" ".join(["Usage: ascend-session", *path]))
    assert summary.startswith("  ")
    assert " ".join(summary.split()).count(". ") == 0
    assert max(map(len, out.splitlines())) <= 80
    examples = rest.partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
    assert len(examples) == 2
    for example in examples:
        words = shlex.split(example.partition(" > ")[0])
        assert words[: 1 + len(path)] == ["ascend-session", *path]
        command.make_context("example", words[1 + len(path) :], resilient_parsing=False).close()


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
    assert "\\u5c3a\\u5bf8.yaml: error: does not exist." in called.out
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
        "ascend-session: error: The output could not be written: No space left on device.\n"
    )
