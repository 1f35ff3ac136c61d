"""Which component of the vendor's stack ends a run for a wrong option value.

`AscendConfig` refuses more than that: values that nothing checks, but that have no effect. ``ends``
on the line of an option names the component that checks its value. That component ends the run for
each value that the option's type refuses, unless a function here says that it accepts the value.
``ends`` of a rule names the component that enforces the rule; a function beside the rule can narrow
that.

Types and rules define the right values; `entry` models what the adapter has read.

The sources are those of August 2026; earlier releases may check less. The adapter was run under
TensorFlow with a stand-in for GE; functions of GE and the profiler were compiled and called, except
where ``is_proven=False`` says that they were only read.
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, Callable, Iterable, List, Mapping, NamedTuple, Optional

from ascend_session.config.grammars import accelerate
from ascend_session.config.grammars.profiling_options import takes_members
from ascend_session.config.grammars.shapes import MOST_PROFILES, split_inputs
from ascend_session.vendor import HOST_JOBS, read_int64

DYNAMIC_DETAILS = ("dynamic_graph_execute_mode", "dynamic_inputs_shape_range")
"""Options that are not read at all from an entry without ``dynamic_input=True``
(npu_attrs.cc SetNpuOptimizerAttr and GetPassOptions)."""

PROFILE = ("input_shape", "dynamic_dims", "dynamic_node_type")
"""The keys that together define dynamic profiles."""


class AdapterView(NamedTuple):
    """The options that the adapter has read when it checks one of them.

    Attributes:
        entry: The options of the entry that it reads.
        all: The same, and values that earlier entries left in the adapter's variables.
        environ: The environment of the process.
    """

    entry: Mapping[str, Any]
    all: Mapping[str, Any]
    environ: Mapping[str, str]

    def is_on(self, key: str) -> bool:
        """Return whether this entry or an earlier one turned the switch on."""
        return self.all.get(key) is True

    def has_profiles(self) -> bool:
        """Return whether there are dynamic profiles."""
        return all(key in self.entry for key in PROFILE)

    def tuning_mode(self) -> str:
        """Return the value of the AOE mode; empty if AOE does not tune."""
        return str(self.entry.get("aoe_mode", self.environ.get("AOE_MODE", "")))


class Stage(Enum):
    """Components that check an option, in the order in which they run."""

    RUN_CONFIG = "npu_config.py, NPURunConfig"
    """The vendor's Python class checks its arguments; sees no entry."""
    PASSES = "npu_attrs.cc, GetPassOptions"
    """The adapter checks each entry, even if nothing is offloaded."""
    ENTRY = "npu_attrs.cc, SetNpuOptimizerAttr"
    """The adapter checks each entry; not for the jobs ps and default, which stay on the CPU."""
    GRAPH = "om_partition_subgraphs_pass.cc, ProcessGraph"
    """The adapter checks the merged entries; not for those jobs, but also with
    use_off_line=False."""
    OFFLOAD = "om_partition_subgraphs_pass.cc and geop_npu.cc"
    """The adapter checks the merged entries when it offloads a graph."""
    GE = "GE"
    """GE or the profiler checks the merged entries when a graph is offloaded."""

    @property
    def is_of_entry(self) -> bool:
        """True if each entry is checked by itself."""
        return self in (Stage.PASSES, Stage.ENTRY)

    def is_reached(self, values: Mapping[str, Any]) -> bool:
        """Return whether a session with these merged values reaches this stage."""
        if self is Stage.RUN_CONFIG:
            return False
        if self is not Stage.PASSES and values.get("job") in HOST_JOBS:
            return False
        return self not in (Stage.OFFLOAD, Stage.GE) or values.get("use_off_line") is not False


RUN_CONFIG, PASSES, ENTRY, GRAPH, OFFLOAD, GE = Stage


@dataclass(frozen=True)
class Ends:
    """A component that ends the run for a wrong value, or for the violation of a rule.

    Attributes:
        by: The component.
        where: The vendor's file and function; by default those of the component.
        is_proven: True if that code was run, or compiled and called; False if it was only read.
        takes: Returns True for a value that the component accepts although the type refuses it.
        when: Returns True if the value is checked at all.
        if_empty: True if GE checks empty text; in most cases it treats that as unset.
        fails: Returns True for a reason to end the run that no type and no rule covers.
        wants: The condition that is not met, as half a sentence.
    """

    by: Stage
    where: str = ""
    is_proven: bool = True
    takes: Optional[Callable[[Any], bool]] = None
    when: Optional[Callable[[AdapterView], bool]] = None
    if_empty: bool = False
    fails: Optional[Callable[[AdapterView], bool]] = None
    wants: str = ""

    @property
    def sentence(self) -> str:
        """A sentence that names the component that ends the run."""
        who = "GE" if self.by is GE else "the adapter"
        if self.is_proven:
            return f"{who[0].upper()}{who[1:]} aborts the run because of it."
        return f"By its source ({self.where or self.by.value}) {who} aborts the run because of it."

    def covers(self, key: str, view: AdapterView) -> bool:
        """Return whether the run ends for the value of ``key`` in ``view.own``.

        To be called for a value that the option's type refuses.
        """
        if self.fails is not None or key not in view.entry:
            return False
        value = view.entry[key]
        if self.by is GE and value == "" and not self.if_empty:
            return False
        if self.when is not None and not self.when(view):
            return False
        return self.takes is None or not self.takes(value)


