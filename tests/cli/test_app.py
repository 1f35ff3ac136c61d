"""The program as a whole, as it is run from a shell."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from ascend_session import __version__
from ascend_session.cli._parameters import REMOVED
from ascend_session.cli._program import COMMANDS as SUMMARIES
from ascend_session.cli._program import app


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
        (["optoins"], "No such command: optoins"),
        (["--nope"], "No such option"),
        (["config", "chekc"], "No such command: chekc"),
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


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("ascend-session ra", "ranktable"),
        ("ascend-session ranktable co", "convert"),
        ("ascend-session launch --max-r", "--max-restarts"),
    ],
)
def test_bash_completes_commands_and_options(program, tmp_path, typed, completed):
    script = program("completion", "bash").out
    ours = tmp_path / "ascend-session"
    ours.write_text(f'#!/bin/sh\nexec {sys.executable} -m ascend_session.cli "$@"\n')
    ours.chmod(0o755)
    words = typed.split()
    asking = [
        script,
        f"COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}",
        "_ascend_session_completion ascend-session",
        'printf "%s\\n" "${COMPREPLY[@]}"',
    ]
    path = f"{tmp_path}:{os.environ['PATH']}"
    python_path = str(Path(__file__).resolve().parents[2])
    ended = subprocess.run(
        ["bash", "-c", "\n".join(asking)],
        env={**os.environ, "PATH": path, "PYTHONPATH": python_path},
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    assert ended.stdout.split() == [completed]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_for_completion(program, shell):
    called = program("completion", shell)
    assert (called.code, called.err) == (0, "")
    assert f"_ASCEND_SESSION_COMPLETE={shell}_complete" in called.out


def list_commands(command, path=()):
    """Yield each command of the program with its path."""
    yield path, command
    context = click.Context(command)
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from list_commands(command.get_command(context, name), (*path, name))


COMMANDS = list(list_commands(app))


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


@pytest.mark.parametrize("words", [[], ["--help"], ["--version"], ["config", "--help"]])
def test_help_loads_only_click_and_the_module_of_its_command(words):
    main = "import sys\nfrom ascend_session.cli import main\ntry:\n    main()\n"
    code = f"{main}except SystemExit:\n    print(*sys.modules, file=sys.stderr)\n"
    ended = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    loaded = set(ended.stderr.split())
    ours = {name for name in loaded if name.startswith("ascend_session.cli")}
    assert "click" in loaded
    assert len(ours & {f"ascend_session.cli.{name}" for name in SUMMARIES}) == words.count("config")
    assert not loaded & {"tensorflow", "numpy", "attr", "rich", "psutil", "yaml"}


@pytest.mark.parametrize("arguments", [["options"], ["options", "--json"], ["--version"]])
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


ALL, OUT, ERR = ">&- 2>&- <&-", ">&-", "2>&-"


@pytest.mark.parametrize(
    ("call", "closing", "code"),
    [
        ("--help", ALL, 0),
        ("--version", OUT, 0),
        ("options", OUT, 0),
        ("options nothing_like_it", ERR, 1),
        ("options precision_mode", ALL, 0),
        ("devices --json", ALL, 1),
        ("config check missing.yaml", OUT, 1),
        ("options --json", ALL, 0),
        ("ranktable show missing.json", ERR, 1),
        ("guide launch", ALL, 0),
        ("completion bash", ALL, 0),
        ("audit missing.py", ALL, 2),
        ("precision check missing.ini", ALL, 1),
        ("aoe report missing.json", ALL, 1),
        ("run missing.py", ALL, 2),
        ("launch --dry-run -n 2 --backend stub missing.py", ALL, 2),
        ("nonsense", ERR, 2),
    ],
)
def test_a_closed_stream_costs_neither_a_traceback_nor_the_exit_code(host, call, closing, code):
    command = f"{shlex.quote(sys.executable)} -m ascend_session.cli {call} {closing}"
    ended = subprocess.run(
        command,
        shell=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    assert ended.returncode == code
    assert b"Traceback" not in ended.stderr


def test_the_help_lists_each_command_with_its_own_first_sentence():
    for path, command in COMMANDS:
        if len(path) == 1:
            assert " ".join(command.help.split("\n\n")[0].split()) == SUMMARIES[path[0]]


def test_the_help_is_the_same_however_it_is_asked_for(call, program):
    assert call("--help").out == program("--help").out == program().out


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["-np", "8", "train.py"], "-n N"),
        (["--nproc_per_node", "8", "train.py"], "-n N"),
        (["--nproc-per-node=8", "train.py"], "-n N"),
        (["--num_processes", "8", "train.py"], "-n N"),
        (["-n", "8", "--master_addr", "10.0.0.1", "train.py"], "--rank-table"),
        (["--no-rank-table", "--master_port=29500", "train.py"], "--chief-port"),
        (["--hostfile", "hosts", "train.py"], "--nnodes and --node-rank"),
        (["-H", "a:8,b:8", "train.py"], "--nnodes and --node-rank"),
        (["--machine_rank", "1", "train.py"], "--node-rank K"),
        (["-x", "PATH", "train.py"], "--env NAME=VALUE"),
        (["--nnodes=1:4", "train.py"], "--nnodes 4"),
        (["--nnodes", "1:4", "train.py"], "--nnodes 4"),
        (["--node_rank=1", "train.py"], "--node-rank"),
    ],
)
def test_an_option_of_another_launcher_is_answered_with_ours(call, words, meant):
    called = call("launch", *words)
    assert called.code == 2
    assert meant in called.err.partition("error: ")[2]


def test_options_behind_the_script_are_its_own(call, write):
    script = write("", "train.py")
    called = call("launch", "--dry-run", "-n", "1", "--backend", "stub", script, "-np", "8")
    assert called.code == 0
    assert "train.py -np 8\n" in called.out


def test_a_working_directory_that_is_gone_is_named_as_what_it_is(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    command = [sys.executable, "-m", "ascend_session.cli", "run", "train.py"]
    words = "cd " + shlex.quote(str(folder)) + " && rmdir ../gone && exec " + " ".join(command)
    ended = subprocess.run(
        words,
        shell=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("ascend-session: error: The working directory has been removed.")
