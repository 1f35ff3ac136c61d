"""What the interpreter takes for known, and where it says no more than possible."""

import pytest

from ascend_session.audit import audit_bytes
from ascend_session.audit.interpreter import ScriptInterpreter
from ascend_session.audit.source import read_script

HEAD = """\
import tensorflow as tf
from npu_bridge.npu_init import *
"""


def settings(text):
    """What is written into parameter maps, in the order of the script."""
    built = ScriptInterpreter(read_script("a.py", (HEAD + text).encode())).follow()
    return [setting for entry in built.entries for setting in entry.settings]


def values(text):
    """The keys and their values, None for one that is not known."""
    return [(each.key, getattr(each.value, "value", None)) for each in settings(text)]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1 + 2 * 3", 7),
        ("-1", -1),
        ("CONSTANT", 5),
        ("given(4)", 4),
        ("int('12')", 12),
        ("int(float('inf'))", None),
        ("{'a': 3}['a']", 3),
        ("args.value", None),
        ("len(args)", None),
        ("'a' * 10 ** 9", None),
        ("CONSTANT if args else 6", None),
    ],
)
def test_constants_are_followed_and_nothing_else_is_guessed(written, value):
    text = f"CONSTANT = 5\ndef given(x):\n    return x\nop.parameter_map['key'].i = {written}\n"
    assert values(text) == [("key", value)]


def test_a_name_that_two_arms_set_is_one_of_both():
    text = "if x:\n    a = 1\nelse:\n    a = 2\nop.parameter_map['k'].i = a\n"
    (setting,) = settings(text)
    assert [each.value for each in setting.value.values] == [1, 2]


def test_an_arm_that_ends_leaves_no_trace_behind():
    text = "a = 1\nif x:\n    a = 2\n    raise ValueError\nop.parameter_map['k'].i = a\n"
    assert values(text) == [("k", 1)]


def test_a_function_that_calls_itself_is_followed_once():
    text = "def f(op):\n    op.parameter_map['k'].i = 1\n    f(op)\nf(g)\n"
    assert values(text) == [("k", 1)]


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