def ends_run(
    ends: Iterable[Ends], view: AdapterView, key: str = "", in_run_config: bool = False
) -> bool:
    """Return whether a run is proven to end for a value that its type refuses, or for a rule.

    Args:
        ends: ``ends`` of the option, or of the rule that is violated.
        view: The options that are read.
        key: The key of the option; empty for a rule.
        in_run_config: Whether they are arguments of NPURunConfig.
    """
    return any(
        each.covers(key, view) if key else each.fails is None or each.fails(view)
        for each in ends
        if each.is_proven
        and (each.by.is_reached(view.all) or (in_run_config and each.by is RUN_CONFIG))
    )


# When a value is checked -----------------------------------------------------------------------


def while_on(switch: str) -> Callable[[AdapterView], bool]:
    """Make a condition: this switch is on."""
    return lambda view: view.is_on(switch)


def while_dumping(view: AdapterView) -> bool:
    """Return whether the adapter writes dumps, so that it needs their folder."""
    return view.is_on("enable_dump") or view.is_on("enable_dump_debug")


def while_tuning(view: AdapterView) -> bool:
    """Return whether AOE tunes, so that the adapter needs a folder for it."""
    return view.tuning_mode() != ""


def with_ranges(view: AdapterView) -> bool:
    """Return whether the adapter parses ranges of shapes (guides/facts/dynamic.md#dynamic-inputs).

    A mode that it has read stays, even if a later entry turns dynamic_input off.
    """
    return view.all.get("dynamic_graph_execute_mode") != "lazy_recompile"


def with_dynamic_ranges(view: AdapterView) -> bool:
    """Return whether GE gets ranges of shapes."""
    return view.is_on("dynamic_input") and with_ranges(view)


# Values accepted although the type refuses them -----------------------------------------------


def to_int32(number: int) -> int:
    """Cut a number to 32 bits, as a C++ cast does."""
    return (number + 2**31) % 2**32 - 2**31


def takes_numbers(
    low: Optional[int] = None, high: Optional[int] = None, *, bits: int = 64
) -> Callable[[int], bool]:
    """Make a predicate: the vendor's code accepts numbers within these limits.

    Args:
        low: The smallest number; None is no limit.
        high: The largest number; None is no limit.
        bits: How many bits of the number that code reads, 32 or 64.
    """

    def takes(number: int) -> bool:
        read = to_int32(number) if bits == 32 else number
        return (low is None or read >= low) and (high is None or read <= high)

    return takes


def _takes_form(pattern: str) -> Callable[[str], bool]:
    """Make a predicate: the vendor's code accepts texts of this form."""
    return lambda text: re.fullmatch(pattern, text) is not None


_INPUT = "[^;]+:-?[0-9]+(,-?[0-9]+)*"
_NUMBERS = "[0-9]+(,[0-9]+)*"
_SIZE = r"\s*([+-]?[0-9]{1,18}|(\+?[0-9]{1,18}|-0+)\s*~\s*(\+?[0-9]{1,18}|-0+))\s*"
_SHAPE = rf"\[(\s*|{_SIZE}(,{_SIZE})*)\]"
_SHAPES = rf"[^:;\[\]]+:{_SHAPE}(,{_SHAPE})*"

# CheckPath: a path is read up to a NUL, and empty text is a folder on no machine
takes_path = _takes_form(r"[^\0](.|\n)*")
# CheckAoeMode: empty text, which counts as unset
takes_empty = _takes_form("")
# GetPassOptions: any numbers, with commas between
takes_devices = _takes_form(_NUMBERS)
# CheckInputShape: names and dimensions, such as data:1,-1;label:-1
takes_input_shape = _takes_form(f"{_INPUT}(;{_INPUT})*;?")
# CheckDynamicDims: numbers, such as 2,2;4,4
takes_dynamic_dims = _takes_form(f"{_NUMBERS}(;{_NUMBERS})*;?")
# GE's ParseInputShapeRange: any whole numbers; in ranges, 0 or more, in any order
takes_shape_ranges = _takes_form(f"{_SHAPES}([;,]{_SHAPES})*")
# CoreNumUtils, which wants each number as it would write it; platform_utils.cc refuses "0|"
takes_core_number = _takes_form(r"0|[1-9][0-9]{0,8}|([1-9][0-9]{0,8})?\|(0|[1-9][0-9]{0,8})?")
# ParseAutoMultistreamParallelMode: numbers may begin with zeros
takes_multistream_mode = _takes_form(
    "((Weighted)?LoadBalance|MainStream):0*([1-9]|[1-5][0-9]|6[0-4])"
)


