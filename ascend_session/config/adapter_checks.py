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
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from ascend_session.config.entry import EntryReading
from ascend_session.config.grammars.accelerate import (
    ACCELERATE_KINDS,
    DECIMAL,
    LONGEST_NUMBER,
    RATIO_LIMITS,
    to_float32,
)
from ascend_session.config.model import allowed_values
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

    def is_allowed(self, key: str) -> bool:
        """Whether an option is missing, or has a value that its definition counts up."""
        return key not in self.own or self.own[key] in _ALLOWED[key]

    def is_lazy(self) -> bool:
        return self.all.get("dynamic_graph_execute_mode") == "lazy_recompile"

    def has_profiles(self) -> bool:
        return all(key in self.all for key in PROFILE)

    def tuning_mode(self) -> str:
        return str(self.own.get("aoe_mode", self.environ.get("AOE_MODE", "")))


class _Check(NamedTuple):
    """A check of the adapter.

    Attributes:
        about: The option or variable that it is about; of several the first that is there.
        fails: Whether it ends the run.
        wants: What it wants, as half a sentence.
        needs_others: Whether other options or variables decide with it.
    """

    about: Union[str, Tuple[str, ...]]
    fails: Callable[[_Entry], bool]
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
    failed = [(check, view) for view in views for check in _PASS_CHECKS if check.fails(view)]
    if last.all.get("job") not in ("ps", "default"):
        failed += [(check, view) for view in views for check in _ENTRY_CHECKS if check.fails(view)]
        failed += [(check, last) for check in _GRAPH_CHECKS if check.fails(last)]
        if last.all.get("use_off_line") is not False:
            failed += [(check, last) for check in _OFFLOAD_CHECKS if check.fails(last)]
    refusals: Dict[str, Finding] = {}
    for check, view in failed:
        names = (check.about,) if isinstance(check.about, str) else check.about
        name = next((name for name in names if name in view.own), names[0])
        given: Mapping[str, Any] = view.all if name in view.all else view.environ
        written = f"{name}={given[name]!r}" if name in given else name
        message = f"{written} ends the run on a device: {check.wants}."
        refusals.setdefault(name, Finding(ERROR, message, option=name))
    return refusals


def ends_by_itself(key: str, value: Any) -> bool:
    """Whether a value, as the adapter reads it, ends each run that is offloaded."""
    (alone,) = _read_in_turn([{key: value}], {})
    checks = (*_PASS_CHECKS, *_ENTRY_CHECKS, *_GRAPH_CHECKS, *_OFFLOAD_CHECKS)
    return any(
        check.about == key and not check.needs_others and check.fails(alone) for check in checks
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
    key: allowed_values(option.annotation) for key, option in options_by_key(AdapterOptions).items()
}


def _one_of(key: str, switch: Optional[str] = None) -> _Check:
    """Make a check for the values that the definition counts up; with ``switch`` if that is on."""
    wants = "the adapter takes " + ", ".join(map(repr, _ALLOWED[key])) + " only"
    return _Check(
        key, lambda e: (switch is None or e.is_on(switch)) and not e.is_allowed(key), wants
    )


def _number(key: str, is_taken: Callable[[int], bool], wants: str) -> _Check:
    """Make a check for a number that the entry gives."""
    return _Check(
        key, lambda e: key in e.own and not is_taken(e.own[key]), f"the adapter takes {wants}"
    )


def _to_int32(number: int) -> int:
    """Cut a number to 32 bits, as a C++ cast does."""
    return (number + 2**31) % 2**32 - 2**31


def _is_up_to_2(number: int) -> bool:
    return _to_int32(number) in (0, 1, 2)


def _split(text: str, separator: str) -> List[str]:
    """Split as std::getline does: nothing stands behind a last separator."""
    parts = text.split(separator)
    return parts if parts[-1] else parts[:-1]


def _items_match(key: str, pattern: str, wants: str) -> _Check:
    """Make a check for the items between the semicolons of a text of dynamic profiles."""

    def fails(entry: _Entry) -> bool:
        if not entry.has_profiles():
            return False
        items = _split(entry.all[key], ";")
        return not items or any(not re.fullmatch(pattern, f"{item},", re.ASCII) for item in items)

    return _Check(key, fails, wants)


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


def _lacks_dump_path(entry: _Entry) -> bool:
    if not entry.is_on("enable_dump") and not entry.is_on("enable_dump_debug"):
        return False
    return _fails_as_directory(entry.own.get("dump_path", ""))


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


