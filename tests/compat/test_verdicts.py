"""The entry of a session is judged as the vendor's adapter judges it."""

import json
import random
import warnings
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

import pytest

from ascend_session import AscendConfig, AscendConfigWarning, ConfigError
from ascend_session.audit.scripts import audit_bytes
from ascend_session.compat.sessions import describe_options
from ascend_session.compat.verdicts import EntryVerdict, judge_entry, key_of
from ascend_session.config.ends import Stage
from ascend_session.config.option import options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.findings import DIFFERS, ERROR, WARNING, Finding
from tests.config.protos import OFF, add, base, config_pb2

SAMPLE = Path(__file__).parents[1] / "config" / "data" / "verdicts_sample.jsonl"

# What the adapter takes, but the device then ends the run with: GE refuses to initialise with it,
# or the graph's first run fails or aborts (guides/facts/adapter.md#what-a-bad-option-does).
ENDING_LATER = {
    "accelerate_train_mode": "looked at in the first graph run only",
    "auto_tune_mode": "GE takes no value of it any more",
    "auto_multistream_parallel_mode": "GE knows its own words only",
    "dynamic_dims": "GE counts the -1; a later pass refuses mixed computing",
    "in_out_pair": "looked at when the graph is cut into parts",
}

# What the device is told while training is accelerated
PROGRESS = {"STEP_NOW": "0", "TOTAL_STEP": "10", "LOSS_NOW": "9.0", "TARGET_LOSS": "1.0"}

PROFILES = {"input_shape": "a:-1", "dynamic_dims": "1;2", "dynamic_node_type": 1}

# JSON that the profiler refuses, and that it takes
BAD = [
    '{"output":"./","sys_cpu_freq":0}',
    '{"output":"./","sys_lp_freq":101}',
    '{"output":"./","task_memory":"x"}',
    '{"output":"./","sys_mem_serviceflow":""}',
    '{"output":"./","scale":"on"}',
]
TAKEN = [
    '{"output":"./","storage_limit":"lots"}',
    '{"output":"./","hccl":"on","hccl":"on"}',
    '{"output":"./","task_time":"l3"}',
]

