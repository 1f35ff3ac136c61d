"""The reference of the options: facts and search.

Everything comes from an option's definition, its type, the docstring of its grammar and the rules.
"""

import inspect
from functools import lru_cache
from typing import Any, Callable, Dict, List, NoReturn, Optional, Sequence, Tuple

from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.grammars.profiling_options import MEMBERS
from ascend_session.config.names import OBSOLETE, nest_in_file, unknown_name, write_keyword
from ascend_session.config.option import Option, adapter_options, option_fields
from ascend_session.config.rules import HOST_RULES, RULES, paths
from ascend_session.config.rules.rule import Rule
from ascend_session.config.values import JSON_TYPES, ValueType
from ascend_session.errors import UnsupportedError
from ascend_session.findings import ERROR, Finding
from ascend_session.text import did_you_mean, join_words

_KEEP = (
    "keeps the precision of the model; float16 becomes float32 where the AI Core lacks it, and "
    "float32 that it lacks runs on the AI CPU"
)
_MIXED_16 = (
    "mixed precision: float32 and bfloat16 become float16 where the built-in lists allow it; use "
    "loss scaling"
)
_MIXED_BF16 = "mixed precision: float32 becomes bfloat16 where the built-in lists allow it"
_CUBE_16 = "matrix operators take float16 and give float32; vector operators compute in float32"

