"""Options whose value is a list."""

import random
import re

import pytest

from tests.config import written as lists


def refusal(function, value):
    with pytest.raises(ValueError, match="cannot be used") as caught:
        function(value)
    return str(caught.value)


# dump_step ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["0|5|10", "0|3-5|10", "0", "7-9", "007", "0|0", "0-2147483647", "|".join(["1"] * 100)],
)
def test_legal_dump_steps_are_returned_to_the_letter(text):
    assert lists.dump_step(text) == text


@pytest.mark.parametrize(
    ("structured", "text"),
    [
        (0, "0"),
        ([0, 5, 10], "0|5|10"),
        ((3, 5), "3|5"),
        ([(3, 5)], "3-5"),
        ([0, [3, 5], 10], "0|3-5|10"),
        (range(3, 6), "3-5"),
        ([0, range(3, 6), range(7, 8)], "0|3-5|7"),
    ],
)
def test_structured_dump_steps_become_the_vendors_text(structured, text):
    assert lists.dump_step(structured) == text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "it names no step"),
        ([], "it names no step"),
        ("5-", "'5-' is neither a step (0 to 2147483647) nor a range"),
        ("-5", "'-5' is neither"),
        (-5, "'-5' is neither"),
        ("0|", "a step is missing before or after a '|'"),
        ("|0", "a step is missing"),
        ("3-", "'3-' is neither"),
        ("2--4", "'2--4' is neither"),
        ("1|x", "'x' is neither"),
        ("a", "'a' is neither"),
        ("1-2-3", "'1-2-3' is neither"),
        ("0 | 5", "'0 ' is neither"),
        ("5\n", "'5\\n' is neither"),
        ("\u0663", "is neither a step"),
        ("2147483648", "'2147483648' is neither"),
        ("5-5", "the range '5-5' must go from a lower step to a higher one"),
        ([(5, 3)], "the range '5-3' must go"),
        ("|".join(["1"] * 101), "it has 101 items and the adapter takes at most 100"),
        (list(range(101)), "it has 101 items"),
        (range(0, 10, 2), "range(0, 10, 2) must count up by 1 and not be empty"),
        (range(3, 3), "must count up by 1 and not be empty"),
        ([(1, 2, 3)], "(1, 2, 3) is neither a step, a (first, last) pair nor a range"),
        ([True], "True is neither a step"),
        (["0"], "'0' is neither a step"),
        (True, "a value of type bool is not among the accepted forms"),
        (1.0, "a value of type float is not among the accepted forms"),
        (b"0|5", "it is bytes and text is needed"),
    ],
)
def test_wrong_dump_steps_are_refused_with_a_right_example(value, said):
    message = refusal(lists.dump_step, value)
    assert said in message
    assert "write for example" in message


def test_every_dump_step_text_accepted_passes_the_older_and_the_newer_adapter():
    rng = random.Random(1)
    older = re.compile(r"([0-9]+-[0-9]+\||[0-9]+\|)+")
    accepted = 0
    for _ in range(20000):
        text = "".join(rng.choice("019-|") for _ in range(rng.randrange(1, 9)))
        try:
            lists.dump_step(text)
        except ValueError:
            continue
        accepted += 1
        assert older.fullmatch(text + "|")
        for part in text.split("|"):
            bounds = [int(bound) for bound in part.split("-")]
            assert bounds == sorted(set(bounds))
    assert accepted > 500


def test_structured_dump_steps_round_trip():
    rng = random.Random(2)
    for _ in range(500):
        first = rng.randrange(1000)
        last = first + rng.randrange(1, 50)
        makers = [first, (first, last), [first, last], range(first, last + 1)]
        text = lists.dump_step([rng.choice(makers) for _ in range(rng.randrange(1, 101))])
        assert lists.dump_step(text) == text


