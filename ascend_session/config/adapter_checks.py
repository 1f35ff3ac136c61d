"""The adapter's own checks of an NpuOptimizer entry: what ends a run, and nothing else.

The definitions of the options and the rules between them say what is right; they refuse more than
the vendor's stack does, because what nothing looks at does not do what it says. This module says
what the stack does with an entry as it is: each check is one that its code makes, on the values as
the adapter reads them (`EntryReading.values`).

Sources: npu_attrs.cc GetPassOptions and SetNpuOptimizerAttr; om_partition_subgraphs_pass.cc
ProcessGraph, ParseInputShapeRange and ParseInOutPair; geop_npu.cc ComputeAsync and
ParserAccelerateTrain; guides/facts/adapter.md#what-a-bad-option-does.
"""

import re
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Sequence

from ascend_session.config.entry import EntryReading
from ascend_session.config.grammars import accelerate
from ascend_session.config.option import options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.config.rules.accuracy import MIXED, MIXED_V2
from ascend_session.config.rules.dynamic import PROFILE
from ascend_session.config.rules.paths import unusable_directory
from ascend_session.config.rules.variables import whole_number
from ascend_session.findings import ERROR, Finding


class _Entry(NamedTuple):
    """One entry, as a check sees it.

    Attributes:
        own: The options that are read of it.
        all: The same, and what entries before it have left in the adapter's variables.
        environ: The environment of the process.
    """

    own: Mapping[str, Any]
    all: Mapping[str, Any]
    environ: Mapping[str, str]

    def is_on(self, key: str) -> bool:
        return self.all.get(key) is True

    def has_profiles(self) -> bool:
        return all(key in self.all for key in PROFILE)

    def tuning_mode(self) -> str:
        return str(self.own.get("aoe_mode", self.environ.get("AOE_MODE", "")))


class _Refusal(NamedTuple):
    """Why a check of the adapter ends the run.

    Attributes:
        about: The option or variable that it is about.
        wants: What it wants, as half a sentence.
        needs_others: Whether other options or variables decide with it.
    """

    about: str
    wants: str
    needs_others: bool = False


def find_refusals(
    entries: Sequence[EntryReading], environ: Mapping[str, str]
) -> Dict[str, Finding]:
    """Find what ends the run of a session whose proto has these NpuOptimizer entries.

    Returns:
        A finding for each option or variable that a check is about, by key.
    """
    views = _read_in_turn([reading.values for reading in entries], environ)
    if not views:
        return {}
    last = views[-1]
    failed = [(refusal, view) for view in views for refusal in _check_passes(view)]
    if last.all.get("job") not in ("ps", "default"):
        failed += [(refusal, view) for view in views for refusal in _check_entry(view)]
        failed += [(refusal, last) for refusal in _check_graph(last)]
        if last.all.get("use_off_line") is not False:
            failed += [(refusal, last) for refusal in _check_offload(last)]
    refusals: Dict[str, Finding] = {}
    for (name, wants, _), view in failed:
        given: Mapping[str, Any] = view.all if name in view.all else view.environ
        written = f"{name}={given[name]!r}" if name in given else name
        message = f"{written} ends the run on a device: {wants}."
        refusals.setdefault(name, Finding(ERROR, message, option=name))
    return refusals


def ends_by_itself(key: str, value: Any) -> bool:
    """Whether a value, as the adapter reads it, ends each run that is offloaded."""
    (alone,) = _read_in_turn([{key: value}], {})
    phases = (_check_passes, _check_entry, _check_graph, _check_offload)
    return any(
        refusal.about == key and not refusal.needs_others
        for check in phases
        for refusal in check(alone)
    )


def values_in_force(entries: Sequence[EntryReading]) -> Mapping[str, Any]:
    """Give the values that the adapter has after it has read these entries of one proto."""
    views = _read_in_turn([reading.values for reading in entries], {})
    return views[-1].all if views else {}


RESET_OPTIONS = ("aoe_mode", "jit_compile", "job", "shape_generalization_mode")
"""What a later entry resets by leaving it out (npu_attrs.cc SetNpuOptimizerAttr)."""

# The same and GetPassOptions: of an entry without dynamic_input=True these are not read at all.
_DETAILS_OF_DYNAMIC_INPUT = ("dynamic_graph_execute_mode", "dynamic_inputs_shape_range")


def _read_in_turn(entries: Iterable[Mapping[str, Any]], environ: Mapping[str, str]) -> List[_Entry]:
    """Read the values of one entry after the other; what one leaves out stays."""
    views: List[_Entry] = []
    kept: Dict[str, Any] = {}
    for values in entries:
        own = dict(values)
        if own.get("dynamic_input") is not True:
            for key in _DETAILS_OF_DYNAMIC_INPUT:
                own.pop(key, None)
        kept = {**{key: kept[key] for key in kept if key not in RESET_OPTIONS}, **own}
        views.append(_Entry(own, kept, environ))
    return views


