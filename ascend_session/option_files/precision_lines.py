"""Changes single modes in the text of an op_precision.ini, whose other lines stay as they are."""

from typing import List, Optional, Tuple

from ascend_session.errors import ConfigError
from ascend_session.option_files.lines import trimmed
from ascend_session.option_files.op_precision import BY_NODE, BY_TYPE, MODES, OpPrecision

__all__ = ["with_mode"]


def with_mode(text: str, operator: str, mode: str, *, node: bool = False) -> str:
    """``text`` with another mode for one operator.

    The line that counts for it is changed; if there is none, a line is added at the end of its
    section. Comments, and lines that GE skips, stay.

    Args:
        text: The content of the file.
        operator: Its type, or its node name if ``node``.
        mode: One of `MODES`.
        node: Whether ``operator`` is a node name.

    Raises:
        ConfigError: If GE does not know the mode, or no line can hold the name.
    """
    wanted = OpPrecision.parse(text).set(operator, mode, node=node)
    lines = text.split("\n")
    at, end = _places(lines, operator, BY_NODE if node else BY_TYPE)
    feed = "\r" if lines[0].endswith("\r") else ""
    shown = f" {operator}" if operator.startswith("#") else operator
    line = f"{shown}={mode}{feed}"
    if at is not None:
        lines[at] = line
    elif end is not None:
        lines.insert(end, line)
    else:
        lines = _appended(lines, f"{BY_NODE if node else BY_TYPE}{feed}", line)
    changed = "\n".join(lines)
    if OpPrecision.parse(changed) != wanted:
        raise ConfigError(f"The mode of {operator!r} cannot be changed in this file by itself.")
    return changed


def _places(lines: List[str], operator: str, section: str) -> Tuple[Optional[int], Optional[int]]:
    """The line that counts for the operator, and where a new one of its section may stand."""
    current = BY_TYPE
    end: Optional[int] = 0 if section == BY_TYPE else None
    for number, line in enumerate(lines):
        if line.startswith("#") or not trimmed(line):
            continue
        name, equals, mode = line.partition("=")
        if not equals:
            current = trimmed(line) if trimmed(line) in (BY_TYPE, BY_NODE) else current
        elif current == section and trimmed(name) == operator and trimmed(mode) in MODES:
            return number, end
        if current == section:
            end = number + 1
    if end == 0 and any(map(trimmed, lines)):  # only comments, or the other section, stand there
        end = None
    return None, end


def _appended(lines: List[str], header: str, line: str) -> List[str]:
    """The lines with a section of its own at the end."""
    kept = lines[:-1] if not lines[-1] else lines
    return [*kept, header, line, ""]
