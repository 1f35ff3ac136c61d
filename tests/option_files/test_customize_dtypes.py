"""customize_dtypes as GE's parser takes it, which refuses the documented sample."""

import contextlib
import pickle
import random
from typing import Any, Dict, List, Optional, Tuple

import pytest

from ascend_session import ConfigError
from ascend_session.option_files import CustomDtypes, Dtypes
from ascend_session.option_files.customize_dtypes import DTYPES

BLANKS = b" \t\n\v\f\r"
TYPES = {name.upper().encode() for name in DTYPES}
SAMPLE = """\
# By operator name
resnet_v1_50/block1/unit_3/bottleneck_v1/Relu::InputDtype:float16,int8,OutputDtype:float16,int8

# By operator type
OpType::Relu:InputDtype:float16,int8,OutputDtype:float16,int8
"""
BOTH = Dtypes(("float16", "int8"), ("float16", "int8"))
MEANT = CustomDtypes({"resnet_v1_50/block1/unit_3/bottleneck_v1/Relu": BOTH}, {"Relu": BOTH})

Sides = Tuple[List[bytes], List[bytes]]


class RefusedError(Exception):
    pass


def as_ge_reads(content: bytes) -> Tuple[Dict[bytes, Sides], Dict[bytes, Sides]]:
    """GE's parser, written down from its source and on bytes, as a second opinion."""
    tables: Tuple[Dict[bytes, Sides], Dict[bytes, Sides]] = ({}, {})
    lines = content.split(b"\n")
    for line in lines if lines[-1] else lines[:-1]:
        if len(line) > 1023:
            break
        line = line.split(b"\0")[0]
        is_type = line.find(b"OpType::") == 0
        line = (line[8:] if is_type else line).strip(BLANKS)
        if line.find(b":") <= 0:
            raise RefusedError
        tables[is_type].setdefault(line[: line.find(b":")], sides_as_ge_reads(line))
    return tables


def sides_as_ge_reads(line: bytes) -> Sides:
    start, end = line.find(b"InputDtype"), line.find(b"OutputDtype")
    if start > end >= 0 or start == end == -1:
        raise RefusedError
    given, out = b"", b""
    if start >= 0:
        given = substr(line, start + 11, end - start - 11 if end >= 0 else len(line))
    if end >= 0:
        out = substr(line, end + 12, len(line))
    return slots_as_ge_reads(given), slots_as_ge_reads(out)


def substr(line: bytes, at: int, count: int) -> bytes:
    if at > len(line):
        raise RefusedError  # std::out_of_range
    return line[at:] if count < 0 else line[at : at + count]


def slots_as_ge_reads(text: bytes) -> List[bytes]:
    slots = [part.strip(BLANKS).upper() for part in text.split(b",")] if text else []
    if any(slot and slot not in TYPES for slot in slots):
        raise RefusedError
    while slots and not slots[-1]:
        slots.pop()  # changes nothing
    return slots


def in_bytes(given: Any) -> Dict[bytes, Sides]:
    return {
        name.encode(): (
            [(one or "").upper().encode() for one in dtypes.inputs],
            [(one or "").upper().encode() for one in dtypes.outputs],
        )
        for name, dtypes in given.items()
    }


def refusal(content: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        CustomDtypes.parse(content, "c.cfg")
    return str(caught.value)


# What is read ---------------------------------------------------------------------------------


def test_the_documented_sample_is_refused_in_its_own_words() -> None:
    message = refusal(SAMPLE)
    assert "3 problems in c.cfg" in message
    assert "c.cfg:1:1: GE refuses the whole file for this comment." in message
    assert "c.cfg:3:1: GE refuses the whole file for this blank line." in message
    assert message.count(" Remove the line.") == 3


def test_the_documented_sample_without_the_lines_to_remove_is_read() -> None:
    content = "".join(line for line in SAMPLE.splitlines(True) if line.strip() and line[0] != "#")
    assert CustomDtypes.parse(content) == MEANT
    assert CustomDtypes.check_text(content) == ()


def test_the_comma_in_front_of_the_outputs_is_a_slot_that_is_left_alone() -> None:
    made = CustomDtypes.parse("A::InputDtype:,int8,,OutputDtype:,,bool")
    assert made.by_name["A"] == Dtypes((None, "int8"), (None, None, "bool"))


def test_either_side_may_be_missing_and_one_colon_is_enough() -> None:
    made = CustomDtypes.parse("A:InputDtype:Float16\r\nB::OutputDtype:BOOL\nC:InputDtype:\n")
    assert made.by_name == {
        "A": Dtypes(("float16",)),
        "B": Dtypes((), ("bool",)),
        "C": Dtypes(),
    }


def test_an_empty_file_says_nothing_and_is_no_error() -> None:
    assert CustomDtypes.parse("") == CustomDtypes()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("A", "1:1: GE refuses the whole file for this line: it has no ':'."),
        (":InputDtype:int8", "there is no name before ':'."),
        ("A::int8", "it has neither InputDtype nor OutputDtype."),
        ("A::OutputDtype:int8InputDtype:int8", "1:20: "),
        ("A::InputDtype", "1:4: GE refuses the whole file for this line: it ends with InputDtype"),
        ("A::InputDtype:bf16", "1:15: GE refuses the whole file for this line: GE knows no data "
         "type 'bf16'. Write bfloat16."),
        (" A::InputDtype:int8, flaot", "1:22: GE refuses the whole file for this line: GE knows "
         "no data type 'flaot'. Write float."),
        ("A::InputDtype:int8OutputDtype", "it ends with OutputDtype"),
        ("A::InputDtypeOutputDtype:int8", "GE knows no data type 'utputDtype:int8'."),
        ("A::InputDtype\uff1afloat16", "InputDtype must be followed by ':'"),
        ("A::InputDtype:undefined", "GE knows no data type 'undefined'."),
        ("A::InputDtype:\u017ftring", "GE knows no data type"),
    ],
)  # fmt: skip
def test_what_ge_refuses_is_refused_with_its_place(line: str, expected: str) -> None:
    assert expected in refusal(line)