# The option, and an entry for which a device ends the run because of it; a tuple is a protobuf
# field and its value
ENDING: List[Tuple[str, Dict[str, Any]]] = [
    # Empty text, also that of a value in another field
    ("buffer_optimize", {"buffer_optimize": ""}),
    ("oo_level", {"oo_level": ""}),
    # Words and numbers
    ("precision_mode_v2", {"precision_mode_v2": "force_fp16"}),
    ("graph_run_mode", {"graph_run_mode": 2}),
    ("session_device_id", {"session_device_id": -1}),
    ("local_rank_id", {"local_rank_id": 8}),
    ("enable_exception_dump", {"enable_exception_dump": 3}),
    ("export_compile_stat", {"export_compile_stat": 3}),
    ("graph_max_parallel_model_num", {"graph_max_parallel_model_num": 0}),
    ("op_select_implmode", {"op_select_implmode": "fast"}),
    ("jit_compile", {"jit_compile": "on"}),
    ("shape_generalization_mode", {"shape_generalization_mode": "strict"}),
    ("aoe_mode", {"aoe_mode": "3"}),
    ("dynamic_node_type", {**PROFILES, "dynamic_node_type": 2}),
    ("auto_multistream_parallel_mode", {"auto_multistream_parallel_mode": "LoadBalance"}),
    ("profiling_options", {"profiling_mode": True, "profiling_options": "{"}),
    # What GE ends and the adapter takes
    ("oo_level", {"oo_level": "O2"}),
    ("deterministic", {"deterministic": 2}),
    ("topo_sorting_mode", {"topo_sorting_mode": 4}),
    ("stream_max_parallel_num", {"stream_max_parallel_num": "A:0"}),
    ("stream_max_parallel_num", {"stream_max_parallel_num": "A:1,A:2"}),
    ("op_wait_timeout", {"op_wait_timeout": 2**31}),
    ("op_execute_timeout", {"op_execute_timeout": 2**32}),
    ("dump_step", {"enable_dump": True, "dump_path": "/tmp", "dump_step": "5-"}),
    ("dump_step", {"enable_dump": True, "dump_path": "/tmp", "dump_step": "5-5"}),
    ("variable_placement", {"variable_placement": 1}),
    ("local_device_list", {"local_device_list": 2}),
    ("local_device_list", {"local_device_list": "1,"}),
    ("dump_mode", {"enable_dump": True, "dump_path": "/tmp", "dump_mode": ""}),
    ("dump_debug_mode", {"enable_dump_debug": True, "dump_path": "/tmp", "dump_debug_mode": 1}),
    ("dynamic_graph_execute_mode", {"dynamic_input": True, "dynamic_graph_execute_mode": 2}),
    ("dump_data", {"dump_data": 2}),
    ("graph_slice", {"graph_slice": True}),
    ("dump_path", {"enable_dump": True, "dump_path": 0}),
    ("work_path", {"aoe_mode": "2", "work_path": ""}),
    ("dump_path", {"enable_dump": True, "dump_path": ""}),
    # Presence, whatever the value
    ("modify_mixlist", {"modify_mixlist": ""}),
    ("modify_mixlist", {"modify_mixlist": "m.json", "precision_mode_v2": "fp16"}),
    ("optypelist_for_implmode", {"optypelist_for_implmode": 1}),
    ("dynamic_dims", {"dynamic_dims": 1}),
    ("input_shape", {"input_shape": ""}),
    ("enable_compress_weight", {"enable_compress_weight": True, "compress_weight_conf": 4}),
    ("precision_mode", {"precision_mode": "force_fp16", "precision_mode_v2": "fp16"}),
    # Malformed values do not hide a rule
    ("in_out_pair", {"in_out_pair": "x"}),
    ("in_out_pair", {"in_out_pair": "[[['a'], ['b']]]"}),
    ("in_out_pair", {"in_out_pair": "[['a'], ['b']]", "mix_compile_mode": True}),
    # 32 bits are read
    ("iterations_per_loop", {"iterations_per_loop": 2**32}),
    ("task_index", {"task_index": 2**31}),
    ("variable_use_1g_huge_page", {"variable_use_1g_huge_page": 2**32 + 3}),
    # What GE refuses
    ("dynamic_dims", {**PROFILES, "dynamic_dims": "8;"}),
    ("dynamic_dims", {**PROFILES, "dynamic_dims": "1,2;3;"}),
    ("dynamic_dims", {**PROFILES, "dynamic_dims": "1;2;", "input_shape": "a:-1,-1"}),
    ("dynamic_dims", {**PROFILES, "dynamic_dims": "1;2;1;"}),
    ("aicore_num", {"aicore_num": "|01"}),
    ("aicore_num", {"aicore_num": "24|048"}),
    *[("profiling_options", {"profiling_mode": True, "profiling_options": text}) for text in BAD],
    (
        "dynamic_inputs_shape_range",
        {"dynamic_input": True, "dynamic_inputs_shape_range": "data:[1~-1]"},
    ),
    ("aicore_num", {"aicore_num": "x|1"}),
    ("aicore_num", {"aicore_num": "0|48"}),
    (
        "dynamic_inputs_shape_range",
        {"dynamic_input": True, "dynamic_inputs_shape_range": "data:[x]"},
    ),
    ("enable_dump_debug", {"enable_dump": True, "enable_dump_debug": True, "dump_path": "/tmp"}),
    # Dynamic profiles
    ("dynamic_dims", {**PROFILES, "dynamic_dims": "1,2;3,4"}),
    ("dynamic_dims", {**PROFILES, "input_shape": "a:-1,-1"}),
    ("dynamic_dims", {**PROFILES, "compile_dynamic_mode": True}),
    ("dynamic_dims", {**PROFILES, "mix_compile_mode": True}),
    ("dynamic_dims", {**PROFILES, "aoe_mode": "2"}),
    ("compile_hybrid_mode", {**PROFILES, "compile_hybrid_mode": -2}),
    ("compile_hybrid_mode", {"compile_hybrid_mode": 1}),
    # Accelerated training
    ("accelerate_train_mode", {"experimental_accelerate_train_mode": "fast|step|0.95"}),
    (
        "accelerate_train_mode",
        {"experimental_accelerate_train_mode": "fast|step", "precision_mode": "force_fp16"},
    ),
    # Where nothing is offloaded these are read all the same
    ("local_rank_id", {"local_rank_id": 9, "job": "default"}),
    ("variable_placement", {"variable_placement": "HOST", "job": "ps"}),
    ("precision_mode", {"precision_mode": "fp16", "use_off_line": False}),
    ("iterations_per_loop", {"iterations_per_loop": 0, "use_off_line": False}),
]

