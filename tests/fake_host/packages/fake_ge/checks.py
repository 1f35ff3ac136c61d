"""What a bad option does at the first run of a signature.

Source: guides/facts/adapter.md#what-a-bad-option-does, which names the kind of end of each option;
npu_attrs.cc, GetPassOptions and SetNpuOptimizerAttr, in the order of the latter. What is allowed is
in the table of options and in those two. Each rule gives a sentence if the entry breaks it; the
sentences are npu_attrs.cc's in short. What only an offloaded run refuses is in running.py.
"""

import os
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from fake_ge import patterns
from fake_ge.entry import Entry
from fake_ge.fatal import abort, internal_error, invalid_argument

__all__ = ["check", "first_broken"]

_SOURCE = "tf_adapter/util/npu_attrs.cc"
_PRECISION = [
    "force_fp32",
    "allow_fp32_to_fp16",
    "force_fp16",
    "must_keep_origin_dtype",
    "allow_mix_precision",
    "cube_fp16in_fp32out",
    "allow_mix_precision_fp16",
    "allow_mix_precision_bf16",
    "allow_fp32_to_bf16",
]
_PRECISION_V2 = [
    "fp16",
    "origin",
    "cube_fp16in_fp32out",
    "mixed_float16",
    "mixed_bfloat16",
    "cube_hif8",
    "mixed_hif8",
]
_IMPL_MODES = [
    "high_precision",
    "high_performance",
    "high_precision_for_all",
    "high_performance_for_all",
]
_DYNAMIC = ("input_shape", "dynamic_dims", "dynamic_node_type")
_MIXED = ("allow_mix_precision", "allow_mix_precision_fp16", "allow_mix_precision_bf16")
_MIXED_V2 = ("mixed_float16", "mixed_bfloat16", "mixed_hif8")

Sentence = Optional[str]


class _Rule(NamedTuple):
    ends: Callable[[str], Any]
    broken: Callable[[Entry], Sentence]

    @property
    def aborts(self) -> bool:
        """Whether it ends the process."""
        return self.ends is _abort


def check(entry: Entry) -> None:
    """Refuses an entry as the adapter does: ends the process, or raises.

    Raises:
        InvalidArgumentError: Of TensorFlow.
        InternalError: Of TensorFlow.
    """
    broken = first_broken(entry)
    if broken is not None:
        rule, sentence = broken
        raise rule.ends(sentence)


def first_broken(entry: Entry) -> Optional[Tuple[_Rule, str]]:
    """The first rule that the entry breaks, and what it says."""
    for rule in _RULES:
        sentence = rule.broken(entry)
        if sentence is not None:
            return rule, sentence
    return None


def _abort(sentence: str) -> Any:
    # npu_attrs.cc, om_partition_subgraphs_pass.cc: LOG(FATAL) for options has no sleep before it
    abort(sentence, _SOURCE, sleep=False)


def _one_of(key: str, allowed: Sequence[Any], needs: str = "") -> Callable[[Entry], Sentence]:
    """The value is one of these; looked at only if the option ``needs`` is on."""

    def broken(entry: Entry) -> Sentence:
        if key not in entry.said or entry.said[key] in allowed or (needs and not entry.get(needs)):
            return None
        return f"{key} should be one of the list:{list(allowed)}, but it is {entry.said[key]!r}"

    return broken


def _at_least(key: str, least: int) -> Callable[[Entry], Sentence]:
    def broken(entry: Entry) -> Sentence:
        return f"{key} should be >= {least}" if entry.said.get(key, least) < least else None

    return broken


def _text(key: str, good: Callable[[str], bool], needs: str = "") -> Callable[[Entry], Sentence]:
    """The text has the right form; looked at only if the option ``needs`` is on."""

    def broken(entry: Entry) -> Sentence:
        value = entry.said.get(key)
        if value is None or good(value) or (needs and not entry.get(needs)):
            return None
        return f"{key} style is invalid: {value!r}"

    return broken


def _is_text(key: str) -> Callable[[Entry], Sentence]:
    def broken(entry: Entry) -> Sentence:
        # guides/facts/adapter.md#values-in-the-wrong-field: refused for these two
        wrong = key in entry.misplaced
        return f"The data type of {key} is invalid. Expected string type." if wrong else None

    return broken


