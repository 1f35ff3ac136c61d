"""fusion_switch_file as GE's parser takes it: JSON, or lines if it is no JSON."""

import contextlib
import json
import pickle
import random
from typing import Any, Dict

import pytest

from ascend_session import ConfigError
from ascend_session.option_files import FusionSwitch

SAMPLE = """\
{
"Switch":{
"GraphFusion":{
"RequantFusionPass":"on",
"ConvToFullyConnectionFusionPass":"off"
},
"UBFusion":{
"TbePool2dQuantFusionPass":"on"
}
}
}
"""


def refusal(content: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        FusionSwitch.parse(content, "f.cfg")
    return str(caught.value)


def switch(**passes: Any) -> str:
    return json.dumps({"Switch": {"GraphFusion": passes}})


# What is read ---------------------------------------------------------------------------------


def test_the_samples_of_the_manual_are_read() -> None:
    assert FusionSwitch.parse(SAMPLE) == FusionSwitch(
        {"RequantFusionPass": True, "ConvToFullyConnectionFusionPass": False},
        {"TbePool2dQuantFusionPass": True},
    )
    off = '{"Switch":{"GraphFusion":{"ALL":"off"},"UBFusion":{"ALL":"off"}}}'
    assert FusionSwitch.parse(off) == FusionSwitch.all_off()
    assert FusionSwitch.check_text(SAMPLE) == ()


def test_the_older_form_counts_for_both_kinds_of_fusion() -> None:
    made = FusionSwitch.parse("APass:on\n\n BPass : off\r\n")
    assert made == FusionSwitch({"APass": True, "BPass": False}, {"APass": True, "BPass": False})


def test_a_priority_may_have_more_zeros_than_python_reads_as_a_number() -> None:
    zeros = "0" * 5000
    text = f'{{"Priority": {{"GraphFusion": {{"Top": {{"A": "{zeros}7"}}}}}}}}'
    assert FusionSwitch.parse(text).graph_priority == {"A": 7}


def test_priorities_and_exceptions_are_read() -> None:
    content = {
        "Priority": {
            "GraphFusion": {"Top": {"A": "5"}, "Main": {" B ": " 1999 "}, "Down": {}},
            "UBFusion": {"Down": {"A": "02000"}},
        },
        "ExceptionalPassOfO1Level": ["C", "C"],
    }
    assert FusionSwitch.parse(json.dumps(content)) == FusionSwitch(
        graph_priority={"A": 5, "B": 1999}, ub_priority={"A": 2000}, keep_at_o1=("C",)
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "f.cfg:1:1: The file is empty."),
        (" \r\n\v", "The file is empty."),
        ("[]", "The top level is an object, not an array."),
        ('"A":on', "The top level is an object, not text."),
        ("3DPass:on", "The top level is an object, not a number."),
        ("{", "f.cfg:1:2: The file ends where a key in double quotes is needed."),
        ('{"Switch": {}, // all\n}', "JSON has no comments, so GE refuses"),
        ('{"switch": {}}', "1:2: GE knows no key 'switch' here."),
        ('{"Switch": []}', "Switch is an object, not an array."),
        ('{"Switch": {"Graph": {}}}', "GE knows no key 'Graph' below Switch."),
        ('{"Switch": {"UBFusion": "off"}}', "UBFusion is an object, not text."),
        (switch(A="On"), "The switch of 'A' is 'On'."),
        (switch(A=True), "The switch of 'A' is true or false."),
        ('{" Switch ": {"GraphFusion": {"A": 1}}}', "GE refuses the whole file for ' Switch '"),
        ('{"Switch": {"UBFusion ": {"A": "on"}}}', "it looks for 'UBFusion' and finds nothing."),
        ('{"ExceptionalPassOfO1Level ": ["P"]}', "f.cfg:1:2: GE refuses the whole file"),
        ('{"Priority": {"GraphFusion": {" Top": {"P": "1"}}}}', 'Write "Top" without blanks.'),
        ('{"ExceptionalPassOfO1Level": {}}', "is an array, not an object."),
        ('{"ExceptionalPassOfO1Level": [1]}', "A pass is text, not a number."),
        ('{"Priority": {"UBFusion": {"top": {}}}}', "GE knows no key 'top' below UBFusion."),
        ('{"Priority": {"UBFusion": {"Top": []}}}', "Top is an object, not an array."),
        ('{"Priority": {"UBFusion": {"Top": {"A": "1000"}}}}', "not within 0 to 999, as Top asks"),
        ('{"Priority": {"UBFusion": {"Top": {"A": 1}}}}', "not within 0 to 999, as Top asks"),
        ('{"Priority": {"UBFusion": {"Top": {"A": "-1"}}}}', "not within 0 to 999, as Top asks"),
        ('{"Priority": {"UBFusion": {"Top": {"A": ""}}}}', "not within 0 to 999, as Top asks"),
        ('{"Priority": {"UBFusion": {"Top": {"A": "1"}, "Main": {"A ": "1000"}}}}',
         "'A' has a priority in line 1 already."),
        ("A:on\nB", "2:1: GE refuses the whole file for this line: 'B' has no ':'."),
        ("A:on\n\r\nB:on", "2:1: GE refuses the whole file for this blank line."),
        ("A:on\nB: ON", "2:3: The switch of 'B' must be on or off, not 'ON'."),
        ("A:on\n A :off", "2:1: The pass 'A' is already in line 1."),
        (b'{"Switch": {"UBFusion": {"\xff": "on"}}}', "f.cfg:1:27: This is not UTF-8 text"),
        ("{\nA:on", "f.cfg:2:1: This is not JSON: a key in double quotes is needed"),
    ],
)  # fmt: skip
def test_what_ge_refuses_is_refused_with_its_place(content: Any, expected: str) -> None:
    assert expected in refusal(content)