# Entries with which a run goes on, although each has something that does not do what it says
RUNNING: List[Dict[str, Any]] = [
    # Nothing is offloaded
    {"enable_dump": True, "dump_path": "1", "job": "default"},
    {"precision_mode": "fp16", "job": "ps"},
    {"iterations_per_loop": 0, "job": "default"},
    {"in_out_pair": "x", "use_off_line": False},
    {**PROFILES, "mix_compile_mode": True, "use_off_line": 1},
    {"aicore_num": "2", "use_off_line": False},
    # Values that GE takes
    {**PROFILES, "dynamic_dims": "45;00"},
    {**PROFILES, "dynamic_dims": "1;2;"},
    {"dynamic_input": True, "dynamic_inputs_shape_range": "data:[5~2],[1]"},
    {"auto_multistream_parallel_mode": "MainStream:063"},
    *[{"profiling_mode": True, "profiling_options": text} for text in TAKEN],
    {"in_out_pair": ""},
    # Values that nobody looks at, or not all of
    {"compile_hybrid_mode": -2},
    {"local_device_list": "00"},
    {"local_device_list": "10,11"},
    {"task_index": 2**40},
    {"export_compile_stat": 2**32},
    {"export_compile_stat": 2**32 + 2},
    {"export_compile_stat": ("s", b"7")},
    {"variable_use_1g_huge_page": 2**32 + 1},
    {"iterations_per_loop": 2**32 + 1},
    {"graph_max_parallel_model_num": 2**31},
    {"graph_run_mode": -1},
    {"session_device_id": 2**40},
    {"aicore_num": "24"},
    {"aicore_num": "0"},
    {"aicore_num": "|"},
    {"aicore_num": "|48"},
    {"aicore_num": "24|0"},
    {"experimental_accelerate_train_mode": "fast|loss|1.2 "},
    {"experimental_accelerate_train_mode": "fast|loss|nan"},
    {"dump_path": "/tmp", "dump_step": "5-"},
    {"op_wait_timeout": -1},
    {"stream_max_parallel_num": "A : 1,"},
    {"auto_multistream_parallel_mode": "LoadBalance:08"},
    {**PROFILES, "dynamic_dims": "1;2;"},
    {"dynamic_input": True, "dynamic_inputs_shape_range": "data:[-2,+1]"},
    # GE's sources say that it ends the run, but nobody has compiled them
    {"op_debug_level": 5},
    {"op_compiler_cache_mode": "on"},
    {"enable_small_channel": 2},
    {"quant_dumpable": "2"},
    {"ac_parallel_enable": "2"},
    {"enable_dump": True, "dump_path": "/tmp", "dump_step": ""},
    {"in_out_pair": "[[['a', 'b'], ['c'], ['d']]]", "mix_compile_mode": True},
    {"in_out_pair": ""},
    {**PROFILES, "insert_op_file": "aipp.cfg"},
    # Read with another option only
    {"dump_mode": ""},
    {"dump_path": "/not/here"},
    {"dynamic_graph_execute_mode": 2},
    {"dynamic_inputs_shape_range": "x", "dynamic_input": 1},
    {
        "dynamic_inputs_shape_range": "data:[x]",
        "dynamic_input": True,
        "dynamic_graph_execute_mode": "lazy_recompile",
    },
    {"work_path": ""},
    {"aoe_mode": ""},
    {"static_memory_policy": 7},
    {"mix_compile_mode": True, "iterations_per_loop": 10},
    {"variable_placement": "Host"},
    {"op_precision_mode": "/not/here.ini"},
]


