"""JSON with the place of every value, and the fast reader that falls back on it."""

import json

import pytest

from ascend_session.jsonfile import JsonError, load_json, parse_json

BOTH = [lambda text: parse_json(text)[0].plain, lambda text: load_json(text)[0]]


@pytest.mark.parametrize("read", BOTH, ids=["located", "fast"])
@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        ' {"a": [1, -2, 3.5, 1e3, true, false, null, "x\\u00e9\\ud83d\\ude00"], "b": {"c": {}}}',
        "-0",
        "12345678901234567890",
        '"text"',
    ],
)
def test_both_readers_read_what_json_reads(read, text):
    assert read(text) == json.loads(text)
    assert read("\ufeff" + text) == json.loads(text)


@pytest.mark.parametrize("read", BOTH, ids=["located", "fast"])
@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("", 0),
        ("{", 1),
        ('{"a": NaN}', 6),
        ('{"a": 01}', 7),
        ('{"a": 1,}', 7),
        ("[1 2]", 3),
        ('["\\ud800"]', 1),
        ("[1e999]", 1),
        ("// x\n1", 0),
        ("[" * 100, 65),
        ("[" * 9000, 65),
    ],
)
def test_both_readers_refuse_what_is_no_json_at_the_same_place(read, text, at):
    with pytest.raises(JsonError) as caught:
        read(text)
    assert caught.value.at == at


def test_the_last_of_two_equal_keys_counts_and_is_told_with_its_object():
    value, end, repeated = load_json('{"a": [{"b": 1, "b": 2}], "c": 1, "c": 3} x')
    assert value == {"a": [{"b": 2}], "c": 3}
    assert repeated == [("", "c"), ("a[0]", "b")]
    assert end == 42


def test_places_are_those_of_values_and_of_keys():
    node, _ = parse_json('{"a": [10, 20]}')
    (member,) = node.value
    assert (node.at, member.at, member.node.at) == (0, 1, 6)
    assert [item.at for item in member.node.value] == [7, 11]
    assert [node.kind, member.node.kind] == ["an object", "an array"]