def with_wrong_profiles(view: AdapterView) -> bool:
    """Return whether GE refuses the profiles, of which it skips empty ones, and takes zeros."""
    if not view.has_profiles():
        return False
    texts = re.split(";", str(view.entry["dynamic_dims"]))
    sizes = [[size for size in text.split(",") if size] for text in texts]
    profiles = [tuple(map(read_int64, each)) for each in sizes if each]
    dims = [dim for _, each in split_inputs(str(view.entry["input_shape"])) for dim in each]
    return not 2 <= len(profiles) == len(set(profiles)) <= MOST_PROFILES or any(
        None in profile or len(profile) != dims.count("-1") for profile in profiles
    )


# The profiler: some of what the type refuses
takes_profiling = takes_members


def takes_dump_step(text: str) -> bool:
    """Return whether checkDumpStep accepts it, as it does ``5-``, ``-5``, ``0|`` and no text."""
    parts = _split(text, "|")
    for part in parts:
        bounds = _split(part, "-")
        if len(bounds) not in (1, 2) or not all(re.fullmatch("[0-9]*", each) for each in bounds):
            return False
        first, last = (to_int32(min(int(each or 0), 2**63 - 1)) for each in (bounds[0], bounds[-1]))
        if len(bounds) == 2 and first >= last:
            return False
    return len(parts) <= 100


def takes_range_groups(text: str) -> bool:
    """Return whether the adapter's ParseInputShapeRange, which ignores shapes, accepts it."""
    groups = [_split(group, ":") for group in _split(text, ";")]
    are_named = all(len(group) == 2 and group[0] in ("data", "getnext") for group in groups)
    return text == "" or (are_named and len(groups) in (1, 2))


def takes_pairs(text: str) -> bool:
    """Return whether ParseInOutPair, which knows only brackets and commas, finds a pair in it."""
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
    return text == "" or any(len(each) >= 2 for each in pairs)


def takes_acceleration(text: str) -> bool:
    """Return whether ParserAccelerateTrain accepts it; NaN passes its limits."""
    if not text:
        return True
    kind, trigger, ratio = (*text.split("|"), "", "")[:3]
    if text.count("|") not in (1, 2) or kind not in accelerate.KINDS:
        return False
    if trigger not in accelerate.RATIO_LIMITS:
        return False
    low, high = map(accelerate.to_float32, accelerate.RATIO_LIMITS[trigger])
    number = accelerate.to_float32(ratio) if _is_float(ratio) else None
    return not ratio or (number is not None and not (number < low or number > high))


def takes_stream_numbers(text: str) -> bool:
    """Return whether ParseParallelNum accepts it; blanks and a final comma are allowed."""
    items = re.sub(",$", "", text).split(",")
    matches = [re.fullmatch(r"\s*([^:\s]+)\s*:\s*0*[1-9][0-9]{0,8}\s*", item) for item in items]
    names = [match[1] for match in matches if match is not None]
    return len(names) == len(items) == len(set(names))


def _split(text: str, separator: str) -> List[str]:
    """Split as std::getline does: a final separator adds no empty item."""
    parts = text.split(separator)
    return parts if parts[-1] else parts[:-1]


def _is_float(text: str) -> bool:
    """Return whether TensorFlow's safe_strtof reads a text."""
    word = text.strip(" \t\n\v\f\r").lower()
    pattern = rf"{accelerate.DECIMAL}|[+-]?(inf|nan)"
    return len(text) <= accelerate.LONGEST_NUMBER and re.fullmatch(pattern, word) is not None


def _is_count(text: str) -> bool:
    """Return whether TensorFlow's safe_strtou32 reads a text."""
    number = read_int64(text)
    return number is not None and "-" not in text and number < 2**32


# Reasons to end a run besides values and rules -------------------------------------------------


def lacks_progress(view: AdapterView) -> bool:
    """Return whether GeOp lacks the variables with the progress of accelerated training."""
    _, trigger = (*view.entry.get("experimental_accelerate_train_mode", "").split("|"), "")[:2]
    reads = _is_count if trigger == "step" else _is_float
    needed = accelerate.VARIABLES.get(trigger, ())
    return not all(reads(view.environ.get(name, "")) for name in needed)


PROGRESS = Ends(
    OFFLOAD,
    "geop_npu.cc, ParserAccelerateTrain",
    fails=lacks_progress,
    wants="it needs TOTAL_STEP and STEP_NOW, or TARGET_LOSS and LOSS_NOW, in the environment when "
    "the session opens (TellMeStepOrLossHook sets them)",
)
