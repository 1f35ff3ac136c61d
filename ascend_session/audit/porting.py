"""The AscendConfig that says what the NpuOptimizer entry of a script says."""

from typing import Any, Dict, Iterator, List, NamedTuple, Set, Type

from pydantic import BaseModel

from ascend_session.audit.entries import adapter_entries
from ascend_session.audit.objects import Entry, Setting, implied
from ascend_session.audit.options import judge, known_option
from ascend_session.audit.reader import Reader
from ascend_session.audit.source import is_marked, read_script
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.names import unknown_key
from ascend_session.config.option import part_of

__all__ = ["Ported", "ported"]


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