def typed(value: Any) -> Tuple[str, Any]:
    if isinstance(value, bool):
        return "b", value
    return ("i", value) if isinstance(value, int) else ("s", value.encode())


def in_fields(entry: Dict[str, Any]) -> Dict[str, Tuple[str, Any]]:
    return {k: v if isinstance(v, tuple) else typed(v) for k, v in entry.items()}


def judged(*, environ: Any = None, **options: Any) -> EntryVerdict:
    """What an entry comes to; a tuple is a field and its value."""
    return judge_entry(base(**in_fields(options)), environ or {})


def said(problems: Any) -> str:
    return "\n".join(str(problem) for problem in problems)


def test_600_sets_get_the_adapters_own_verdicts(tmp_path: Path) -> None:
    wrong: List[Any] = []
    later = set()
    for line in SAMPLE.read_text(encoding="utf-8").splitlines():
        row: Dict[str, Any] = json.loads(line.replace("{DIR}", str(tmp_path)))
        found = judged(**row["options"], environ=PROGRESS)
        refused, grounds = row["status"] != "ok", {each.option for each in found.refused}
        if refused != bool(found.refused) and not (grounds and grounds <= set(ENDING_LATER)):
            wrong.append((row, said(found.refused)))
        later |= set() if refused else grounds
    assert not wrong, wrong
    assert later == set(ENDING_LATER)


def test_an_unknown_key_is_ignored() -> None:
    found = judged(precision_mod="allow_mix_precision")
    assert not found.refused
    assert "has no key 'precision_mod'" in said(found.ignored)
    assert found.values == {}


def test_a_key_that_only_ge_still_knows_ends_the_run_unless_it_is_empty() -> None:
    assert "GE refuses any value of it" in said(judged(auto_tune_mode="RL,GA").refused)
    assert not judged(auto_tune_mode="").refused


def test_a_value_in_the_wrong_field_reads_as_zero() -> None:
    found = judged(use_off_line=("s", b"True"))
    assert not found.refused
    assert "finds False" in said(found.ignored)
    assert found.values == {"use_off_line": False}
    assert not found.is_offloaded


@pytest.mark.parametrize(
    ("key", "given"),
    [
        ("iterations_per_loop", ("s", b"10")),  # 0 steps: it aborts
        ("precision_mode", ("i", 1)),  # an empty text is none of its words
        ("jit_compile", ("b", True)),  # one of the two whose field it looks at
    ],
)
def test_a_wrong_field_ends_the_run_where_its_zero_does(key: str, given: Any) -> None:
    assert key in said(judged(**{key: given}).refused)


def test_each_option_that_ends_a_run_has_a_case() -> None:
    known = options_by_key(AdapterOptions)
    ends = {
        option.name
        for option in known.values()
        if any(each.is_proven and each.by is not Stage.RUN_CONFIG for each in option.ends)
    }
    assert ends - {option for option, _ in ENDING} == set()


@pytest.mark.parametrize(("option", "entry"), ENDING, ids=str)
def test_what_ends_the_run_on_a_device_is_refused(option: str, entry: Dict[str, Any]) -> None:
    found = judged(**entry, environ=PROGRESS)
    assert option in {(each.option or "").split(".")[-1] for each in found.refused}


