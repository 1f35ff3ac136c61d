"""What may be written as a value, read back from types and grammars."""

from typing import Optional

import pytest
from typing_extensions import Annotated, Literal

from ascend_session.config.reference import describe_values, find, values_of
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
OPTIONS = {"switch": "graph_run_mode", "words": "enable_scope_fusion_passes", "folder": "debug_dir"}


def kind(name):
    if name in OPTIONS:
        return values_of(find(OPTIONS[name]))
    return describe_values(ValueType.from_annotation(Optional[TYPES[name]]))


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
    assert kind(name).words == words


def test_allowed_values_and_their_type_are_kept():
    assert kind("switch").allowed == (0, 1)
    assert kind("switch").types == "int"
    assert kind("single").allowed == ("only",)
    assert kind("single").types == "str"


def test_a_range_has_two_ends():
    assert (kind("count").low, kind("count").high) == (1, 9)
    assert (kind("text").low, kind("text").high) == (None, None)


def test_the_grammar_is_the_docstring_without_its_sections():
    grammar = kind("words").grammar
    assert (
        grammar == 'Names with commas between: "A,B" or a list of names (passes, operator types).'
    )


def test_options_that_are_no_text_have_no_grammar():
    assert kind("switch").grammar is None
    assert kind("text").grammar is None


def test_the_schema_of_a_value_has_no_null():
    assert values_of(find("graph_slice")).schema["enum"] == ["auto", "manual"]
    assert values_of(find("use_off_line")).schema == {"type": "boolean"}
