"""The profiling_options JSON object: its grammar, and `ProfilingOptions`, which renders it.

Sources: guides/facts/option_files.md#profiling_options; guides/facts/dumps.md#profiling; manual,
initialize_system, for the colon list of earlier releases; hicann/runtime (2026-08),
ProfAclMgr::CheckGeOptionConfigInvalid in prof_acl_mgr.cpp, for what is refused.
"""

import json
import re
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple, Union

from typing_extensions import Annotated, Literal

from ascend_session.config.grammars import (
    TEXT,
    UnusableError,
    grammar,
    is_whole,
    parse_whole,
    refused,
)
from ascend_session.text import did_you_mean


class ProfilingMember(NamedTuple):
    """One member: an example, its values in words, their check, and the JSON schema."""

    example: Union[str, int]
    meaning: str
    accepts: Callable[[Any], bool]
    schema: Dict[str, Any] = TEXT

    @property
    def is_number(self) -> bool:
        """True if its value is a JSON integer; all other members are text."""
        return isinstance(self.example, int)


def _words(*words: str, unset: bool = True) -> ProfilingMember:
    """A choice of words; ``unset`` means that empty text counts as unset."""
    listed = " or ".join(repr(word) for word in words)
    allowed = (*words, "") if unset else words
    return ProfilingMember(words[0], listed, allowed.__contains__, {"enum": list(words)})


def _hertz(low: int, high: int, usual: int = 0) -> ProfilingMember:
    """A frequency; only newer processors go beyond the ``usual`` range."""
    beyond = f", above {usual} on newer processors only" if usual else ""
    return ProfilingMember(
        usual or high,
        f"{low} to {high} (Hz){beyond}",
        lambda number: low <= number <= high,
        {"type": "integer", "minimum": low, "maximum": high},
    )


def _words_list(*words: str) -> ProfilingMember:
    def accepts(text: str) -> bool:
        return not text or all(word in words for word in text.split(","))

    meaning = f"one or several of {', '.join(words)}, with commas between"
    return ProfilingMember("cpu,mem", meaning, accepts)


def _is_directory(text: str) -> bool:
    return bool(text) and not any(character in _NOT_IN_PATHS for character in text)


def _is_storage(text: str) -> bool:
    is_size = text.endswith("MB") and parse_whole(text[:-2], 1, 2**32 - 1) is not None
    return is_size or not text


def _is_metric(text: str) -> bool:
    if not text.startswith("Custom:"):
        return text in (*_METRICS, "")
    registers = text[len("Custom:") :].split(",")
    return len(registers) <= 8 and all(_is_register(each.strip(" ")) for each in registers)


def _is_register(text: str) -> bool:
    if re.fullmatch(_HEX, text) is not None:
        return 1 <= int(text, 16) <= 0x6E
    return parse_whole(text, 1, 0x6E) is not None


_HEX = "0[xX][0-9a-fA-F]{1,4}"
_NOT_IN_PATHS = "\0\b\t\n\v\f\r\x7f\"'\\%><|&$;`"  # CheckPathWithInvalidChar in utils.cpp
_METRICS = (
    "ArithmeticUtilization",
    "PipeUtilization",
    "Memory",
    "MemoryL0",
    "MemoryUB",
    "ResourceConflictRatio",
    "L2Cache",
    "MemoryAccess",
    "PipelineExecuteUtilization",
    "ScalarRatio",
    "PipeStallCycle",
)
_METRIC_WORDS = f"{', '.join(_METRICS)}, or 'Custom:' and up to 8 registers 0x1 to 0x6E"
_SWITCH = _words("on", "off")
_LEVEL = _words("on", "off", "l0", "l1", "l2")
_OPERATOR = ProfilingMember("", "the name of an operator, or '' for automatic", lambda text: True)