def _in_export_field(entry: Entry) -> Sentence:
    # guides/facts/adapter.md#values-in-the-wrong-field: ignored for this one
    if "export_compile_stat" in entry.misplaced:
        return None
    return _one_of("export_compile_stat", (0, 1, 2))(entry)


def _dynamic_complete(entry: Entry) -> Sentence:
    # guides/facts/dynamic.md#dynamic-profiles
    given = [key in entry.said for key in _DYNAMIC]
    if any(given) and not all(given):
        return "input_shape, dynamic_dims and dynamic_node_type should use together."
    return None


def _dynamic_alone(entry: Entry) -> Sentence:
    # guides/facts/dynamic.md#dynamic-profiles
    if _has_profiles(entry) and entry.get("mix_compile_mode"):
        return "dynamic config can not use with mix compile."
    return None


def _hybrid(entry: Entry) -> Sentence:
    # guides/facts/dynamic.md#dynamic-profiles
    if entry.get("compile_hybrid_mode") == 1 and entry.said.get("dynamic_node_type") != 1:
        return "When compile_hybrid_mode set, dynamic_node_type should be 1."
    return None


def _shape_range(entry: Entry) -> Sentence:
    # guides/facts/dynamic.md#dynamic-inputs: when the range is read
    if entry.get("dynamic_graph_execute_mode") != "dynamic_execute":
        return None
    return _text("dynamic_inputs_shape_range", patterns.shape_range, "dynamic_input")(entry)


def _lazy_loops(entry: Entry) -> Sentence:
    # guides/facts/options.md#iterations-per-loop
    lazy = entry.get("dynamic_graph_execute_mode") == "lazy_recompile"
    if entry.get("dynamic_input") and lazy and entry.get("iterations_per_loop") > 1:
        return "iterations_per_loop only support 1 in lazy_recompile mode."
    return None


def _impl_mode_there(entry: Entry) -> Sentence:
    # guides/facts/precision.md#implementation-modes
    if "optypelist_for_implmode" in entry.said and "op_select_implmode" not in entry.said:
        return "when use optypelist_for_implmode, op_select_implmode must be set."
    return None


def _weights(entry: Entry) -> Sentence:
    # guides/facts/options.md#weight-compression: presence counts, not the value
    if "enable_compress_weight" in entry.said and "compress_weight_conf" in entry.said:
        return "enable_compress_weight can not use with compress_weight_conf."
    return None


def _two_precisions(entry: Entry) -> Sentence:
    # guides/facts/precision.md#precision-modes
    if "precision_mode" in entry.said and "precision_mode_v2" in entry.said:
        return "'precision_mode' and 'precision_mode_v2' can not be assigned at the same time."
    return None


def _mixlist(entry: Entry) -> Sentence:
    # guides/facts/precision.md#precision-modes
    if "modify_mixlist" not in entry.said:
        return None
    if "precision_mode" in entry.said:
        mixed = entry.said["precision_mode"] in _MIXED
    else:
        mixed = entry.said.get("precision_mode_v2") in _MIXED_V2
    return None if mixed else "modify_mixlist is assigned, please ensure precision_mode is mixed."


def _dump_path(entry: Entry) -> Sentence:
    # guides/facts/dumps.md#data-dump
    if not entry.get("enable_dump") and not entry.get("enable_dump_debug"):
        return None
    if "dump_path" not in entry.said:
        return "if use dump function, dump_path must be set."
    return _unusable(entry.said["dump_path"])


def _work_path(entry: Entry) -> Sentence:
    # guides/facts/aoe.md#aoe-tuning
    return _unusable(entry.get("work_path")) if _aoe_mode(entry) else None


def _aoe(entry: Entry) -> Sentence:
    # npu_attrs.cc, CheckAoeMode
    mode = _aoe_mode(entry)
    return None if mode in ("", "1", "2", "4") else f"aoe mode:{mode} is invalid"


def _aoe_mode(entry: Entry) -> str:
    # guides/facts/aoe.md#aoe-tuning: AOE_MODE counts without the key only
    return str(entry.said.get("aoe_mode", os.environ.get("AOE_MODE", "")))


