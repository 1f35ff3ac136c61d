"""Rewrites what is certain: misspelt keys, fields, the optimizer's name, memory_optimization.

Each change is made within its line, or is a line before it; a file is only written if the whole of
it is still a script, and everything else in it stays as it is, byte by byte. Porting changes
nothing: it gives the AscendConfig that says what the NpuOptimizer entry of a script says.
"""

import ast
import difflib
import re
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple, Type

from pydantic import BaseModel

from ascend_session.audit.entries import adapter_entries
from ascend_session.audit.expressions import is_vendor_module
from ascend_session.audit.finding import AuditFinding
from ascend_session.audit.objects import Entry, Setting, implied
from ascend_session.audit.options import judge, known_option
from ascend_session.audit.reader import Reader
from ascend_session.audit.scripts import audit_bytes
from ascend_session.audit.source import is_marked, read_script
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.names import OBSOLETE, unknown_key
from ascend_session.config.option import adapter_options, part_of
from ascend_session.config.options import AdapterOptions
from ascend_session.config.proto import ENTRY_NAME
from ascend_session.findings import ERROR
from ascend_session.text import did_you_mean

_NEAR = 0.85  # how alike a key and the one that is meant have to be
_AHEAD = 0.06  # how much more than the next one
_TURNS = 5
_KEY = re.compile(r"""parameter_map\[\s*(['"])(?P<key>\w+)\1\s*\]\.(?P<field>[a-z]+)\s*=(?!=)""")
_ADD = re.compile(r"([\w.]+)\.graph_options\.rewrite_options\.custom_optimizers\.add\(")
_NAME = re.compile(r"""(\.name\s*=\s*)(['"])[^'"]*\2""")
_OFF = "graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF"


class Fixed(NamedTuple):
    """A script before and after.

    Attributes:
        before: Its text.
        after: Its text with all changes.
        changes: How many findings are mended.
    """

    before: str
    after: str
    changes: int


def fixed(file: str, data: bytes) -> Optional[Fixed]:
    """What a script would be with everything mended that is certain; None if nothing is."""
    try:
        before = text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if not file.endswith(".py") or not _is_script(text):
        return None  # of notebooks, shells and Python 2 nothing is rewritten
    count = 0
    for _ in range(_TURNS):
        lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", text)
        changed = _mended(file, _findings(file, lines), lines)
        text = "".join(lines)
        count += changed
        if not changed:
            break
    return Fixed(before, text, count) if count and _is_script(text) else None


