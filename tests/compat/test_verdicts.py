"""The entry of a session is judged as the vendor's adapter judges it."""

import json
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest

from ascend_session.compat.verdicts import EntryVerdict, judge_entry
from ascend_session.config.option import options_by_key
from ascend_session.config.options import AdapterOptions
from tests.config.protos import OFF, add, base, config_pb2

SAMPLE = Path(__file__).parents[1] / "config" / "data" / "verdicts_sample.jsonl"

# What the adapter takes, but the device then ends the run with: GE refuses to initialise with it,
# or the graph's first run fails or aborts (guides/facts/adapter.md#what-a-bad-option-does).
ENDING_LATER = {
    "accelerate_train_mode": "looked at in the first graph run only",
    "aicore_num": "GE wants 'cube|vector'",
    "auto_tune_mode": "GE takes no value of it any more",
    "auto_multistream_parallel_mode": "GE knows its own words only",
    "dynamic_dims": "GE counts the -1; a later pass refuses mixed computing",
}


def typed(value: Any) -> Tuple[str, Any]:
    if isinstance(value, bool):
        return "b", value
    return ("i", value) if isinstance(value, int) else ("s", value.encode())


def judged(*, environ: Any = None, **options: Any) -> EntryVerdict:
    """What an entry comes to; a tuple is a field and its value."""
    entry = {k: v if isinstance(v, tuple) else typed(v) for k, v in options.items()}
    return judge_entry(base(**entry), environ or {})


def said(problems: Any) -> str:
    return "\n".join(str(problem) for problem in problems)


def test_600_sets_get_the_adapters_own_verdicts(tmp_path: Path) -> None:
    wrong: List[Any] = []
    later = set()
    for line in SAMPLE.read_text(encoding="utf-8").splitlines():
        row: Dict[str, Any] = json.loads(line.replace("{DIR}", str(tmp_path)))
        found = judged(**row["options"])
        refused, grounds = row["status"] != "ok", {each.option for each in found.refused}
        if refused != bool(found.refused) and not (grounds and grounds <= set(ENDING_LATER)):
            wrong.append((row, said(found.refused)))
        later |= set() if refused else grounds
    assert not wrong, wrong
    assert later == set(ENDING_LATER)


def test_an_unknown_key_is_ignored() -> None:
    found = judged(precision_mod="allow_mix_precision")
    assert not found.refused
    assert "reads no key 'precision_mod'" in said(found.ignored)
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


@pytest.mark.parametrize(
    "options",
    [
        {"graph_run_mode": -1},
        {"static_memory_policy": 7},
        {"aoe_mode": ""},
        {"dump_step": "3-"},
        {"mix_compile_mode": True, "iterations_per_loop": 10},
        {"variable_placement": "Host"},
        {"op_precision_mode": "/not/here.ini"},
        {"session_device_id": 2**40},
    ],
    ids=str,
)
def test_what_nothing_looks_at_is_not_refused_but_said(options: Any) -> None:
    found = judged(**options)
    assert not found.refused, said(found.refused)
    assert found.ignored


def test_of_two_entries_the_last_one_holds() -> None:
    proto = base(precision_mode=("s", b"force_fp16"), op_debug_level=("i", 1))
    add(proto, "NpuOptimizer", {"precision_mode": ("s", b"force_fp32")})
    found = judge_entry(proto, {})
    assert found.values == {"precision_mode": "force_fp32"}
    assert "2 entries" in said(found.ignored)


def test_an_entry_of_another_name_is_none() -> None:
    proto = config_pb2.ConfigProto()
    add(proto, "npuoptimizer", {"precision_mode": ("s", b"nonsense")})
    found = judge_entry(proto, {})
    assert (found.has_entry, found.refused) == (False, [])
    assert "named 'npuoptimizer'" in said(found.ignored)


def test_no_proto_is_no_entry() -> None:
    assert not judge_entry(None, {}).has_entry


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


def test_defaults_that_npuestimator_writes_are_not_the_users() -> None:
    known = options_by_key(AdapterOptions).values()
    written = {o.key: o.adapter for o in known if o.field and o.adapter not in (None, "")}
    written.update(enable_data_pre_proc=True, op_debug_level=1)
    found = judged(**written)
    assert "dynamic_graph_execute_mode" in found.defaults
    assert "enable_data_pre_proc" in found.defaults
    assert {problem.option for problem in found.ignored} == {"op_debug_level"}


def test_the_same_values_written_by_hand_are() -> None:
    found = judged(dynamic_graph_execute_mode="dynamic_execute")
    assert "has no effect" in said(found.ignored)
    assert not found.defaults
