"""Calling the program: its commands in this process, or all of it as a process of its own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from tests.cli.terminal import Terminal
from tests.fake_host import FakeHost

ROOT = Path(__file__).resolve().parents[2]


class Called(NamedTuple):
    """What a call of the program came to."""

    code: int
    out: str
    err: str


@pytest.fixture
def call():
    """Calls a command in this process; its output goes to no terminal."""
    from ascend_session.cli._program import app

    try:
        runner = CliRunner(mix_stderr=False)  # click 8.1 mixes the two streams otherwise
    except TypeError:
        runner = CliRunner()

    def call(*arguments):
        result = runner.invoke(app, list(arguments), prog_name="ascend-session")
        if not isinstance(result.exception, (SystemExit, type(None))):
            raise result.exception
        return Called(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture
def host(tmp_path, monkeypatch):
    """An empty host, which the commands of this process look at."""
    made = FakeHost(tmp_path / "host")
    for name, value in made.environ.items():
        monkeypatch.setenv(name, value)
    yield made
    made.close()


@pytest.fixture
def start():
    """Starts the real program; pipes to and from it unless told otherwise."""

    def start(
        *arguments,
        stdin=None,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        python=(),
        **environ,
    ):
        return subprocess.Popen(
            [sys.executable, *python, "-m", "ascend_session.cli", *arguments],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        )

    return start


@pytest.fixture
def program(start):
    """Runs the real program to its end."""

    def program(*arguments, **settings):
        process = start(*arguments, **settings)
        out, err = process.communicate()
        return Called(process.returncode, out.decode(), err.decode())

    return program


@pytest.fixture
def on_terminal(start):
    """Runs the real program on a terminal of so many columns: its exit code, and what is shown."""

    def on_terminal(*arguments, columns, **environ):
        terminal = Terminal(columns=columns)
        process = start(*arguments, stdout=terminal.theirs, TERM="xterm", **environ)
        os.close(terminal.theirs)
        while terminal.read():
            pass
        err = process.stderr.read()
        process.stderr.close()
        terminal.close()
        return Called(process.wait(), terminal.shown, err.decode())

    return on_terminal


@pytest.fixture
def write(tmp_path):
    """Writes a file and returns its name."""

    def write(text, name="config.yaml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write
