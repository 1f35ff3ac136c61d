"""op_debug_config and aoe_config_file."""

import contextlib
import json
import pickle
import random
from pathlib import Path
from typing import Any, Type

import pytest

from ascend_session import ConfigError
from ascend_session.option_files import AoeConfigFile, OpDebugConfig, OptionFile


def refusal(kind: Type[OptionFile], content: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        kind.parse(content, "a.cfg")
    return str(caught.value)


@pytest.mark.parametrize("kind", [OpDebugConfig, AoeConfigFile])
def test_no_bytes_whatever_crash_a_reader(kind: Type[OptionFile]) -> None:
    rng = random.Random(1)
    words = [b"op_debug_config", b"op_debug_list", b"=", b",", b"::", b"oom", b"\n", b" ", b"#"]
    words += [b"[", b"]", b"{", b"}", b'"feature"', b":", b"\xff"]
    words += [b'"tune_ops_name"', b'"A"', b"\0", b"\r", b"-", b"\xef\xbb\xbf"]
    for _ in range(3000):
        content = b"".join(rng.choice(words) for _ in range(rng.randrange(20)))
        for read in (kind.parse, kind.check_text):
            with contextlib.suppress(ConfigError):
                made: Any = read(content)
                if read == kind.parse:
                    assert kind.parse(made.text()) == made, content
    assert pickle.loads(pickle.dumps(kind())) == kind()


# op_debug_config ------------------------------------------------------------------------------


def test_items_names_and_types_are_read() -> None:
    made = OpDebugConfig.parse(
        "# debugging \n\nop_debug_config = oom , ,dump_cce\r\nop_debug_list=a/b,OpType::Relu, x::y"
    )
    assert made == OpDebugConfig(("oom", "dump_cce"), ("a/b",), ("Relu", "y"))


@pytest.mark.parametrize(
    ("content", "expected", "made"),
    [
        ("op_debug_config=oom\nop_debug_config=ccec_g", "1:1: Only the last line",
         OpDebugConfig(("ccec_g",))),
        ("op_debug_config=all", "'all' is not a known item", OpDebugConfig(("all",))),
        ("op_debug_config=oom,ccec_O0", "exclude each other", OpDebugConfig(("oom", "ccec_O0"))),
        ("op_debug_config", "it has no '='", OpDebugConfig(("op_debug_config",))),
        ("op_debug_config=", "nothing follows '='), and passes the whole line on",
         OpDebugConfig(("op_debug_config=",))),
        ("op_debug_config=,", "names no item, so that nothing is debugged", OpDebugConfig()),
        ("op_debug_config=oom\nop_debug_list= ,", "names no operator, so that GE debugs all",
         OpDebugConfig(("oom",))),
        ("op_debug_config=oom\nop_debug_list=OpType::", "no operator has, so that it debugs none",
         OpDebugConfig(("oom",), (), ("",))),
        ("op_debug_config=oom\nop_debug_list=OpType:: A,b", "with ' A', which no operator has.",
         OpDebugConfig(("oom",), ("b",), (" A",))),
        ("op_debug_config=oom\nop_debug_list=", "continues without it", OpDebugConfig(("oom",))),
        ("op_debug_list=a", "GE ignores op_debug_list", OpDebugConfig()),
        ("op_debug=oom", "GE skips this line", OpDebugConfig()),
        ("#op_debug_config=oom", None, OpDebugConfig()),
        ("my op_debug_config=oom", "because the word occurs in it", OpDebugConfig(("oom",))),
    ],
)  # fmt: skip
def test_what_ge_takes_differently_in_debug_items(content: str, expected: str, made: Any) -> None:
    found = OpDebugConfig.check_text(content)
    assert len(found) == (expected is not None)
    assert not found or expected in str(found[0])
    assert OpDebugConfig.parse(content) == made


def test_a_line_of_debug_items_that_ge_cannot_use_is_passed_on_for_all_operators() -> None:
    content = "op_debug_config=\nop_debug_list=a/b\n"
    made = OpDebugConfig.parse(content)
    assert made.items
    assert not made.names
    assert OpDebugConfig.parse(made.text()) == made


def test_debug_items_in_another_encoding_are_kept_as_they_are() -> None:
    assert OpDebugConfig.parse(b"# \xff\n") == OpDebugConfig()
    made = OpDebugConfig.parse(b"op_debug_config=o\xffm")
    assert made.items == ("o\udcffm",)
    assert OpDebugConfig.parse(made.text()) == made


def test_debug_items_are_written_and_read_back() -> None:
    rng = random.Random(2)
    letters = "Aa/_ #=:;\ufeffä0"
    for _ in range(500):
        lists = [
            [
                "".join(rng.choice(letters) for _ in range(rng.randrange(1, 6))).strip()
                for _ in "abc"
            ]
            for _ in range(3)
        ]
        lists[1] = [word for word in lists[1] if "::" not in word]
        items, names, types = (tuple(word for word in words if word) for words in lists)
        made = OpDebugConfig(items, names if items else (), types if items else ())
        assert OpDebugConfig.parse(made.text()) == made


@pytest.mark.parametrize(
    "given",
    [
        {"items": "oom"},
        {"items": ("a,b",)},
        {"items": ("",)},
        {"items": ("\ud800",)},
        {"names": ("a",)},
        {"types": ("Relu",)},
        {"items": ("oom",), "names": ("a::b",)},
        {"items": ("oom",), "types": ("op_debug_config",)},
    ],
)
def test_debug_items_that_no_line_can_hold_are_refused(given: Any) -> None:
    with pytest.raises(ConfigError):
        OpDebugConfig(**given)


# aoe_config_file ------------------------------------------------------------------------------

TUNING = """{
       "tune_ops_name":["bert/embeddings/addbert/embeddings/add_1","loss/MatMul"],
       "tune_ops_type":["Add", "Mul"],
       "tune_optimization_level":"O1",
       "feature":["deeper_opat"]
}
"""


def test_the_sample_of_the_manual_is_read_and_written(tmp_path: Path) -> None:
    made = AoeConfigFile.parse(TUNING)
    assert made == AoeConfigFile(
        ("bert/embeddings/addbert/embeddings/add_1", "loss/MatMul"),
        ("Add", "Mul"),
        "O1",
        ("deeper_opat",),
    )
    assert json.loads(made.text()) == json.loads(TUNING)
    made.write(tmp_path / "tuning.cfg")
    assert AoeConfigFile.read(tmp_path / "tuning.cfg") == made
    assert AoeConfigFile.check(tmp_path / "tuning.cfg") == ()


def test_a_feature_belongs_to_a_mode() -> None:
    made = AoeConfigFile(feature=("deeper_opat",))
    assert made.against("2") == ()
    assert made.against("1") == ("feature deeper_opat needs aoe_mode 2, not 1.",)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("[]", "The top level is an object"),
        ('{"tune_ops_name": "A"}', "1:19: tune_ops_name is an array, not text."),
        ('{"tune_ops_type": [1]}', "An item of tune_ops_type is text, not a number."),
        ('{"tune_optimization_level": "O3"}', "tune_optimization_level is O1 or O2."),
        ('{"feature": ["deep"]}', "1:14: feature is deeper_opat or nonhomo_split, not 'deep'."),
        ('{"feature": [["deep"]]}', "An item of feature is text, not an array."),
        ("", "The file is empty."),
    ],
)
def test_what_is_not_in_the_manual_is_refused(content: str, expected: str) -> None:
    assert expected in refusal(AoeConfigFile, content)


def test_unknown_keys_of_a_tuning_file_are_told() -> None:
    (found,) = AoeConfigFile.check_text('{"tune_ops": ["A"]}')
    assert "The manual has no key 'tune_ops'" in str(found)


@pytest.mark.parametrize(
    "given",
    [
        {"tune_ops_name": "A"},
        {"tune_ops_type": (1,)},
        {"tune_ops_type": ("",)},
        {"tune_optimization_level": "O3"},
        {"feature": ("deep",)},
    ],
)
def test_wrong_words_about_tuning_are_refused(given: Any) -> None:
    with pytest.raises(ConfigError):
        AoeConfigFile(**given)
