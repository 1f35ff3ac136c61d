"""What README and guides show works as it stands there: code, commands and their output.

The first words behind the three backticks say how a block is tested, in the order of the page:

``python``
    It is run, after the blocks before it on the page. A ``text`` block right behind it is what it
    prints, with the warnings of this package below.
``python`` or ``yaml``, with ``# NAME`` as the first line
    It is written to the file NAME, for the commands on the page.
``python compile``
    It is compiled: it needs a device, or names that are not there.
``console``, ``console exit=1``
    The commands behind ``$`` are run, and end with this code. Three dots in what they print stand
    for anything.
``sh``, ``console example``
    Every command of ``ascend-session`` is read by its own parser, and not run.
``diff``
    Its lines without a plus stand in the files that it names.
``text``, or nothing
    It is shown only.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple

import click
import pytest
from click.testing import CliRunner

from tests.fake_host import FakeHost

HOME = Path(__file__).resolve().parents[1]
GUIDES = HOME / "ascend_session" / "guides"
PAGES = [HOME / "README.md", *sorted(GUIDES.glob("*.md"))]
FENCE = re.compile(r"^```(\w*) *([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"# ([\w.]+)\n")  # the first line of a block that is a file
# What TensorFlow says of itself, here or there
NOISE = re.compile(
    r"^(\[\d\] )?(WARNING:tensorflow|\d{4}-\d\d-\d\d [\d:.]+: [IWE] ).*\n\n*", re.MULTILINE
)
SECONDS = 120
KINDS = {
    "python": ("", "compile"),
    "yaml": ("",),
    "console": ("", "example", "exit=1"),
    "sh": ("",),
    "diff": ("",),
    "text": ("",),
}


class Block(NamedTuple):
    """One block of a page.

    Attributes:
        kind: The language, such as ``python``.
        how: What else its fence says.
        text: What stands in it.
        line: Its line on the page.
        is_output: Whether it stands right behind a block of Python.
    """

    kind: str
    how: str
    text: str
    line: int
    is_output: bool

    @property
    def file(self) -> str:
        """The file that it is; empty if it is none."""
        name = NAME.match(self.text)
        return name[1] if name else ""


def blocks_of(page: Path) -> List[Block]:
    text = page.read_text(encoding="utf-8")
    blocks: List[Block] = []
    end = 0
    for match in FENCE.finditer(text):
        behind = (
            bool(blocks) and blocks[-1].kind == "python" and not text[end : match.start()].strip()
        )
        line = text.count("\n", 0, match.start()) + 1
        kind, how, body = match[1] or "text", match[2], match[3]
        blocks.append(Block(kind, how, body, line, behind and kind == "text"))
        end = match.end()
    return blocks


BLOCKS = {page: blocks for page in PAGES for blocks in [blocks_of(page)] if blocks}
PARSED = [
    pytest.param(line, id=f"{page.stem}-{block.line}-{number}")
    for page, blocks in BLOCKS.items()
    for block in blocks
    if block.kind == "sh" or (block.kind == "console" and block.how == "example")
    for number, line in enumerate(block.text.replace("\\\n", " ").splitlines())
    if "ascend-session " in line and (block.kind == "sh" or line.startswith("$ "))
]


@pytest.mark.parametrize("page", BLOCKS, ids=lambda page: page.stem)
def test_each_block_says_how_it_is_tested(page: Path) -> None:
    wrong = [block for block in BLOCKS[page] if block.how not in KINDS.get(block.kind, ())]
    assert wrong == []


@pytest.mark.parametrize("page", BLOCKS, ids=lambda page: page.stem)
def test_a_diff_of_a_page_fits_the_files_that_it_changes(page: Path) -> None:
    lines: List[str] = []
    for block in BLOCKS[page]:
        for line in block.text.splitlines() if block.kind == "diff" else ():
            if line.startswith("--- "):
                file = HOME / line[4:].partition("/")[2]
                lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
            elif not line.startswith(("+", "@@")):
                assert line[1:] in lines, f"{page.name}: {line}"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to work in, on a host without devices."""
    host = FakeHost(tmp_path / "host")
    for name, value in {**host.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.chdir(folder)
    yield folder
    host.close()


@pytest.mark.parametrize("page", BLOCKS, ids=lambda page: page.stem)
def test_what_a_page_shows_can_be_done_as_it_stands(
    page: Path, tf: Any, place: Path, forking_python: str
) -> None:
    names: Dict[str, Any] = {"__name__": "__main__"}
    shown = ""
    for block in BLOCKS[page]:
        where = f"{page.name}:{block.line}"
        if block.kind in ("python", "yaml") and block.file:
            (place / block.file).write_text(block.text, encoding="utf-8")
        if block.kind == "python":
            code = compile(f"{chr(10) * block.line}{block.text}", str(page), "exec")
            shown = "" if block.how or block.file else execute(code, names)
        elif block.is_output:
            assert shown == block.text, where
        elif block.kind == "console" and block.how != "example":
            code = int(block.how[5:] or 0)
            for command, expected in split_commands(block.text):
                done = run_command(shlex.split(command), forking_python)
                assert matches(done.output, expected), f"{where}: {command}\n{done.output}"
                assert done.code == code, f"{where}: {command}"


def execute(code: Any, names: Dict[str, Any]) -> str:
    """Run a block; gives what it prints, and the package's warnings below."""
    printed = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(printed):
        warnings.simplefilter("always")
        exec(code, names)
    ours = [each for each in caught if each.category.__module__.startswith("ascend_session")]
    return printed.getvalue() + "".join(f"{w.category.__name__}: {w.message}\n" for w in ours)


class Done(NamedTuple):
    """What a command came to: its exit code, and what a terminal shows of it."""

    code: int
    output: str


def run_command(words: List[str], python: str) -> Done:
    """Run a command of a page; what stands for Python there has imported TensorFlow already."""
    program, *arguments = words
    ours = [str(HOME / "ascend_session" / "cli" / "__main__.py"), *arguments]
    if program == "ascend-session" and arguments[0] == "launch":
        command = [sys.executable, *ours[:2], "--python", python, *ours[2:]]
    elif program == "ascend-session" and arguments[0] == "run":
        command = [sys.executable, *ours]
    elif program == "ascend-session":
        return call(arguments)
    else:
        assert program == "python"
        command = [python, *arguments]
    ended = subprocess.run(
        command,
        env={
            **os.environ,
            **{"PYTHONPATH": str(HOME), "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "ignore"},
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )
    return Done(ended.returncode, NOISE.sub("", ended.stdout))


def call(arguments: List[str]) -> Done:
    """Run a command in this process."""
    from ascend_session.cli._program import app

    result = CliRunner().invoke(app, arguments, prog_name="ascend-session")
    if not isinstance(result.exception, (SystemExit, type(None))):
        raise result.exception
    return Done(result.exit_code, result.output)


def split_commands(text: str) -> Iterator[List[str]]:
    """Give each command behind a prompt, and what is shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield [command, output]


def matches(output: str, expected: str) -> bool:
    """Compare output; three dots stand for anything, on a line of their own for lines."""
    pattern = re.escape(expected)
    dots = re.escape("...")
    pattern = re.sub(rf"(?m)^{re.escape(dots)}\\?\n", r"(?:.*\\n)*?", pattern)
    return re.fullmatch(pattern.replace(dots, ".*"), output) is not None


@pytest.mark.parametrize("line", PARSED)
def test_a_command_of_a_page_is_one_that_there_is(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = []
    monkeypatch.setattr(
        click.Command, "invoke", lambda self, context: reached.append(self.name), raising=False
    )
    words = shlex.split(line, comments=True)
    programs = [os.path.basename(word) for word in words]
    done = call(words[programs.index("ascend-session") + 1 :])
    assert done.code == 0, done.output
    assert reached or "--version" in words
