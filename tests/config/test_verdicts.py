"""600 option sets against the verdicts of the adapter's own code, and what is known to abort it."""

import json
import warnings
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Set

import pytest

from ascend_session import AscendConfig, AscendConfigWarning, ConfigError
from ascend_session.config.option import options_by_key
from ascend_session.config.options import AdapterOptions

SAMPLE = Path(__file__).parent / "data" / "verdicts_sample.jsonl"

# Options that are refused although the adapter takes the value: what it does not look at, GE does,
# or the manual rules it out.
STRICTER_THAN_THE_ADAPTER = {
    "accelerate_train_mode": "looked at in a run (guides/facts/precision.md#accelerated-training)",
    "aicore_num": "GE wants 'cube|vector'",
    "auto_multistream_parallel_mode": "GE has its words (guides/facts/dynamic.md#dynamic-graphs)",
    "auto_tune_mode": "GE refuses any value of it (guides/facts/former.md#former-names)",
    "dump_config.dump_debug_mode": "looked at with enable_dump_debug only",
    "dump_config.dump_mode": "looked at with enable_dump only",
    "dump_config.dump_step": "looked at with enable_dump only",
    "dynamic_dims": "GE counts the -1 (guides/facts/dynamic.md#dynamic-profiles)",
    "dynamic_graph_execute_mode": "looked at with dynamic_input only",
    "graph_memory_max_size": "a number of bytes",
    "in_out_pair": "a list of pairs",
    "iterations_per_loop": "NPURunConfig demands 1 here (guides/facts/options.md#mixed-computing)",
    "optimization_switch": "GE skips what it cannot read",
    "profiling_mode": "off while AOE tunes (guides/facts/aoe.md#aoe-tuning)",
    "static_memory_policy": "0 while AOE tunes (guides/facts/aoe.md#aoe-tuning)",
    "variable_memory_max_size": "a number of bytes",
    "variable_placement": "'Host' needs mix_compile_mode (guides/facts/options.md#mixed-computing)",
}

# Each is named in guides/facts/adapter.md#what-a-bad-option-does
ABORTING: List[Dict[str, Any]] = [
    {"graph_run_mode": 2},
    {"session_device_id": -1},
    {"op_select_implmode": "fast"},
    {"optypelist_for_implmode": "Pooling"},
    {"buffer_optimize": "on"},
    {"input_shape": "a:-1", "dynamic_dims": "1;2"},
    {"input_shape": "a", "dynamic_dims": "1;2", "dynamic_node_type": 1},
    {"input_shape": "a:-1", "dynamic_dims": "1;x", "dynamic_node_type": 1},
    {"input_shape": "a:-1", "dynamic_dims": "1;2", "dynamic_node_type": 2},
    {"enable_compress_weight": False, "compress_weight_conf": "weights.cfg"},
    {"enable_dump": True, "dump_path": "{DIR}", "dump_mode": "both"},
    {"enable_dump_debug": True, "dump_path": "{DIR}", "dump_debug_mode": "aicore"},
    {"aoe_mode": "1", "work_path": "{DIR}/missing"},
    {"local_rank_id": 8},
    {"local_rank_id": -1},
    {"local_device_list": "0;1"},
    {"dynamic_input": True, "dynamic_graph_execute_mode": "static"},
    {"variable_placement": "host"},
    {"iterations_per_loop": 0},
    {"task_index": -1},
    {
        "input_shape": "a:-1",
        "dynamic_dims": "1;2",
        "dynamic_node_type": 1,
        "mix_compile_mode": True,
    },
    {"dynamic_input": True, "dynamic_inputs_shape_range": "getnext:[1"},
]
RAISING: List[Dict[str, Any]] = [
    {"precision_mode": "fp16"},
    {"precision_mode_v2": "force_fp16"},
    {"jit_compile": "on"},
    {"shape_generalization_mode": "strict"},
    {"variable_use_1g_huge_page": 3},
    {"export_compile_stat": 3},
    {"precision_mode": "force_fp16", "precision_mode_v2": "fp16"},
    {"modify_mixlist": "{DIR}/mixlist.json"},
    {"enable_exception_dump": 3},
    {"dump_data": "tensors"},
    {"enable_dump": True},
    {"enable_dump": True, "dump_path": "{DIR}/missing"},
    {"enable_dump": True, "dump_path": "{DIR}", "dump_step": "3-"},
    {"aoe_mode": "3"},
    {"graph_slice": "on"},
    {"graph_max_parallel_model_num": 0},
    {"compile_hybrid_mode": 2},
    {"compile_dynamic_mode": True, "dynamic_input": True},
    {"experimental_accelerate_train_mode": "fast"},
]