def refusal_by_config(
    entry: Dict[str, Tuple[str, Any]], environ: Optional[Dict[str, str]] = None
) -> Optional[ConfigError]:
    """What AscendConfig refuses of an entry; with an environment also about the host."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AscendConfigWarning)
        try:
            config = AscendConfig.from_config_proto(base(**entry))
            if environ is not None:
                config.check_host(environ)
        except ConfigError as error:
            return error
    return None


def script_of(entry: Dict[str, Tuple[str, Any]]) -> bytes:
    """A script in the style of the vendor's that opens a session with this entry."""
    lines = [
        "from npu_bridge.npu_init import *",
        "config = tf.ConfigProto()",
        "custom_op = config.graph_options.rewrite_options.custom_optimizers.add()",
        'custom_op.name = "NpuOptimizer"',
        *(f'custom_op.parameter_map["{k}"].{f} = {v!r}' for k, (f, v) in entry.items()),
        "config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF",
        "tf.Session(config=config).run(train_op)",
    ]
    return "\n".join(lines).encode()


def has_error(script: bytes) -> bool:
    return any(each.severity == ERROR for each in audit_bytes("train.py", script).findings)


@pytest.mark.parametrize(("option", "entry"), ENDING, ids=str)
def test_ascend_config_and_an_audit_refuse_what_ends_the_run(
    option: str, entry: Dict[str, Any]
) -> None:
    refusal = refusal_by_config(in_fields(entry), PROGRESS)
    assert refusal is not None
    named = {(each.option or "").split(".")[-1] for each in refusal.problems}
    assert {option, *entry} & named
    assert has_error(script_of(in_fields(entry)))


OF_OPTIONS = ("value-not-allowed", "option-conflict")


def surely_ends(entry: Dict[str, Tuple[str, Any]]) -> bool:
    """Whether an audit says for certain that an option, or several together, end the run."""
    found = audit_bytes("train.py", script_of(entry)).findings
    errors = [each for each in found if each.severity == ERROR and each.certain]
    return any(each.rule in OF_OPTIONS for each in errors)


def is_in_right_fields(entry: Dict[str, Any]) -> bool:
    known = options_by_key(AdapterOptions)
    return all(known[key].field == field for key, (field, _) in in_fields(entry).items())


# A value in the wrong field is reported as that.
OF_VALUES = [entry for _, entry in ENDING if is_in_right_fields(entry)]


@pytest.mark.parametrize("entry", OF_VALUES, ids=str)
def test_an_audit_is_certain_of_what_is_proven_to_end_the_run(entry: Dict[str, Any]) -> None:
    assert surely_ends(in_fields(entry))


def test_an_empty_in_out_pair_is_no_finding_of_an_audit() -> None:
    assert not has_error(script_of({"in_out_pair": ("s", b"")}))


@pytest.mark.parametrize("entry", RUNNING, ids=str)
def test_an_audit_is_not_certain_of_what_runs(entry: Dict[str, Any]) -> None:
    assert not surely_ends(in_fields(entry))


def test_the_verdict_says_who_ends_the_run_for_a_value() -> None:
    assert "'auto', 'manual'. The adapter aborts the run because of it." in said(
        judged(graph_slice="x").refused
    )
    assert "'O1', 'O3'. GE aborts the run because of it." in said(judged(oo_level="O2").refused)
    assert "abort" not in said(judged(memory_optimization_policy="x").ignored)


def without_idle_texts(entry: Dict[str, Any]) -> Dict[str, Any]:
    """Leave out empty texts that end no run: the device takes them for not given."""
    ending = {key_of(each) for each in judge_entry(base(**entry), {}).refused}
    fields = {key: option.field for key, option in options_by_key(AdapterOptions).items()}
    idle = {k for k in entry if entry[k] == (fields[k], b"") and k not in ending}
    return {key: value for key, value in entry.items() if key not in idle}


def test_an_audit_finds_an_error_in_each_entry_that_ascend_config_refuses() -> None:
    outcomes = set()
    for entry in random_entries(200):
        if not {"graph_memory_max_size", "variable_memory_max_size"}.isdisjoint(entry):
            continue  # nobody reads them, which the audit says
        is_refused = refusal_by_config(without_idle_texts(entry)) is not None
        assert has_error(script_of(entry)) == is_refused, entry
        outcomes.add(is_refused)
    assert outcomes == {False, True}


