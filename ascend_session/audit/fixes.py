"""Correct certain mistakes in the options of a script.

These are misspelt keys, fields, the optimizer's name and memory_optimization. A change affects its
line, or adds a line before it. A file is written only if it still parses, and everything else in it
stays the same, byte by byte.
"""

import ast
import difflib
import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ascend_session.audit.option_rules import option_of_key
from ascend_session.audit.report import place_of
from ascend_session.audit.scripts import audit_bytes
from ascend_session.audit.syntax import is_vendor_module
from ascend_session.config.entry import ENTRY_NAME
from ascend_session.config.names import OBSOLETE
from ascend_session.config.option import adapter_options
from ascend_session.config.options import AdapterOptions
from ascend_session.findings import ERROR, Finding
from ascend_session.text import did_you_mean


class FixedScript(NamedTuple):
    """A script before and after.

    Attributes:
        before: Its text.
        after: Its text with all changes.
        changes: The corrected findings, at their places in ``before``.
    """

    before: str
    after: str
    changes: Tuple[Finding, ...]


_MOST_ROUNDS = 5
_MOST_LETTERS = 10 << 20  # that are audited again and again, of one script


def fix_script(file: str, data: bytes) -> Optional[FixedScript]:
    """Correct all certain mistakes in a script; return None if there are none."""
    try:
        before = text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if not file.endswith(".py") or not _is_python_3(text):
        return None  # of notebooks, shells and Python 2 nothing is rewritten
    lines = _split_lines(text)
    numbers = list(range(1, len(lines) + 1))  # of each line in ``before``
    changes: List[Finding] = []
    for _ in range(_MOST_ROUNDS):
        mended = _fix_lines(file, lines)
        for finding in mended:
            place = place_of(finding)
            place = place._replace(line=numbers[place.line - 1])
            changes.append(finding._replace(place=place))
        parts = [_split_lines(line) for line in lines]  # a line that is put before another
        numbers = [number for number, part in zip(numbers, parts) for _ in part]
        lines = [line for part in parts for line in part]
        if not mended:
            break
    text = "".join(lines)
    if not changes or not _is_python_3(text):
        return None
    return FixedScript(before, text, tuple(sorted(changes, key=place_of)))


def _split_lines(text: str) -> List[str]:
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", text)
    return lines[:-1] if len(lines) > 1 and not lines[-1] else lines


