"""`run --print-config`: the typed configuration that says what a script's entry says."""

import ast
import contextlib
import re
import warnings
from typing import Any, Dict, Optional

import pytest
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import rewriter_config_pb2

import ascend_session
from ascend_session import AscendConfig, AscendConfigWarning, ConfigError
from ascend_session.compat.typed_config import PRINT_VARIABLE, print_config, write_config
from ascend_session.compat.verdicts import judge_entry
from ascend_session.config.entry import check_value
from ascend_session.config.option import options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.user_code import UserLine
from tests.compat.run_scripts import PREFACE, run_script
from tests.compat.surface import has_estimators, module
from tests.compat.test_verdicts import ENDING
from tests.config.protos import add, base
from tests.config.test_proto import EXAMPLES

OPTIONS = {key: each for key, each in options_by_key(AdapterOptions).items() if each.field}
NEED_DYNAMIC_INPUT = ("dynamic_graph_execute_mode", "dynamic_inputs_shape_range")
# One of them is right for each option whose value is a text
WORDS = (
    *("0", "1", "a", "folder/file.json", "8|8", "24|48", "0,1", "A:1", "conv:on"),
    *("[[['a'], ['b']]]", "fast|step", "x:1,2", "1;2", "data:[1,2]", "100", "LoadBalance:8"),
    '{"training_trace":"on","output":"/tmp"}',
)


def written(proto: Any, **source: str) -> str:
    return write_config(proto, judge_entry(proto, {}), source)


def read_back(text: str) -> AscendConfig:
    """Evaluate a printed configuration with the package's public names alone."""
    names = {name: getattr(ascend_session, name) for name in ascend_session.__all__}
    names["tf"] = tf
    config = quiet(eval, text, names)
    assert isinstance(config, AscendConfig)
    return config


def comments(text: str) -> str:
    """All that is said in comments, on one line."""
    found = re.findall(r"^ *# (.*)$", text, re.MULTILINE)
    return " ".join(found)


@pytest.mark.parametrize("given", EXAMPLES, ids=lambda given: ",".join(given))
def test_the_text_evaluates_to_what_is_read_from_the_proto(given: Dict[str, Any]) -> None:
    proto = AscendConfig(**given).to_config_proto()
    assert read_back(written(proto)) == AscendConfig.from_config_proto(proto)


@pytest.mark.parametrize("key", OPTIONS)
def test_each_option_of_the_table_is_written_under_its_name_or_the_reason_is(key: str) -> None:
    option = OPTIONS[key]
    of_type = {"b": (True, False), "i": (1, 0, 100, 2400), "s": WORDS}[str(option.field)]
    values = [each for each in (*option.type.allowed, *of_type) if not check_value(key, each)]
    assert values, "no value for it is known here"
    # Of two options the adapter reads nothing without this one
    with_it = {"dynamic_input": ("b", True)} if key in NEED_DYNAMIC_INPUT else {}
    for value in values:
        proto = base(**with_it, **{key: _field(value)})
        text = written(proto)
        config = read_or_none(proto)
        if config is None:
            assert f"{option.name}=" not in re.sub("#.*", "", text)
            assert option.name in comments(text)
        else:
            assert read_back(text) == config


def read_or_none(proto: Any) -> Optional[AscendConfig]:
    """What AscendConfig reads; None if it refuses it."""
    with contextlib.suppress(ConfigError):
        return quiet(AscendConfig.from_config_proto, proto)
    return None


def quiet(function: Any, *arguments: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AscendConfigWarning)
        return function(*arguments)


@pytest.mark.parametrize(("option", "entry"), ENDING, ids=str)
def test_what_ends_the_run_on_a_device_is_named_and_no_other_configuration_is_given(
    option: str, entry: Dict[str, Any]
) -> None:
    proto = base(**{key: _field(value) for key, value in entry.items()})
    if judge_entry(proto, {}).refused:  # some end it only in a certain environment
        text = written(proto)
        assert option in comments(text)
        no_configuration = "# No configuration: a device aborts the run because of these options."
        if not text.startswith(no_configuration):
            assert set(read_back(text).parameter_map()) == set(entry)