class Judged(NamedTuple):
    """One set of the sample: the adapter's verdict, and ours."""

    options: Dict[str, Any]
    adapter: str
    documented: bool
    error: Optional[ConfigError]
    read_back: Optional[Dict[str, Any]]

    def __str__(self) -> str:
        ours = f"refused: {self.error}" if self.error else "accepted"
        return f"\n  {self.options}\n    adapter: {self.adapter}\n    {ours}"


def judge(options: Dict[str, Any], adapter: str = "", documented: bool = False) -> Judged:
    """Accepted means: construction and check_host both pass."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AscendConfigWarning)
        try:
            config = AscendConfig.from_parameter_map(options)
            config.check_host({})
        except ConfigError as error:
            return Judged(options, adapter, documented, error, None)
    return Judged(options, adapter, documented, None, config.parameter_map())


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> List[Judged]:
    folder = str(tmp_path_factory.mktemp("verdicts"))
    judged = []
    for line in SAMPLE.read_text(encoding="utf-8").splitlines():
        row = json.loads(line.replace("{DIR}", folder))
        adapter = f"{row['status']} {row['message']}".strip()
        judged.append(judge(row["options"], adapter, row.get("documented", False)))
    return judged


def listed(judged: List[Judged]) -> str:
    return f"{len(judged)} sets:{''.join(str(one) for one in judged)}"


def grounds_of(one: Judged) -> Set[str]:
    return {problem.option for problem in one.error.problems} if one.error else set()


def test_the_sample_is_complete(sample: List[Judged]) -> None:
    taken = [one for one in sample if one.adapter == "ok"]
    documented = [one for one in sample if one.documented]
    assert (len(sample), len(taken), len(documented)) == (600, 356, 100)


def test_nothing_is_accepted_that_the_adapter_aborts_on_or_refuses(sample: List[Judged]) -> None:
    wrong = [one for one in sample if one.adapter != "ok" and one.error is None]
    assert not wrong, listed(wrong)


def test_nothing_is_refused_that_the_adapter_takes_and_the_documents_allow(
    sample: List[Judged],
) -> None:
    wrong = [one for one in sample if one.documented and one.error is not None]
    assert not wrong, listed(wrong)


def test_what_the_adapter_takes_is_refused_on_known_grounds_only(sample: List[Judged]) -> None:
    strict = [one for one in sample if one.adapter == "ok" and one.error is not None]
    wrong = [one for one in strict if not grounds_of(one) <= set(STRICTER_THAN_THE_ADAPTER)]
    assert strict
    assert not wrong, listed(wrong)


def test_every_known_ground_for_being_stricter_occurs(sample: List[Judged]) -> None:
    grounds = [grounds_of(one) for one in sample if one.adapter == "ok"]
    assert set().union(*grounds) >= set(STRICTER_THAN_THE_ADAPTER)


def test_an_accepted_set_is_given_back_as_it_was_read(sample: List[Judged]) -> None:
    def exact(options: Dict[str, Any]) -> Dict[str, str]:
        return {key: repr(value) for key, value in options.items()}  # 1 is not True

    accepted = [one for one in sample if one.read_back is not None]
    wrong = [one for one in accepted if exact(one.options) != exact(one.read_back or {})]
    assert len(accepted) >= 100
    assert not wrong, listed(wrong)


def test_a_refusal_names_an_option_of_the_set(sample: List[Judged]) -> None:
    known = options_by_key(AdapterOptions)

    def named(one: Judged) -> bool:
        names = [known[key].name if key in known else key for key in one.options]
        return any(name in str(one.error) for name in names)

    wrong = [one for one in sample if one.error is not None and not named(one)]
    assert not wrong, listed(wrong)


@pytest.mark.parametrize("options", ABORTING + RAISING, ids=str)
def test_what_is_known_to_end_the_run_is_refused(options: Dict[str, Any], tmp_path: Path) -> None:
    placed = json.loads(json.dumps(options).replace("{DIR}", str(tmp_path)))
    judged = judge(placed)
    assert judged.error is not None, listed([judged])
