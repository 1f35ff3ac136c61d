"""Each script in data/ says at its lines what is to be found there, and nothing else is."""

import re
from pathlib import Path

import pytest

from ascend_session.audit.report import AUDIT_RULES, AUDIT_SEVERITIES
from ascend_session.audit.scripts import audit_bytes

DATA = Path(__file__).parent / "data"
SCRIPTS = sorted([*DATA.glob("*.py"), *DATA.glob("*.sh")])
EXPECT = re.compile(r"# expect: ([\w?\- ]+)")


def expected(text):
    """(line, rule, certain) of each mark; a question mark says that it is only possible."""
    return sorted(
        (number, rule.rstrip("?"), not rule.endswith("?"))
        for number, line in enumerate(text.split("\n"), 1)
        for match in EXPECT.finditer(line)
        for rule in match.group(1).split()
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_what_a_script_marks_is_found_there_in_sentences_and_nothing_else(script):
    text = script.read_text(encoding="utf-8")
    audited = audit_bytes(str(script), text.encode())
    found = [(one.place.line, one.rule, one.certain) for one in audited.findings]
    assert sorted(found) == expected(text)
    lines = text.split("\n")
    for one in audited.findings:
        assert one.severity in AUDIT_SEVERITIES
        assert one.message.endswith(".")
        assert one.hint is None or one.hint.strip()
        assert one.place.text == lines[one.place.line - 1].strip()


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ("DumpConfig(op_debug_level=1)", "It is an argument of NPURunConfig."),
        ("NPURunConfig(in_out_pair='x')", "It is a key of the entry for raw sessions only."),
        ("NPURunConfig(precison_mode='x')", "Did you mean precision_mode?"),
    ],
)
def test_an_argument_that_is_not_there_is_shown_its_place(call, hint):
    text = f"from npu_bridge.npu_init import *\nconfig = {call}\n"
    assert [one.hint for one in audit_bytes("a.py", text.encode()).findings] == [hint]


def test_an_argument_of_the_wrong_type_is_shown_with_the_values_in_it():
    call = "NPURunConfig(precision_mode={'all': ['fp16']}, op_compiler_cache_mode=[unknown])"
    text = f"from npu_bridge.npu_init import *\nconfig = {call}\n"
    [finding] = audit_bytes("a.py", text.encode()).findings
    assert finding.message.startswith("precision_mode={'all': ['fp16']} (dict) is not one of")


@pytest.mark.parametrize("steps", ["'100'", "b'100'"])
def test_text_for_a_number_that_no_entry_has_does_not_hide_other_mistakes(steps):
    call = f"NPURunConfig(save_checkpoints_steps={steps}, iterations_per_loop=10, aoe_mode='3')"
    text = f"from npu_bridge.npu_init import *\nconfig = {call}\n"
    findings = audit_bytes("a.py", text.encode()).findings
    assert [one.rule for one in findings] == ["value-not-allowed"]


PARTS = """\
import tensorflow as tf
from npu_bridge.npu_init import *
rewrite = rewriter_config_pb2.RewriterConfig()
{}
op.name = "NpuOptimizer"
op.parameter_map["use_off_line"].b = True
"""


@pytest.mark.parametrize(
    ("lines", "hint"),
    [
        (
            "graph = tf.GraphOptions(rewrite_options=rewrite)\n"
            "op = graph.rewrite_options.custom_optimizers.add()\n"
            "config = tf.ConfigProto(graph_options=graph)\nsess = tf.Session(config=config)",
            "Write config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF.",
        ),
        (
            "op = rewrite.custom_optimizers.add()\nuse(rewrite)",
            "Write rewrite.memory_optimization = RewriterConfig.OFF.",
        ),
        (
            "def add(options):\n  return options.custom_optimizers.add()\n"
            "def build(options):\n  options.custom_optimizers.add().name = 'NpuOptimizer'\n"
            "graph = tf.GraphOptions()\nop = graph.rewrite_options.custom_optimizers.add()\n"
            "use(graph)",
            "Write graph.rewrite_options.memory_optimization = RewriterConfig.OFF.",
        ),
    ],
)
def test_a_hint_names_fields_that_the_message_has(lines, hint):
    findings = audit_bytes("a.py", PARTS.format(lines).encode()).findings
    hints = [each.hint for each in findings if each.rule == "memory-optimization-on"]
    assert hint in hints
    assert not any("rewrite.graph_options" in each or "options.graph" in each for each in hints)


def test_a_rank_that_is_a_word_is_answered_with_the_number_to_write():
    script = DATA / "rank_word.sh"
    [finding] = audit_bytes(str(script), script.read_bytes()).findings
    assert finding.hint == "Set RANK_ID to the rank's number, from 0, where each rank is started."


def test_every_rule_has_a_script_that_breaks_it():
    marked = {rule for path in SCRIPTS for _, rule, _ in expected(path.read_text("utf-8"))}
    assert marked == set(AUDIT_RULES) - {"not-read"}
