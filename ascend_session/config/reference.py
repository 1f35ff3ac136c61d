"""The reference of the options: facts and search.

Everything comes from an option's definition, its type, the docstring of its grammar and the rules.
"""

import inspect
from functools import lru_cache
from typing import Any, Callable, Dict, List, NoReturn, Optional, Sequence, Tuple

from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.grammars.profiling_options import MEMBERS
from ascend_session.config.meanings import MEANINGS
from ascend_session.config.names import OBSOLETE, nest_in_file, unknown_name, write_keyword
from ascend_session.config.option import Option, adapter_options, option_fields
from ascend_session.config.rules import HOST_RULES, RULES, paths
from ascend_session.config.rules.rule import Rule
from ascend_session.config.values import JSON_TYPES, ValueType
from ascend_session.errors import UnsupportedError
from ascend_session.findings import ERROR, Finding
from ascend_session.text import did_you_mean, join_words

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