_ALLOWED = {
    key: list(option.type.allowed) for key, option in options_by_key(AdapterOptions).items()
}


def _check_words(entry: _Entry, *keys: str) -> Iterator[_Refusal]:
    """Check the options of which the definition counts up the values."""
    for key in keys:
        if key in entry.own and entry.own[key] not in _ALLOWED[key]:
            words = ", ".join(map(repr, _ALLOWED[key]))
            yield _Refusal(key, f"the adapter takes {words} only")


def _check_number(
    entry: _Entry, key: str, is_taken: Callable[[int], bool], wants: str
) -> Iterator[_Refusal]:
    if key in entry.own and not is_taken(entry.own[key]):
        yield _Refusal(key, f"the adapter takes {wants}")


def _to_int32(number: int) -> int:
    """Cut a number to 32 bits, as a C++ cast does."""
    return (number + 2**31) % 2**32 - 2**31


def _is_up_to_2(number: int) -> bool:
    return _to_int32(number) in (0, 1, 2)


def _split(text: str, separator: str) -> List[str]:
    """Split as std::getline does: nothing stands behind a last separator."""
    parts = text.split(separator)
    return parts if parts[-1] else parts[:-1]


def _items_match(text: str, pattern: str) -> bool:
    """Whether there are items between the semicolons of a text, and all of them match."""
    items = _split(text, ";")
    return bool(items) and all(re.fullmatch(pattern, f"{item},", re.ASCII) for item in items)


def _is_dump_step(text: str) -> bool:
    """Whether checkDumpStep takes a text; it takes ``5-``, ``-5``, ``0|`` and an empty one, too."""
    parts = _split(text, "|")
    for part in parts:
        ends = _split(part, "-")
        if len(ends) not in (1, 2) or not all(re.fullmatch("[0-9]*", end) for end in ends):
            return False
        first, last = (_to_int32(min(int(end or 0), 2**63 - 1)) for end in (ends[0], ends[-1]))
        if len(ends) == 2 and first >= last:
            return False
    return len(parts) <= 100


def _is_shape_range(text: str) -> bool:
    """Whether ParseInputShapeRange takes the groups of a text; it does not look at the shapes."""
    groups = [_split(group, ":") for group in _split(text, ";")]
    are_named = all(len(group) == 2 and group[0] in ("data", "getnext") for group in groups)
    return are_named and len(groups) in (1, 2)


def _has_pairs(text: str) -> bool:
    """Whether ParseInOutPair finds a pair in a text, of which it knows brackets and commas only."""
    depth, name = 0, ""
    names: List[str] = []
    pair: List[List[str]] = []
    pairs: List[List[List[str]]] = []
    for letter in text:
        if letter == "[":
            depth += 1
        elif letter in "],":
            if depth == 1 and pair:
                pairs.append(pair)
                pair = []
            elif depth == 2 and names:
                pair.append(names)
                names = []
            elif depth == 3 and name:
                names.append(name)
                name = ""
            depth -= letter == "]"
        elif letter not in " \t'":
            name += letter
    return any(len(each) >= 2 for each in pairs)


def _fails_as_directory(path: str) -> bool:
    return unusable_directory(path.partition("\0")[0]) is not None


def _lacks_mixed_precision(entry: _Entry) -> bool:
    if "precision_mode" in entry.own:
        is_mixed = entry.own["precision_mode"] in MIXED
    else:
        is_mixed = entry.own.get("precision_mode_v2") in MIXED_V2
    return "modify_mixlist" in entry.own and not is_mixed


def _has_wrong_hybrid_mode(entry: _Entry) -> bool:
    mode = entry.own.get("compile_hybrid_mode", 0)
    if not all(key in entry.own for key in PROFILE):
        return bool(mode == 1)
    return mode not in (0, 1) or (mode == 1 and entry.own["dynamic_node_type"] != 1)


def _check_passes(e: _Entry) -> Iterator[_Refusal]:
    """Check what GetPassOptions reads for each graph, also of sessions that are not offloaded."""
    if e.is_on("dynamic_input"):
        yield from _check_words(e, "dynamic_graph_execute_mode")
    yield from _check_number(e, "local_rank_id", lambda rank: 0 <= rank <= 7, "0 to 7 only")
    if not re.fullmatch("([0-9]+,)+", e.own.get("local_device_list", "0") + ","):
        yield _Refusal("local_device_list", "the adapter takes numbers with commas between")
    yield from _check_words(e, "variable_placement")


