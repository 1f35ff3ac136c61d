"""Cases as text: commands as they are typed, and below each what it came to.

A case is a file like this one; `README.md` in this folder says what may stand in it::

    # A table of the older format is a valid one.
    host: none
    inputs: tables

    $ ascend-session ranktable check lab.json
    exit 0
    out| lab.json: the "lab" format, 1 server, 2 ranks, ok
"""

from pathlib import Path
from typing import Dict, List, NamedTuple

__all__ = ["Case", "Result", "Step", "read_case", "write_case"]

_NO_NEWLINE = "the last line does not end"


class Result(NamedTuple):
    """What a command came to."""

    code: int
    out: str = ""
    err: str = ""


class Step(NamedTuple):
    """One command, and what it came to when the case was written."""

    command: str
    result: Result


class Case(NamedTuple):
    """What a file of a case says.

    Attributes:
        head: The comments and settings above the first command, as they stand there.
        settings: The settings by their names.
        steps: The commands.
    """

    head: str
    settings: Dict[str, str]
    steps: List[Step]


def read_case(path: Path) -> Case:
    """Read a case; of a command below which nothing stands, nothing is known."""
    head, *blocks = path.read_text(encoding="utf-8").split("\n$ ")
    settings = {}
    for line in head.split("\n"):
        if line and not line.startswith("#"):
            name, colon, value = line.partition(":")
            assert colon, f"{path}: {line!r} is neither a comment nor a setting"
            settings[name] = value.strip()
    return Case(head, settings, [_read_step(block) for block in blocks])


def write_case(path: Path, case: Case) -> None:
    """Write a case."""
    text = case.head.rstrip("\n") + "\n" + "".join(map(format_step, case.steps))
    path.write_text(text, encoding="utf-8")


def format_step(step: Step) -> str:
    """Format a command and what it came to, as it stands in a file."""
    lines = ["", f"$ {step.command}", f"exit {step.result.code}"]
    for name, text in (("out", step.result.out), ("err", step.result.err)):
        lines += [f"{name}| {line}".rstrip(" ") for line in _lines(text)]
        if text and not text.endswith("\n"):
            lines.append(f"{name}: {_NO_NEWLINE}")
    return "\n".join(lines) + "\n"


def _lines(text: str) -> List[str]:
    """Split at newlines alone; `str.splitlines` also does so at other characters."""
    return text[:-1].split("\n") if text.endswith("\n") else text.split("\n") if text else []


def _read_step(block: str) -> Step:
    command, *lines = block.rstrip("\n").split("\n")
    code, texts = -1, {"out": "", "err": ""}
    for line in lines:
        if line.startswith("exit "):
            code = int(line[len("exit ") :])
        elif line[3:4] == "|":
            texts[line[:3]] += line[5:] + "\n"
        elif line.endswith(_NO_NEWLINE):
            texts[line[:3]] = texts[line[:3]][:-1]
    return Step(command, Result(code, **texts))