# What each value of an option means, where the manual says it; the groups have the names of its
# pages in apiref/session_config/ (guides/facts/README.md#how-to-read-the-sources).
MEANINGS: Dict[str, Dict[Any, str]] = {
    # basic_options.md
    "graph_run_mode": {0: "online inference", 1: "training"},
    "deterministic": {
        0: "results may differ between runs",
        1: "same input and hardware give the same output, more slowly",
    },
    # memory_management.md
    "atomic_clean_policy": {
        0: "clears the memory of all memset operators at once",
        1: "clears it for each operator: less memory, slower",
    },
    "static_memory_policy": {
        0: "allocates memory by its actual size",
        1: "as 2; a former spelling",
        2: "expands memory of static shapes, which the graphs of a session reuse",
        3: "expands memory of dynamic shapes, against fragments; may cost speed",
        4: "2 and 3 together; may cost speed",
    },
    "variable_use_1g_huge_page": {
        0: "pages of the system's size (4 KB or 2 MB)",
        1: "pages of 1 GB; the run aborts if there are none",
        2: "pages of 1 GB, or of 2 MB if there are none",
    },
    # dynamic_shape.md
    "dynamic_node_type": {0: "dynamic inputs come from a dataset", 1: "from placeholders"},
    "compile_hybrid_mode": {
        0: "off",
        1: "compiles a graph for the profiles and a dynamic one for all other shapes",
    },
    "ac_parallel_enable": {
        "0": "AI CPU operators are not distributed separately",
        "1": "AI CPU and AI Core operators run at the same time",
    },
    # performance_tuning.md
    "variable_placement": {
        "Host": "variables are in the host's memory",
        "Device": "variables are in the device's memory",
    },
    "enable_small_channel": {
        0: "off; for training",
        1: "on; always so for online inference",
    },
    # debugging.md
    "enable_exception_dump": {
        0: "off",
        1: "inputs, outputs, tensor descriptions and workspace of the operator",
        2: "inputs, outputs, workspace and tiling, to analyse errors of the AI Core",
    },
    "export_compile_stat": {
        0: "never writes fusion_result.json",
        1: "writes it when the program ends normally",
        2: "writes it when a graph is compiled",
    },
    # accuracy_tuning.md
    "precision_mode": {
        "force_fp32": f"{_CUBE_16}; the same as cube_fp16in_fp32out",
        "allow_fp32_to_fp16": (
            "matrix operators go from float32 to float16; vector operators stay, if they can"
        ),
        "force_fp16": "float16 wherever an operator has it; for online inference only",
        "must_keep_origin_dtype": _KEEP,
        "allow_mix_precision": f"{_MIXED_16}; the same as allow_mix_precision_fp16",
        "cube_fp16in_fp32out": _CUBE_16,
        "allow_mix_precision_fp16": _MIXED_16,
        "allow_mix_precision_bf16": _MIXED_BF16,
        "allow_fp32_to_bf16": "keeps float32, and takes bfloat16 where the AI Core lacks it",
    },
    "precision_mode_v2": {
        "fp16": "float16 for all of float16, bfloat16 and float32",
        "origin": _KEEP,
        "cube_fp16in_fp32out": _CUBE_16,
        "mixed_float16": _MIXED_16,
        "mixed_bfloat16": _MIXED_BF16,
        "cube_hif8": "matrix operators compute in hifloat8",
        "mixed_hif8": "mixed precision with hifloat8 where the built-in lists allow it",
    },
    # accuracy_comparison.md
    "dump_mode": {"input": "inputs", "output": "outputs", "all": "both, in files of their own"},
    "dump_debug_mode": {
        "aicore_overflow": "operators of the AI Core that give extreme values for normal inputs",
        "atomic_overflow": "overflow of Atomic Add, when results leave the AI Core",
        "all": "both",
    },
    "dump_data": {"tensor": "the data", "stats": "statistics of the data, as CSV; much less"},
    "quant_dumpable": {
        "0": "compilation may optimise away what was there before quantisation",
        "1": "it can be dumped",
    },
    "buffer_optimize": {"l2_optimize": "on", "off_optimize": "off"},
    # AOE.md
    "aoe_mode": {"1": "subgraphs", "2": "operators", "4": "how gradients are split"},
    # operator_and_graph_build.md
    "op_compiler_cache_mode": {
        "enable": "keeps compiled operators on disk, and uses them again",
        "disable": "compiles without a cache",
        "force": "deletes the cache, and fills it anew; not while other programs compile",
    },
    # experiment_options.md
    "jit_compile": {
        "true": "compiles operators, which then run faster",
        "false": "takes compiled operators where there are some; compiles faster",
        "auto": "as true for static shapes, as false for dynamic ones",
    },
    "shape_generalization_mode": {
        "STRICT": "takes each shape as it is",
        "FULL": "makes all axes dynamic when a shape changes",
        "ADAPTIVE": "makes the axes dynamic that change; compiles again for each new one",
    },
    # deprecated_options.md
    "op_debug_level": {
        0: "off",
        1: "keeps the .cce, _loc.json, .o and .json files of operators in kernel_meta",
        2: "as 1, and compiles without optimisation (-O0 -g)",
        3: "off, but keeps .o and .json files",
        4: "off, but keeps .o, .json, .cce and _compute.json files",
    },
    "op_select_implmode": {
        "high_precision": "more precise algorithms for float16 inputs",
        "high_performance": "the fastest algorithms that keep float16 precision",
    },
    "dynamic_graph_execute_mode": {
        "dynamic_execute": "compiles one graph for the ranges in dynamic_inputs_shape_range",
    },
}
"""Meanings of values by the option's key; those of Atlas and Ascend alone are under `applies`."""


SCOPES = {
    "init": "read only by the first initialisation of a process; later values are ignored",
    "session": "read for each session",
    "graph": "read for each graph",
    "pass": "read by the adapter's own graph passes, for each graph",
    "NPURunConfig": "no key of the NpuOptimizer entry; NPURunConfig reads it",
    "unread": "nothing reads it",
}
"""Explanations of the scopes (guides/facts/adapter.md#scopes)."""

PAGES = {
    "run_config": "NPURunConfig Options",
    "experimental": "ExperimentalConfig Constructor",
    "initialize_system": "initialize_system",
    "tuning": "Subgraph/Operator Tuning",
    "atc": "--op_select_implmode",
}
"""Titles of the pages of the manual (guides/facts/README.md#pages-of-the-manual)."""