@pytest.mark.parametrize(
    ("content", "expected", "made"),
    [
        (switch(A=" on "), "GE reads ' on ' as off", FusionSwitch({"A": False})),
        (switch(A=" off "), None, FusionSwitch({"A": False})),
        (switch(**{" A": "on"}), "No pass is called ' A'", FusionSwitch()),
        (switch(**{"": "on"}), "it names no pass", FusionSwitch()),
        ('{"Switch": {"UBFusion": {"A": "on"}}, " Switch": {"UBFusion": {"A": "zzz"}}}',
         "GE looks at 'Switch' in place of ' Switch'", FusionSwitch(ub={"A": True})),
        ('{"ExceptionalPassOfO1Level": ["A", ""]}', "No pass is called ''",
         FusionSwitch(keep_at_o1=("A",))),
        ('{"Priority": {"UBFusion": {"Top": {"": "1"}}}}', "names no pass", FusionSwitch()),
        ("null", "GE treats null as if the option were not set", FusionSwitch()),
        ("{} A:on", "which is never read", FusionSwitch()),
        ('{"Switch": {}, "Switch": {"UBFusion": {"A": "on"}}}', "only this one counts",
         FusionSwitch(ub={"A": True})),
    ],
)  # fmt: skip
def test_what_ge_takes_differently_is_told(content: str, expected: Any, made: Any) -> None:
    remarks = FusionSwitch.check_text(content)
    assert len(remarks) == (0 if expected is None else 1)
    assert all(expected in str(remark) for remark in remarks)
    assert FusionSwitch.parse(content) == made


@pytest.mark.parametrize(
    ("content", "expected", "made"),
    [
        (":on", "it names no pass", FusionSwitch()),
        ("# A:on", "This is not a comment", FusionSwitch({"# A": True}, {"# A": True})),
        ("\ufeffA:on", "GE reads the byte order mark as part of the name",
         FusionSwitch({"\ufeffA": True}, {"\ufeffA": True})),
        ("A:on", None, FusionSwitch({"A": True}, {"A": True})),
        ("{A:on", None, FusionSwitch({"{A": True}, {"{A": True})),
        (b"A:on\nB\xff:on", "which is not UTF-8 text", FusionSwitch({"A": True}, {"A": True})),
    ],
)  # fmt: skip
def test_the_older_form_is_taken_and_does_not_reach_the_newer_passes(
    content: Any, expected: Any, made: Any
) -> None:
    first, *others = FusionSwitch.check_text(content)
    assert "GE's newer framework of fusion passes reads JSON only" in str(first)
    assert [expected is not None and expected in str(remark) for remark in others] == (
        [] if expected is None else [True]
    )
    assert FusionSwitch.parse(content) == made


def test_no_bytes_whatever_crash_the_reader() -> None:
    rng = random.Random(2)
    words = [b'"Switch"', b'"GraphFusion"', b'"Priority"', b'"Top"', b'"A"', b'"on"', b'"1"']
    words += [b"{", b"}", b"[", b"]", b",", b":", b" ", b"\n", b"A", b"on", b"null", b"\xff", b"\0"]
    for _ in range(3000):
        content = b"".join(rng.choice(words) for _ in range(rng.randrange(25)))
        for read in (
            FusionSwitch.parse,
            FusionSwitch.check_text,
        ):
            with contextlib.suppress(ConfigError):
                read(content)
    assert FusionSwitch.parse(b"A:on") == FusionSwitch({"A": True}, {"A": True})


# What is written ------------------------------------------------------------------------------


def test_what_is_written_is_read_back_without_a_remark() -> None:
    rng = random.Random(1)
    letters = 'Aä"\\/:#\ufeff\0 '
    for _ in range(500):
        tables = []
        for number in range(4):
            names = ("".join(rng.choice(letters) for _ in range(5)).strip() for _ in range(4))
            table: Dict[str, Any] = {
                name: rng.randrange(3000) if number > 1 else rng.random() < 0.5
                for name in names
                if name
            }
            tables.append(table)
        made = FusionSwitch(*tables, keep_at_o1=tuple(tables[0]))
        assert FusionSwitch.parse(made.text()) == made
        assert FusionSwitch.check_text(made.text()) == ()
        assert pickle.loads(pickle.dumps(made)) == made
        assert hash(made) == hash(FusionSwitch.parse(made.text()))


@pytest.mark.parametrize(
    "given",
    [
        {"graph": {"A": "on"}},
        {"graph": {"": True}},
        {"graph": {" A": True}},
        {"graph": {"\ud800": True}},
        {"graph": ["A"]},
        {"ub_priority": {"A": 3000}},
        {"ub_priority": {"A": True}},
        {"keep_at_o1": "A"},
        {"keep_at_o1": (1,)},
    ],
)
def test_what_no_file_can_say_is_refused(given: Dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        FusionSwitch(**given)


def test_single_passes_are_set_beside_all() -> None:
    made = FusionSwitch({"A": True, "ALL": False}).set("B", False).set("C", True, ub=True)
    assert made == FusionSwitch({"A": True, "ALL": False, "B": False}, {"C": True})
