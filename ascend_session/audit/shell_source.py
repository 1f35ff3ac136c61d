"""A shell script as far as its rules need it: its commands by line, without comments.

Python has no parser for shells, and shlex alone knows neither ``;`` nor ``&``; lines are enough for
what is looked for, and what stands within ``if`` or ``case`` is known to be so.
"""

import re
from typing import Iterator, List, NamedTuple, Optional, Tuple

from ascend_session.audit.objects import Branch
from ascend_session.audit.source import decoded

__all__ = ["Command", "Shell", "is_job", "read_shell"]

_MARKS = re.compile(rb"RANK_TABLE_FILE|RANK_ID|RANK_SIZE|ASCEND_DEVICE_ID|\bDEVICE_ID|CM_CHIEF_IP")
_HERE = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_SET = re.compile(r"^(?:export\s+|declare\s+-x\s+)?([A-Za-z_]\w*)=(.*)$", re.DOTALL)
_BACKGROUND = re.compile(r"(?<![&>])&\s*(?:;?\s*\w+\+?=\S*\$!\S*)?$")
_OPENS, _CLOSES, _NEXT = ("if", "case"), ("fi", "esac"), ("else", "elif")


class Command(NamedTuple):
    """One command line, with its continuations.

    Attributes:
        line: The line it begins on.
        text: What it says, without comments and blanks around it.
        branch: The arms of ``if`` and ``case`` it stands in.
    """

    line: int
    text: str
    branch: Branch = ()

    @property
    def is_in_background(self) -> bool:
        """Whether it ends with ``&``, also where ``pid=$!`` follows."""
        return _BACKGROUND.search(self.text) is not None

    @property
    def assignment(self) -> Optional[Tuple[str, str]]:
        """The variable it sets and what to, as written; None if it sets none."""
        match = _SET.match(self.text)
        if match is None:
            return None
        return match.group(1), match.group(2).strip().rstrip(";").strip()


class Shell(NamedTuple):
    """A script.

    Attributes:
        file: Its name.
        lines: Its lines as they are.
        commands: Its commands.
    """

    file: str
    lines: List[str]
    commands: List[Command]


def is_job(data: bytes) -> bool:
    """Whether a script may start ranks on devices."""
    return _MARKS.search(data) is not None


def read_shell(file: str, data: bytes) -> Shell:
    """Reads a script of any shell."""
    lines = decoded(data).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return Shell(file, lines, list(_commands(lines)))


def _commands(lines: List[str]) -> Iterator[Command]:
    arms: List[Tuple[int, int]] = []
    until, begun, text = "", 0, ""
    for number, line in enumerate(lines, 1):
        if until:
            until = "" if line.strip() == until else until
            continue
        plain = _without_comment(line).strip()
        text, begun = (f"{text} {plain}", begun) if text else (plain, number)
        if text.endswith("\\"):
            text = text[:-1].rstrip() or " "
            continue
        here = _HERE.search(text)
        until = here.group(2) if here is not None and "<<<" not in text else ""
        words = re.findall(r"[\w-]+", text)
        first = words[0] if words else ""
        if first in _CLOSES and arms:
            arms.pop()
        elif arms and (first in _NEXT or text.strip().endswith(")")):  # "pattern)" of case
            arms[-1] = (arms[-1][0], arms[-1][1] + 1)
        if text.strip():
            for part in _parts(text.strip()):
                yield Command(begun, part, tuple(arms))
        if first in _OPENS and not any(word in _CLOSES for word in words[1:]):
            arms.append((begun, 0))
        text = ""


def _without_comment(line: str) -> str:
    quote = ""
    for place, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"`":
            quote = letter
        elif letter == "#" and (place == 0 or line[place - 1] in " \t;"):
            return line[:place]
    return line


def _parts(text: str) -> Iterator[str]:
    """The commands of a line that sets several variables: ``export A=1; export B=2``."""
    if ";" in text and all(_SET.match(part.strip()) for part in text.split(";") if part.strip()):
        yield from (part.strip() for part in text.split(";") if part.strip())
    elif re.match(r"export(\s+\w+=[^\s'\"$`]+){2,}$", text):
        yield from (f"export {part}" for part in text.split()[1:])
    else:
        yield text
