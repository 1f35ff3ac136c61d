"""The JSON schema of an option."""

import pytest

from ascend_session import UnsupportedError
from ascend_session.config.reference import all_options, find, in_file, json_schema


def schema_of(path):
    return find(path).type.schema()


def test_the_removed_schema_of_all_options_is_refused_with_what_to_do():
    with pytest.raises(UnsupportedError, match=r"^json_schema has been removed; .*options --json"):
        json_schema()


def test_every_option_that_a_file_can_hold_has_one():
    assert [o.path for o in all_options() if bool(o.type.schema()) != bool(in_file(o))] == []


@pytest.mark.parametrize(
    ("path", "facts"),
    [
        ("graph_run_mode", {"enum": [0, 1], "type": "integer"}),
        ("hccl_timeout", {"minimum": 0, "maximum": 2**31 - 1, "type": "integer"}),
        ("dump_config.enable_dump", {"type": "boolean"}),
        ("dump_config.dump_path", {"type": "string"}),
        ("memory_config.memory_optimization_policy", {"const": "MemoryPriority"}),
    ],
)
def test_types_and_limits_are_those_of_the_options(path, facts):
    found = schema_of(path)
    assert {name: found[name] for name in facts} == facts


def test_structured_forms_are_offered():
    kinds = [each["type"] for each in schema_of("dump_config.dump_step")["anyOf"]]
    assert kinds == ["string", "integer", "array"]


def test_null_is_no_value():
    null = {"type": "null"}
    schemas = [option.type.schema() for option in all_options()]
    assert not [s for s in schemas if null == s or null in s.get("anyOf", ())]