_TYPES = {word: kind.__name__ for kind, word in JSON_TYPES.items()}
_TYPES.update(array="list", object="mapping")


def all_options() -> List[Option]:
    """List every option, in the order of definition."""
    return adapter_options(AscendConfig)


def describe_types(value_type: ValueType) -> str:
    """Return the Python types in words, for example ``str, int or list``."""
    if value_type.grammar is not None and value_type.grammar.words:
        return value_type.grammar.words
    if value_type.allowed:
        return type(value_type.allowed[0]).__name__
    schema = value_type.schema()
    if not schema:
        return "Python object"
    types = [_TYPES[each["type"]] for each in schema.get("anyOf", [schema])]
    return join_words(list(dict.fromkeys(types)), "or")


def describe_values(value_type: ValueType) -> str:
    """Return the allowed values, or the types and the range, on one line."""
    if value_type.allowed:
        return ", ".join(repr(value) for value in value_type.allowed)
    low, high = value_type.range.low, value_type.range.high
    if low is None:
        return describe_types(value_type)
    limits = f"from {low}" if high is None else f"{low} to {high}"
    return f"{describe_types(value_type)}, {limits}"


def describe_grammar(value_type: ValueType) -> Optional[str]:
    """Return the form of the text or structure, as one paragraph; None without a grammar.

    It is the docstring of the grammar up to its sections, which is missing with ``-OO``.
    """
    text = inspect.getdoc(value_type.grammar.read) if value_type.grammar is not None else None
    if not text:
        return None
    return " ".join(text.split("\nRaises:")[0].replace("``", "").split())


def group_of(option: Option) -> str:
    """Return the title of the group that an option belongs to."""
    return _groups()[option.path.partition(".")[0]]


@lru_cache(maxsize=None)
def _groups() -> Dict[str, str]:
    groups: Dict[str, str] = {}
    group = ""
    for option in option_fields(AscendConfig):
        group = option.group or group
        groups.setdefault(option.path.partition(".")[0], group)
    return groups


def rules_of(option: Option) -> List[Tuple[str, Rule]]:
    """List the rules that look at an option.

    Returns:
        Each with when it is checked: at ``construction``, by `AscendConfig.check_host` (``host``),
        or at the ``opening`` of a system.
    """
    books = (("construction", RULES), ("host", HOST_RULES), ("opening", paths.OPENING_RULES))
    return [(when, rule) for when, book in books for rule in book if option.key in rule.keys]


def members_of(option: Option) -> Dict[str, str]:
    """Describe each member of an option's JSON object; empty for other options."""
    if option.key != "profiling_options":
        return {}
    return {name: member.meaning for name, member in MEMBERS.items()}


def meanings_of(option: Option) -> Dict[Any, str]:
    """Describe the values of an option, as far as the manual does; empty for other options."""
    return MEANINGS.get(option.key, {})


def pages_of(option: Option) -> Tuple[str, ...]:
    """Return the titles of the pages of the manual that describe an option."""
    return tuple(PAGES[page] for page in option.pages)


def in_python(option: Option) -> str:
    """Show how an option is written: ``AscendConfig(dump_config=DumpConfig(dump_path=...))``."""
    return f"AscendConfig({write_keyword(AscendConfig, option.path, '...')})"


def in_file(option: Option) -> Optional[str]:
    """Show how it is written in YAML: ``dump_config: {dump_path: ...}``; None for objects."""
    if option.is_object:
        return None
    return nest_in_file(option.path, f"{option.name}: ...")


def product_default_of(option: Option) -> Optional[str]:
    """Return the product's default: a value as Python writes it, otherwise a description."""
    default = option.product
    return repr(default) if default in option.type.allowed else default and str(default)


