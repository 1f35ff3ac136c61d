"""What the interpreter takes for known, and where it says no more than possible."""

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
        ("given(4)", "4"),
        ("int('12')", "12"),
        ("int(float('inf'))", None),
        ("{'a': 3}['a']", "3"),
        ("'a'.encode().decode()", "a"),
        (r"'\udc80'.encode()", None),
        ("args.value", None),
        ("len(args)", None),
        ("'a' * 9", None),
        ("CONSTANT if args else 'force_fp16'", None),
    ],
)
def test_constants_are_followed_and_nothing_else_is_guessed(written, value):
    text = f"CONSTANT = 5\ndef given(x):\n    return x\n{WRITE.format(written)}"
    assert refused_modes(text) == ([] if value is None else [f"precision_mode={value!r}"])


@pytest.mark.parametrize(("other", "certain"), [("2", True), ("1", False), ("args.b", None)])
def test_a_name_that_two_arms_set_is_one_of_both(other, certain):
    text = f"if x:\n    a = 3\nelse:\n    a = {other}\nop.parameter_map['deterministic'].i = a\n"
    found = [
        (each.rule, each.certain) for each in audit_bytes("a.py", (HEAD + text).encode()).findings
    ]
    assert found == ([] if certain is None else [("value-not-allowed", certain)])


def test_an_arm_that_ends_leaves_no_trace_behind():
    text = "a = 1\nif x:\n    a = 2\n    raise ValueError\n" + WRITE.format("a")
    assert refused_modes(text) == ["precision_mode='1'"]


def test_a_function_that_calls_itself_is_followed_once():
    text = f"def f(op, n):\n    {WRITE.format('n')}    f(op, n + 1)\nf(g, 1)\n"
    assert refused_modes(text) == ["precision_mode='1'"]


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


LOOP = """\
for k, v in opts.items():
    op.parameter_map[k].s = v
"""


@pytest.mark.parametrize(
    "line",
    [
        *("print(sorted(opts))", "','.join(opts)", "list(zip(opts, dict(opts)))", "max(opts)"),
        *("enumerate(opts)", "any(opts) or all(opts) or sum(opts)", "set(opts)", "tuple(opts)"),
        *("repr(opts)", "json.dumps(opts)", "'{}'.format(opts)", "text.format(opts)"),
        *("logging.info('%s', opts)", "log.debug(opts)", "tf.logging.error(opts)"),
        *("opts['op_debug_level'] = b'1'", "if x:\n    opts['op_debug_level'] = b'1'"),
        *("for x in y:\n    opts['dump_path'] = x", "opts.setdefault('dump_path', b'x')"),
        *("opts.update(dump_path=b'x')", "opts.pop('dump_path', None)", "copy.deepcopy(opts)"),
        f"def f(e):\n{LONG}    print(e['x'])\nf(opts)",
        *("more = {**opts, 'x': 1}", "lines = [k for k in opts]", "opts.get('x')"),
        *("a.opts = opts\na.opts['dump_path'] = b'x'", "opts.copy()", "opts['inner'] = [1]"),
    ],
)
def test_what_only_reads_a_dict_or_sets_one_key_leaves_the_others_known(line):
    before = f"opts = {{'precison_mode': b'x'}}\n{line}\n"
    found = audit_bytes("a.py", (HEAD + before + BUILD.format(LOOP)).encode()).findings
    assert "unknown-key" in [each.rule for each in found if each.certain]
    text = f"{HEAD}{before}NPURunConfig(precision_mode='bad', **opts)\n"
    found = audit_bytes("a.py", text.encode()).findings
    assert "unknown-argument" in [each.rule for each in found if each.certain]


@pytest.mark.parametrize("line", ["", "if x:\n    "])
def test_what_is_appended_leaves_the_items_before_it_known(line):
    before = f"opts = [('precison_mode', b'x')]\n{line}opts.append(('dump_path', b'x'))\n"
    loop = LOOP.replace("opts.items()", "opts")
    found = audit_bytes("a.py", (HEAD + before + BUILD.format(loop)).encode()).findings
    assert "unknown-key" in [each.rule for each in found if each.certain]