MEMBERS: Dict[str, ProfilingMember] = {
    "output": ProfilingMember(
        "./", "a folder, without control characters and quotes \\ % > < | & $ ; `", _is_directory
    ),
    "storage_limit": ProfilingMember(
        "200MB", "'200MB' to '4294967295MB', with the unit", _is_storage
    ),
    "training_trace": _words("on"),
    "task_trace": _LEVEL,
    "task_time": _LEVEL,
    "ge_api": _words("off", "l0", "l1"),
    "hccl": _SWITCH,
    "aicpu": _SWITCH,
    "l2": _SWITCH,
    "msproftx": _SWITCH,
    "runtime_api": _SWITCH,
    "instr_profiling": _SWITCH,
    "fp_point": _OPERATOR,
    "bp_point": _OPERATOR,
    "aic_metrics": ProfilingMember("PipeUtilization", _METRIC_WORDS, _is_metric),
    "sys_hardware_mem_freq": _hertz(1, 10000, usual=100),
    "llc_profiling": _words("read", "write", unset=False),
    "sys_io_sampling_freq": _hertz(1, 100),
    "sys_interconnection_freq": _hertz(1, 50),
    "dvpp_freq": _hertz(1, 100),
    "instr_profiling_freq": _hertz(300, 30000),
    "host_sys": _words_list("cpu", "mem", "disk", "network", "osrt", "numa"),
    "host_sys_usage": _words_list("cpu", "mem"),
    "host_sys_usage_freq": _hertz(1, 50),
}

# GEOPTION_CONFIG_VECTOR in prof_acl_intf.h has them, some releases only; no manual describes them.
# Their values are those of param_validation.cpp.
UNDESCRIBED: Dict[str, ProfilingMember] = {
    "task_block": _words("on", "off", "all", unset=False),
    "task_memory": _SWITCH,
    "task_tsfw": _SWITCH,
    "sys_cpu_freq": _hertz(1, 50),
    "sys_lp_freq": _hertz(1, 100),
    "sys_mem_serviceflow": ProfilingMember("on", "text that is not empty", bool),
    "optype": ProfilingMember("MatMul", "an operator type", lambda text: True),
}
_ALL_MEMBERS = {**MEMBERS, **UNDESCRIBED}


def find_member_fault(name: object, value: object) -> Optional[Tuple[str, Dict[str, Any]]]:
    """Return what is wrong with one member, in half a sentence, and an example; None if right."""
    if not isinstance(name, str):
        return f"{name!r} is not a member name (text is needed)", {"task_time": "on"}
    member = _ALL_MEMBERS.get(name)
    if member is None:
        is_other_case = name.lower() in MEMBERS
        meant = name.lower() if is_other_case else did_you_mean(name, list(MEMBERS), near=0.8)
        right = meant or "task_time"
        hint = f"did you mean {meant!r}?" if meant else "GE aborts on one that it does not know"
        return f"there is no member {name!r} ({hint})", {right: MEMBERS[right].example}
    if member.is_number and not is_whole(value):
        meaning = f"a whole number without quotes, {member.meaning}"
        return f"{name} is {value!r} and must be {meaning}", {name: member.example}
    if not member.is_number and not isinstance(value, str):
        note = "YAML reads a bare on as True" if isinstance(value, bool) else "it is not a number"
        reason = f"{name} is {value!r} and must be text in quotes ({note})"
        return reason, {name: member.example}
    if member.accepts(value):
        return None
    note = " (leave it out to switch it off)" if name == "training_trace" else ""
    return f"{name} is {value!r} and must be {member.meaning}{note}", {name: member.example}


def _with_numbers(members: Mapping[Any, Any]) -> Dict[Any, Any]:
    """Convert digits to the number that they stand for."""
    read = dict(members)
    numbers = [name for name, member in _ALL_MEMBERS.items() if member.is_number]
    for name in (name for name in numbers if name in read):
        if isinstance(read[name], str) and re.fullmatch("[1-9][0-9]{0,9}", read[name]):
            read[name] = int(read[name])
    return read


def _find_fault(members: Mapping[Any, Any]) -> Optional[Tuple[str, Dict[str, Any]]]:
    faults = (find_member_fault(name, value) for name, value in members.items())
    return next(filter(None, faults), None)


_Switch = Literal["on", "off"]
_Level = Literal["on", "off", "l0", "l1", "l2"]
_Hertz = Union[int, str]