def _unusable(path: str) -> Sentence:
    # npu_attrs.cc, CheckPath
    if not os.path.isdir(path):
        return f"the path {path} is not directory."
    if not os.access(path, os.R_OK | os.W_OK):
        return f"the path {path} doesn't have read, write permissions."
    return None


def _has_profiles(entry: Entry) -> bool:
    return all(key in entry.said for key in _DYNAMIC)


def _rules() -> Iterator[_Rule]:
    for broken in (
        # Read before all others, in PRE_PLACEMENT (guides/facts/adapter.md#reading-the-entry)
        _one_of(
            "dynamic_graph_execute_mode", ("lazy_recompile", "dynamic_execute"), "dynamic_input"
        ),
        _shape_range,
        _one_of("local_rank_id", range(8)),
        _text("local_device_list", patterns.device_list),
        _one_of("variable_placement", ("Host", "Device")),
        _at_least("iterations_per_loop", 1),
        _at_least("task_index", 0),
        _dynamic_alone,
    ):
        yield _Rule(_abort, broken)
    yield _Rule(invalid_argument, _lazy_loops)
    yield _Rule(internal_error, _dump_path)
    yield _Rule(internal_error, _text("dump_step", patterns.dump_step, "enable_dump"))
    yield _Rule(_abort, _one_of("dump_mode", ("input", "output", "all"), "enable_dump"))
    debug_modes = ("aicore_overflow", "atomic_overflow", "all")
    yield _Rule(_abort, _one_of("dump_debug_mode", debug_modes, "enable_dump_debug"))
    # guides/facts/adapter.md#options-that-nobody-checks: a negative graph_run_mode
    yield _Rule(_abort, lambda e: "graph_run_mode value must be 0 or 1" if _above_one(e) else None)
    yield _Rule(internal_error, _aoe)
    yield _Rule(_abort, _work_path)
    yield _Rule(invalid_argument, _one_of("precision_mode", _PRECISION))
    yield _Rule(invalid_argument, _one_of("precision_mode_v2", _PRECISION_V2))
    yield _Rule(internal_error, _at_least("graph_max_parallel_model_num", 1))
    yield _Rule(internal_error, _one_of("enable_exception_dump", (0, 1, 2)))
    yield _Rule(_abort, _impl_mode_there)
    yield _Rule(_abort, _one_of("op_select_implmode", _IMPL_MODES))
    yield _Rule(_abort, _dynamic_complete)
    yield _Rule(_abort, _text("input_shape", patterns.input_shape))
    yield _Rule(_abort, _text("dynamic_dims", patterns.dynamic_dims))
    yield _Rule(_abort, _one_of("dynamic_node_type", (0, 1)))
    yield _Rule(internal_error, _one_of("compile_hybrid_mode", (0, 1)))
    yield _Rule(internal_error, _hybrid)
    yield _Rule(_abort, _one_of("buffer_optimize", ("l2_optimize", "off_optimize")))
    yield _Rule(_abort, _weights)
    yield _Rule(_abort, _at_least("session_device_id", 0))
    yield _Rule(internal_error, _mixlist)
    yield _Rule(internal_error, _two_precisions)
    yield _Rule(invalid_argument, _one_of("variable_use_1g_huge_page", (0, 1, 2)))
    yield _Rule(internal_error, _one_of("dump_data", ("tensor", "stats")))
    yield _Rule(invalid_argument, _in_export_field)
    yield _Rule(invalid_argument, _is_text("jit_compile"))
    yield _Rule(invalid_argument, _one_of("jit_compile", ("true", "false", "auto")))
    yield _Rule(invalid_argument, _is_text("shape_generalization_mode"))
    shapes = ("STRICT", "FULL", "ADAPTIVE")
    yield _Rule(invalid_argument, _one_of("shape_generalization_mode", shapes))
    yield _Rule(internal_error, _one_of("graph_slice", ("auto", "manual")))


def _above_one(entry: Entry) -> bool:
    return bool(entry.get("graph_run_mode") > 1)


_RULES: List[_Rule] = list(_rules())