def test_what_ge_was_only_read_to_end_is_told_as_that() -> None:
    told = said(judged(op_debug_level=5).ignored)
    assert "is not one of 0, 1, 2, 3, 4. By its source (te_config_info.cc" in told


@pytest.mark.parametrize("entry", RUNNING, ids=str)
def test_what_runs_on_a_device_is_ignored(entry: Dict[str, Any]) -> None:
    found = judged(**entry, environ=PROGRESS)
    assert not found.refused, said(found.refused)
    assert found.ignored


def test_accelerated_training_needs_to_know_how_far_it_is() -> None:
    mode = {"experimental_accelerate_train_mode": "fast|step|0.9"}
    assert not judged(**mode, environ=PROGRESS).refused
    assert "TOTAL_STEP" in said(judged(**mode).refused)
    assert "TOTAL_STEP" in said(judged(**mode, environ={**PROGRESS, "STEP_NOW": "-1"}).refused)
    assert not judged(**mode, use_off_line=False).refused


def test_a_dump_that_an_earlier_entry_turns_on_stays_on() -> None:
    proto = base(enable_dump=("b", True), dump_path=("s", b"/tmp"), jit_compile=("s", b"true"))
    add(proto, "NpuOptimizer", {"precision_mode": ("s", b"force_fp32")})
    assert "dump_path" in said(judge_entry(proto, {}).refused)


def test_what_ascend_config_accepts_no_check_of_the_adapter_ends() -> None:
    accepted = 0
    for entry in random_entries(600):
        if refusal_by_config(entry, {}) is not None:
            continue
        accepted += 1
        found = judge_entry(base(**entry), PROGRESS)
        assert not found.refused, (entry, said(found.refused))
    assert accepted > 60


def random_entries(count: int) -> Iterator[Dict[str, Any]]:
    """Entries of one to three options, whose values are often at the edge of what is right."""
    chance = random.Random(19)
    edges = {
        "i": [-2, -1, 0, 1, 2, 3, 7, 8, 2**31 - 1, 2**31, 2**32],
        "b": [False, True],
        "s": [b"", b"/tmp", b"0", b"1,2", b"a:-1", b"1;2", b"x"],
    }
    known = options_by_key(AdapterOptions)
    keys = [key for key, option in known.items() if option.field]
    for _ in range(count):
        entry = {}
        for key in chance.sample(keys, chance.randint(1, 3)):
            field = known[key].field or ""
            values = edges[field]
            if chance.random() < 0.7:
                allowed = known[key].type.allowed
                values = [each.encode() if field == "s" else each for each in allowed] or values
            elif chance.random() < 0.2:
                field = chance.choice("sib")
                values = edges[field]
            entry[key] = field, chance.choice(values)
        yield entry


def test_what_stands_in_a_field_for_messages_is_kept_as_text() -> None:
    proto = base()
    [entry] = proto.graph_options.rewrite_options.custom_optimizers
    entry.parameter_map["deterministic"].list.i.extend([1, 2])
    found = judge_entry(proto, {})
    assert found.written == {"deterministic": "i: 1 i: 2"}
    assert found.values == {"deterministic": 0}
    assert "the field 'list'" in said(found.ignored)


def test_text_that_is_no_text_is_one_error() -> None:
    proto = base()
    [entry] = proto.graph_options.rewrite_options.custom_optimizers
    entry.parameter_map["precision_mode"].s = b"force_fp16\xff"
    verdict = judge_entry(proto, {})
    assert ["not UTF-8" in str(each) for each in (*verdict.refused, *verdict.ignored)] == [True]


def judged_together(*entries: Dict[str, Any]) -> EntryVerdict:
    """What several entries of one proto come to."""
    proto = base()
    del proto.graph_options.rewrite_options.custom_optimizers[:]
    for entry in entries:
        add(proto, "NpuOptimizer", {key: typed(value) for key, value in entry.items()})
    return judge_entry(proto, PROGRESS)