@pytest.mark.parametrize(
    ("line", "certain"),
    [
        ("d['m'] = 'bad'", [True]),
        ("d['m'] = 'force_fp16'", []),
        ("if x:\n    d['m'] = 'bad'", [False]),
        ("for x in y:\n    d['m'] = 'bad'", [False]),
        ("def f():\n    d['m'] = 'bad'\nif x:\n    f()", [False]),
        ("if x:\n    d['n'] = 1\n    d['m'] = 'worse'\nelse:\n    d['m'] = 'bad'", [False]),
    ],
)
def test_a_key_that_is_set_in_an_arm_has_one_of_two_values(line, certain):
    setting = "op.parameter_map['precision_mode'].s = as_bytes(d['m'])"
    text = HEAD + f"d = {{'m': 'force_fp16'}}\n{line}\n" + BUILD.format(setting)
    found = audit_bytes("a.py", text.encode()).findings
    assert [each.certain for each in found if each.rule == "value-not-allowed"] == certain


@pytest.mark.parametrize("decorator", ["functools.lru_cache(maxsize=None)", "lru_cache()", "cache"])
def test_a_plain_decorator_that_is_called_leaves_what_a_function_returns(decorator):
    setting = "op.parameter_map['precision_mode'].s = f()"
    text = HEAD + f"@{decorator}\ndef f():\n    return b'bad'\n" + BUILD.format(setting)
    found = audit_bytes("a.py", text.encode()).findings
    assert [each.rule for each in found if each.certain] == ["value-not-allowed"]


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


def test_of_a_script_that_is_followed_in_part_nothing_is_certain():
    text = HEAD + BUILD.format('op.parameter_map["no_such_key"].i = 1\n' + SETTING * 2000)
    *found, last = audit_bytes("a.py", text.encode()).findings
    assert last.message.startswith("It is too long to be followed to its end")
    assert not any(each.certain for each in found)
    assert "unknown-key" in {each.rule for each in found}


def test_a_helper_that_is_called_very_often_leaves_certain_what_is_certain():
    block = "".join(f"    {line}\n" for line in BUILD.format(f"pass\n{SETTING * 17}").splitlines())
    calls = "".join(f"s{number} = tf.Session(config=make())\n" for number in range(40))
    text = f"{HEAD}NPURunConfig(precison_mode=1)\ndef make():\n{block}    return config\n{calls}"
    found = audit_bytes("a.py", text.encode()).findings
    assert "unknown-argument" in [each.rule for each in found if each.certain]
    assert "not-read" not in [each.rule for each in found]


def test_behind_very_many_guards_the_rest_of_a_function_is_followed():
    guards = "    if x:\n        return\n" * 150
    wrong = "    NPURunConfig(precison_mode=1)\n"
    text = f"{HEAD}def f():\n{guards}{wrong}f()\nNPURunConfig(precison_mode=2)\n"
    found = audit_bytes("a.py", text.encode()).findings
    assert [(each.rule, each.certain) for each in found] == [("unknown-argument", True)] * 2


@pytest.mark.parametrize(("count", "certain"), [(50, [True, True]), (150, [False, True])])
def test_options_with_very_many_guards_between_are_contradictory_only_possibly(count, certain):
    options = [
        'op.parameter_map["modify_mixlist"].s = b"mix.json"\n',
        'op.parameter_map["precision_mode"].s = b"force_fp16"\n',
    ]
    guards = "if x:\n    sys.exit()\n" * count
    text = HEAD + BUILD.format(guards + options[0] + guards + options[1])
    found = audit_bytes("a.py", text.encode()).findings
    assert [each.certain for each in found if each.rule == "option-conflict"] == certain


def test_an_elif_chain_is_one_statement_however_long():
    arms = "".join(f"elif x == {number}:\n    mode = 'bad'\n" for number in range(150))
    text = f"if x:\n    mode = 'bad'\n{arms}else:\n    mode = 'bad'\n"
    setting = "op.parameter_map['precision_mode'].s = as_bytes(mode)"
    found = audit_bytes("a.py", (HEAD + text + BUILD.format(setting)).encode()).findings
    assert [(each.rule, each.certain) for each in found] == [("value-not-allowed", True)]
