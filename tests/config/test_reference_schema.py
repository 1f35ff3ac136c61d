"""The JSON schema for editors."""

import json

import pytest

from ascend_session import AscendConfig
from ascend_session.config.option import option_fields
from ascend_session.config.reference import all_options, in_file, json_schema

SCHEMA = json_schema()


def nodes(node):
    yield node
    for child in node.values() if isinstance(node, dict) else node:
        if isinstance(child, (dict, list)):
            yield from nodes(child)


def property_at(path):
    properties = SCHEMA["properties"]
    *containers, leaf = path.split(".")
    for name in containers:
        part = properties[name]["$ref"].rpartition("/")[2]
        properties = SCHEMA["$defs"][part]["properties"]
    return properties[leaf]


def test_every_option_that_a_file_can_hold_is_described():
    for option in all_options():
        if in_file(option) is not None:
            assert property_at(option.path)["description"].startswith(option.doc)


def test_options_that_are_python_objects_are_left_out():
    assert not {"distribute", "session_config"} & set(SCHEMA["properties"])


def test_it_names_its_dialect_and_refuses_unknown_names_everywhere():
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    for schema in (SCHEMA, *SCHEMA["$defs"].values()):
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False


def test_nothing_internal_and_no_default_is_left():
    text = json.dumps(SCHEMA)
    assert 'ascend":' not in text
    assert '"default"' not in text
    assert text.count('"title"') == 1
    assert "Raises:" not in text


def test_every_reference_leads_to_a_definition():
    names = {node["$ref"] for node in nodes(SCHEMA) if isinstance(node, dict) and "$ref" in node}
    assert names == {f"#/$defs/{name}" for name in SCHEMA["$defs"]}


def test_the_parts_are_the_config_classes():
    parts = [option.type.part for option in option_fields(AscendConfig)]
    assert set(SCHEMA["$defs"]) == {part.__name__ for part in parts if part is not None}


@pytest.mark.parametrize(
    ("path", "facts"),
    [
        ("graph_run_mode", {"enum": [0, 1], "type": "integer"}),
        ("hccl_timeout", {"minimum": 0, "maximum": 2**31 - 1, "type": "integer"}),
        ("dump_config.enable_dump", {"type": "boolean"}),
        ("dump_config.dump_path", {"type": "string"}),
        ("memory_config.memory_optimization_policy", {"const": "MemoryPriority"}),
        ("dynamic_input", {"deprecated": True}),
    ],
)
def test_types_and_limits_are_those_of_the_options(path, facts):
    found = property_at(path)
    assert {name: found[name] for name in facts} == facts


def test_only_deprecated_options_are_marked():
    marked = {o.path for o in all_options() if in_file(o) and "deprecated" in property_at(o.path)}
    assert marked == {option.path for option in all_options() if option.deprecated}


def test_the_description_has_what_a_writer_needs():
    assert property_at("hccl_timeout")["description"] == (
        "How long devices wait for each other in collectives. In s. Default: 1836 s. Applies to: "
        "950/A3/A2: 0..2147483647, 0 = never; Atlas training and 300I Duo: 1..17340, rounded down "
        "to a multiple of 68 with a minimum of 68. Scope init: read only by the first "
        "initialisation of a process; later values are ignored."
    )


def test_structured_forms_are_offered():
    kinds = [each["type"] for each in property_at("dump_config.dump_step")["anyOf"]]
    assert kinds == ["string", "integer", "array"]


def test_null_is_no_value():
    assert {"type": "null"} not in [
        each
        for name in SCHEMA["properties"]
        for each in SCHEMA["properties"][name].get("anyOf", ())
    ]