def _field(value: Any) -> Any:
    if isinstance(value, tuple):
        return value
    field = {bool: "b", int: "i"}.get(type(value), "s")
    return field, value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize(
    ("key", "given", "note", "kept"),
    [
        ("hcom_parallel", ("i", 1), "read False; if True was meant, hcom_parallel=True", False),
        ("hcom_parallel", ("s", b"True"), "if True was meant, hcom_parallel=True", False),
        ("deterministic", ("b", True), "read 0; if 1 was meant, deterministic=1", 0),
        ("session_device_id", ("s", b"3"), "read 0; if 3 was meant, session_device_id=3", 0),
    ],
)
def test_a_value_in_the_wrong_field_is_what_the_adapter_reads_and_the_comment_what_was_meant(
    key: str, given: Any, note: str, kept: Any
) -> None:
    text = written(base(**{key: given}), **{key: "line 31"})
    assert getattr(read_back(text), key) == kept
    assert comments(text).startswith("line 31: the adapter read")
    assert note in comments(text)


def test_an_unknown_key_is_a_comment_with_its_line() -> None:
    proto = base(precison_mode_v2=("s", b"fp16"), deterministic=("i", 1))
    text = written(proto, precison_mode_v2="config.py:9")
    assert read_back(text) == AscendConfig(deterministic=1)
    assert "config.py:9: The adapter has no key 'precison_mode_v2'" in comments(text)


def test_a_mistyped_key_is_named_even_if_the_entry_ends_the_run() -> None:
    proto = base(jit_compile=("s", b"on"), precison_mode_v2=("s", b"fp16"), hcom_parallel=("i", 1))
    text = written(proto, jit_compile="line 7", precison_mode_v2="line 8", hcom_parallel="line 9")
    assert text.startswith(
        "# No configuration: a device aborts the run because of these options.\n# line 7:"
    )
    _, _, others = comments(text).partition("What else is wrong with the entry: ")
    assert "line 8: The adapter has no key 'precison_mode_v2'" in others
    assert "line 9: the adapter read False; if True was meant, hcom_parallel=True" in others
    assert "jit_compile" not in others


def test_a_number_in_a_field_of_another_type_is_understood_as_anywhere_else() -> None:
    text = written(base(hcom_parallel=("f", 1.0), session_device_id=("s", b" 3 ")))
    assert "if True was meant, hcom_parallel=True" in comments(text)
    assert "if 3 was meant, session_device_id=3" in comments(text)


def test_what_ascend_config_refuses_and_no_device_does_is_left_out_and_named() -> None:
    text = written(base(mix_compile_mode=("b", True), graph_run_mode=("i", -1)))
    assert read_back(text) == AscendConfig(mix_compile_mode=True)
    assert "graph_run_mode=-1 is not one of 0, 1" in comments(text)


def test_what_needs_an_option_that_is_left_out_goes_with_it() -> None:
    profiles = {
        "input_shape": ("s", b"a:-1"),
        "dynamic_dims": ("s", b"1;2;"),
        "dynamic_node_type": ("i", 1),
    }
    text = written(base(**profiles))
    assert read_back(text) == AscendConfig()
    assert "dynamic_dims: '1;2;' cannot be used" in comments(text)
    assert "aborts" not in comments(text)
    assert "input_shape='a:-1' is left out with what it needs." in comments(text)


def test_an_entry_without_options_is_an_empty_configuration() -> None:
    assert read_back(written(base())) == AscendConfig()


def test_of_two_entries_the_configuration_has_what_is_in_force() -> None:
    proto = base(deterministic=("i", 1), precision_mode=("s", b"force_fp16"))
    add(proto, "NpuOptimizer", {"precision_mode": ("s", b"force_fp32")})
    text = written(proto)
    assert read_back(text) == AscendConfig(deterministic=1, precision_mode="force_fp32")
    assert "2 entries named 'NpuOptimizer'" in comments(text)