def _is_script(text: str) -> bool:
    try:
        compile(text.lstrip("\ufeff"), "script", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _mended(file: str, findings: Tuple[AuditFinding, ...], lines: List[str]) -> int:
    """Mends ``lines`` where that is certain, from below, and returns how often."""
    count = 0
    done: Set[int] = set()
    errors = _errors(findings)
    for one in sorted(findings, key=lambda each: each.place, reverse=True):
        mend = _MENDS.get(one.rule)
        number = one.place.line - 1
        if mend is None or not one.certain or number in done or number >= len(lines):
            continue
        before = lines[number]
        line = mend(before, "".join(lines), number)
        if line is None or line == before:
            continue
        lines[number] = line
        left = _errors(_findings(file, lines))
        if left > errors - (one.severity == ERROR):  # it is read now, and contradicts the rest
            lines[number] = before
            continue
        errors = left
        done.add(number)
        count += 1
    return count


def _findings(file: str, lines: List[str]) -> Tuple[AuditFinding, ...]:
    return audit_bytes(file, "".join(lines).encode("utf-8")).findings


def _errors(findings: Tuple[AuditFinding, ...]) -> int:
    return sum(one.severity == ERROR for one in findings)


def _key(line: str, text: str, _: int) -> Optional[str]:
    """A key with exactly one that it may be meant to be."""
    matches = list(_KEY.finditer(line))
    if len(matches) != 1 or matches[0]["key"] in OBSOLETE:
        return None
    (match,) = matches
    keys = [each.key for each in adapter_options(AdapterOptions) if each.field is not None]
    near = did_you_mean(match["key"], keys, _NEAR)
    other = did_you_mean(match["key"], [key for key in keys if key != near], 0.0)
    option = known_option(near or "")
    if near is None or option is None or option.field != match["field"]:
        return None
    if _alike(match["key"], near) - _alike(match["key"], other or "") < _AHEAD:
        return None
    if re.search(rf"parameter_map\[\s*['\"]{near}['\"]", text) is not None:
        return None  # it is set elsewhere, and nobody says which of them counts
    return line[: match.start("key")] + near + line[match.end("key") :]


def _alike(first: str, second: str) -> float:
    return difflib.SequenceMatcher(None, first, second).ratio()


def _field(line: str, text: str, _: int) -> Optional[str]:
    """``.i = 1`` that is a switch, and ``.b = True`` that is a number."""
    match = _KEY.search(line)
    option = known_option(match["key"]) if match is not None else None
    if match is None or option is None or {match["field"], option.field} != {"i", "b"}:
        return None
    value = re.match(r"\s*(True|False|0|1)\s*(#.*)?$", line[match.end() :])
    if value is None:
        return None
    word = value.group(1)
    is_on = word in ("True", "1")
    word = str(is_on if option.field == "b" else int(is_on))
    start, end = match.end() + value.start(1), match.end() + value.end(1)
    return (
        line[: match.start("field")]
        + str(option.field)
        + line[match.end("field") : start]
        + word
        + line[end:]
    )


def _named(line: str, text: str, _: int) -> Optional[str]:
    return _NAME.sub(lambda found: f"{found[1]}{found[2]}{ENTRY_NAME}{found[2]}", line)


def _memory(line: str, text: str, number: int) -> Optional[str]:
    """A line before that of the entry, where RewriterConfig is a name of the script by then."""
    match = _ADD.search(line)
    if match is None or not _has_rewriter(text, number):
        return None
    start = line[: len(line) - len(line.lstrip(" \t"))]
    statement = line.strip()
    if not re.match(r"[\w.]+\s*=\s*[\w.]+\.custom_optimizers\.add\(", statement):
        return None
    end = "\r\n" if line.endswith("\r\n") else "\n"
    return f"{start}{match.group(1)}.{_OFF}{end}{line}"


def _has_rewriter(text: str, number: int) -> bool:
    """Whether the module imports RewriterConfig before line ``number``, counted from 0."""
    module: Any = ast.parse(text.lstrip("\ufeff"))
    for node in module.body:
        if isinstance(node, ast.ImportFrom) and node.lineno <= number:
            names = {each.asname or each.name for each in node.names}
            everything = names == {"*"} and is_vendor_module(node.module or "")
            if "RewriterConfig" in names or (everything and str(node.module).endswith("npu_init")):
                return True
    return False


_MENDS: Dict[str, Callable[[str, str, int], Optional[str]]] = {
    "unknown-key": _key,
    "wrong-field": _field,
    "wrong-optimizer-name": _named,
    "memory-optimization-on": _memory,
}


class Ported(NamedTuple):
    """One entry of a script.

    Attributes:
        line: Where it is added.
        code: The code that makes the same configuration, with remarks on what is not carried over.
    """

    line: int
    code: str


def ported(file: str, data: bytes) -> List[Ported]:
    """The configurations of a script; empty if it has none.

    Raises:
        AuditError: If the script cannot be read.
    """
    if not is_marked(data):
        return []
    source = read_script(file, data)
    reader = Reader(source).read()
    entries = adapter_entries(iter(reader.entries.values()), source)
    found = {each.place: Ported(each.place.line, _code(each, source.old)) for each in entries}
    return sorted(found.values())


def _code(entry: Entry, old: bool) -> str:
    values: Dict[str, Any] = {}
    remarks: List[str] = []
    for setting in entry.settings:
        option = known_option(setting.key)
        if option is None:
            remarks.append(_remark(setting, unknown_key(setting.key).message))
            continue
        value = None if setting.field != option.field else judge(option, setting.value, old).value
        if option.dead:
            remarks.append(_remark(setting, "Nothing reads it any more."))
        elif value is None:
            remarks.append(_remark(setting, f"Give {option.path} what the script gives it."))
        elif not implied(setting.branch, entry.branch):
            said = f"The script sets it in one branch only: {option.path}={value!r}."
            remarks.append(_remark(setting, said))
        else:
            values[option.path] = value
    names: Set[str] = {"AscendConfig"}
    body = "".join(_arguments(AscendConfig, "", values, 1, names))
    made = f"cfg = AscendConfig(\n{body})\n" if body else "cfg = AscendConfig()\n"
    head = f"from ascend_session import {', '.join(sorted(names))}, ascend_session\n\n"
    tail = "\nwith ascend_session(cfg) as sess:\n    ...\n"
    return head + made + "".join(dict.fromkeys(remarks)) + tail


def _remark(setting: Setting, why: str) -> str:
    return f"# line {setting.place.line}, {setting.key}: {why}\n"


def _arguments(
    model: Type[BaseModel], prefix: str, values: Dict[str, Any], depth: int, names: Set[str]
) -> Iterator[str]:
    """The keyword arguments of a config class, one line each."""
    start = "    " * depth
    for name, info in model.model_fields.items():
        part = part_of(info.annotation)
        path = f"{prefix}{name}"
        if part is None:
            if path in values:
                yield f"{start}{name}={values[path]!r},\n"
            continue
        inner = "".join(_arguments(part, f"{path}.", values, depth + 1, names))
        if inner:
            names.add(part.__name__)
            yield f"{start}{name}={part.__name__}(\n{inner}{start}),\n"