def test_a_name_in_another_encoding_is_kept_as_it_is() -> None:
    content = "名::InputDtype:int8\n".encode("gbk")
    made = CustomDtypes.parse(content)
    assert [name.encode("utf-8", "surrogateescape") for name in made.by_name] == [
        "名".encode("gbk")
    ]
    assert CustomDtypes.check_text(content) == ()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (" OpType::A:InputDtype:int8", "A type begins with OpType:: in column 1."),
        ("optype::A:InputDtype:int8", "A type begins with OpType:: in column 1."),
        ("\ufeffA::InputDtype:int8", "GE reads the byte order mark as part of the name"),
        ("A ::InputDtype:int8", "GE reads the blank as part of the name"),
        ("A::InputDtype:int8\nA::InputDtype:bool", "2:1: GE skips this line: the name 'A' is "
         "already in line 1."),
        ("InputDtype:int8", "This line names no operator: GE reads 'InputDtype'"),
        ("A::InputDtype:,OutputDtype:", "This line changes no data type of 'A'."),
        ("A::InputDtype:int8\0bool", "1:19: GE reads this line up to its zero byte only."),
        ("A" * 1024 + "\nnonsense", "1:1: GE stops reading here: the line has more than 1023"),
    ],
)  # fmt: skip
def test_what_ge_takes_differently_is_told(content: str, expected: str) -> None:
    (found,) = CustomDtypes.check_text(content)
    assert expected in str(found)


def test_the_reader_agrees_with_ges_parser_on_whatever_stands_in_a_file() -> None:
    rng = random.Random(5)
    words = [b"OpType::", b"InputDtype:", b"OutputDtype:", b"InputDtype", b"::", b":", b",", b"A"]
    words += [b"int8", b"Float16", b"bf16", b" ", b"\t", b"b/C", b"\0", b"\r", "ä".encode(), b"\n"]
    agreed = 0
    for _ in range(4000):
        content = b"".join(rng.choice(words) for _ in range(rng.randrange(9)))
        if rng.random() < 0.5:
            content = b"n::InputDtype:int8\n" + content
        expected: Optional[Tuple[Dict[bytes, Sides], Dict[bytes, Sides]]]
        try:
            expected = as_ge_reads(content)
        except RefusedError:
            expected = None
        try:
            made = CustomDtypes.parse(content)
        except ConfigError:
            assert expected is None, content
            continue
        assert expected is not None, content
        agreed += 1
        named = [{name: sides for name, sides in table.items() if b"putDtype" not in name}
                 for table in expected]  # fmt: skip
        assert [in_bytes(made.by_name), in_bytes(made.by_type)] == named, content
    assert agreed > 300


def test_no_bytes_whatever_crash_the_reader() -> None:
    rng = random.Random(6)
    for _ in range(800):
        content = bytes(rng.choice(b":,\nInputDtype\xff\x00 #") for _ in range(rng.randrange(40)))
        for read in (CustomDtypes.parse, CustomDtypes.check_text):
            with contextlib.suppress(ConfigError):
                read(content)
    assert CustomDtypes.parse("") == CustomDtypes()


# What is written ------------------------------------------------------------------------------


def test_what_is_written_is_read_back_by_us_and_by_ge() -> None:
    rng = random.Random(7)
    letters = "Aa/_ #,;\ufeffä\r\t0"
    slots = [*DTYPES, None, None, None]
    for _ in range(300):
        tables: List[Dict[str, Dtypes]] = []
        for _ in range(2):
            names = ["".join(rng.choice(letters) for _ in range(rng.randrange(1, 6))).strip(" \t\r")
                     for _ in range(4)] + ["OpType", "A "]  # fmt: skip
            table = {}
            for name in filter(None, names):
                sides = [[rng.choice(slots) for _ in range(rng.randrange(4))] for _ in range(2)]
                table[name] = Dtypes(tuple(sides[0]), tuple(sides[1]))
            tables.append(table)
        made = CustomDtypes(*tables)
        assert CustomDtypes.parse(made.text()) == made
        assert as_ge_reads(made.text().encode()) == (in_bytes(tables[0]), in_bytes(tables[1]))
        assert pickle.loads(pickle.dumps(made)) == made


def test_what_no_line_can_say_is_refused() -> None:
    one = Dtypes(("int8",))
    for name in ("", " ", " a", "a:b", "a\nb", "a\0", "xInputDtype", "\ud800", "a" * 1010, 3):
        with pytest.raises(ConfigError):
            CustomDtypes({name: one})  # type: ignore[dict-item]
    longest = "a" * (1023 - len(":InputDtype:int8")) + ":InputDtype:int8\n"
    assert CustomDtypes.parse(longest).text() == longest
    with pytest.raises(ConfigError, match=r"knows no data type 'fp16'. Write float16"):
        Dtypes(("fp16",))
    with pytest.raises(ConfigError, match="inputs is a list of types"):
        Dtypes("int8")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="it is not text"):
        Dtypes((8,))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="needs Dtypes"):
        CustomDtypes({"A": "int8"})  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match="is a mapping"):
        CustomDtypes(["A"])  # type: ignore[arg-type]


def test_slots_left_alone_at_the_end_say_nothing() -> None:
    assert Dtypes(("INT8", None, "")) == Dtypes(("int8",))  # type: ignore[arg-type]