def test_what_is_wrong_in_both_of_two_entries_is_said_once() -> None:
    wrong = {"precision_mod": ("s", b"x"), "op_debug_level": ("i", 9)}
    once, twice = base(**wrong), base(**wrong)
    add(twice, "NpuOptimizer", wrong)
    found = [judge_entry(proto, {}) for proto in (once, twice)]
    assert "has no key 'precision_mod'" in said(found[0].ignored)
    assert "2 entries" in str(found[1].ignored[0])
    assert said(found[1].ignored[1:]) == said(found[0].ignored)
    assert said(found[1].refused) == said(found[0].refused)


def test_of_several_findings_about_an_option_the_one_that_weighs_most_is_said() -> None:
    def find(words: str, severity: str = WARNING, effect: Any = None) -> Finding:
        return Finding(severity, words, option="precision_mode")._replace(effect=effect)

    def effect_of(**findings: Any) -> Tuple[str, str]:
        verdict = EntryVerdict(written={"precision_mode": "x"}, **findings)
        [option] = describe_options(verdict)
        return option.effect, option.why

    late, first, second = find("late."), find("first."), find("second.", effect=DIFFERS)
    assert effect_of(late=[late], ignored=[first, second]) == ("warning", "late.")
    assert effect_of(ignored=[first, second]) == ("warning", "first.")
    assert effect_of(ignored=[second, first]) == (DIFFERS, "second.")
    refused = [find("ends.", ERROR), find("ends, too.", ERROR)]
    assert effect_of(late=[late], ignored=[second], refused=refused) == ("refused", "ends.")


def test_of_two_entries_the_last_value_of_each_option_holds() -> None:
    found = judged_together(
        {"precision_mode": "force_fp16", "op_debug_level": 1, "job": "ps"},
        {"precision_mode": "force_fp32"},
    )
    assert found.values == {"precision_mode": "force_fp32", "op_debug_level": 1}
    assert found.written == found.values
    assert found.is_offloaded  # for the adapter resets job
    assert "2 entries" in said(found.ignored)


LAZY = {"dynamic_input": True, "dynamic_graph_execute_mode": "lazy_recompile"}


@pytest.mark.parametrize(
    "entries",
    [
        # Of an entry without dynamic_input=True nobody reads what belongs to it
        ({"dynamic_input": True}, {"dynamic_graph_execute_mode": "x"}),
        ({"dynamic_input": True}, {"dynamic_inputs_shape_range": "x"}),
        (
            {"dynamic_input": True},
            {"dynamic_graph_execute_mode": "lazy_recompile", "iterations_per_loop": 2},
        ),
        ({"dynamic_graph_execute_mode": "lazy_recompile"}, {**LAZY, "iterations_per_loop": 1}),
        (LAZY, {"dynamic_input": False, "iterations_per_loop": 2}),
        # GE gets the last value
        ({"aicore_num": "x|1"}, {"aicore_num": "24"}),
        ({"enable_dump_debug": True, "dump_path": "/tmp"}, {"enable_dump_debug": False}),
        # Nothing is offloaded, as the first one says
        ({"use_off_line": False}, {"in_out_pair": "x"}),
    ],
    ids=str,
)
def test_two_entries_run_if_the_adapter_runs_them(entries: Tuple[Dict[str, Any], ...]) -> None:
    found = judged_together(*entries)
    assert not found.refused, said(found.refused)