# GetPassOptions reads these for each graph, also of sessions that are not offloaded.
_PASS_CHECKS: Tuple[_Check, ...] = (
    _one_of("dynamic_graph_execute_mode", "dynamic_input"),
    _number("local_rank_id", lambda number: 0 <= number <= 7, "0 to 7 only"),
    _Check(
        "local_device_list",
        lambda e: not re.fullmatch("([0-9]+,)+", e.own.get("local_device_list", "0") + ","),
        "the adapter takes numbers with commas between",
    ),
    _one_of("variable_placement"),
)

# SetNpuOptimizerAttr, in its order; for jobs other than ps and default.
_ENTRY_CHECKS: Tuple[_Check, ...] = (
    _Check(
        "dump_path",
        _lacks_dump_path,
        "a dump needs an existing folder that you may read and write",
    ),
    _Check(
        "dump_step",
        lambda e: e.is_on("enable_dump") and not _is_dump_step(e.own.get("dump_step", "")),
        "the adapter takes at most 100 steps and rising ranges, such as '0|3-5|10'",
    ),
    _one_of("dump_mode", "enable_dump"),
    _one_of("dump_debug_mode", "enable_dump_debug"),
    _number("graph_run_mode", lambda number: number <= 1, "0 and 1 only"),
    _Check(
        "aoe_mode",
        lambda e: "aoe_mode" in e.own and e.tuning_mode() not in ("", *_ALLOWED["aoe_mode"]),
        "the adapter takes '1', '2' and '4' only",
    ),
    _Check(
        "AOE_MODE",
        lambda e: "aoe_mode" not in e.own and e.tuning_mode() not in ("", *_ALLOWED["aoe_mode"]),
        "the adapter takes 1, 2 and 4 only",
    ),
    _Check(
        "work_path",
        lambda e: (
            e.tuning_mode() in _ALLOWED["aoe_mode"]
            and _fails_as_directory(e.own.get("work_path", "./"))
        ),
        "AOE needs an existing folder that you may read and write",
    ),
    _one_of("precision_mode"),
    _one_of("precision_mode_v2"),
    _number("graph_max_parallel_model_num", lambda number: number >= 1, "numbers from 1 up"),
    _one_of("enable_exception_dump"),
    _Check(
        "optypelist_for_implmode",
        lambda e: "optypelist_for_implmode" in e.own and "op_select_implmode" not in e.own,
        "it needs op_select_implmode",
        needs_others=True,
    ),
    _one_of("op_select_implmode"),
    _Check(
        PROFILE,
        lambda e: 0 < sum(key in e.own for key in PROFILE) < len(PROFILE),
        f"{', '.join(PROFILE)} are given together",
    ),
    _items_match(
        "input_shape",
        r"[\s\S]+:((\d+|-\d+),)+",
        "the adapter takes names and dimensions, such as 'data:1,-1;label:-1'",
    ),
    _items_match("dynamic_dims", r"(\d+,)+", "the adapter takes numbers, such as '2,2;4,4'"),
    _number("dynamic_node_type", lambda number: number in (0, 1), "0 and 1 only"),
    _Check(
        "compile_hybrid_mode",
        _has_wrong_hybrid_mode,
        "with dynamic profiles it is 0 or 1, and 1 needs dynamic_node_type=1",
        needs_others=True,
    ),
    _one_of("buffer_optimize"),
    _Check(
        "enable_compress_weight",
        lambda e: "enable_compress_weight" in e.own and "compress_weight_conf" in e.own,
        "it excludes compress_weight_conf by presence",
    ),
    _number("session_device_id", lambda number: number >= 0, "numbers from 0 up"),
    _Check(
        "modify_mixlist",
        _lacks_mixed_precision,
        "it needs a precision_mode or precision_mode_v2 that is mixed",
        needs_others=True,
    ),
    _Check(
        "precision_mode",
        lambda e: "precision_mode" in e.own and "precision_mode_v2" in e.own,
        "it excludes precision_mode_v2 by presence",
    ),
    _number("variable_use_1g_huge_page", _is_up_to_2, "0, 1 and 2 only"),
    _one_of("dump_data"),
    # The adapter does not look at it in another field.
    _number("export_compile_stat", _is_up_to_2, "0, 1 and 2 only"),
    _one_of("jit_compile"),
    _one_of("shape_generalization_mode"),
    _one_of("graph_slice"),
)

