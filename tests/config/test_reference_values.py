"""What may be written as a value, read back from types and grammars."""

from typing import Optional

import pytest
from typing_extensions import Annotated, Literal

from ascend_session.config.reference import describe_grammar, describe_types, describe_values, find
from ascend_session.config.values import Range, ValueType

TYPES = {
    "on": bool,
    "count": Annotated[int, Range(1, 9)],
    "least": Annotated[int, Range(1)],
    "single": Literal["only"],
    "text": str,
    "number": float,
    "thing": object,
}
OPTIONS = {
    "slice": "graph_slice",
    "switch": "graph_run_mode",
    "words": "enable_scope_fusion_passes",
    "folder": "debug_dir",
}


def kind(name):
    if name in OPTIONS:
        return find(OPTIONS[name]).type
    return ValueType.from_annotation(Optional[TYPES[name]])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("on", "bool"),
        ("count", "int, 1 to 9"),
        ("least", "int, from 1"),
        ("switch", "0, 1"),
        ("single", "'only'"),
        ("text", "str"),
        ("number", "float"),
        ("thing", "Python object"),
        ("words", "str or list"),
        ("folder", "path"),
    ],
)
def test_values_are_said_in_words(name, words):
    assert describe_values(kind(name)) == words


def test_allowed_values_and_their_type_are_kept():
    assert kind("switch").allowed == (0, 1)
    assert describe_types(kind("switch")) == "int"
    assert kind("single").allowed == ("only",)
    assert describe_types(kind("single")) == "str"


def test_a_range_has_two_ends():
    assert (kind("count").range.low, kind("count").range.high) == (1, 9)
    assert (kind("text").range.low, kind("text").range.high) == (None, None)


def test_the_grammar_is_the_docstring_without_its_sections():
    grammar = describe_grammar(kind("words"))
    assert (
        grammar == 'Names with commas between: "A,B" or a list of names (passes, operator types).'
    )


def test_options_that_are_no_text_have_no_grammar():
    assert describe_grammar(kind("switch")) is None
    assert describe_grammar(kind("text")) is None


def test_the_schema_of_a_value_has_no_null():
    assert kind("slice").schema()["enum"] == ["auto", "manual"]
    assert kind("on").schema() == {"type": "boolean"}