OFF = """
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
"""
ENTRY = """
op = config.graph_options.rewrite_options.custom_optimizers.add()
op.name = "NpuOptimizer"
"""
PRECISION = 'op.parameter_map["precision_mode"].s = b"allow_mix_precision"\n'
PLAIN = "config = tf.ConfigProto()" + ENTRY + OFF
STYLES = {
    "an entry alone": PLAIN,
    "a precision": PLAIN + PRECISION,
    "offline": PLAIN + 'op.parameter_map["use_off_line"].b = True\n',
    "text by compat": PLAIN
    + 'op.parameter_map["precision_mode"].s = tf.compat.as_bytes("force_fp16")\n',
    "soft placement": "config = tf.ConfigProto(allow_soft_placement=True)"
    + ENTRY
    + OFF
    + PRECISION,
    "placement logged": "config = tf.ConfigProto(log_device_placement=True)" + ENTRY + OFF,
    "threads": "config = tf.ConfigProto(inter_op_parallelism_threads=10, "
    "intra_op_parallelism_threads=4)" + ENTRY + OFF + PRECISION,
    "gpu options": PLAIN
    + "config.gpu_options.allow_growth = True\n"
    + "config.gpu_options.per_process_gpu_memory_fraction = 0.5\n",
    "device count": "config = tf.ConfigProto(device_count={'GPU': 0, 'CPU': 2})" + ENTRY + OFF,
    "device filters": PLAIN + 'config.device_filters.append("/job:ps")\n',
    "operation timeout": PLAIN + "config.operation_timeout_in_ms = 60000\n",
    "optimizer options": "config = tf.ConfigProto(graph_options=tf.GraphOptions("
    "optimizer_options=tf.OptimizerOptions(opt_level=tf.OptimizerOptions.L0, "
    "do_function_inlining=True)))" + ENTRY + OFF + PRECISION,
    "global jit": PLAIN
    + "config.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1\n",
    "layout": PLAIN
    + "config.graph_options.rewrite_options.layout_optimizer = 2\n"
    + "config.graph_options.rewrite_options.constant_folding = RewriterConfig.OFF\n",
    "no meta optimizer": PLAIN
    + "config.graph_options.rewrite_options.disable_meta_optimizer = True\n",
    "list of optimizers": PLAIN
    + 'config.graph_options.rewrite_options.optimizers.extend(["function", "loop"])\n',
    "another optimizer": PLAIN
    + "config.graph_options.rewrite_options.custom_optimizers.add().name = 'GradFusionOptimizer'\n",
    "no memory optimization": "config = tf.ConfigProto()"
    + ENTRY
    + OFF.replace("memory_optimization = RewriterConfig.OFF", "memory_optimization = 1"),
    "loops": PLAIN
    + 'op.parameter_map["iterations_per_loop"].i = 10\n'
    + 'op.parameter_map["enable_data_pre_proc"].b = True\n',
    "dump": PLAIN
    + 'op.parameter_map["enable_dump"].b = True\n'
    + 'op.parameter_map["dump_path"].s = b"/tmp"\n'
    + 'op.parameter_map["dump_step"].s = b"0|5"\n'
    + 'op.parameter_map["dump_mode"].s = b"all"\n',
    "profiling": PLAIN
    + 'op.parameter_map["profiling_mode"].b = True\n'
    + "op.parameter_map['profiling_options'].s = "
    + """b'{"output":"/tmp","training_trace":"on"}'\n""",
    "cluster": PLAIN + "config.cluster_def.job.add(name='ps').tasks[0] = 'host:2222'\n",
}


@pytest.mark.parametrize("style", STYLES)
def test_what_is_printed_of_a_script_gives_the_same_proto(style: str) -> None:
    names = {"tf": tf, "RewriterConfig": rewriter_config_pb2.RewriterConfig}
    exec(STYLES[style], names)
    proto: Any = names["config"]
    text = written(proto)
    config, is_soft = read_back(text), proto.allow_soft_placement
    again = quiet(lambda: config.to_config_proto(allow_soft_placement=is_soft))
    assert again == proto
    assert ("also have allow_soft_placement=True, as in" in comments(text)) is not is_soft


