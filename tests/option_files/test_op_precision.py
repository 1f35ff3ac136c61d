"""op_precision.ini as GE's parser takes it, and what that parser skips."""

import contextlib
import copy
import pickle
import random
import time
from pathlib import Path
from typing import Dict, Tuple

import pytest

from ascend_session import ConfigError
from ascend_session.option_files import OpPrecision
from ascend_session.option_files.op_precision import MODES, read_implemented_modes

BLANKS = b" \t\n\v\f\r"
SEED_000 = """\
[ByOpType]
optype1=high_precision
optype2=high_performance
optype4=support_out_of_bound_index
[ByNodeName]
nodename1=high_precision
nodename2=high_performance
nodename4=support_out_of_bound_index
"""


def as_ge_reads(content: bytes) -> Tuple[Dict[bytes, bytes], Dict[bytes, bytes]]:
    """GE's parser, written down from its source and on bytes, as a second opinion."""
    tables: Tuple[Dict[bytes, bytes], Dict[bytes, bytes]] = ({}, {})
    node = 0
    for line in content.split(b"\n"):
        if not line or line[:1] == b"#":
            continue
        at = line.find(b"=")
        if at < 0:
            node = {b"[ByNodeName]": 1, b"[ByOpType]": 0}.get(line.strip(BLANKS), node)
            continue
        name, mode = line[:at].strip(BLANKS), line[at + 1 :].strip(BLANKS)
        if name and mode.decode("latin-1") in MODES:
            tables[node].setdefault(name, mode)
    return tables


def encoded(modes):
    return {name.encode(): mode.encode() for name, mode in modes.items()}


def remarks(content):
    return [str(remark) for remark in OpPrecision.check_text(content)]


# What is read ---------------------------------------------------------------------------------


def test_the_sample_of_the_manual_is_read() -> None:
    assert OpPrecision.parse(SEED_000) == OpPrecision(
        {
            "optype1": "high_precision",
            "optype2": "high_performance",
            "optype4": "support_out_of_bound_index",
        },
        {
            "nodename1": "high_precision",
            "nodename2": "high_performance",
            "nodename4": "support_out_of_bound_index",
        },
    )
    assert remarks(SEED_000) == []


def test_lines_before_any_section_count_as_types() -> None:
    assert OpPrecision.parse("A=high_precision").by_type == {"A": "high_precision"}


def test_an_empty_file_says_nothing_and_is_no_error() -> None:
    assert OpPrecision.parse("") == OpPrecision()
    assert OpPrecision.parse(b"# only \xff comments\n\n") == OpPrecision()


def test_carriage_returns_and_blanks_around_names_do_no_harm() -> None:
    made = OpPrecision.parse("[ByNodeName]\r\n a/b \t=  keep_fp16 \r\n")
    assert made.by_node == {"a/b": "keep_fp16"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Relu", "1:1: GE skips 'Relu': it has no '='. Write OP=MODE."),
        ("[ByOptype]", "Write [ByOpType]."),
        ("[bynodename]", "Write [ByNodeName]."),
        ("[Other]", "there is no such section, so that the lines below still count as [ByOpType]"),
        ("Relu=high_precison", "1:6: GE skips this line: it has no mode 'high_precison'. "
         "Write high_precision."),
        ("Relu=fast", "The modes are high_precision, "),
        ("Relu=", "it names no mode"),
        ("=high_precision", "it names no operator"),
        ("Relu=high_precision # why", "Put the comment on a line of its own"),
        ("; a=b", "A comment begins with # in column 1."),
        (" #a=high_precision", "GE reads this as an operator named '#a'"),
        ("a/b=high_precision", "looks like the name of a node"),
        ("A=keep_fp16\nA=high_precision", "2:1: GE skips this line: A already has a mode in line"),
        ("\ufeff[ByNodeName]", "A byte order mark hides this header from GE"),
        ("\ufeffRelu=high_precision", "GE reads the byte order mark as part of this name"),
    ],
)  # fmt: skip
def test_what_ge_skips_is_told(line: str, expected: str) -> None:
    (found,) = remarks(line)
    assert expected in found


