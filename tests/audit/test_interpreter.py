"""What the interpreter takes for known, and where it says no more than possible."""

import pytest

from ascend_session.audit import audit_bytes, port_script

HEAD = """\
import tensorflow as tf
from npu_bridge.npu_init import *
"""


UNKNOWN = "Give debug_dir what the script gives it."
WRITE = "op.parameter_map['debug_dir'].s = tf.compat.as_bytes(str({}))\n"


def ported(text):
    """What stands in the configuration that the script comes to, and in the remarks on it."""
    return [
        line.strip(" ,").rpartition("debug_dir: ")[2]
        for entry in port_script("a.py", (HEAD + text).encode())
        for line in entry.code.splitlines()
        if "debug_dir" in line
    ]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1 + 2 * 3", "7"),
        ("-1", "-1"),
        ("CONSTANT", "5"),
        ("given(4)", "4"),
        ("int('12')", "12"),
        ("int(float('inf'))", None),
        ("{'a': 3}['a']", "3"),
        ("'a'.encode().decode()", "a"),
        (r"'\udc80'.encode()", None),
        ("args.value", None),
        ("len(args)", None),
        ("'a' * 9", None),
        ("CONSTANT if args else 6", None),
    ],
)
def test_constants_are_followed_and_nothing_else_is_guessed(written, value):
    text = f"CONSTANT = 5\ndef given(x):\n    return x\n{WRITE.format(written)}"
    assert ported(text) == [UNKNOWN if value is None else f"debug_dir={value!r}"]


@pytest.mark.parametrize(("other", "certain"), [("2", True), ("1", False), ("args.b", None)])
def test_a_name_that_two_arms_set_is_one_of_both(other, certain):
    text = f"if x:\n    a = 3\nelse:\n    a = {other}\nop.parameter_map['deterministic'].i = a\n"
    found = [
        (each.rule, each.certain) for each in audit_bytes("a.py", (HEAD + text).encode()).findings
    ]
    assert found == ([] if certain is None else [("value-not-allowed", certain)])


def test_an_arm_that_ends_leaves_no_trace_behind():
    text = "a = 1\nif x:\n    a = 2\n    raise ValueError\n" + WRITE.format("a")
    assert ported(text) == ["debug_dir='1'"]


def test_a_function_that_calls_itself_is_followed_once():
    text = f"def f(op, n):\n    {WRITE.format('n')}    f(op, n + 1)\nf(g, 1)\n"
    assert ported(text) == ["debug_dir='1'"]


def test_a_dictionary_of_keywords_is_followed():
    text = "more = {'precison_mode': 'x'}\nc = NPURunConfig(**more)\nd = NPURunConfig(**args)\n"
    (finding,) = audit_bytes("a.py", (HEAD + text).encode()).findings
    assert (finding.rule, finding.place.line) == ("unknown-argument", 4)


def test_an_entry_that_other_code_gets_is_judged_with_reserve():
    block = """\
config = tf.ConfigProto()
op = config.graph_options.rewrite_options.custom_optimizers.add()
op.name = "NpuOptimizer"
op.parameter_map["modify_mixlist"].s = b"mix.json"
{}
sess = tf.Session(config=config)
"""
    found = {
        (one.rule, one.certain)
        for line in ("pass", "improve(config)")
        for one in audit_bytes("a.py", (HEAD + block.format(line)).encode()).findings
    }
    assert found == {
        (rule, certain)
        for rule in ("option-conflict", "memory-optimization-on")
        for certain in (True, False)
    }


@pytest.mark.parametrize(
    "line",
    [
        "rewriter = RewriterConfig(**{'remapping': 2, 'memory_optimization': args.m})",
        "config.graph_options.rewrite_options.remapping = {}",
        "config.graph_options.rewrite_options.memory_optimization = [[{}]]",
    ],
)
def test_values_that_no_switch_takes_do_not_end_the_audit(line):
    text = f"""\
config = tf.ConfigProto()
op = config.graph_options.rewrite_options.custom_optimizers.add()
op.name = "NpuOptimizer"
op.parameter_map["no_such_key"].i = 1
{line}
"""
    found = audit_bytes("a.py", (HEAD + text).encode()).findings
    assert "unknown-key" in {finding.rule for finding in found}


@pytest.mark.parametrize(
    ("listed", "remapped"),
    [
        ('extend(["constfold", "arithmetic"])', False),
        ('extend(["constfold", "remap"])', True),
        ('append("remap")', True),
        ('append("constfold")', False),
        ("extend(args.optimizers)", False),
    ],
)
def test_a_list_of_optimizers_stands_for_the_switches(listed, remapped):
    text = """\
import tensorflow as tf
config = tf.ConfigProto()
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
config.graph_options.rewrite_options.optimizers.LISTED
sess = tf.Session(config=config)
"""
    found = audit_bytes("a.py", text.replace("LISTED", listed).encode()).findings
    rules = {each.rule for each in found} & {"memory-optimization-on", "remapping-on"}
    assert rules == ({"remapping-on"} if remapped else set())
