"""insert_op_file as protobuf and GE's checks take it."""

import contextlib
import copy
import math
import pickle
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from ascend_session import AscendConfig, AscendConfigWarning, ConfigError, UnsupportedError
from ascend_session.option_files import Aipp, AippOp
from ascend_session.option_files.aipp import AIPP_MODES, INPUT_FORMATS, aipp_fields

SAMPLE = """\
# 静态 AIPP
aipp_op {
    aipp_mode : static
    related_input_rank : 0
    input_format : YUV420SP_U8
    src_image_size_w : 640, src_image_size_h: 480;
    crop: true  # then the size of the network
    crop_size_w: 224 crop_size_h: 224
    csc_switch : t
    matrix_r0c0 : 256
    matrix_r1c1: -88
    min_chn_0 : 123.675
    var_reci_chn_0: 0.0171247538316637
}
"""
STATIC = AippOp("static", input_format="RGB888_U8")


def refusal(content: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        Aipp.parse(content, "a.cfg")
    return str(caught.value)


def static(more: str) -> str:
    return f"aipp_op {{ aipp_mode: static input_format: RGB888_U8 {more} }}"


def test_a_sample_is_read_with_numbers_in_single_precision() -> None:
    (op,) = Aipp.parse(SAMPLE).ops
    assert op == AippOp(
        "static",
        input_format="YUV420SP_U8",
        src_image_size_w=640,
        src_image_size_h=480,
        crop=True,
        crop_size_w=224,
        crop_size_h=224,
        csc_switch=True,
        matrix_r0c0=256,
        matrix_r1c1=-88,
        min_chn_0=123.675,
        var_reci_chn_0=0.0171247538316637,
    )
    assert op.min_chn_0 == 123.675
    assert repr(op.var_reci_chn_0) == "0.017124753"
    assert op.matrix_r0c1 is None
    assert Aipp.check_text(SAMPLE) == ()


def test_comments_may_have_any_bytes() -> None:
    assert Aipp.parse(SAMPLE.encode("gbk")) == Aipp.parse(SAMPLE)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "a.cfg:1:1: The file is empty."),
        ("aipp_op {}", "a.cfg:1:1: aipp_mode: It has to be static or dynamic."),
        ("aipp_op {\n aipp_mode: 0 }", "a.cfg:2:2: aipp_mode: It has to be"),
        ("aipp_op { aipp_mode: static }", "input_format: A static AIPP needs it"),
        ("aipp_op { aipp_mode: dynamic }", "max_src_image_size: For a dynamic AIPP it has to be"),
        (static("\n  left_padding_size: -1"), "a.cfg:2:3: left_padding_size: -1 is less than 0."),
        ("x: 1", 'a.cfg:1:1: This is not protobuf\'s text form: Message type '
         '"domi.InsertNewOps" has no field named "x".'),
        (static("crop: false crop: true crop: true"), 'should not have multiple "crop" fields'),
        (static("\nmatrix_r0c0: 1\nmatrix_r0c0: 1"), "a.cfg:3:1: matrix_r0c0 may occur only once"),
        (static("crop: yes"), "a.cfg:1:59: This is not protobuf's text form"),
        (static("related_input_rank: -1"), "This is not protobuf's text form"),
        (static("// no"), "This is not protobuf's text form"),
        (static("") + "\n" + static(""), "a.cfg:2:1: related_input_rank: 0 has block 1 already."),
        (static('related_input_name: "a"') + "\n" + static(""),
         "a.cfg:2:1: The first block has related_input_name, so every other block needs it too."),
        (static("mean-chn_0: 5"), 'has no field named "mean-chn_0"'),
        ("\ufeff" + static(""), "a.cfg:1:1: This is not protobuf's text form"),
        (static("").encode("utf-16"), "a.cfg:1:1: This is UTF-16, not UTF-8 text; GE reads"),
        ("aipp_op {" * 500, "This is not protobuf's text form"),
    ],
)  # fmt: skip
def test_what_ge_refuses_is_refused_with_its_place(content: Any, expected: str) -> None:
    assert expected in refusal(content)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (static("crop_size_h: -1"), "crop_size_h: GE sets it to 0, as crop is not true."),
        (static("max_src_image_size: 5"), "max_src_image_size: GE uses it for a dynamic AIPP only"),
        (static("input_edge_idx: [1, 2]"), "input_edge_idx: GE does not use it."),
        (static("src_image_size_w: 5000"), "src_image_size_w: The manual allows 2 to 4096, or 0."),
        (static("padding: true left_padding_size: 33"), "The manual allows at most 32."),
        (static("src_image_size_w: 9 crop: 1 load_start_pos_w: 5 crop_size_w: 5"),
         "crop_size_w: 5 + 5 is more than the image has, 9."),
        ("aipp_op { aipp_mode: static input_format: RAW10 }", "The manual has YUV420SP_U8, "),
        ("aipp_op { aipp_mode: dynamic max_src_image_size: 9\n crop: true }",
         "2:2: crop: GE uses it for a static AIPP only."),
        ("multi_shape_op { batch_list: 1 }", "GE ignores multi_shape_op."),
        ("# nothing", None),
        (static("crop: false crop: true crop_size_w: 4"), None),
    ],
)  # fmt: skip
def test_what_ge_takes_and_does_not_use_is_told(content: str, expected: Any) -> None:
    found = Aipp.check_text(content)
    assert len(found) == (expected is not None)
    assert not found or expected in str(found[0])


