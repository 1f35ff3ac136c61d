"""The option table against the reference: names, fields, scopes, defaults, values."""

import ast
import json
import re
import warnings
from pathlib import Path
from typing import Any, Dict, List, Set, Tuple

import pytest

from ascend_session import AscendConfig, AscendConfigWarning, ConfigError
from ascend_session.config.names import OBSOLETE
from ascend_session.config.option import Option, adapter_options, option_fields
from ascend_session.config.options import AdapterOptions
from ascend_session.config.reference import PAGES

Fact = Dict[str, Any]

REFERENCE: List[Fact] = json.loads(
    (Path(__file__).parent / "data" / "options.json").read_text(encoding="utf-8")
)
# GE refuses every value of it, so it is refused by name
REFUSED_BY_NAME = {"auto_tune_mode"}
KEYS = [f for f in REFERENCE if f["kind"] == "parameter_map" and f["name"] not in REFUSED_BY_NAME]
PYTHON_ONLY = [f for f in REFERENCE if f["kind"] == "python_only"]
CONTAINERS = [f for f in REFERENCE if f["kind"] == "container"]
GONE = [f for f in REFERENCE if f["kind"] in ("page_only", "removed")] + [
    f for f in REFERENCE if f["name"] in REFUSED_BY_NAME
]
OPTIONS: Dict[str, Option] = {option.key: option for option in option_fields(AscendConfig)}


def typed(option: Option, value: Any) -> Any:
    """``value`` as an option of its own reads back, with types checked and no rules run."""
    said: Dict[str, Any] = {}
    inside = said
    *parts, name = option.path.split(".")
    for part in parts:
        inside = inside.setdefault(part, {})
    inside[name] = value
    read: Any = AdapterOptions(**said)
    for step in (*parts, name):
        read = getattr(read, step)
    return read


def refuses(option: Option, value: Any) -> bool:
    try:
        typed(option, value)
    except ConfigError as error:
        return option.name in str(error)
    return False


def example_of(option: Option) -> Any:
    """The value that the refusal of bytes shows; None if the option has no grammar."""
    try:
        typed(option, b"text")
    except ConfigError as error:
        shown = re.search(r"; write for example (.+)\.$", str(error))
        return ast.literal_eval(shown.group(1)) if shown else None
    return None


def disagreements(facts: List[Fact], field: str, fact: str) -> Dict[str, Tuple[Any, Any]]:
    """``{key: (ours, the reference's)}`` wherever the two are not equal and of one type."""
    pairs = {f["name"]: (getattr(OPTIONS[f["name"]], field), f[fact]) for f in facts}
    return {key: pair for key, pair in pairs.items() if repr(pair[0]) != repr(pair[1])}


def test_the_reference_has_entries_of_each_kind() -> None:
    assert all((KEYS, PYTHON_ONLY, CONTAINERS, GONE))


def test_every_entry_of_the_reference_is_an_option() -> None:
    missing = {f["name"] for f in KEYS + PYTHON_ONLY + CONTAINERS} - set(OPTIONS)
    assert not missing


def test_nothing_is_an_option_that_the_reference_does_not_have() -> None:
    assert set(OPTIONS) <= {f["name"] for f in REFERENCE} - {f["name"] for f in GONE}


def test_no_key_and_no_path_is_defined_twice() -> None:
    table = list(option_fields(AscendConfig))
    assert len({option.key for option in table}) == len(table)
    assert len({option.path for option in table}) == len(table)


def test_an_option_stands_where_npurunconfig_has_it() -> None:
    said = {f["name"]: f["run_config_name"] or f["name"] for f in KEYS + PYTHON_ONLY}
    assert {key: OPTIONS[key].path for key in said} == said


def test_each_key_has_the_protobuf_field_that_the_adapter_reads() -> None:
    assert disagreements(KEYS, "field", "attr_field") == {}
    assert disagreements(PYTHON_ONLY + CONTAINERS, "field", "attr_field") == {}


def test_each_key_has_the_scope_of_the_reference() -> None:
    assert disagreements(KEYS, "scope", "scope") == {}
    assert {OPTIONS[f["name"]].scope for f in PYTHON_ONLY} == {"NPURunConfig"}
    assert {OPTIONS[f["name"]].scope for f in CONTAINERS} == {""}


def test_each_key_has_all_scopes_of_the_reference() -> None:
    def scopes(option: Option) -> Set[str]:
        return {option.scope, *option.other_scopes}

    ours = {f["name"]: scopes(OPTIONS[f["name"]]) for f in KEYS}
    assert ours == {f["name"]: set(f["scopes_all"]) for f in KEYS}


def test_each_key_has_the_default_of_the_adapter() -> None:
    assert disagreements(KEYS, "adapter", "default") == {}


def test_what_only_npurunconfig_reads_has_the_default_of_npurunconfig() -> None:
    assert disagreements(PYTHON_ONLY, "run_config", "run_config_default") == {}


def test_a_default_of_npurunconfig_that_differs_from_the_adapters_is_noted() -> None:
    writes = [f for f in KEYS if f["run_config_default"] not in (None, "<required>", f["default"])]
    assert [f["name"] for f in writes] == ["enable_data_pre_proc"]
    assert disagreements(writes, "run_config", "run_config_default") == {}
    assert OPTIONS["enable_data_pre_proc"].run_config_default


def test_only_noted_defaults_differ() -> None:
    options = adapter_options(AscendConfig)
    noted = [option.key for option in options if option.run_config_default is not None]
    python_only = {f["name"] for f in PYTHON_ONLY}
    assert [key for key in noted if key not in python_only] == ["enable_data_pre_proc"]