# ProcessGraph, also with use_off_line=False
_GRAPH_CHECKS: Tuple[_Check, ...] = (
    _Check(
        "iterations_per_loop",
        lambda e: _to_int32(e.all.get("iterations_per_loop", 1)) < 1,
        "the adapter reads 32 bits of it, and takes numbers from 1 up",
    ),
    _Check(
        "task_index",
        lambda e: _to_int32(e.all.get("task_index", 0)) < 0,
        "the adapter reads 32 bits of it, and takes numbers from 0 up",
    ),
)


def _has_wrong_shape_range(entry: _Entry) -> bool:
    text = entry.all.get("dynamic_inputs_shape_range", "")
    return text != "" and not entry.is_lazy() and not _is_shape_range(text)


_VARIABLES = {"step": ("TOTAL_STEP", "STEP_NOW"), "loss": ("TARGET_LOSS", "LOSS_NOW")}


def _has_wrong_acceleration(entry: _Entry) -> bool:
    text = entry.all.get("experimental_accelerate_train_mode", "")
    if not text:
        return False
    kind, trigger, ratio = (*text.split("|"), "", "")[:3]
    if text.count("|") not in (1, 2) or kind not in ACCELERATE_KINDS or trigger not in _VARIABLES:
        return True
    reads = _is_count if trigger == "step" else _is_float
    low, high = map(to_float32, RATIO_LIMITS[trigger])
    # not a number is neither below nor above
    is_outside = ratio and (
        not _is_float(ratio) or to_float32(ratio) < low or to_float32(ratio) > high
    )
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
    pattern = rf"{DECIMAL}|[+-]?(inf|nan)"
    return len(text) <= LONGEST_NUMBER and re.fullmatch(pattern, word) is not None


def _wrong_device_variable(name: str) -> _Check:
    def fails(entry: _Entry) -> bool:
        if name == "DEVICE_ID" and entry.environ.get("ASCEND_DEVICE_ID"):
            return False
        text = entry.environ.get(name)
        number = whole_number(text)
        return bool(text) and (number is None or number < 0)

    return _Check(name, fails, "the adapter takes whole numbers from 0 up")


# ProcessGraph and the operator GeOp, where graphs are offloaded
_OFFLOAD_CHECKS: Tuple[_Check, ...] = (
    _Check(
        "dynamic_dims",
        lambda e: e.has_profiles() and e.is_on("mix_compile_mode"),
        "dynamic profiles exclude mix_compile_mode",
    ),
    _Check(
        "dynamic_dims",
        lambda e: e.has_profiles() and e.is_on("compile_dynamic_mode"),
        "dynamic profiles exclude compile_dynamic_mode",
    ),
    _Check(
        "dynamic_dims",
        lambda e: e.has_profiles() and e.tuning_mode() != "",
        "dynamic profiles exclude tuning with AOE",
    ),
    _Check(
        "dynamic_inputs_shape_range",
        _has_wrong_shape_range,
        "the adapter takes one or two groups, such as 'getnext:[128,-1];data:[1]'",
    ),
    _Check(
        "iterations_per_loop",
        lambda e: (
            e.is_on("dynamic_input")
            and e.is_lazy()
            and _to_int32(e.all.get("iterations_per_loop", 1)) > 1
        ),
        "dynamic_graph_execute_mode='lazy_recompile' needs 1",
    ),
    _Check(
        "in_out_pair",
        lambda e: e.all.get("in_out_pair", "") != "" and not _has_pairs(e.all["in_out_pair"]),
        "the adapter takes pairs of lists, such as \"[[['conv1'], ['relu9']]]\"",
    ),
    _Check(
        "in_out_pair",
        lambda e: e.all.get("in_out_pair", "") != "" and not e.is_on("mix_compile_mode"),
        "it needs mix_compile_mode=True",
        needs_others=True,
    ),
    _Check(
        "dynamic_input",
        lambda e: e.is_on("dynamic_input") and e.is_on("compile_dynamic_mode"),
        "it excludes compile_dynamic_mode",
    ),
    _Check(
        "experimental_accelerate_train_mode",
        _has_wrong_acceleration,
        "it needs a form such as 'fast|step|0.9', a precision mode that leaves something to "
        "accelerate, and TOTAL_STEP and STEP_NOW, or TARGET_LOSS and LOSS_NOW, in the environment "
        "when the session opens (TellMeStepOrLossHook sets them)",
        needs_others=True,
    ),
    _wrong_device_variable("ASCEND_DEVICE_ID"),
    _wrong_device_variable("DEVICE_ID"),
)