MOST_BYTES = 2047  # longer text is cut, and then no longer is JSON
_EXAMPLE = '{"output":"./","task_time":"on"}'
_OLD_WORDS = ("training_trace", "traing_trace", "task_trace", "op_trace")
_OLD_FORM = "({0})(:({0}))*".format("|".join(_OLD_WORDS))


class ProfilingOptions:
    """What profiling collects, with the vendor's member names; frozen.

    All members are optional keyword arguments, absent from the JSON when not given. Switches are
    "on" or "off" (training_trace only "on"), levels also "l0", "l1" and "l2"; frequencies are in
    Hz, as int or digits; storage_limit has its unit ("200MB"). ``others`` takes the members that
    GE knows and no manual describes: task_block, task_memory, task_tsfw, sys_cpu_freq,
    sys_lp_freq, sys_mem_serviceflow and optype.

    Raises:
        ValueError: With one sentence on the first member that is wrong.
    """

    def __init__(
        self,
        *,
        output: Optional[str] = None,
        storage_limit: Optional[str] = None,
        training_trace: Optional[Literal["on"]] = None,
        task_trace: Optional[_Level] = None,
        task_time: Optional[_Level] = None,
        ge_api: Optional[Literal["off", "l0", "l1"]] = None,
        hccl: Optional[_Switch] = None,
        aicpu: Optional[_Switch] = None,
        l2: Optional[_Switch] = None,
        msproftx: Optional[_Switch] = None,
        runtime_api: Optional[_Switch] = None,
        instr_profiling: Optional[_Switch] = None,
        fp_point: Optional[str] = None,
        bp_point: Optional[str] = None,
        aic_metrics: Optional[str] = None,
        sys_hardware_mem_freq: Optional[_Hertz] = None,
        llc_profiling: Optional[Literal["read", "write"]] = None,
        sys_io_sampling_freq: Optional[_Hertz] = None,
        sys_interconnection_freq: Optional[_Hertz] = None,
        dvpp_freq: Optional[_Hertz] = None,
        instr_profiling_freq: Optional[_Hertz] = None,
        host_sys: Optional[str] = None,
        host_sys_usage: Optional[str] = None,
        host_sys_usage_freq: Optional[_Hertz] = None,
        others: Optional[Mapping[str, Union[str, int]]] = None,
    ) -> None:
        given = dict(locals())
        members = _with_numbers({name: given[name] for name in MEMBERS if given[name] is not None})
        for name, value in _with_numbers(others or {}).items():
            if name in members:
                raise refused(others, f"the member {name!r} is given twice", {"task_tsfw": "on"})
            members[name] = value
        fault = _find_fault(members)
        if fault is not None:
            raise refused(members, *fault)
        self._members: Tuple[Tuple[str, Union[str, int]], ...]
        object.__setattr__(self, "_members", tuple(members.items()))

    def __getattr__(self, name: str) -> Any:
        if name not in MEMBERS:
            raise AttributeError(f"ProfilingOptions has no member {name!r}.")
        return dict(self._members).get(name)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"ProfilingOptions is frozen; make a new one to change {name!r}.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProfilingOptions) and self.members == other.members

    def __hash__(self) -> int:
        return hash(frozenset(self._members))

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={text!r}" for name, text in self._members)
        return f"ProfilingOptions({given})"

    @property
    def members(self) -> Dict[str, Union[str, int]]:
        """The members that were given, as the JSON has them."""
        return dict(self._members)

    def render(self) -> str:
        """Format the JSON text for the adapter: given members only, frequencies as integers."""
        return _write_json(self.members)

    @classmethod
    def parse(cls, text: str) -> "ProfilingOptions":
        """Read JSON text.

        Raises:
            ValueError: If `profiling_options` refuses the text, or it is empty.
        """
        if not text:
            raise refused(text, "it is empty, which lets the adapter take its default", _EXAMPLE)
        members = profiling_members(text)
        listed: Dict[str, Any] = {k: v for k, v in members.items() if k in MEMBERS}
        return cls(others={k: v for k, v in members.items() if k not in MEMBERS}, **listed)