def _check_entry(e: _Entry) -> Iterator[_Refusal]:
    """Check what SetNpuOptimizerAttr does, in its order; for jobs other than ps and default."""
    own = e.own
    dumps = e.is_on("enable_dump") or e.is_on("enable_dump_debug")
    if dumps and _fails_as_directory(own.get("dump_path", "")):
        yield _Refusal("dump_path", "a dump needs an existing folder that you may read and write")
    if e.is_on("enable_dump") and not _is_dump_step(own.get("dump_step", "")):
        wants = "the adapter takes at most 100 steps and rising ranges, such as '0|3-5|10'"
        yield _Refusal("dump_step", wants)
    if e.is_on("enable_dump"):
        yield from _check_words(e, "dump_mode")
    if e.is_on("enable_dump_debug"):
        yield from _check_words(e, "dump_debug_mode")
    yield from _check_number(e, "graph_run_mode", lambda mode: mode <= 1, "0 and 1 only")
    mode, modes = e.tuning_mode(), _ALLOWED["aoe_mode"]
    if mode not in ("", *modes) and "aoe_mode" in own:
        yield _Refusal("aoe_mode", "the adapter takes '1', '2' and '4' only")
    elif mode not in ("", *modes):
        yield _Refusal("AOE_MODE", "the adapter takes 1, 2 and 4 only")
    if mode in modes and _fails_as_directory(own.get("work_path", "./")):
        yield _Refusal("work_path", "AOE needs an existing folder that you may read and write")
    yield from _check_words(e, "precision_mode", "precision_mode_v2")
    yield from _check_number(
        e, "graph_max_parallel_model_num", lambda count: count >= 1, "numbers from 1 up"
    )
    yield from _check_words(e, "enable_exception_dump")
    if "optypelist_for_implmode" in own and "op_select_implmode" not in own:
        wants = "it needs op_select_implmode"
        yield _Refusal("optypelist_for_implmode", wants, needs_others=True)
    yield from _check_words(e, "op_select_implmode")
    profile = [key for key in PROFILE if key in own]
    if 0 < len(profile) < len(PROFILE):
        wants = f"{', '.join(PROFILE)} are given together"
        yield _Refusal(profile[0], wants, needs_others=True)
    if e.has_profiles() and not _items_match(e.all["input_shape"], r"[\s\S]+:((\d+|-\d+),)+"):
        wants = "the adapter takes names and dimensions, such as 'data:1,-1;label:-1'"
        yield _Refusal("input_shape", wants)
    if e.has_profiles() and not _items_match(e.all["dynamic_dims"], r"(\d+,)+"):
        yield _Refusal("dynamic_dims", "the adapter takes numbers, such as '2,2;4,4'")
    yield from _check_number(e, "dynamic_node_type", lambda kind: kind in (0, 1), "0 and 1 only")
    if _has_wrong_hybrid_mode(e):
        wants = "with dynamic profiles it is 0 or 1, and 1 needs dynamic_node_type=1"
        yield _Refusal("compile_hybrid_mode", wants, needs_others=True)
    yield from _check_words(e, "buffer_optimize")
    if "enable_compress_weight" in own and "compress_weight_conf" in own:
        yield _Refusal("enable_compress_weight", "it excludes compress_weight_conf by presence")
    yield from _check_number(e, "session_device_id", lambda id_: id_ >= 0, "numbers from 0 up")
    if _lacks_mixed_precision(e):
        wants = "it needs a precision_mode or precision_mode_v2 that is mixed"
        yield _Refusal("modify_mixlist", wants, needs_others=True)
    if "precision_mode" in own and "precision_mode_v2" in own:
        yield _Refusal("precision_mode", "it excludes precision_mode_v2 by presence")
    yield from _check_number(e, "variable_use_1g_huge_page", _is_up_to_2, "0, 1 and 2 only")
    yield from _check_words(e, "dump_data")
    # The adapter does not look at it in another field.
    yield from _check_number(e, "export_compile_stat", _is_up_to_2, "0, 1 and 2 only")
    yield from _check_words(e, "jit_compile", "shape_generalization_mode", "graph_slice")


def _check_graph(e: _Entry) -> Iterator[_Refusal]:
    """Check what ProcessGraph does, also with use_off_line=False."""
    if _to_int32(e.all.get("iterations_per_loop", 1)) < 1:
        wants = "the adapter reads 32 bits of it, and takes numbers from 1 up"
        yield _Refusal("iterations_per_loop", wants)
    if _to_int32(e.all.get("task_index", 0)) < 0:
        wants = "the adapter reads 32 bits of it, and takes numbers from 0 up"
        yield _Refusal("task_index", wants)


