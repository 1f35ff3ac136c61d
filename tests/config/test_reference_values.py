"""What may be written as a value, read back from types and grammars."""

from typing import Optional

import pytest
from pydantic import BaseModel, Field
from typing_extensions import Annotated, Literal

from ascend_session.config.grammars.lists import CommaNames
from ascend_session.config.reference import describe_values, find, values_of
from ascend_session.config.types import PathText, Switch


class Inner(BaseModel):
    words: Optional[CommaNames] = None
    folder: Optional[PathText] = None


class Model(BaseModel):
    on: Optional[bool] = None
    count: Optional[Annotated[int, Field(ge=1, le=9)]] = None
    switch: Optional[Switch] = None
    single: Optional[Literal["only"]] = None
    text: Optional[str] = None
    number: Optional[float] = None
    thing: Optional[object] = None
    inner: Optional[Inner] = None


def kind(path, model=Model):
    for name in path.split("."):
        annotation = model.model_fields[name].annotation
        model = Inner
    return describe_values(annotation)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("on", "bool"),
        ("count", "int, 1 to 9"),
        ("switch", "0, 1"),
        ("single", "'only'"),
        ("text", "str"),
        ("number", "float"),
        ("thing", "Python object"),
        ("inner.words", "str or list"),
        ("inner.folder", "path"),
    ],
)
def test_values_are_said_in_words(path, words):
    assert kind(path).words == words


def test_allowed_values_and_their_type_are_kept():
    assert kind("switch").allowed == (0, 1)
    assert kind("switch").types == "int"
    assert kind("single").allowed == ("only",)
    assert kind("single").types == "str"


def test_a_range_has_two_ends():
    assert (kind("count").low, kind("count").high) == (1, 9)
    assert (kind("text").low, kind("text").high) == (None, None)


def test_the_grammar_is_the_docstring_without_its_sections():
    grammar = kind("inner.words").grammar
    assert (
        grammar == 'Names with commas between: "A,B" or a list of names (passes, operator types).'
    )


def test_options_that_are_no_text_have_no_grammar():
    assert kind("switch").grammar is None
    assert kind("text").grammar is None


def test_the_schema_of_a_value_has_no_null():
    assert values_of(find("graph_slice")).schema["enum"] == ["auto", "manual"]
    assert values_of(find("use_off_line")).schema == {"type": "boolean"}