# local_device_list ----------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["0", "0,1", "0,1,2,3", "7,0"])
def test_legal_device_lists_are_returned_to_the_letter(text):
    assert lists.local_device_list(text) == text
    assert lists.local_device_list([int(part) for part in text.split(",")]) == text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("10,11", "'10' has more than one digit, and the adapter reads each id as one digit"),
        ([0, 10], "'10' has more than one digit"),
        ("01", "'01' has more than one digit"),
        ("0;1", "'0;1' is not a device id"),
        ("a,b", "'a' is not a device id"),
        ("0,", "'' is not a device id"),
        ("0, 1", "' 1' is not a device id"),
        ("0\n", "'0\\n' is not a device id"),
        ("", "'' is not a device id"),
        ([], "'' is not a device id"),
        ([-1], "'-1' is not a device id"),
        ("0,1,0", "a device is named twice"),
        ([True, 0], "a value of type list is not among the accepted forms"),
        (0, "a value of type int is not among the accepted forms"),
    ],
)
def test_wrong_device_lists_are_refused(value, said):
    assert said in refusal(lists.local_device_list, value)


# names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["ScopeLayerNormPass,ScopeClipBoxesPass", "Pooling", "Pooling,SoftmaxV2", "some/file.cfg"],
)
def test_legal_comma_names_are_returned_to_the_letter(text):
    assert lists.comma_names(text) == text
    assert lists.comma_names(tuple(text.split(","))) == text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "a name is missing"),
        ("A,", "a name is missing"),
        ("A,,B", "a name is missing"),
        ([""], "a name is missing"),
        ("A, B", "' B' has a blank or a comma in it"),
        ("A\n", "'A\\n' has a blank"),
        (["A,B"], "'A,B' has a blank or a comma in it"),
        ([], "it has no name in it"),
        ([1], "a value of type list is not among the accepted forms"),
        ({"A"}, "a value of type set is not among the accepted forms"),
        (5, "a value of type int is not among the accepted forms"),
    ],
)
def test_wrong_comma_names_are_refused(value, said):
    assert said in refusal(lists.comma_names, value)


@pytest.mark.parametrize("text", ["conv1", "conv1 conv2", " scope/conv1\tconv2\n", "some/file.cfg"])
def test_legal_dump_layers_are_returned_to_the_letter(text):
    assert lists.dump_layer(text) == text
    assert lists.dump_layer(text.split()) == " ".join(text.split())


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "it names no operator"),
        (" \t", "it names no operator"),
        ("conv1,conv2", "'conv1,conv2' has a comma in it, and names are separated with blanks"),
        ("conv1, conv2", "names are separated with blanks"),
        (["a,b"], "names are separated with blanks"),
        (["conv1 conv2"], "'conv1 conv2' is not an operator name"),
        ([""], "'' is not an operator name"),
        ("conv1\u00a0conv2", "is not an operator name"),
        ([], "it has no name in it"),
        ([None], "a value of type list is not among the accepted forms"),
        (True, "a value of type bool is not among the accepted forms"),
    ],
)
def test_wrong_dump_layers_are_refused(value, said):
    assert said in refusal(lists.dump_layer, value)


# aicore_num -----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["24|48", "2|4", "24|", "1|1"])
def test_legal_core_numbers_are_returned_to_the_letter(text):
    cube, _, vector = text.partition("|")
    assert lists.aicore_num(text) == text
    assert lists.aicore_num((int(cube), int(vector) if vector else None)) == text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("2", "the '|' between cube and vector cores is missing"),
        ("", "the '|' between cube and vector cores is missing"),
        ("|48", "'' is not a number of cores"),
        ("024|48", "'024' is not a number of cores"),
        ("24|0", "'0' is not a number of cores"),
        ("24 |48", "'24 ' is not a number of cores"),
        ("24|48\n", "'48\\n' is not a number of cores"),
        ("24|48|2", "'48|2' is not a number of cores"),
        ((0, 1), "'0' is not a number of cores"),
        ((-24, 1), "'-24' is not a number of cores"),
        ((None, 48), "a value of type tuple is not among the accepted forms"),
        ((24, True), "a value of type tuple is not among the accepted forms"),
        ((24,), "a value of type tuple is not among the accepted forms"),
        (24, "a value of type int is not among the accepted forms"),
    ],
)
def test_wrong_core_numbers_are_refused(value, said):
    assert said in refusal(lists.aicore_num, value)
