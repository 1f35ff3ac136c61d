"""What is taken for known in a script, and where the audit says no more than possible."""

import os
import resource
import sys
from time import process_time

import pytest

from ascend_session.audit.scripts import audit_bytes

HEAD = """\
import tensorflow as tf
from npu_bridge.npu_init import *
"""


WRITE = "op.parameter_map['precision_mode'].s = tf.compat.as_bytes(str({}))\n"


def refused_modes(text):
    """What the script certainly writes as precision_mode, which takes none of it."""
    return [
        each.message.partition(" is not one of ")[0]
        for each in audit_bytes("a.py", (HEAD + text).encode()).findings
        if each.rule == "value-not-allowed" and each.certain
    ]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1 + 2 * 3", "7"),
        ("-1", "-1"),
        ("CONSTANT", "5"),
        ("given(4)", None),
        ("int('12')", "12"),
        ("int(float('inf'))", None),
        ("{'a': 3}['a']", None),
        ("'a'.encode()", None),
        ("os.path.join('a', 'b')", "a/b"),
        ("2 ** 3", None),
        ("9**9**9", None),
        ("'%d' % 5", None),
        (r"'\udc80'.encode()", None),
        ("args.value", None),
        ("len(args)", None),
        ("'a' * 9", None),
        ("CONSTANT if args else 'force_fp16'", None),
    ],
)
def test_literals_and_names_that_are_assigned_once_are_known_and_nothing_is_guessed(written, value):
    text = f"CONSTANT = 5\ndef given(x):\n    return x\n{WRITE.format(written)}"
    assert refused_modes(text) == ([] if value is None else [f"precision_mode={value!r}"])


def test_keywords_from_a_dictionary_leave_the_rest_of_a_call_possible():
    text = "more = {'precison_mode': 'x'}\nNPURunConfig(precison_mode='x', **more)\n"
    (finding,) = audit_bytes("a.py", (HEAD + text).encode()).findings
    assert (finding.rule, finding.place.line) == ("unknown-argument", 4)


@pytest.mark.parametrize(
    "lines",
    [
        "def f():\n    return config\ng(f())\n",
        "def f():\n    return 1\nhelp(config)\n",
        "holder = [config]\n",
    ],
)
def test_the_same_name_in_a_function_is_another_one(lines):
    inner = "def build(config):\n    op = config.graph_options.rewrite_options"
    text = HEAD + BUILD.format("pass") + lines + inner + ".custom_optimizers.add()\n"
    rules = {each.rule for each in audit_bytes("a.py", text.encode()).findings}
    assert "two-entries" not in rules


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
HELD = "d = {'m': 'bad'}\n"
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
        (f"{HELD}def f(e):\n{LONG}    e['m'] = x\nf(d)\n", "d['m']"),
        (f"{HELD}def f():\n{LONG}    d['m'] = x\nf()\n", "d['m']"),
        (f"{HELD}def f():\n{LONG}    d.update(m=x)\nf()\n", "d['m']"),
        (HELD + "read(*[d])\n", "d['m']"),
        (HELD + "read(**{1: d})\n", "d['m']"),
        (HELD + "read({'x': [(d,)]})\n", "d['m']"),
        (HELD + "obj.d = d\nobj.run()\n", "d['m']"),
        (HELD + "obj.d = d\nread(obj)\n", "d['m']"),
        (HELD + "class A:\n    pass\na = A()\na.d = d\nread(a)\n", "d['m']"),
        (HELD + "def f(*a, **b):\n    b['x']['m'] = 1\nf(x=d)\n", "d['m']"),
        (HELD + "list([d])[0]['m'] = x\n", "d['m']"),
        (HELD + "[d][x]['m'] = x\n", "d['m']"),
        (HELD + "other = {}\nother['x'] = d\nother['x']['m'] = x\n", "d['m']"),
        (HELD + "d.setdefault('y', []).append(1)\ndel d['m']\n", "d['m']"),
        (HELD + "if x:\n    d.pop('m')\n", "d['m']"),
        (HELD + "if x:\n    d['m'] = 'force_fp16'\n", "d['m']"),
        (HELD + "x and d.update(m='force_fp16')\n", "d['m']"),
        (HELD + "try:\n    d['m'] = x\nexcept E:\n    pass\n", "d['m']"),
        ("d = {'m': 'force_fp16'}\nf = lambda: d.update(m='bad')\n", "d['m']"),
        ("d = ['force_fp16', 'bad']\nif x:\n    d.append('force_fp16')\n", "d[-1]"),
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
        "a = [1]\na.append(a)\na[0] = a\nd = {}\nd.update(x=d)\nNPURunConfig(1, a, d)\nf([a, d])",
        f"a = [1]\nb = [{'a, ' * 6000}]\n{'a.append(1)' + chr(10)}" * 9 + "f(b)\n" * 9000,
        f"a = [{'1, ' * 9000}]\n" + "sorted(a)\n" * 30_000,
        "for x in a:\n    a.append(x)\na = [1]\nfor x in a:\n    a.append(x)\n",
        f"for x in {MANY}:\n" + f"    {SETTING}" * 500,
        f"def f(op):\n{''.join('    ' + SETTING for _ in range(500))}" + "f(op)\n" * 300,
        "if x: pass\n" + "".join(f"elif y: a{number} = 1\n" for number in range(2500)),
    ],
    ids=range(23),
)
def test_no_script_takes_long_or_much_memory(lines):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = process_time()
    text = HEAD + BUILD.format(lines)
    audited = audit_bytes("a.py", text.encode())
    assert process_time() - begin < 60  # two seconds, where nothing else runs
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500 << 10
    assert audited.skipped is None


