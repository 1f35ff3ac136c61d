"""Options that give names a value, and the multi-stream mode."""

import random

import pytest

from tests.config.written import (
    auto_multistream_parallel_mode,
    optimization_switch,
    stream_max_parallel_num,
)


def refusal(function, value):
    with pytest.raises(ValueError, match="cannot be used") as caught:
        function(value)
    return str(caught.value)


@pytest.mark.parametrize("text", ["DNN_VM_AICPU:10,AIcoreEngine:1", "AIcoreEngine:3", "E:01"])
def test_legal_parallel_numbers_are_returned_to_the_letter(text):
    assert stream_max_parallel_num(text) == text


def test_a_mapping_of_engines_keeps_its_order():
    engines = {"DNN_VM_AICPU": 10, "AIcoreEngine": 1}
    assert stream_max_parallel_num(engines) == "DNN_VM_AICPU:10,AIcoreEngine:1"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "it is empty"),
        ({}, "it is empty"),
        ("AIcoreEngine", "'AIcoreEngine' is not of the form name:value"),
        ("AIcoreEngine:1,", "'' is not of the form name:value"),
        (":1", "':1' is not of the form"),
        ("A:1, B:2", "' B:2' is not of the form"),
        ("A:0", "engine 'A' has '0' tasks, which is not a number from 1 up"),
        ({"A": -1}, "engine 'A' has '-1' tasks"),
        ("A:", "engine 'A' has '' tasks"),
        ("A:1\n", "engine 'A' has '1\\n' tasks"),
        ("A:1:2", "engine 'A' has '1:2' tasks"),
        ("A:1,A:2", "'A' is named twice"),
        ({"A,B": 1}, "'A,B' is not a name"),
        ({"A:B": 1}, "'A:B' is not a name"),
        ({1: 1}, "1 is not a name"),
        ({"A": True}, "a value of type dict is not among the accepted forms"),
        ({"A": "1"}, "a value of type dict is not among the accepted forms"),
        ([("A", 1)], "a value of type list is not among the accepted forms"),
    ],
)
def test_wrong_parallel_numbers_are_refused(value, said):
    assert said in refusal(stream_max_parallel_num, value)


@pytest.mark.parametrize("text", ["Pass1:on;Pass2:off", "Pass1:off"])
def test_legal_switches_are_returned_to_the_letter(text):
    assert optimization_switch(text) == text


def test_a_mapping_of_passes_becomes_on_and_off():
    assert optimization_switch({"Pass1": True, "Pass2": False}) == "Pass1:on;Pass2:off"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "it is empty"),
        ({}, "it is empty"),
        ("Pass1:on;", "'' is not of the form name:value"),
        ("Pass1", "'Pass1' is not of the form"),
        ("Pass1:ON", "pass 'Pass1' is 'ON', which is neither 'on' nor 'off'"),
        ("Pass1:on,Pass2:off", "pass 'Pass1' is 'on,Pass2:off'"),
        ("Pass1:on\n", "pass 'Pass1' is 'on\\n'"),
        ("Pass1:on;Pass1:off", "'Pass1' is named twice"),
        ("Pass1:on; Pass2:on", "' Pass2:on' is not of the form"),
        ({"a b": True}, "'a b:on' is not of the form"),
        ({"a;b": True}, "'a;b' is not a name"),
        ({"Pass1": 1}, "a mapping of pass names to True or False"),
        ({"Pass1": "on"}, "a mapping of pass names to True or False"),
        (True, "a value of type bool is not among the accepted forms"),
    ],
)
def test_wrong_switches_are_refused(value, said):
    assert said in refusal(optimization_switch, value)


def test_mappings_round_trip():
    rng = random.Random(3)
    for _ in range(300):
        names = [f"P{n}" for n in rng.sample(range(100), rng.randrange(1, 20))]
        counts = stream_max_parallel_num({name: rng.randrange(1, 99) for name in names})
        states = optimization_switch({name: rng.random() < 0.5 for name in names})
        assert stream_max_parallel_num(counts) == counts
        assert optimization_switch(states) == states


@pytest.mark.parametrize(
    "text", ["cv", "LoadBalance:1", "LoadBalance:8", "MainStream:64", "WeightedLoadBalance:2"]
)
def test_legal_stream_modes_are_returned_to_the_letter(text):
    assert auto_multistream_parallel_mode(text) == text


def test_a_bare_load_balance_is_refused_although_the_vendor_shows_it():
    message = refusal(auto_multistream_parallel_mode, "LoadBalance")
    assert "GE wants the number of streams after 'LoadBalance', although" in message
    assert "write for example 'LoadBalance:8'" in message


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("MainStream", "GE wants the number of streams"),
        ("LoadBalance:0", "the number of streams is '0' and must be 1 to 64"),
        ("LoadBalance:65", "the number of streams is '65'"),
        ("MainStream:08", "the number of streams is '08'"),
        ("LoadBalance:8\n", "the number of streams is '8\\n'"),
        ("LoadBalance: 8", "the number of streams is ' 8'"),
        ("CV", "accepted are 'cv', 'LoadBalance:n'"),
        ("cv:1", "accepted are"),
        ("cv\n", "accepted are"),
        ("", "accepted are"),
        (8, "a value of type int is not among the accepted forms (text)"),
    ],
)
def test_wrong_stream_modes_are_refused(value, said):
    assert said in refusal(auto_multistream_parallel_mode, value)
