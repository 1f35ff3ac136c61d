"""dynamic_inputs_shape_range: two labels, shapes in brackets, blanks around numbers only."""

import random
import re
import warnings

import pytest

from ascend_session import AscendConfig
from tests.config.written import dynamic_inputs_shape_range


def refusal(value):
    with pytest.raises(ValueError, match="cannot be used") as caught:
        dynamic_inputs_shape_range(value)
    return str(caught.value)


DOCUMENTED = "getnext:[128 ,3~5, 2~128, -1],[64 ,3~5, 2~128, -1];data:[128 ,3~5, 2~128, -1]"


def label_that_is_lost(text):
    """The label that the adapter ignores, as a configuration without offloaded input warns."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        AscendConfig(dynamic_input=True, dynamic_inputs_shape_range=text)
    messages = " ".join(str(each.message) for each in caught)
    match = re.search("has only a '(.*?)' group", messages)
    return match and match.group(1)


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        (DOCUMENTED, None),
        ("getnext:[1,-1]", "getnext"),
        ("data:[-1,-1,-1, 3]", None),
        ("getnext:[3,3,4,10],[-1,3,2~1000,-1],[-1,-1,-1,-1]", "getnext"),
        ("data:[1,20~800,20~800,3],[],[1,20~800,20~800,3]", None),
        ("data:[3~5],[3~6];getnext:[]", None),
        ("data:[5~5]", None),
    ],
)
def test_legal_ranges_are_returned_to_the_letter_and_understood(text, lost):
    assert dynamic_inputs_shape_range(text) == text
    assert label_that_is_lost(text) == lost


@pytest.mark.parametrize(
    ("structured", "text"),
    [
        (
            {"getnext": [[128, (3, 5), -1], [64]], "data": [[128, [2, 128]]]},
            "getnext:[128,3~5,-1],[64];data:[128,2~128]",
        ),
        ({"data": [[]]}, "data:[]"),
        ({"data": ((1,), ()), "getnext": [[-1]]}, "data:[1],[];getnext:[-1]"),
    ],
)
def test_structured_ranges_become_the_vendors_text(structured, text):
    assert dynamic_inputs_shape_range(structured) == text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "'' is neither 'getnext' nor 'data'"),
        ({}, "'' is neither 'getnext' nor 'data'"),
        ("[1,2]", "'[1,2]' is neither 'getnext' nor 'data'"),
        ("data", "'data' has no ':'"),
        ("Data:[1]", "'Data' is neither"),
        ("data:[1]; getnext:[1]", "' getnext' is neither"),
        ("data:[1];", "'' is neither"),
        ("x:[1]", "'x' is neither"),
        ("data:[1];data:[2]", "'data' is given twice"),
        ("data:", "'' is not a list of shapes in brackets"),
        ({"data": []}, "'' is not a list of shapes in brackets"),
        ("data:abc", "'abc' is not a list of shapes in brackets"),
        (
            "data:[1], [2]",
            "is not a list of shapes in brackets (no blank before or after a bracket)",
        ),
        ("data: [1]", "is not a list of shapes in brackets"),
        ("data:[1][2]", "is not a list of shapes in brackets"),
        ("data:[1]\n", "is not a list of shapes in brackets"),
        ("data:[[1]]", "is not a list of shapes in brackets"),
        ("data:[ ]", "' ' is not a dimension"),
        ("data:[1,]", "'' is not a dimension"),
        ("data:[x]", "'x' is not a dimension (a size, low~high, or -1)"),
        ("data:[-2]", "'-2' is not a dimension"),
        ("data:[1~-1]", "'1~-1' is not a dimension"),
        ("data:[1~2~3]", "'1~2~3' is not a dimension"),
        ("data:[~3]", "'~3' is not a dimension"),
        ("data:[1\t]", "'1\\t' is not a dimension"),
        ("data:[5~3]", "the range '5~3' starts above its end"),
        ({"data": [[(5, 3)]]}, "the range '5~3' starts above its end"),
        ({"data": [1, 2]}, "[1, 2] is not a list of shapes"),
        ({"data": "[1]"}, "'[1]' is not a list of shapes"),
        ({"data": [[True]]}, "True is not a dimension"),
        ({"data": [[(1, 2, 3)]]}, "(1, 2, 3) is not a dimension"),
        ({"data": [["1~2"]]}, "'1~2' is not a dimension"),
        ({"input": [[1]]}, "'input' is neither 'getnext' nor 'data'"),
        ([[1, 2]], "a value of type list is not among the accepted forms"),
    ],
)
def test_wrong_ranges_are_refused(value, said):
    message = refusal(value)
    assert said in message
    assert "write for example" in message


def test_structured_ranges_round_trip():
    rng = random.Random(9)

    def dim():
        low = rng.randrange(500)
        return rng.choice([-1, low, (low, low + rng.randrange(9))])

    def group():
        return [[dim() for _ in range(rng.randrange(5))] for _ in range(rng.randrange(1, 4))]

    for _ in range(500):
        labels = rng.sample(["getnext", "data"], rng.randrange(1, 3))
        text = dynamic_inputs_shape_range({label: group() for label in labels})
        assert dynamic_inputs_shape_range(text) == text
        assert label_that_is_lost(text) == ("getnext" if labels == ["getnext"] else None)