def _is_python_3(text: str) -> bool:
    try:
        compile(text.lstrip("\ufeff"), "script", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _is_wrong(finding: Finding) -> bool:
    """Return whether a change must not cause this finding: an error, or a refused value."""
    return finding.severity == ERROR or finding.rule == "value-not-allowed"


def _fix_lines(file: str, lines: List[str]) -> List[Finding]:
    """Correct ``lines``, from the last to the first, and return the corrected findings."""
    findings = _audit_lines(file, lines)
    wrong_count = sum(map(_is_wrong, findings))
    mended: Dict[int, Finding] = {}
    for finding in sorted(findings, key=place_of, reverse=True):
        fix = _FIXES.get(finding.rule)
        number = place_of(finding).line - 1
        if fix is None or not finding.certain or number in mended or number >= len(lines):
            continue
        before = lines[number]
        after = fix(before, "".join(lines), number)
        if after is None or after == before:
            continue
        if len(mended) * sum(map(len, lines)) > _MOST_LETTERS:
            break
        lines[number] = after
        count = sum(map(_is_wrong, _audit_lines(file, lines)))
        if count > wrong_count - _is_wrong(finding):
            lines[number] = before  # the option is read now, and is refused or contradicts the rest
            continue
        wrong_count = count
        mended[number] = finding
    return list(mended.values())


def _audit_lines(file: str, lines: List[str]) -> Tuple[Finding, ...]:
    return audit_bytes(file, "".join(lines).encode("utf-8")).findings


_ASSIGNMENT = re.compile(
    r"""parameter_map\[\s*(['"])(?P<key>\w+)\1\s*\]\.(?P<field>[a-z]+)\s*=(?!=)"""
)
_NEAR = 0.85  # least likeness of a misspelt key and the known one
_AHEAD = 0.06  # by which the second best key must be less alike


def _fix_key(line: str, text: str, _: int) -> Optional[str]:
    """Correct a key if exactly one known key is near."""
    matches = list(_ASSIGNMENT.finditer(line))
    if len(matches) != 1 or matches[0]["key"] in OBSOLETE:
        return None
    (match,) = matches
    key = match["key"]
    keys = [each.key for each in adapter_options(AdapterOptions) if each.field is not None]
    near = did_you_mean(key, keys, _NEAR) or ""
    option = option_of_key(near)
    if option is None or option.field != match["field"]:
        return None
    other = did_you_mean(key, [each for each in keys if each != near], 0.0) or ""
    likeness, next_likeness = (
        difflib.SequenceMatcher(None, key, word).ratio() for word in (near, other)
    )
    if likeness - next_likeness < _AHEAD:
        return None
    if re.search(rf"parameter_map\[\s*['\"]{near}['\"]", text) is not None:
        return None  # it is set elsewhere, and which of the two is meant is not known
    return line[: match.start("key")] + near + line[match.end("key") :]


_SWITCH = re.compile(r"(\s*)(True|False|0|1)(\s*(?:#.*)?)$")
_SWITCH_IN_TEXT = re.compile(
    r"""(\s*)(?:[\w.]*as_bytes\(\s*|b)['"]([Tt]rue|[Ff]alse|0|1)['"](?:[ \t]*\))?"""
    r"(\s*(?:#.*)?)$"
)


def _fix_field(line: str, text: str, _: int) -> Optional[str]:
    """Correct ``.i = 1`` and ``.s = b"True"`` of a switch, and ``.b = True`` of a number."""
    match = _ASSIGNMENT.search(line)
    option = option_of_key(match["key"]) if match is not None else None
    if match is None or option is None:
        return None
    written, right = match["field"], option.field
    is_text = (written, right) == ("s", "b")
    if not is_text and {written, right} != {"i", "b"}:
        return None
    rest = line[match.end() :]
    value = (_SWITCH_IN_TEXT if is_text else _SWITCH).match(rest)
    if value is None:
        return None
    blanks, word, end = value.group(1), value.group(2), rest[value.start(3) :]
    is_on = word in ("True", "true", "1")
    word = str(is_on if right == "b" else int(is_on))
    before = line[: match.start("field")]
    return f"{before}{right}{line[match.end('field') : match.end()]}{blanks}{word}{end}"


_NAME = re.compile(r"""(\.name\s*=\s*)(['"])[^'"]*\2""")


def _fix_name(line: str, text: str, _: int) -> Optional[str]:
    """Name the entry as the adapter wants it."""
    return _NAME.sub(lambda match: f"{match[1]}{match[2]}{ENTRY_NAME}{match[2]}", line)


_ADD = re.compile(r"([\w.]+)\.graph_options\.rewrite_options\.custom_optimizers\.add\(")
_OFF = "graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF"


def _fix_memory_optimization(line: str, text: str, number: int) -> Optional[str]:
    """Insert a line before the entry's, if RewriterConfig has been imported there."""
    match = _ADD.search(line)
    if match is None or not _imports_rewriter(text, number):
        return None
    if not re.match(r"[\w.]+\s*=\s*[\w.]+\.custom_optimizers\.add\(", line.strip()):
        return None
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    end = "\r\n" if line.endswith("\r\n") else "\n"
    return f"{indent}{match.group(1)}.{_OFF}{end}{line}"


def _imports_rewriter(text: str, number: int) -> bool:
    """Return whether the module imports RewriterConfig before line ``number``, counted from 0."""
    module: Any = ast.parse(text.lstrip("\ufeff"))
    for node in module.body:
        if isinstance(node, ast.ImportFrom) and node.lineno <= number:
            names = {each.asname or each.name for each in node.names}
            imports_all = names == {"*"} and is_vendor_module(node.module or "")
            if "RewriterConfig" in names or (imports_all and str(node.module).endswith("npu_init")):
                return True
    return False


# For each rule, a function of line, whole text and line number: the corrected line, or None.
_FIXES: Dict[str, Callable[[str, str, int], Optional[str]]] = {
    "unknown-key": _fix_key,
    "wrong-field": _fix_field,
    "wrong-optimizer-name": _fix_name,
    "memory-optimization-on": _fix_memory_optimization,
}
