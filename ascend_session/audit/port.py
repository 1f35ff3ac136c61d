"""Gives the AscendConfig that says what the NpuOptimizer entries of a script say."""

from typing import Any, Dict, Iterator, List, NamedTuple, Set, Type

from pydantic import BaseModel

from ascend_session.audit.entries import select_adapter_entries
from ascend_session.audit.interpreter import ScriptInterpreter
from ascend_session.audit.objects import OptimizerEntry, implied
from ascend_session.audit.options import check_assigned, known_option
from ascend_session.audit.source import is_marked, read_script
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.names import unknown_key
from ascend_session.config.option import part_of


class PortedEntry(NamedTuple):
    """One entry of a script.

    Attributes:
        line: Where it is added.
        code: The code that makes the same configuration, with comments on what is not carried over.
    """

    line: int
    code: str


def port_script(file: str, data: bytes) -> List[PortedEntry]:
    """Port the entries of a script; the list is empty if it has none.

    Raises:
        AuditError: If the script cannot be read.
    """
    if not is_marked(data):
        return []
    script = read_script(file, data)
    built = ScriptInterpreter(script).follow()
    ported = {
        entry.place: PortedEntry(entry.place.line, _code(entry, script.is_python_2))
        for entry in select_adapter_entries(built.entries, script)
    }
    return sorted(ported.values())


def _code(entry: OptimizerEntry, is_python_2: bool) -> str:
    values: Dict[str, Any] = {}
    comments: Dict[str, None] = {}
    for setting in entry.settings:
        option = known_option(setting.key)
        value = None
        if option is not None and setting.field == option.field:
            value = check_assigned(option, setting.value, is_python_2).value
        if option is None:
            comment = unknown_key(setting.key).message
        elif option.dead:
            comment = "It no longer has any effect."
        elif value is None:
            comment = f"Give {option.path} what the script gives it."
        elif not implied(setting.branch, entry.branch):
            comment = f"The script sets it in one branch only: {option.path}={value!r}."
        else:
            values[option.path] = value
            continue
        comments[f"# line {setting.place.line}, {setting.key}: {comment}\n"] = None
    names: Set[str] = {"AscendConfig"}
    body = "".join(_keyword_arguments(AscendConfig, "", values, 1, names))
    config = f"cfg = AscendConfig(\n{body})\n" if body else "cfg = AscendConfig()\n"
    return (
        f"from ascend_session import {', '.join(sorted(names))}, ascend_session\n\n"
        f"{config}{''.join(comments)}\nwith ascend_session(cfg) as sess:\n    ...\n"
    )


def _keyword_arguments(
    model: Type[BaseModel], prefix: str, values: Dict[str, Any], depth: int, names: Set[str]
) -> Iterator[str]:
    """Yield the keyword arguments of a config class, one line each, and note the classes used."""
    indent = "    " * depth
    for name, info in model.model_fields.items():
        part = part_of(info.annotation)
        path = f"{prefix}{name}"
        if part is None:
            if path in values:
                yield f"{indent}{name}={values[path]!r},\n"
            continue
        inner = "".join(_keyword_arguments(part, f"{path}.", values, depth + 1, names))
        if inner:
            names.add(part.__name__)
            yield f"{indent}{name}={part.__name__}(\n{inner}{indent}),\n"