def test_a_file_in_another_encoding_is_read_as_the_bytes_that_it_is(tmp_path: Path) -> None:
    content = "# 注释\n名=keep_fp16\n".encode("gbk")
    made = OpPrecision.parse(content)
    assert [name.encode("utf-8", "surrogateescape") for name in made.by_type] == [
        "名".encode("gbk")
    ]
    made.write(tmp_path / "op.ini")
    assert (tmp_path / "op.ini").read_bytes() == "[ByOpType]\n名=keep_fp16\n".encode("gbk")
    assert OpPrecision.read(tmp_path / "op.ini") == made


def test_of_very_many_remarks_a_thousand_are_told_quickly() -> None:
    modes = (f"A=mode_{number}\n" for number in range(100_000))
    start = time.monotonic()
    found = OpPrecision.check_text("".join(modes))
    assert time.monotonic() - start < 20  # half a second here; it was minutes
    assert len(found) == 1001
    assert str(found[-1]) == "1001:3: 99,000 more such remarks are left out here."


def test_the_reader_agrees_with_ges_parser_on_whatever_stands_in_a_file() -> None:
    rng = random.Random(7)
    words = [b"[ByOpType]", b"[ByNodeName]", b"=", b"\n", b"\n", b"#", b" ", b"\r\n", b"A", b"b/c"]
    words += [mode.encode() for mode in MODES] + [b"typo", b"\t", b"\xef\xbb\xbf", "ä".encode()]
    for _ in range(3000):
        content = b"".join(rng.choice(words) for _ in range(rng.randrange(30)))
        made = OpPrecision.parse(content)
        assert (encoded(made.by_type), encoded(made.by_node)) == as_ge_reads(content), content


def test_no_bytes_whatever_crash_the_reader() -> None:
    rng = random.Random(8)
    for _ in range(2000):
        content = bytes(rng.choice(b"=\n[]#\xff\x00Aa \r") for _ in range(rng.randrange(60)))
        for read in (
            OpPrecision.parse,
            OpPrecision.check_text,
        ):
            with contextlib.suppress(ConfigError):
                read(content)
    assert OpPrecision.parse(b"\x00") == OpPrecision()


# What is written ------------------------------------------------------------------------------


def test_what_is_written_is_read_back_by_us_and_by_ge() -> None:
    rng = random.Random(9)
    letters = "Aa/_ #.;[]\ufeffä\r\t0"
    for _ in range(1000):
        tables = []
        for _ in range(2):
            names = ("".join(rng.choice(letters) for _ in range(rng.randrange(1, 9)))
                     for _ in range(rng.randrange(6)))  # fmt: skip
            names = (name.strip(" \t\r") for name in names)
            tables.append({name: rng.choice(list(MODES)) for name in names if name})
        made = OpPrecision(*tables)
        assert OpPrecision.parse(made.text()) == made
        assert as_ge_reads(made.text().encode()) == (encoded(tables[0]), encoded(tables[1]))


def test_what_no_line_can_say_is_refused() -> None:
    for name in ("", "a=b", "a\nb", " a", "a\r", "\ud800", 3):
        with pytest.raises(ConfigError):
            OpPrecision({name: "high_precision"})  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match=r"is not a mode of GE.\s+hint: Write keep_fp16"):
        OpPrecision({"Relu": "keep_fp_16"})
    with pytest.raises(ConfigError, match="is a mapping"):
        OpPrecision(by_node=["a"])  # type: ignore[arg-type]


def test_it_is_frozen_hashable_and_can_be_copied() -> None:
    made = OpPrecision({"A": "keep_fp16"}, {"n": "high_precision"})
    with pytest.raises(AttributeError):
        made.by_type = {}  # type: ignore[misc]
    assert hash(made) == hash(OpPrecision({"A": "keep_fp16"}, {"n": "high_precision"}))
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made


def test_single_operators_are_set() -> None:
    start = OpPrecision({"A": "high_performance"})
    made = start.set("A", "high_precision").set("n/A", "keep_fp16", node=True)
    assert made == OpPrecision({"A": "high_precision"}, {"n/A": "keep_fp16"})
    assert start.by_type["A"] == "high_performance"
    with pytest.raises(ConfigError):
        start.set("A", "best")


def test_the_toolkits_modes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "all_ops_impl_mode.ini"
    path.write_text("# all\nPooling=high_performance,high_precision\r\nLRN = keep_fp16\n\nx\n")
    assert read_implemented_modes(path) == {
        "Pooling": ("high_performance", "high_precision"),
        "LRN": ("keep_fp16",),
    }