def test_each_option_has_the_unit_of_the_reference() -> None:
    assert disagreements(KEYS + PYTHON_ONLY, "unit", "unit") == {}


def test_each_option_is_deprecated_where_the_manual_says_so() -> None:
    assert disagreements(KEYS + PYTHON_ONLY + CONTAINERS, "deprecated", "deprecated") == {}
    assert disagreements(KEYS, "replacement", "replacement") == {}


def test_each_option_says_what_the_product_uses_when_nothing_is_sent() -> None:
    assert disagreements(KEYS, "product", "doc_default") == {}


def test_each_option_says_what_it_is_limited_to() -> None:
    assert disagreements(KEYS, "applies", "applies_to") == {}


def test_each_option_names_its_pages_of_the_manual() -> None:
    facts = KEYS + PYTHON_ONLY + CONTAINERS
    ours = {f["name"]: set(OPTIONS[f["name"]].pages) for f in facts}
    pages = list(PAGES)
    assert ours == {f["name"]: {pages[int(digit)] for digit in f["pages"]} for f in facts}


def test_each_option_is_explained_in_one_sentence() -> None:
    wrong = [o.key for o in OPTIONS.values() if not o.doc.endswith(".") or "\n" in o.doc]
    assert not wrong


@pytest.mark.parametrize("fact", [f for f in REFERENCE if f["allowed"]], ids=lambda f: f["name"])
def test_the_allowed_values_are_those_of_the_reference_and_others_refused(fact: Fact) -> None:
    option, values = OPTIONS[fact["name"]], fact["allowed"]
    assert set(option.type.allowed) == set(values)
    assert [typed(option, value) for value in values] == values
    if isinstance(values[0], int):
        beside: List[Any] = [min(values) - 1, max(values) + 1, str(values[0]), True]
    else:
        beside = ["", values[0].swapcase() + "x", f" {values[0]}", values[0].encode(), 1, True]
    assert [value for value in beside if not refuses(option, value)] == []


def test_a_float_is_no_whole_number() -> None:
    whole = [f["name"] for f in KEYS if f["attr_field"] == "i"]
    assert [name for name in whole if not refuses(OPTIONS[name], 1.0)] == []


@pytest.mark.parametrize("fact", [f for f in REFERENCE if f["range"]], ids=lambda f: f["name"])
def test_a_range_is_that_of_the_reference(fact: Fact) -> None:
    option, (low, high) = OPTIONS[fact["name"]], fact["range"]
    assert typed(option, low) == low
    assert refuses(option, low - 1)
    if high is not None:
        assert typed(option, high) == high
        assert refuses(option, high + 1)


@pytest.mark.parametrize("fact", KEYS, ids=lambda f: f["name"])
def test_a_value_is_of_the_type_that_its_protobuf_field_holds(fact: Fact) -> None:
    option = OPTIONS[fact["name"]]
    right = {"s": "text", "i": 1, "b": True}[fact["attr_field"]]
    if fact["allowed"]:
        right = fact["allowed"][0]
    elif example_of(option) is not None:
        right = typed(option, example_of(option))
    wrong: List[Any] = {"s": [b"text", True, 1.5], "i": ["1", True, 1.5], "b": [1, 0, "True"]}[
        fact["attr_field"]
    ]
    assert typed(option, right) == right
    assert [value for value in wrong if not refuses(option, value)] == []


@pytest.mark.parametrize(
    "fact",
    [f for f in KEYS + PYTHON_ONLY if f["python_type"] == "path"],
    ids=lambda f: f["name"],
)
def test_a_path_may_be_a_path_object(fact: Fact) -> None:
    assert typed(OPTIONS[fact["name"]], Path("some") / "where") == "some/where"


@pytest.mark.parametrize("fact", CONTAINERS, ids=lambda f: f["name"])
def test_a_container_takes_the_vendors_class_of_options(fact: Fact) -> None:
    part = OPTIONS[fact["name"]].type.part
    assert part is not None
    assert part.__name__ == fact["python_type"]


@pytest.mark.parametrize("fact", GONE, ids=lambda f: f["name"])
def test_a_name_that_is_gone_is_known_and_refused_with_advice(fact: Fact) -> None:
    name = fact["name"]
    assert name in OBSOLETE
    said: Dict[str, Any] = {name: "x"}
    instead = fact["replacement"].split(" ")[0]
    with pytest.raises(ConfigError, match=f"{name} is a known name, but .*{instead}"):
        AscendConfig(**said)
    with pytest.raises(ConfigError, match=f"{name} is a known name, but .*{instead}"):
        AscendConfig.from_parameter_map(said)


@pytest.mark.parametrize(
    ("alias", "key"),
    [(a.split(" ")[0], f["name"]) for f in REFERENCE for a in f["aliases"]],
)
def test_another_name_of_an_option_leads_to_it(alias: str, key: str) -> None:
    said: Dict[str, Any] = {alias: "x"}
    with pytest.raises(ConfigError, match=OPTIONS[key].name):
        AscendConfig(**said)


@pytest.mark.parametrize(
    "values",
    [
        {"graph_memory_max_size": "1073741824"},
        {"variable_memory_max_size": "1073741824"},
        {"enable_reduce_precision": True},
        {"min_group_size": True},
    ],
    ids=str,
)
def test_what_nothing_reads_any_more_is_taken_with_a_warning(values: Dict[str, Any]) -> None:
    with pytest.warns(AscendConfigWarning, match="no longer has any effect"):
        config = AscendConfig(**values)
    assert config.parameter_map() == values


def test_every_option_is_unset_until_it_is_said() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = AscendConfig()
    assert config.given() == {}
    assert config.parameter_map() == {}
