"""The older form of a fusion switch file: ``Pass:on`` or ``Pass:off`` on each line.

Source: hicann/ge, fusion_config_parser.cc (LoadOldFormatFusionSwitchFile), and fusion_utils.cc
(ParseFusionSwitchFile), which reads the same file for the passes of the newer framework and gives
up with a warning where it is no JSON.
"""

from typing import Dict

from ascend_session.option_files.fusion_parts import GRAPH, UB, FusionParts
from ascend_session.option_files.lines import BOM, lines_of, shortened, strange_bytes, trimmed
from ascend_session.option_files.remarks import Findings

__all__ = ["read_lines"]

_OLD = (
    "This is the older form, Pass:on. GE's newer framework of fusion passes reads JSON only, so "
    "that none of its passes is switched by this file."
)


def read_lines(text: str, findings: Findings, fix: bool, parts: FusionParts) -> None:
    """Reads all lines into ``parts``; each counts for graph fusion and for UB fusion."""
    numbers: Dict[str, int] = {}
    findings.skip((1, 1), _OLD, "Write JSON, as fixed() and `config check-file --fix` do.")
    for number, line in enumerate(lines_of(text), 1):
        if fix:
            line = trimmed(line[1:] if line.startswith(BOM) else line)
            line = "" if line.startswith(("#", "//")) else line
        if findings.many:
            break
        if line:
            _take(line, number, findings, numbers, parts)


def _take(
    line: str, number: int, findings: Findings, numbers: Dict[str, int], parts: FusionParts
) -> None:
    name, colon, value = line.partition(":")
    name, value = trimmed(name), trimmed(value)
    place = (number, 1)
    if not colon:
        shown = "blank line" if not trimmed(line) else f"line: {shortened(line, 40)!r} has no ':'"
        hint = "Only a line with nothing at all in it is skipped; this one has blanks."
        said = "" if trimmed(line) else hint
        findings.refuse(place, f"GE refuses the whole file for this {shown}.", said or None)
    elif value not in ("on", "off"):
        column = len(line.partition(":")[0]) + 2
        message = f"The switch of {name!r} must be on or off, not {shortened(value, 40)!r}."
        findings.refuse((number, column), message)
    elif not name:
        findings.skip(place, "GE skips this line: it names no pass.")
    elif strange_bytes(name) is not None:
        message = f"No pass is called {shortened(name)!r}, which is not UTF-8 text."
        findings.skip(place, message)
    elif name in numbers:
        findings.refuse(place, f"The pass {name!r} stands in line {numbers[name]} already.")
    else:
        numbers[name] = number
        _remark(name, number, findings)
        for kind in (GRAPH, UB):
            parts.switches[kind][name] = value == "on"


def _remark(name: str, number: int, findings: Findings) -> None:
    if name.startswith(BOM):
        message = f"A byte order mark is part of the name for GE: {name!r}."
        findings.skip((number, 1), message, "Save without.")
    elif name.startswith(("#", "//")):
        findings.skip((number, 1), f"This is no comment, but the switch of a pass {name!r}.")