_SCHEMA = {
    "anyOf": [
        {**TEXT, "maxLength": MOST_BYTES},
        {
            "type": "object",
            "properties": {
                **{name: member.schema for name, member in _ALL_MEMBERS.items()},
            },
            "additionalProperties": False,
        },
    ]
}


@grammar("JSON text, a mapping, ProfilingOptions", _EXAMPLE, _SCHEMA)
def profiling_options(value: object) -> str:
    """What profiling collects: JSON text, a mapping, or `ProfilingOptions`.

    The text has at most 2047 bytes in UTF-8, and no backslash. Frequencies are integers, other
    values are text. Empty text is legal: the adapter's default.

    Raises:
        ValueError: For text that GE would refuse at initialisation, the colon list of earlier
            releases among it.
    """
    if isinstance(value, str):
        profiling_members(value)
        return value
    if isinstance(value, ProfilingOptions):
        return _check_text(value.render())
    if not isinstance(value, Mapping):
        raise UnusableError
    members = _with_numbers(value)
    fault = _find_fault(members)
    if fault is not None:
        raise UnusableError(*fault)
    return _check_text(_write_json(members))


ProfilingText = Annotated[
    Union[str, Mapping[str, Union[str, int]], ProfilingOptions], profiling_options
]


@grammar("JSON text", _EXAMPLE, TEXT)
def profiling_members(text: str) -> Dict[str, Any]:
    """Read the members that ``text`` gives; none for empty text.

    Raises:
        ValueError: As `profiling_options`.
    """
    if not text:
        return {}
    if re.fullmatch(_OLD_FORM, text) is not None:
        raise _old_form(text)
    pairs = _parse_pairs(_check_text(text))
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UnusableError(f"the member {twice!r} is given twice")
    fault = _find_fault(members)
    if fault is not None:
        raise UnusableError(fault[0], _write_json(fault[1]))
    return members


def takes_members(text: str) -> bool:
    """Return whether the profiler takes a text that `profiling_options` refuses.

    Of a member that is given twice it keeps one, it only logs a wrong storage_limit, and newer
    processors have the level l3 (ProfAclMgr and ParamValidation; the platform decides).
    """
    try:
        members = dict(_parse_pairs(_check_text(text)))
    except UnusableError:
        return False
    if isinstance(members.get("storage_limit"), str):
        del members["storage_limit"]
    for name in ("task_time", "task_trace"):
        if members.get(name) == "l3":
            del members[name]
    return _find_fault(members) is None


class _Pairs(List[Tuple[str, Any]]):
    """The members of one JSON object, doubles included."""


def _parse_pairs(text: str) -> _Pairs:
    reason = "it is not a JSON object"
    try:
        members = json.loads(text, object_pairs_hook=_Pairs)
    except json.JSONDecodeError as error:
        reason = f"it is not JSON ({error.msg} at character {error.pos + 1})"
    except (ValueError, RecursionError):
        reason = "it is not JSON"
    else:
        if isinstance(members, _Pairs):
            return members
    raise UnusableError(reason) from None


def _check_text(text: str) -> str:
    if "\\" in text:
        raise UnusableError("it has a backslash, and GE leaves escapes in JSON as they stand")
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise UnusableError("it has half a surrogate pair in it") from None
    if size > MOST_BYTES:
        raise UnusableError(f"its text has {size} bytes and at most {MOST_BYTES} are read")
    return text


def _write_json(members: Mapping[str, Any]) -> str:
    return json.dumps(dict(members), ensure_ascii=False, separators=(",", ":"))


def _old_form(text: str) -> UnusableError:
    words = text.replace("traing_trace", "training_trace").split(":")
    members = {"output": "./"}
    if "training_trace" in words or "task_trace" in words:  # task_trace asks for both
        members["training_trace"] = "on"
    if "training_trace" not in words:
        members["task_trace" if "task_trace" in words else "task_time"] = "on"
    elif "task_trace" in words:
        members["task_trace"] = "on"
    reason = "it is the colon list of earlier releases and JSON is needed today"
    if "op_trace" in words:
        reason += ", which has no op_trace"
    return UnusableError(reason, _write_json(members))
