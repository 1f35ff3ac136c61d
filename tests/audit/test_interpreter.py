"""What the interpreter takes for known, and where it says no more than possible."""

import resource
import sys
from time import process_time

import pytest

from ascend_session.audit import audit_bytes, port_script
from ascend_session.errors import AuditError

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


BUILD = """\
config = tf.ConfigProto()
op = config.graph_options.rewrite_options.custom_optimizers.add()
op.name = "NpuOptimizer"
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
{}
sess = tf.Session(config=config)
"""
LONG = "".join(f"    a{number} = 1\n" for number in range(8))
SET = "mode = 'bad'\n"
INNER = "        nonlocal m\n        m = x\n"
METHODS = f"""\
class A:
  def __init__(self):
    self.mode = "bad"
  def change(self):
{LONG}    self.mode = args.mode
a = A()
a.change()
"""


@pytest.mark.parametrize(
    ("before", "value"),
    [
        (SET + f"def f():\n    global mode\n{LONG}    mode = args.mode\nf()\n", "mode"),
        (SET + "from settings import mode\n", "mode"),
        (SET + "from settings import *\n", "mode"),
        (SET + "import settings as mode\n", "mode"),
        (SET + "a, *mode = x\n", "mode"),
        (SET + "for mode in x:\n    pass\n", "mode"),
        (SET + "try:\n    f()\nexcept E as mode:\n    pass\n", "mode"),
        (SET + "for x in (1, 2):\n    if x == y:\n        mode = arg\n        break\n", "mode"),
        ("mode = 'force_fp16'\nwhile x:\n    mode = 'bad'\n", "mode"),
        ("mode = 'force_fp16'\nfor x in y:\n    mode = 'bad'\n", "mode"),
        ("mode = 'force_fp16'\ntry:\n    f()\n    mode = 'bad'\nexcept E:\n    pass\n", "mode"),
        ("if x:\n    mode = 'bad'\nelse:\n    from settings import mode\n", "mode"),
        ("args.mode = 'bad'\nargs = parse()\n", "args.mode"),
        ("cfg.mode = 'bad'\nsetattr(cfg, 'mode', 'force_fp16')\n", "cfg.mode"),
        ("class C:\n    mode = 'bad'\nC.mode = args.mode\n", "C.mode"),
        (METHODS, "a.mode"),
        ("d = {'m': 'bad'}\nd['m'] = 'force_fp16'\n", "d['m']"),
        ("d = {'m': 'bad'}\ne = d\ne.update(m='force_fp16')\n", "d['m']"),
        ("d = {'m': 'bad'}\nread(d)\n", "d['m']"),
        ("d = ['bad']\nd[0] = 'force_fp16'\n", "d[0]"),
        ("@replace\ndef f():\n    return 'bad'\n", "f()"),
        (f"def f():\n    m = 'bad'\n    def g():\n{INNER}    g()\n    return m\n", "f()"),
    ],
)  # fmt: skip
def test_a_value_that_may_be_another_by_then_is_no_certain_error(before, value):
    line = f"op.parameter_map['precision_mode'].s = tf.compat.as_bytes({value})"
    found = audit_bytes("a.py", (HEAD + before + BUILD.format(line)).encode()).findings
    assert [each.message for each in found if each.certain] == []


@pytest.mark.skipif(sys.version_info < (3, 10), reason="syntax of Python 3.10")
@pytest.mark.parametrize(
    ("before", "value"),
    [
        (SET + "print(mode := args.mode)\n", "mode"),
        ("def f(a, /, b):\n    return b\n", "f('bad', 'force_fp16')"),
        (SET + "match x:\n    case 1:\n        mode = 'force_fp16'\n", "mode"),
        (SET + "match x:\n    case [mode, *_]:\n        pass\n", "mode"),
    ],
)
def test_newer_syntax_is_followed_too(before, value):
    test_a_value_that_may_be_another_by_then_is_no_certain_error(before, value)


@pytest.mark.parametrize(
    "line",
    [
        "f = lambda mode: setattr(op.parameter_map['precision_mode'], 's', as_bytes(mode))",
        "[setattr(op.parameter_map[mode], 's', b'') for mode in modes]",
        "setattr(config.graph_options.rewrite_options, 'memory_optimization', RewriterConfig.OFF)",
    ],
)
def test_names_of_a_lambda_or_comprehension_hide_others_and_setattr_assigns(line):
    text = HEAD + SET + BUILD.replace(BUILD.splitlines()[3], "pass").format(line)
    left = {"memory-optimization-on"} if "memory" not in line else set()
    found = audit_bytes("a.py", text.encode()).findings
    assert {each.rule for each in found if each.certain} == left


MANY = f"[{', '.join(map(str, range(64)))}]"
LOOPS = "".join(f"{'    ' * depth}for x{depth} in {MANY}:\n" for depth in range(5))
SETTING = 'op.parameter_map["op_debug_level"].i = 0\n'
ENTRY = (
    "op = config.graph_options.rewrite_options.custom_optimizers.add()\nop.name = 'NpuOptimizer'\n"
)


@pytest.mark.parametrize(
    "lines",
    [
        f"{LOOPS}{'    ' * 5}{SETTING}",
        SETTING * 20_000,
        SETTING.replace("\n", ";") * 20_000,
        f"if x:\n    'é'; {SETTING.replace(chr(10), ';') * 20_000}",
        ENTRY * 5000,
        f"if x:\n    {SETTING}" * 10_000,
        f"if x:\n    sys.exit()\n{SETTING}" * 5000,
        "if x: pass\n" + f"elif y: {SETTING}" * 3000,
        "a" + ".b" * 50_000,
        "a = [1]\n" + "a = [a, a]\n" * 400 + "op.name = a\nNPURunConfig(precision_mode=a)\nf(a)",
        "a = 99\n" + "a = a * a\n" * 400 + "op.name = str(a)",
        "a = '%1000000000d' % 1\nb = '%.*f' % (1000000000, 1.0)\nc = 10**10**10\nd = 'a' * 10**10",
        f"a = 0x{'f' * 100_000}\nb = a + 1\nop.name = str(a)\nNPURunConfig(op_debug_level=a)",
        "sess.run(npu_ops.shutdown_system())\ndef f():\n" + "    f()\n    sess.run(end)\n" * 3000,
        "def f(n):\n    return f(n - 1) + g(n)\ndef g(n):\n    return f(n) + g(n - 1)\nf(9)",
        f"while True:\n    {SETTING}for i in range(10**10):\n    {SETTING}",
    ],
    ids=range(16),
)
def test_no_script_takes_long_or_much_memory(lines):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = process_time()
    text = HEAD + BUILD.format(lines)
    audited = audit_bytes("a.py", text.encode())
    assert process_time() - begin < 10.0  # two seconds, where nothing else runs
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500 << 10
    assert audited.skipped is None


def test_of_a_script_that_is_followed_in_part_nothing_is_certain():
    text = HEAD + BUILD.format('op.parameter_map["no_such_key"].i = 1\n' + SETTING * 2000)
    *found, last = audit_bytes("a.py", text.encode()).findings
    assert last.message.startswith("It is too long to be followed to its end")
    assert not any(each.certain for each in found)
    assert "unknown-key" in {each.rule for each in found}
    with pytest.raises(AuditError, match="too long to be followed"):
        port_script("a.py", text.encode())
