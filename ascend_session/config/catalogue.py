"""The reference of every option, put together from its definition, its type and the rules."""

from functools import lru_cache
from typing import Dict, List, Tuple, Type

from pydantic import BaseModel

from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.kinds import Kind, kind_of, value_schema
from ascend_session.config.option import Option, adapter_options, part_of
from ascend_session.config.profiling_members import MEMBERS
from ascend_session.config.reference import OptionReference, OptionRule

__all__ = ["references"]

# Every option belongs to the group whose first option stands above it in options.py.
_GROUPS = {
    "graph_run_mode": "Basics",
    "memory_config": "Memory",
    "dynamic_input_config": "Dynamic shapes",
    "mix_compile_mode": "Mixed computing",
    "variable_placement": "Performance",
    "enable_exception_dump": "Debugging",
    "precision_mode": "Accuracy tuning",
    "dump_config": "Accuracy comparison",
    "profiling_config": "Profiling",
    "aoe_mode": "Tuning (AOE)",
    "op_compiler_cache_mode": "Operator compilation",
    "local_rank_id": "Data augmentation",
    "hccl_timeout": "Time limits",
    "experimental_config": "Experimental",
    "graph_memory_max_size": "Deprecated",
    "job": "Not in the manual",
    "distribute": "Read by NPURunConfig only",
}

_SEEDS = {
    "0": "NPURunConfig Options (seed 000)",
    "1": "ExperimentalConfig Constructor (seed 001)",
    "2": "initialize_system (seed 002)",
    "3": "Subgraph/Operator Tuning (seed 003)",
    "4": "--op_select_implmode (seed 004)",
}


@lru_cache(maxsize=None)
def references() -> Tuple[OptionReference, ...]:
    """The reference of every option, in the order of definition."""
    root = AscendConfig.model_json_schema()
    rules = _rules_by_key()
    found: List[OptionReference] = []
    group = ""
    for option in adapter_options(AscendConfig):
        group = _GROUPS.get(option.path.split(".")[0], group)
        kind = kind_of(option.annotation, value_schema(root, AscendConfig, option.path))
        found.append(_reference(option, kind, group, tuple(rules.get(option.key, ()))))
    return tuple(found)


def _reference(
    option: Option, kind: Kind, group: str, rules: Tuple[OptionRule, ...]
) -> OptionReference:
    return OptionReference(
        name=option.name,
        path=option.path,
        group=group,
        doc=option.doc,
        write=_in_python(option.path),
        write_file=_in_file(option.path) if kind.schema else None,
        key=option.key if option.field else None,
        field=option.field,
        types=kind.types,
        values=kind.words,
        allowed=kind.allowed,
        low=kind.low,
        high=kind.high,
        unit=option.unit,
        grammar=kind.grammar,
        members=_members(option),
        adapter_default=option.adapter,
        run_config_default=option.run_config if option.run_config_differs else None,
        product_default=option.product,
        scope=option.scope or ("unread" if option.field else "NPURunConfig"),
        also=option.also,
        sticky=option.sticky,
        applies_to=option.applies,
        deprecated=option.deprecated,
        dead=option.dead,
        use=option.use,
        rules=rules,
        seeds=tuple(_SEEDS[number] for number in option.seeds),
        schema=kind.schema,
    )


def _rules_by_key() -> Dict[str, List[OptionRule]]:
    from ascend_session.config.rules import HOST_RULES, RULES, paths

    books = (("construction", RULES), ("host", HOST_RULES), ("opening", paths.OPENING_RULES))
    found: Dict[str, List[OptionRule]] = {}
    for when, book in books:
        for rule in book:
            said = OptionRule(" ".join(rule.sentence.split()), rule.source, when)
            for key in rule.keys:
                found.setdefault(key, []).append(said)
    return found


def _members(option: Option) -> Dict[str, str]:
    if option.key != "profiling_options":
        return {}
    return {name: member.meaning for name, member in MEMBERS.items()}


def _in_python(path: str) -> str:
    """``AscendConfig(dump_config=DumpConfig(dump_path=...))``."""
    *containers, leaf = path.split(".")
    text = f"{leaf}=..."
    model: Type[BaseModel] = AscendConfig
    names = [model.__name__]
    for container in containers:
        model = part_of(model.model_fields[container].annotation) or model
        names.append(f"{container}={model.__name__}")
    for name in reversed(names):
        text = f"{name}({text})"
    return text


def _in_file(path: str) -> str:
    """``dump_config: {dump_path: ...}``."""
    *containers, leaf = path.split(".")
    text = f"{leaf}: ..."
    for container in reversed(containers):
        text = f"{container}: {{{text}}}"
    return text