def test_what_no_constructor_of_a_proto_takes_is_named_and_not_written() -> None:
    proto = AscendConfig(deterministic=1).to_config_proto()
    add(proto, "Other", {"key": ("b", True)})  # a map of messages
    text = written(proto)
    assert "The proto also sets graph_options: give it as session_config=." in comments(text)
    assert read_back(text) == AscendConfig(deterministic=1)


def test_a_rewriter_that_the_script_leaves_on_is_named() -> None:
    text = comments(written(base(deterministic=("i", 1))))
    assert "rewrite_options.remapping=OFF" in text
    assert "rewrite_options.memory_optimization=OFF" in text


@has_estimators
def test_of_an_npurunconfig_only_what_differs_from_its_defaults_is_written(
    tmp_path: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("JOB_ID", "10087")
    made = module("npu_bridge.estimator.npu.npu_config").NPURunConfig(
        precision_mode="allow_mix_precision", hcom_parallel=False
    )
    estimator = module("npu_bridge.estimator.npu.npu_estimator").NPUEstimator(
        model_fn=lambda features, labels, mode: None, model_dir=str(tmp_path), config=made
    )
    text = written(estimator.config.session_config)
    config = read_back(text)
    given = {name for name, each in config.given().items()}
    assert {"precision_mode", "hcom_parallel"} <= given
    assert config.enable_data_pre_proc is True  # NPURunConfig's default, and no plain session's
    assert len(given) < 20
    assert re.search(r"[0-9]+ options that NPUEstimator writes have the values", comments(text))


def test_the_command_prints_each_configuration_once_with_its_place(
    tmp_path: Any, forking_python: str
) -> None:
    script = (
        "from npu_bridge.npu_init import *\n"
        + PREFACE
        + "for _ in range(2):\n"
        + '    tf.Session(config=options(precision_mode="force_fp16", no_such=1)).close()\n'
    )
    run = (tmp_path, script)
    ended = run_script(*run, python=forking_python, variables={PRINT_VARIABLE: "1"})
    assert ended.returncode == 0, ended.stderr
    head = "# AscendConfig of the session that train.py:"
    assert ended.stderr.count(head) == 1
    _, _, text = ended.stderr.partition(head)
    [expression] = re.findall(r"^AscendConfig\(\n(?:    .*\n)*\)$", text, re.MULTILINE)
    ast.parse(expression, mode="eval")
    assert read_back(expression) == AscendConfig(precision_mode="force_fp16")
    assert "no key 'no_such'" in text
    assert head not in run_script(*run, python=forking_python).stderr


def test_what_the_command_prints_is_there_although_the_process_aborts(
    tmp_path: Any, forking_python: str
) -> None:
    script = (
        "from npu_bridge.npu_init import *\n"
        + PREFACE
        + "tf.Session(config=options(enable_dump=True, dump_path='/tmp'))\nos._exit(3)\n"
    )
    variables = {PRINT_VARIABLE: "1"}
    ended = run_script(tmp_path, script, python=forking_python, variables=variables)
    assert ended.returncode == 3
    assert "# AscendConfig of the session that train.py:" in ended.stderr
    assert "AscendConfigWarning: enable_dump" in ended.stderr


def test_of_a_job_rank_0_prints(monkeypatch: Any, capsys: Any) -> None:
    proto = base(deterministic=("i", 1))
    monkeypatch.setenv(PRINT_VARIABLE, "1")
    monkeypatch.setenv("RANK_SIZE", "2")
    for rank, line in (("1", 1), ("0", 2)):
        monkeypatch.setenv("RANK_ID", rank)
        print_config(proto, judge_entry(proto, {}), UserLine("job.py", line), {})
    assert re.findall("job.py:[0-9]", capsys.readouterr().err) == ["job.py:2"]
