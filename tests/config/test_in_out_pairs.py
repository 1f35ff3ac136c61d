"""in_out_pair: what str() makes of a list, read by a parser that is not Python's."""

import random

import pytest

from ascend_session import AscendConfig, ConfigError
from tests.config.written import in_out_pair


def refusal(value):
    with pytest.raises(ValueError, match="cannot be used") as caught:
        in_out_pair(value)
    return str(caught.value)


def as_the_adapter_reads(text):
    """Nested lists by brackets and commas; quotes, spaces and tabs do not count."""
    open_lists, done, name = [], [], ""
    for character in text:
        if character in "],":
            if name:
                open_lists[-1].append(name)
                name = ""
            if character == "]":
                done = open_lists.pop()
                if open_lists:
                    open_lists[-1].append(done)
        elif character == "[":
            open_lists.append([])
        elif character not in " \t'":
            name += character
    return done


@pytest.mark.parametrize(
    "text",
    [
        "[[['in1', 'in2'], ['out1', 'out2']]]",
        "[[['in1','in2'],['out1','out2']]]",
        " [[['import/conv2d_1/convolution'],\t['import/conv2d_59/BiasAdd']], [['a'], ['b']]] ",
    ],
)
def test_legal_text_is_returned_to_the_letter(text):
    assert in_out_pair(text) == text


def test_a_list_becomes_what_str_makes_of_it():
    pairs = [[["in1", "in2"], ["out1"]]]
    assert in_out_pair(pairs) == str(pairs)


def test_tuples_become_lists_because_the_adapter_counts_brackets():
    assert in_out_pair(((("in1",), ["out1"]),)) == "[[['in1'], ['out1']]]"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "it is not a list of [inputs, outputs] pairs"),
        ("some/file.cfg", "it is not a list of [inputs, outputs] pairs"),
        ("[]", "it is not a list of [inputs, outputs] pairs"),
        ([], "it is not a list of [inputs, outputs] pairs"),
        ("[" * 3000, "it is not a list of [inputs, outputs] pairs"),
        ([["in1"], ["out1"]], "['in1'] is not a pair of two lists"),
        ([[["in1"]]], "[['in1']] is not a pair of two lists"),
        ([[["a"], ["b"], ["c"]]], "is not a pair of two lists"),
        ([[[], ["b"]]], "[] is not a list of at least one operator name"),
        ([["in1", "out1"]], "'in1' is not a list of at least one operator name"),
        ([[["a b"], ["c"]]], "'a b' is not an operator name"),
        ([[["a'b"], ["c"]]], "is not an operator name"),
        ([[['a"b'], ["c"]]], "is not an operator name"),
        ([[["a[0]"], ["c"]]], "'a[0]' is not an operator name"),
        ([[["conv1:0"], ["c"]]], "'conv1:0' is not an operator name"),
        ([[["a\x01"], ["c"]]], "is not an operator name"),
        ([[[1], ["c"]]], "1 is not an operator name"),
        ("[[['a'], [1]]]", "1 is not an operator name"),
        ('[[["a"], ["b"]]]', "the adapter takes double quotes into the names"),
        ("[[['a\\d'], ['b']]]", "an operator name has no backslash"),
        ("[[[u'a'], ['b']]]", "it is not as str() writes it"),
        ("[[('a',), ['b']]]", "it is not as str() writes it"),
        ("[[['a'],\n['b']]]", "it is not as str() writes it"),
        ("[[['a'], ['b']]] # all", "it is not as str() writes it"),
        ({"a": "b"}, "a value of type dict is not among the accepted forms"),
        (b"[[['a'],['b']]]", "it is bytes"),
    ],
)
def test_what_the_adapter_would_misread_is_refused(value, said):
    message = refusal(value)
    assert said in message
    assert "write for example" in message


def test_the_adapter_reads_back_what_was_given():
    rng = random.Random(5)

    def names():
        return [
            "".join(rng.choice("ab/_.-1>") for _ in range(6)) for _ in range(rng.randrange(1, 4))
        ]

    for _ in range(300):
        pairs = [[names(), names()] for _ in range(rng.randrange(1, 4))]
        text = in_out_pair(pairs)
        assert in_out_pair(text) == text
        assert as_the_adapter_reads(text) == pairs


def test_empty_text_is_to_be_left_out_and_needs_no_mixed_computing():
    with pytest.raises(ConfigError) as caught:
        AscendConfig(in_out_pair="")
    assert "leave the option out" in str(caught.value)
    assert "mix_compile_mode" not in str(caught.value)
