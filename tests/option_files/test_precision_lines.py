"""Single modes changed in a text whose other lines stay as they are."""

import random

import pytest

from ascend_session import ConfigError
from ascend_session.option_files import OpPrecision
from ascend_session.option_files.op_precision import MODES, replace_mode


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "A=keep_fp16\n"),
        ("# all\nA = high_precision \n\n", "# all\nA=keep_fp16\n\n"),
        ("A=typo\nA=high_precision\nA=high_performance",
         "A=typo\nA=keep_fp16\nA=high_performance"),
        ("[ByOpType]\nB=keep_fp16\n# end\n[ByNodeName]\nA=high_precision\n",
         "[ByOpType]\nB=keep_fp16\nA=keep_fp16\n# end\n[ByNodeName]\nA=high_precision\n"),
        ("# all\n[ByNodeName]\nn=keep_fp16", "# all\n[ByNodeName]\nn=keep_fp16\n[ByOpType]\n"
         "A=keep_fp16\n"),
        ("[ByOpType]\r\nB=keep_fp16\r\n", "[ByOpType]\r\nB=keep_fp16\r\nA=keep_fp16\r\n"),
    ],
)  # fmt: skip
def test_only_the_line_of_the_operator_changes(text: str, expected: str) -> None:
    assert replace_mode(text, "A", "keep_fp16") == expected


def test_a_node_gets_the_section_of_nodes() -> None:
    once = replace_mode("A=keep_fp16\n", "n/a", "high_precision", node=True)
    assert once == "A=keep_fp16\n[ByNodeName]\nn/a=high_precision\n"
    assert replace_mode(once, "n/b", "keep_fp16", node=True) == once + "n/b=keep_fp16\n"


def test_what_ge_would_skip_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not a mode of GE"):
        replace_mode("", "A", "fast")
    with pytest.raises(ConfigError, match="cannot stand in"):
        replace_mode("", "A=B", "keep_fp16")


def test_the_result_is_read_as_the_object_with_that_mode() -> None:
    rng = random.Random(2)
    words = ["[ByOpType]", "[ByNodeName]", "=", "\n", "\n", "#", " ", "\r\n", "A", "b/c", "typo"]
    words += ["\ufeff", "[x]", *MODES, "\nA=keep_fp16", "\n[ByNodeName]\n"]
    for _ in range(2000):
        text = "".join(rng.choice(words) for _ in range(rng.randrange(25)))
        operator, node = rng.choice(["A", "b/c", "#d"]), rng.random() < 0.5
        changed = replace_mode(text, operator, "norm_class", node=node)
        wanted = OpPrecision.parse(text).set(operator, "norm_class", node=node)
        assert OpPrecision.parse(changed) == wanted
        lost = set(text.split("\n")) - set(changed.split("\n"))
        assert len(lost) <= 1
