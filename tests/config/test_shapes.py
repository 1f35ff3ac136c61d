"""input_shape and dynamic_dims, and what rules ask of them."""

import random
import re
import warnings

import pytest

from ascend_session import AscendConfig, AscendConfigWarning, ConfigError
from tests.config import written as shapes


def refusal(function, value):
    with pytest.raises(ValueError, match="cannot be used") as caught:
        function(value)
    return str(caught.value)


def findings(shape, dims):
    """What a configuration with these shapes and profiles is refused for, or warned of."""
    part = {"input_shape": shape, "dynamic_dims": dims, "dynamic_node_type": 1}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AscendConfigWarning)
        try:
            AscendConfig(dynamic_input_config=part)
        except ConfigError as error:
            return str(error)
    return " ".join(str(each.message) for each in caught)


def profiles(arity, count=2):
    return ";".join(",".join([str(number + 1)] * arity) for number in range(count))


SHAPES = [
    ("data:1,1,40,-1;label:1,-1", ["data", "label"], 2),
    ("data:1,1,40,-1;label:1,-1;mask:-1,-1", ["data", "label", "mask"], 4),
    ("data:-1,3,-1", ["data"], 2),
    ("a:1,2;b:-1,3", ["a", "b"], 1),
    ("scalar:0", ["scalar"], 0),
    ("scope:0:1,-1", ["scope:0"], 1),
    (" data :1,-1", ["data"], 1),
]


@pytest.mark.parametrize(("text", "names", "unknown"), SHAPES)
def test_legal_input_shapes_are_returned_to_the_letter_and_understood(text, names, unknown):
    assert shapes.input_shape(text) == text
    found = findings(text, profiles(unknown + 1))
    assert f"gives {unknown + 1} value(s) a profile" in found
    assert f"has -1 in {unknown} place(s)" in found
    if unknown:
        assert findings(text, profiles(unknown)) == ""
    reverse = ";".join(reversed(text.split(";")))
    if len(names) > 1:
        expected = f"names its inputs as {', '.join(reversed(names))}; GE assigns shapes in"
        assert expected in findings(reverse, profiles(unknown))


@pytest.mark.parametrize(
    ("structured", "text"),
    [
        ({"data": [1, 1, 40, -1], "label": (1, -1)}, "data:1,1,40,-1;label:1,-1"),
        ({"b": [2], "a": []}, "b:2;a:0"),
    ],
)
def test_a_mapping_of_shapes_keeps_its_order(structured, text):
    assert shapes.input_shape(structured) == text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "it names no input"),
        ({}, "it names no input"),
        ("data", "'data' is not of the form name:dimensions"),
        (":1,2", "':1,2' is not of the form name:dimensions"),
        (" :1,2", "is not of the form name:dimensions"),
        ("data:1;", "'' is not of the form name:dimensions"),
        ("data:-1,x", "'x' in 'data:-1,x' is not a dimension"),
        ("data:", "'' in 'data:' is not a dimension"),
        ("data:1,", "'' in 'data:1,' is not a dimension"),
        ("data:1, 2", "' 2' in 'data:1, 2' is not a dimension"),
        ("data:1\n", "'1\\n' in"),
        ("data:-2", "'-2' in 'data:-2' is not a dimension (0 or more, or -1; no blanks)"),
        ("data:-01", "'-01' in"),
        ({"data": [-2]}, "'-2' in 'data:-2'"),
        ("data:1;data:2", "the input 'data' is named twice"),
        ({"a;b": [1]}, "'a;b' is not a name"),
        ({"": [1]}, "'' is not a name"),
        ({1: [1]}, "1 is not a name"),
        ({"data": 1}, "1 is not a list of ints"),
        ({"data": "1,2"}, "'1,2' is not a list of ints"),
        ({"data": [True]}, "[True] is not a list of ints"),
        ([("data", [1])], "a value of type list is not among the accepted forms"),
    ],
)
def test_wrong_input_shapes_are_refused(value, said):
    message = refusal(shapes.input_shape, value)
    assert said in message
    assert "write for example" in message


MANY = "dynamic_dims has {} profiles; all products but Ascend 950 take at most 100."


