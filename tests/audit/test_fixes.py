"""What --fix rewrites, and what it leaves alone."""

from pathlib import Path

import pytest

from ascend_session.audit.fixes import fix_script
from ascend_session.audit.scripts import audit_bytes

BLOCK = """\
import tensorflow as tf
from npu_bridge.npu_init import *
config = tf.ConfigProto()
op = config.graph_options.rewrite_options.custom_optimizers.add()
op.name = "NpuOptimizer"
{}
sess = tf.Session(config=config)
"""
OFF = "config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF\n"
HEAD = BLOCK.replace("op = ", f"{OFF}op = ", 1)


def after(line, block=HEAD):
    """The line that stands where ``line`` stood, or None if nothing is rewritten."""
    made = fix_script("a.py", block.format(line).encode())
    if made is None:
        return None
    head, tail = block.split("{}")
    assert made.after.startswith(head)
    assert made.after.endswith(tail)
    return made.after[len(head) : -len(tail)]


@pytest.mark.parametrize(
    ("line", "right"),
    [
        (
            'op.parameter_map["precison_mode"].s = b"origin"  # 精度',
            None,  # "origin" is no value of precision_mode
        ),
        (
            'op.parameter_map["precison_mode"].s = tf.compat.as_bytes("force_fp16")  # 精度',
            'op.parameter_map["precision_mode"].s = tf.compat.as_bytes("force_fp16")  # 精度',
        ),
        ("op.parameter_map['use_of_line'].b = True", "op.parameter_map['use_off_line'].b = True"),
        ('op.parameter_map["use_off_line"].i = 1', 'op.parameter_map["use_off_line"].b = True'),
        ('op.parameter_map["deterministic"].b=True', 'op.parameter_map["deterministic"].i=1'),
        ('op.parameter_map["iterations_per_loop"].s = b"10"', None),
        ('op.parameter_map["use_off_line"].i = flag', None),
        (
            'op.parameter_map["use_off_line"].s = b"True"',
            'op.parameter_map["use_off_line"].b = True',
        ),
        (
            'op.parameter_map["hcom_parallel"].s = b"True"',
            'op.parameter_map["hcom_parallel"].b = True',
        ),
        (
            "op.parameter_map['mix_compile_mode'].s = tf.compat.as_bytes('false')  # off",
            "op.parameter_map['mix_compile_mode'].b = False  # off",
        ),
        ('op.parameter_map["use_off_line"].s = b"yes"', None),
        ('op.parameter_map["use_off_line"].i = 2', None),
        ('op.parameter_map["deterministc"].i = 7', None),  # which deterministic does not take
        ('op.parameter_map["fp_point"].s = b"x"', None),
        ('op.parameter_map["nothing_like_it"].s = b"x"', None),
        ('op.parameter_map["precision_mode_v"].s = b"mixed_float16"', None),  # two are as near
        ('op.name = "NPUOptimizer"', 'op.name = "NpuOptimizer"'),
        ('op.parameter_map["use_of_line"].b = True  # ascend: ignore', None),
    ],
)
def test_only_what_is_certain_is_rewritten(line, right):
    assert after(line) == right


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ('op.parameter_map["hcom_parallel"].s = b"True"', ".b = True"),
        ("op.parameter_map['mix_compile_mode'].s = tf.compat.as_bytes('false')", ".b = False"),
        ('op.parameter_map["deterministic"].b = True', ".i = 1"),
        ('op.parameter_map["use_off_line"].i = 0', ".b = False"),
    ],
)
def test_the_hint_is_what_the_fix_writes(line, meant):
    findings = audit_bytes("a.py", HEAD.format(line).encode()).findings
    [hint] = [each.hint for each in findings if each.rule == "wrong-field"]
    assert hint.endswith(meant)
    assert after(line).endswith(meant)


def test_a_value_of_which_no_switch_is_certain_is_left_to_the_reader():
    line = 'op.parameter_map["hcom_parallel"].s = b"yes"'
    findings = audit_bytes("a.py", HEAD.format(line).encode()).findings
    assert [each.hint[-6:] for each in findings if each.rule == "wrong-field"] == [" = ..."]


def test_a_key_that_is_set_elsewhere_is_not_made_twice():
    line = 'op.parameter_map["use_of_line"].b = True\nop.parameter_map["use_off_line"].b = False'
    assert after(line) is None


def test_memory_optimization_is_turned_off_before_the_entry():
    made = fix_script("a.py", BLOCK.format("pass").encode())
    assert made.after == HEAD.format("pass")


def test_without_the_name_that_it_needs_no_line_is_added():
    text = BLOCK.format("pass").replace("npu_bridge.npu_init import *", "npu_bridge import x")
    assert fix_script("a.py", text.encode()) is None


@pytest.mark.parametrize(
    "imported",
    [
        "import tensorflow as tf\n{}from npu_bridge.npu_init import *\n",
        '"""\nfrom npu_bridge.npu_init import *\n"""\nimport npu_bridge\n{}',
    ],
)
def test_a_name_that_is_imported_later_or_only_spoken_of_is_none(imported):
    _, tail = BLOCK.format("pass").split("config = tf", 1)
    text = imported.format(f"config = tf{tail}")
    assert fix_script("a.py", text.encode()) is None


@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_ends_of_lines_and_marks_of_encodings_stay(end):
    data = "\ufeff" + BLOCK.format("pass").replace("\n", end)
    made = fix_script("a.py", data.encode())
    assert made.after == "\ufeff" + HEAD.format("pass").replace("\n", end)


def test_python_2_and_notebooks_are_not_rewritten():
    assert fix_script("a.py", BLOCK.format("print 1").encode()) is None
    assert fix_script("a.ipynb", BLOCK.format("pass").encode()) is None


@pytest.mark.parametrize(
    "script", sorted((Path(__file__).parent / "data").glob("*.py")), ids=lambda path: path.stem
)
def test_what_is_fixed_is_a_script_with_fewer_findings_and_nothing_left_to_fix(script):
    made = fix_script(script.name, script.read_bytes())
    if made is None:
        return
    compile(made.after, script.name, "exec")
    left = audit_bytes(script.name, made.after.encode()).findings
    assert len(left) < len(audit_bytes(script.name, script.read_bytes()).findings)
    assert fix_script(script.name, made.after.encode()) is None


def test_each_change_is_told_with_its_reason_and_its_line_in_the_script_as_it_was():
    lines = 'op.parameter_map["use_of_line"].b = True\nop.parameter_map["deterministic"].b = True'
    made = fix_script("a.py", BLOCK.format(lines).encode())
    assert [(change.place.line, change.rule) for change in made.changes] == [
        (4, "memory-optimization-on"),
        (6, "unknown-key"),
        (7, "wrong-field"),
    ]
