"""Help as pytest and pip write it: examples, then options under the title of their group.

It imports nothing: the help of the program is there as soon as Python is.
"""

import os
import sys
from typing import List, Mapping, Sequence, Tuple

Records = Sequence[Tuple[str, str]]  # what is typed, and what it is for

COMMANDS = {
    "options": "Look up the options of AscendConfig.",
    "devices": "Show the devices, their health, and the processes that use them.",
    "doctor": "Check whether this machine has what a job needs.",
    "launch": "Start a script on every device, as one job.",
    "run": "Run a script written for npu_bridge, unchanged.",
    "explain": "Explain an error code, a log, or the logs of an old job.",
    "ranktable": "Make, check, convert and show rank tables.",
    "config": "Check configuration files and the files that options point to.",
    "precision": "Choose how operators are implemented, in one file per network.",
    "aoe": "Tune operators or subgraphs with AOE, the vendor's tuner.",
    "audit": "Find options in scripts that have no effect, or not the expected one.",
    "guide": "Show the guides that come with the package.",
    "completion": "Print what makes a shell complete commands and options.",
}
"""The commands in the order of the help, each with the first sentence of its own help."""

HELP_OPTION = ("-h, --help", "Show this message and exit.")
_PROGRAM_HELP = """Train with TensorFlow on Ascend devices, or on a machine without one.

Examples:
    ascend-session doctor
    ascend-session launch -n 8 train.py
"""
_PROGRAM_OPTIONS = [("--version", "Print the version."), HELP_OPTION]

_COLUMNS = 80  # of a page; longer lines are hard to read
_FEWEST_COLUMNS = 52
_WIDEST_OPTION = 26  # columns of the widest names that others are aligned with
_INDENT = "  "


def format_program() -> str:
    """Format the help of the program itself."""
    usage = format_usage("ascend-session", ["[OPTIONS]", "COMMAND", "[ARGS]..."])
    sections: Mapping[str, Records] = {
        "Options": _PROGRAM_OPTIONS,
        "Commands": list(COMMANDS.items()),
    }
    return format_page(usage, _PROGRAM_HELP, sections)


def format_usage(program: str, pieces: Sequence[str]) -> str:
    """Format the line that says how a command is called."""
    start = f"Usage: {program} "
    lines = _wrap(" ".join(pieces), max(_width() - len(start), 20))
    return start + f"\n{'':{len(start)}}".join(lines) + "\n"


def format_page(usage: str, text: str, sections: Mapping[str, Records]) -> str:
    """Format the help of a command.

    Args:
        usage: What `format_usage` gives.
        text: What the command is for: paragraphs, and examples below a line ``Examples:``.
        sections: Lists below a title each: ``Options``, other groups of options, ``Commands``.
    """
    text, _, examples = text.partition("\nExamples:\n")
    paragraphs = [paragraph for paragraph in text.strip().split("\n\n") if paragraph]
    blocks = [usage]
    for paragraph in paragraphs:
        blocks.append("".join(f"{_INDENT}{line}\n" for line in _wrap(paragraph, _width() - 2)))
    if examples:
        lines = "".join(f"{_INDENT}{line.strip()}\n" for line in examples.strip().split("\n"))
        blocks.append(f"Examples:\n{lines}")
    options = [name for title in sections if title != "Commands" for name, _ in sections[title]]
    widest = min(max(map(len, options), default=0), _WIDEST_OPTION)
    for title, records in sections.items():
        width = max(len(name) for name, _ in records) if title == "Commands" else widest
        blocks.append(f"{title}:\n{_format_list(records, width)}")
    return "\n".join(blocks)


def _format_list(records: Records, width: int) -> str:
    """Put names and sentences side by side; a longer name gets a line of its own."""
    lines = []
    for name, text in records:
        first, *more = _wrap(text, max(_width() - width - 4, 10))
        if len(name) > width:
            lines.append(f"{_INDENT}{name}")
            name = ""
        lines.append(f"{_INDENT}{name:{width}}  {first}")
        lines += [f"{_INDENT}{'':{width}}  {line}" for line in more]
    return "".join(f"{line}\n" for line in lines)


def _wrap(text: str, width: int) -> List[str]:
    """Fold a text between its words; two blanks between them stay."""
    lines = [""]
    for word in text.replace("\n", " ").split(" "):
        if lines[-1].strip() and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] or not word else word
    return [line.strip() for line in lines]


def _width() -> int:
    """Return the columns of a line of help; two stay free, as in the help of other programs."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        width = int(columns)
    else:
        try:
            width = os.get_terminal_size(sys.stdout.fileno()).columns or _COLUMNS
        except (OSError, ValueError):  # no terminal, or in a test no file
            width = _COLUMNS
    return max(min(width, _COLUMNS), _FEWEST_COLUMNS) - 2
