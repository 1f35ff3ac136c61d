"""What holds for every kind of file, whatever stands in it."""

import contextlib
import json
import random
from pathlib import Path
from typing import Any, Dict, Type

import pytest

from ascend_session import ConfigError, UnsupportedError
from ascend_session.config.types import TYPE_NAMES, file_type
from ascend_session.option_files import (
    AoeConfigFile,
    CustomDtypes,
    Dtypes,
    FusionSwitch,
    MixList,
    OpDebugConfig,
    OpPrecision,
    OptionFile,
)

ESCAPED = "n\udcff"  # a byte that is no UTF-8, as in a name in another encoding
EXAMPLES: Dict[str, OptionFile] = {
    "op_precision_mode": OpPrecision(
        {"Relu": "keep_fp16", ESCAPED: "norm_class"}, {"a/b": "keep_fp16"}
    ),
    "modify_mixlist": MixList(black_add=("Relu", "ä"), white_remove=("Add",), gray_add=("Add",)),
    "customize_dtypes": CustomDtypes(
        {"a": Dtypes(["int8", None, "bool"]), ESCAPED: Dtypes((), ["bool"])},
        {"B": Dtypes(["int4"])},
    ),
    "fusion_switch_file": FusionSwitch(
        {"ALL": False, "ä": True}, {"B": True}, {"C": 5, "D": 2999}, {"E": 1000}, ("F",)
    ),
    "op_debug_config": OpDebugConfig(("oom", ESCAPED), ("a", "b"), ("Relu",)),
    "aoe_config_file": AoeConfigFile(("a", "b"), ("Relu",), "O1", ("deeper_opat",)),
}


@pytest.fixture(params=sorted(TYPE_NAMES))
def option(request: Any) -> str:
    name: str = request.param
    return name


def refused_or_read(kind: Type[OptionFile], content: bytes) -> None:
    """Reads; what is taken is written as something that is read as the same."""
    try:
        made = kind.parse(content)
    except ConfigError:
        made = None
    found = kind.check_text(content) if made is not None else ()
    assert all(remark.place >= (1, 1) for remark in found)
    if made is not None:
        assert kind.parse(made.text().encode("utf-8", "surrogateescape")) == made, content
        assert kind.from_fields(made.to_dict()) == made


def test_every_kind_has_an_example(option: str) -> None:
    assert type(EXAMPLES[option]) is file_type(option)
    assert option == file_type(option).OPTION


def test_what_is_stored_is_read_back_and_is_there_once(option: str, tmp_path: Path) -> None:
    example = EXAMPLES[option]
    path = example.store(tmp_path / "work")
    assert example.store(tmp_path / "work") == path == example.path_in(tmp_path / "work")
    assert len(list((tmp_path / "work").iterdir())) == 1
    assert type(example).read(path) == example
    assert hash(type(example).read(path)) == hash(example)
    assert type(example).examine(path)[0] == ()


def test_the_removed_fixed_is_refused_with_what_to_do(option: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"fixed has been removed; .* what to write\.$"):
        file_type(option).fixed(tmp_path / "a.cfg")
    with pytest.raises(UnsupportedError, match="fixed has been removed"):
        file_type(option).fixed_with_remarks(path=tmp_path / "a.cfg")


def test_what_is_given_can_change_without_changing_the_file(option: str) -> None:
    fields = EXAMPLES[option].to_dict()
    made = file_type(option).from_fields(fields)
    for value in fields.values():
        if not isinstance(value, str):
            value.clear()
    assert made == EXAMPLES[option]


def test_the_fields_go_through_json(option: str) -> None:
    example = EXAMPLES[option]
    assert type(example).from_fields(json.loads(json.dumps(example.to_dict()))) == example
    with pytest.raises(ConfigError, match="has no field 'nope'"):
        type(example).from_fields({"nope": 1})


def test_no_damage_to_a_good_file_crashes_its_reader(option: str) -> None:
    rng = random.Random(option)
    good = EXAMPLES[option].text().encode("utf-8", "surrogateescape")
    for _ in range(250):
        content = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(content) + 1)
            content[at : at + rng.randrange(4)] = bytes(
                rng.choice(b'\x00\xff\xc3\xa4\n\r "#{}[]:,=\\/') for _ in range(rng.randrange(3))
            )
        refused_or_read(type(EXAMPLES[option]), bytes(content))


def test_no_half_of_a_good_file_crashes_its_reader(option: str) -> None:
    good = EXAMPLES[option].text().encode("utf-8", "surrogateescape")
    for end in range(len(good)):
        refused_or_read(type(EXAMPLES[option]), good[:end])
    for encoding in ("utf-16", "utf-16-be", "utf-32", "gbk"):
        text = good.decode("utf-8", "replace").replace("ä", "a").replace("\ufffd", "")
        refused_or_read(type(EXAMPLES[option]), text.encode(encoding))
    refused_or_read(type(EXAMPLES[option]), good.replace(b"\n", b"\r\n"))
    refused_or_read(type(EXAMPLES[option]), b"\xef\xbb\xbf" + good)


def test_a_text_with_half_a_pair_is_refused_or_read(option: str) -> None:
    for half in ("\ud800", "\udcc3\udca4"):
        refused_or_read(
            type(EXAMPLES[option]),
            EXAMPLES[option].text().replace("a", half).encode("utf-8", "surrogatepass"),
        )
        with contextlib.suppress(ConfigError):
            assert file_type(option).parse(EXAMPLES[option].text() + half) is not None