@pytest.mark.parametrize(
    ("option", "entries"),
    [
        ("dynamic_input", ({"dynamic_input": True}, {"compile_dynamic_mode": True})),
        ("iterations_per_loop", (LAZY, {"iterations_per_loop": 2})),
        # What was read once stays, also when dynamic_input is off again
        (
            "dynamic_inputs_shape_range",
            (
                {"dynamic_input": True, "dynamic_inputs_shape_range": "x"},
                {"dynamic_input": False},
            ),
        ),
        ("aicore_num", ({"aicore_num": "x|1"}, {"op_debug_level": 1})),
        (
            "enable_dump_debug",
            (
                {"enable_dump": True, "dump_path": "/tmp"},
                {"enable_dump_debug": True, "dump_path": "/tmp"},
            ),
        ),
        ("compile_hybrid_mode", (PROFILES, {"compile_hybrid_mode": 1})),
        # What GE gets of both, it refuses when it initialises
        ("precision_mode", ({"precision_mode": "force_fp16"}, {"precision_mode_v2": "origin"})),
        (
            "modify_mixlist",
            (
                {"precision_mode": "allow_mix_precision", "modify_mixlist": "/tmp/list.json"},
                {"precision_mode": "force_fp16"},
            ),
        ),
    ],
    ids=str,
)
def test_two_entries_are_refused_for_what_they_come_to_together(
    option: str, entries: Tuple[Dict[str, Any], ...]
) -> None:
    assert option in {each.option for each in judged_together(*entries).refused}


def test_an_entry_of_another_name_is_none() -> None:
    proto = config_pb2.ConfigProto()
    add(proto, "npuoptimizer", {"precision_mode": ("s", b"nonsense")})
    found = judge_entry(proto, {})
    assert (found.has_entry, found.refused) == (False, [])
    assert "named 'npuoptimizer'" in said(found.ignored)


def test_no_proto_is_no_entry() -> None:
    assert not judge_entry(None, {}).has_entry


def test_profiling_without_a_folder_ends_the_run_unless_a_variable_names_one() -> None:
    entry = {"profiling_mode": True, "profiling_options": '{"task_time":"on"}'}
    assert "name no output" in said(judged(**entry).refused)
    assert not judged(**entry, environ={"ASCEND_WORK_PATH": "/tmp"}).refused


def test_what_the_environment_ends_is_refused() -> None:
    assert "AOE_MODE" in said(judged(environ={"AOE_MODE": "9"}).refused)


def test_memory_optimization_and_remapping_are_noted_unless_they_are_off() -> None:
    proto = base()
    assert [note.split()[0] for note in judge_entry(proto, {}).notes] == [
        "rewrite_options.memory_optimization",
        "rewrite_options.remapping",
    ]
    proto.graph_options.rewrite_options.memory_optimization = OFF
    proto.graph_options.rewrite_options.remapping = OFF
    assert judge_entry(proto, {}).notes == []


def test_a_session_that_stays_on_the_host_keeps_its_optimisations() -> None:
    assert judged(use_off_line=True).notes
    assert judged(use_off_line=False).notes == []


def test_defaults_that_npuestimator_writes_are_not_the_users() -> None:
    known = options_by_key(AdapterOptions).values()
    written = {o.key: o.adapter for o in known if o.field and o.adapter not in (None, "")}
    written.update(enable_data_pre_proc=True, op_debug_level=1)
    del written["local_rank_id"]  # it writes that only if it is given
    found = judged(**written)
    assert "dynamic_graph_execute_mode" in found.defaults
    assert "enable_data_pre_proc" in found.defaults
    assert {problem.option for problem in found.ignored} == {"op_debug_level"}


def test_the_same_values_written_by_hand_are() -> None:
    found = judged(dynamic_graph_execute_mode="dynamic_execute")
    assert "has no effect" in said(found.ignored)
    assert not found.defaults


def test_what_the_adapter_replaces_is_noted() -> None:
    options = {"optimization_switch": "PassA:on", "experimental_accelerate_train_mode": "fast|step"}
    verdict = judged(**options, precision_mode="allow_fp32_to_fp16")
    notes = "\n".join(verdict.notes)
    assert "adds forbidden_close_pass:on to optimization_switch='PassA:on'" in notes
    assert "precision_mode='allow_fp32_to_fp16' is replaced while accelerate_train_mode" in notes
    empty = judged(profiling_mode=True, profiling_options="")
    assert "profiling_options is empty; the adapter takes its default" in empty.notes[0]
    assert not empty.refused
    assert not judged(
        profiling_mode=True, profiling_options='{"output":"./","host_sys_usage":""}'
    ).refused
    assert "forbidden" not in "".join(judged(precision_mode="allow_fp32_to_fp16").notes)