@pytest.mark.parametrize(
    ("text", "arity", "count"),
    [
        ("20,20,1,1;40,40,2,2", 4, 2),
        ("20,20,1,1;40,40,2,2;80,60,4,4", 4, 3),
        ("1,2;3,4", 2, 2),
        ("1;2", 1, 2),
        (";".join(str(size) for size in range(1, 257)), 1, 256),
    ],
)
def test_legal_profiles_are_returned_to_the_letter_and_understood(text, arity, count):
    assert shapes.dynamic_dims(text) == text
    assert f"gives {arity} value(s) a profile" in findings("a:0", text)
    found = findings("a:" + ",".join(["-1"] * arity), text)
    assert found == ("" if count <= 100 else MANY.format(count))


def test_a_list_of_profiles_becomes_the_vendors_text():
    assert shapes.dynamic_dims([[20, 20, 1, 1], (40, 40, 2, 2)]) == "20,20,1,1;40,40,2,2"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "'' is not a size"),
        ([], "'' is not a size"),
        ([[], []], "'' is not a size"),
        ("1,2", "it has 1 profiles, separated with ';', and 2 to 256 are needed"),
        (";".join(str(size) for size in range(1, 258)), "it has 257 profiles"),
        ("-1,2", "'-1' is not a size (a whole number above 0, without blanks)"),
        ("0;1", "'0' is not a size"),
        ("1,a", "'a' is not a size"),
        ("1;2;", "'' is not a size"),
        ("1; 2", "' 2' is not a size"),
        ("1;2\n", "'2\\n' is not a size"),
        ("1,2;3", "one profile has 1 sizes and another 2"),
        ("1;2;01", "a profile is given twice"),
        ([[1], [True]], "a value of type list is not among the accepted forms"),
        ([1, 2], "a value of type list is not among the accepted forms"),
        (["1", "2"], "a value of type list is not among the accepted forms"),
        (5, "a value of type int is not among the accepted forms"),
    ],
)
def test_wrong_profiles_are_refused(value, said):
    message = refusal(shapes.dynamic_dims, value)
    assert said in message
    assert "write for example" in message


def test_everything_accepted_matches_the_adapters_own_patterns():
    rng = random.Random(6)
    entry = re.compile(r"[\s\S]+:(([0-9]+|-[0-9]+),)+")
    profile = re.compile("([0-9]+,)+")
    accepted = {shapes.input_shape: 0, shapes.dynamic_dims: 0}
    for _ in range(20000):
        text = "".join(rng.choice("a:12,;-") for _ in range(rng.randrange(1, 9)))
        for function, pattern in ((shapes.input_shape, entry), (shapes.dynamic_dims, profile)):
            try:
                function(text)
            except ValueError:
                continue
            accepted[function] += 1
            assert all(pattern.fullmatch(part + ",") for part in text.split(";"))
    assert min(accepted.values()) > 20


def test_structured_shapes_round_trip():
    rng = random.Random(7)
    for _ in range(300):
        names = rng.sample(["x", "y", "scope/z", "a:0", "b c"], rng.randrange(1, 6))
        given = {name: [rng.randrange(-1, 99) for _ in range(rng.randrange(5))] for name in names}
        text = shapes.input_shape(given)
        assert shapes.input_shape(text) == text
        unknown = sum(dims.count(-1) for dims in given.values())
        found = findings(text, profiles(unknown + 1))
        assert f"has -1 in {unknown} place(s)" in found
        if unknown and names != sorted(names):
            assert f"names its inputs as {', '.join(names)};" in findings(text, profiles(unknown))


def test_structured_profiles_round_trip():
    rng = random.Random(8)
    for _ in range(300):
        arity = rng.randrange(1, 6)
        count = rng.randrange(2, 30)
        given = [[n + 1] + [rng.randrange(1, 999) for _ in range(arity - 1)] for n in range(count)]
        text = shapes.dynamic_dims(given)
        assert shapes.dynamic_dims(text) == text
        assert f"gives {arity} value(s) a profile" in findings("a:0", text)
        assert text.count(";") == count - 1