def test_a_fixed_copy_means_what_a_person_reads(tmp_path: Path) -> None:
    (tmp_path / "a.cfg").write_text("\ufeff// static\n" + static("\n  // no crop\n crop: 0"))
    made = Aipp.fixed(tmp_path / "a.cfg")
    assert made == Aipp([STATIC])
    made.write(tmp_path / "a.cfg", force=True)
    assert Aipp.read(tmp_path / "a.cfg") == made


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([AippOp], "is no AippOp"),
        ("static", "ops is a list of AippOp"),
        ([STATIC, STATIC], "ops[1]: related_input_rank: 0 has block 1 already."),
        ([{"aipp_mode": "static"}], "input_format: A static AIPP needs it"),
        ([{"mode": "static"}], "are no fields"),
        ([{"aipp_mode": "statical"}], "one of undefined, static, dynamic is needed."),
        ([{"aipp_mode": "static", "crop": 1}], "crop=1: True or False is needed."),
        ([{"aipp_mode": "static", "crop_size_h": 2**31}], "a whole number from -2147483648 to"),
        ([{"aipp_mode": "static", "matrix_r0c0": 1.5}], "matrix_r0c0=1.5: a whole number"),
        ([{"aipp_mode": "static", "min_chn_0": "1"}], "min_chn_0='1': a number is needed."),
        ([{"aipp_mode": "static", "related_input_name": "\udc80"}], "text is needed."),
        ([{"aipp_mode": "static", "input_edge_idx": 3}], "a list of numbers is needed."),
    ],
)
def test_what_no_file_can_say_or_ge_refuses_is_refused(given: Any, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Aipp(given)
    assert said in str(caught.value)


def random_op(rng: random.Random, rank: int) -> AippOp:
    values: Any = {
        "int32": lambda: rng.choice([0, 1, 7, 4096, 2**31 - 1]),
        "uint32": lambda: rng.choice([0, 1, 2**32 - 1]),
        "bool": lambda: rng.random() < 0.5,
        "float": lambda: rng.choice([0.0, 0.1, -2.5e-12, 1e39, -math.inf, rng.random()]),
        "string": lambda: "",
        "AippMode": lambda: rng.choice(AIPP_MODES[1:]),
        "InputFormat": lambda: rng.choice([*INPUT_FORMATS[1:], "99"]),
    }
    made = {}
    for field in aipp_fields():
        if field.form == "many":
            made[field.name] = [values[field.kind]() for _ in range(rng.randrange(3))]
        elif field.form == "one" or rng.random() < 0.5:
            made[field.name] = values[field.kind]()
    return AippOp(**{**made, "max_src_image_size": 1, "related_input_rank": rank})


def test_what_is_written_is_read_back() -> None:
    rng = random.Random(5)
    for _ in range(60):
        made = Aipp([random_op(rng, rank) for rank in range(rng.randrange(3))])
        assert Aipp.parse(made.text()) == made
        assert Aipp.of(made.to_dict()) == made
    named = Aipp([AippOp("dynamic", max_src_image_size=1, related_input_name='a"\\ü\n\0')])
    assert Aipp.parse(named.text()) == named
    odd = Aipp([AippOp("static", input_format="RAW10", min_chn_0=math.nan)])
    assert Aipp.parse(odd.text()) == odd
    assert pickle.loads(pickle.dumps(named)) == copy.deepcopy(named) == named
    assert hash(named) != hash(odd)


def test_no_bytes_whatever_crash_the_reader() -> None:
    rng = random.Random(6)
    words = [b"aipp_op", b"{", b"}", b"aipp_mode", b":", b"static", b" ", b"\n", b"#", b'"', b"1"]
    words += [b"-", b"\xff", b"\0", b"<", b"[", b"input_format", b"RGB888_U8", b"matrix_r0c0", b"e"]
    for number in range(1500):
        content = b"".join(rng.choice(words) for _ in range(rng.randrange(20)))
        if number % 2:
            content = static(content.decode("latin-1")).encode("latin-1")
        for read in (Aipp.parse, Aipp.check_text, Aipp.fixed_text):
            with contextlib.suppress(ConfigError):
                read(content)
    assert Aipp.parse("aipp_op < aipp_mode: 1 input_format: RGB888_U8 >") == Aipp([STATIC])


def test_without_protobuf_a_file_is_not_checked_and_an_object_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf.text_format", None)
    with pytest.raises(UnsupportedError, match="read with protobuf, which cannot be imported"):
        Aipp.parse(SAMPLE)
    assert "aipp_op {" in Aipp([STATIC]).text()
    (tmp_path / "a.cfg").write_text(SAMPLE, encoding="utf-8")
    with pytest.warns(
        AscendConfigWarning, match=r"insert_op_file: .* content was not checked: An AIPP"
    ):
        AscendConfig(insert_op_file=tmp_path / "a.cfg").check_host({})


UNKNOWN = static("\n  rotation_angle: 0 # note: a comment\n  csc_swich: true\n  crop: true")


def test_fields_that_a_newer_ge_may_know_are_not_checked_and_never_lost(tmp_path: Path) -> None:
    told = [str(remark) for remark in Aipp.check_text(UNKNOWN, "a.cfg")]
    assert told == [
        "2:3: 'rotation_angle' is unknown here; if GE does not know it either, it refuses the "
        "file. Look into the manual of your toolkit.",
        "3:3: 'csc_swich' is unknown here; if GE does not know it either, it refuses the file. "
        "Known is csc_switch.",
    ]
    assert "2:3: 'rotation_angle' is unknown here" in refusal(UNKNOWN)
    (tmp_path / "a.cfg").write_text(UNKNOWN)
    with pytest.raises(ConfigError, match="It would be lost"):
        Aipp.fixed(tmp_path / "a.cfg")
    examined = Aipp.examined(tmp_path / "a.cfg")
    assert (examined.refused, len(examined.remarks)) == ((), 2)
    (tmp_path / "a.cfg").write_text(static("rotation_angle: 0"))
    with pytest.warns(AscendConfigWarning, match="'rotation_angle' is unknown here"):
        AscendConfig(insert_op_file=tmp_path / "a.cfg").check_host({})


@pytest.mark.parametrize("other", ["AYUV_U8", "NV12"])
def test_a_format_that_a_newer_ge_may_know_is_not_checked(other: str) -> None:
    text = f"aipp_op {{ aipp_mode: static\n input_format: {other} }}"
    (told,) = Aipp.check_text(text)
    assert str(told).startswith(f"2:16: '{other}' is unknown here; if GE does not")


def test_what_is_known_is_checked_beside_what_is_not() -> None:
    with pytest.raises(ConfigError, match="left_padding_size: -1 is less than 0"):
        Aipp.check_text(static("new_field { a: 1 } left_padding_size: -1"))
    with pytest.raises(ConfigError, match="not protobuf's text form"):
        Aipp.check_text(static("new_field: 1 crop: maybe"))


def test_a_copy_is_equal_even_where_a_value_is_no_number() -> None:
    made = Aipp([AippOp("static", input_format="RGB888_U8", var_reci_chn_0=math.nan)])
    assert (
        pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made == Aipp.parse(made.text())
    )