@pytest.mark.parametrize(("count", "certain"), [(15, [True, True]), (150, [False, True])])
def test_options_with_very_many_guards_between_are_contradictory_only_possibly(count, certain):
    options = [
        'op.parameter_map["modify_mixlist"].s = b"mix.json"\n',
        'op.parameter_map["precision_mode"].s = b"force_fp16"\n',
    ]
    guards = "if x:\n    sys.exit()\n" * count
    text = HEAD + BUILD.format(guards + options[0] + guards + options[1])
    found = audit_bytes("a.py", text.encode()).findings
    assert [each.certain for each in found if each.rule == "option-conflict"] == certain


def test_a_file_with_more_than_a_hundred_thousand_nodes_is_an_error():
    (finding,) = audit_bytes("a.py", (HEAD + SETTING * 20_000).encode()).findings
    assert (finding.rule, finding.severity) == ("not-read", "error")
    assert "more than 100,000" in finding.message


@pytest.mark.parametrize(
    "expression",
    ["a" + ".b" * 900_000, "f" + "()" * 500_000, "1" + "+1" * 900_000, f"f'{{a{'.b' * 500_000}}}'"],
    ids=["attributes", "calls", "sum", "format"],
)
def test_an_expression_that_python_cannot_parse_is_an_error_of_its_file(expression):
    (finding,) = audit_bytes("a.py", f"{HEAD}x = {expression}\n".encode()).findings
    assert (finding.rule, finding.severity) == ("not-read", "error")
    assert "nested too deeply" in finding.message


def test_a_long_script_of_python_2_is_an_error_and_takes_no_time():
    (finding,) = audit_bytes("a.py", (HEAD + "print 'x'\n" * 18_000).encode()).findings
    assert (finding.rule, finding.severity) == ("not-read", "error")


def test_nothing_of_a_script_is_run(tmp_path):
    names = [str(tmp_path / name) for name in ("imported", "evaluated", "defaults")]
    (tmp_path / "module.py").write_text(f"open({names[0]!r}, 'w')")
    text = f"""\
import sys
sys.path.insert(0, {str(tmp_path)!r})
import module
NPURunConfig(precision_mode=str(open({names[1]!r}, "w")))
def f(x=open({names[2]!r}, "w")):
    pass
"""
    found = audit_bytes(str(tmp_path / "a.py"), (HEAD + text).encode())
    assert found.looked_at
    assert not any(map(os.path.exists, names))