def default_of(option: Option) -> Optional[str]:
    """Return the default that holds while an option is unset; None if unknown."""
    words = product_default_of(option) if option.adapter is None else repr(option.adapter)
    if words is not None and option.unit is not None:
        words = f"{words} {option.unit}"
    if option.run_config_default is None:
        return words
    vendor = repr(option.run_config_default)
    return f"{vendor} (NPURunConfig)" if words is None else f"{words} (NPURunConfig: {vendor})"


def to_dict(option: Option) -> Dict[str, Any]:
    """Return all facts about an option as plain values for JSON."""
    return {
        "name": option.name,
        "path": option.path,
        "group": group_of(option),
        "doc": option.doc,
        "write": in_python(option),
        "write_file": in_file(option),
        "key": option.key if option.field else None,
        "field": option.field,
        "types": describe_types(option.type),
        "values": describe_values(option.type),
        "allowed": option.type.allowed,
        "low": option.type.range.low,
        "high": option.type.range.high,
        "unit": option.unit,
        "grammar": describe_grammar(option.type),
        "members": members_of(option),
        "meanings": {str(value): text for value, text in meanings_of(option).items()},
        "adapter_default": option.adapter,
        "run_config_default": option.run_config_default,
        "product_default": option.product,
        "scope": option.scope,
        "also": option.other_scopes,
        "sticky": option.sticky,
        "applies_to": option.applies,
        "deprecated": option.deprecated,
        "dead": option.is_unread,
        "use": option.replacement,
        "rules": [
            {"sentence": rule.sentence, "source": rule.source, "when": when}
            for when, rule in rules_of(option)
        ],
        "manual": pages_of(option),
        "schema": option.type.schema(),
        "scope_meaning": SCOPES[option.scope],
    }


def find(name: str) -> Optional[Option]:
    """Find an option by its name, path or vendor key, in any case; None if there is none."""
    for option in all_options():
        if name.lower() in (option.name.lower(), option.path.lower(), option.key.lower()):
            return option
    return None


def search(words: Sequence[str]) -> List[Option]:
    """Find the options that mention all ``words``, in any case, in the order of definition.

    Searches names, keys, sentences, values, their meanings and groups; if nothing matches, also
    rules and products. Former options are not found: see `nothing_found`.
    """
    if any(word in OBSOLETE for word in words):
        return []
    return _search(words, _headlines) or _search(words, _small_print)


def _search(words: Sequence[str], texts: Callable[[Option], Tuple[Any, ...]]) -> List[Option]:
    matches = []
    for option in all_options():
        text = "\n".join(map(str, texts(option))).lower()
        if all(word.lower() in text for word in words):
            matches.append(option)
    return matches


def _headlines(option: Option) -> Tuple[Any, ...]:
    place = in_python(option)[len("AscendConfig") :]
    key = option.key if option.field else ""
    meanings = tuple(meanings_of(option).values())
    return (place, option.path, key, option.doc, group_of(option), option.type.allowed, *meanings)


def _small_print(option: Option) -> Tuple[Any, ...]:
    rules = [rule.sentence for _, rule in rules_of(option)]
    facts = (option.applies, option.replacement, option.adapter, option.product)
    return (*_headlines(option), *rules, *members_of(option), *facts)


def json_schema() -> NoReturn:
    """Refuse the call: this function has been removed."""
    raise UnsupportedError(
        "json_schema has been removed; `ascend-session options --json` has the schema of each "
        "option."
    )


def nothing_found(words: Sequence[str]) -> Finding:
    """Report that `search` finds nothing, with the nearest name."""
    for word in words:
        if word in OBSOLETE:
            return unknown_name(word, None, AscendConfig)
    text = " ".join(words)
    names = [name for o in all_options() for name in (o.name, o.path, o.key)]
    guesses = [did_you_mean(word, [*names, *OBSOLETE]) for word in words]
    near = next(filter(None, guesses), None)
    hint = f"Did you mean {near}?" if near else "`ascend-session options` lists all options."
    return Finding(ERROR, f"No option is named {text!r}, and none mentions it.", hint, option=text)