_VARIABLES = {"step": ("TOTAL_STEP", "STEP_NOW"), "loss": ("TARGET_LOSS", "LOSS_NOW")}


def _has_wrong_acceleration(entry: _Entry) -> bool:
    text = entry.all.get("experimental_accelerate_train_mode", "")
    if not text:
        return False
    kind, trigger, ratio = (*text.split("|"), "", "")[:3]
    if text.count("|") not in (1, 2) or kind not in accelerate.KINDS or trigger not in _VARIABLES:
        return True
    reads = _is_count if trigger == "step" else _is_float
    low, high = map(accelerate.to_float32, accelerate.RATIO_LIMITS[trigger])
    number = accelerate.to_float32(ratio) if _is_float(ratio) else None
    # not a number is neither below nor above
    is_outside = ratio and (number is None or number < low or number > high)
    if "precision_mode_v2" in entry.all:
        is_full = entry.all["precision_mode_v2"] == "origin"
    else:
        mode = entry.all.get("precision_mode", "must_keep_origin_dtype")
        is_full = mode in ("allow_fp32_to_fp16", "must_keep_origin_dtype")
    are_set = all(reads(entry.environ.get(name, "")) for name in _VARIABLES[trigger])
    return bool(is_outside) or not is_full or not are_set


def _is_count(text: str) -> bool:
    """Whether TensorFlow's safe_strtou32 reads a text."""
    number = whole_number(text)
    return number is not None and "-" not in text and number < 2**32


def _is_float(text: str) -> bool:
    """Whether TensorFlow's safe_strtof reads a text."""
    word = text.strip(" \t\n\v\f\r").lower()
    pattern = rf"{accelerate.DECIMAL}|[+-]?(inf|nan)"
    return len(text) <= accelerate.LONGEST_NUMBER and re.fullmatch(pattern, word) is not None


def _check_offload(e: _Entry) -> Iterator[_Refusal]:
    """Check what ProcessGraph and the operator GeOp do where graphs are offloaded."""
    if e.has_profiles() and e.is_on("mix_compile_mode"):
        yield _Refusal("dynamic_dims", "dynamic profiles exclude mix_compile_mode")
    if e.has_profiles() and e.is_on("compile_dynamic_mode"):
        yield _Refusal("dynamic_dims", "dynamic profiles exclude compile_dynamic_mode")
    if e.has_profiles() and e.tuning_mode() != "":
        yield _Refusal("dynamic_dims", "dynamic profiles exclude tuning with AOE")
    is_lazy = e.all.get("dynamic_graph_execute_mode") == "lazy_recompile"
    shape_range = e.all.get("dynamic_inputs_shape_range", "")
    if shape_range != "" and not is_lazy and not _is_shape_range(shape_range):
        wants = "the adapter takes one or two groups, such as 'getnext:[128,-1];data:[1]'"
        yield _Refusal("dynamic_inputs_shape_range", wants)
    loops = _to_int32(e.all.get("iterations_per_loop", 1))
    if e.is_on("dynamic_input") and is_lazy and loops > 1:
        wants = "dynamic_graph_execute_mode='lazy_recompile' needs 1"
        yield _Refusal("iterations_per_loop", wants)
    pairs = e.all.get("in_out_pair", "")
    if pairs != "" and not _has_pairs(pairs):
        wants = "the adapter takes pairs of lists, such as \"[[['conv1'], ['relu9']]]\""
        yield _Refusal("in_out_pair", wants)
    if pairs != "" and not e.is_on("mix_compile_mode"):
        yield _Refusal("in_out_pair", "it needs mix_compile_mode=True", needs_others=True)
    if e.is_on("dynamic_input") and e.is_on("compile_dynamic_mode"):
        yield _Refusal("dynamic_input", "it excludes compile_dynamic_mode")
    if _has_wrong_acceleration(e):
        wants = (
            "it needs a form such as 'fast|step|0.9', a precision mode that leaves something to "
            "accelerate, and TOTAL_STEP and STEP_NOW, or TARGET_LOSS and LOSS_NOW, in the "
            "environment when the session opens (TellMeStepOrLossHook sets them)"
        )
        yield _Refusal("experimental_accelerate_train_mode", wants, needs_others=True)
    device_variable = "ASCEND_DEVICE_ID" if e.environ.get("ASCEND_DEVICE_ID") else "DEVICE_ID"
    device = e.environ.get(device_variable)
    number = whole_number(device)
    if device and (number is None or number < 0):
        yield _Refusal(device_variable, "the adapter takes whole numbers from 0 up")
