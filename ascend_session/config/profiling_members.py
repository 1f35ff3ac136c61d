"""The members of the profiling_options JSON object, and what each of them may say.

Source: section c of the option notes (the profiling manual and GE's parameter checks).
"""

import re
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from ascend_session.config.grammar import whole

__all__ = ["MEMBERS", "Member", "near_miss", "wrong_member"]


class Member(NamedTuple):
    """One member: a value it may have, all of them in words, their check, the JSON schema."""

    example: str
    meaning: str
    accepts: Callable[[str], bool]
    schema: Dict[str, Any]


def _words(*words: str) -> Member:
    listed = " or ".join(repr(word) for word in words)
    return Member(words[0], listed, words.__contains__, {"enum": list(words)})


def _hertz(low: int, high: int) -> Member:
    def accepts(text: str) -> bool:
        return whole(text, low, high) is not None and not text.startswith("0")

    return Member(str(high), f"{low} to {high} (Hz), in digits", accepts, _TEXT)


def _words_list(*words: str) -> Member:
    def accepts(text: str) -> bool:
        return all(word in words for word in text.split(","))

    meaning = f"one or several of {', '.join(words)}, with commas between"
    return Member("cpu,mem", meaning, accepts, _TEXT)


def _is_directory(text: str) -> bool:
    return bool(text) and not any(character in _NOT_IN_PATHS for character in text)


def _is_storage(text: str) -> bool:
    return text.endswith("MB") and whole(text[:-2], 200, 2**32 - 1) is not None


def _is_metric(text: str) -> bool:
    if not text.startswith("Custom:"):
        return text in _METRICS
    registers = text[len("Custom:") :].split(",")
    return len(registers) <= 8 and all(_is_register(register) for register in registers)


def _is_register(text: str) -> bool:
    if re.fullmatch(_HEX, text) is not None:
        return 1 <= int(text, 16) <= 0x6E
    return whole(text, 1, 0x6E) is not None


def _is_anything(text: str) -> bool:
    return True


_TEXT = {"type": "string"}
_HEX = "0[xX][0-9a-fA-F]{1,4}"
_NOT_IN_PATHS = "\0\b\t\n\v\f\r\x7f"
_METRICS = (
    "ArithmeticUtilization",
    "PipeUtilization",
    "Memory",
    "MemoryL0",
    "MemoryUB",
    "ResourceConflictRatio",
    "L2Cache",
    "MemoryAccess",
)
_METRIC_WORDS = f"{', '.join(_METRICS)}, or 'Custom:' and up to 8 registers 0x1 to 0x6E"
_SWITCH = _words("on", "off")
_LEVEL = _words("on", "off", "l0", "l1")
_OPERATOR = Member("", "the name of an operator, or '' for automatic", _is_anything, _TEXT)
_DIRECTORY = Member("./", "a directory, without control characters", _is_directory, _TEXT)
_STORAGE = Member("200MB", "'200MB' to '4294967295MB', with the unit", _is_storage, _TEXT)
_METRIC = Member("PipeUtilization", _METRIC_WORDS, _is_metric, _TEXT)

MEMBERS: Dict[str, Member] = {
    "output": _DIRECTORY,
    "storage_limit": _STORAGE,
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
    "aic_metrics": _METRIC,
    "sys_hardware_mem_freq": _hertz(1, 100),
    "llc_profiling": _words("read", "write"),
    "sys_io_sampling_freq": _hertz(1, 100),
    "sys_interconnection_freq": _hertz(1, 50),
    "dvpp_freq": _hertz(1, 100),
    "instr_profiling_freq": _hertz(300, 30000),
    "host_sys": _words_list("cpu", "mem", "disk", "network", "osrt"),
    "host_sys_usage": _words_list("cpu", "mem"),
    "host_sys_usage_freq": _hertz(1, 50),
}

# GE reads it, no manual describes it; it is not a slip of the pen for aic_metrics.
_NOT_MISSES: Tuple[str, ...] = ("aiv_metrics",)


def near_miss(name: str) -> Optional[str]:
    """The known member that an unknown ``name`` was probably meant to be, or None."""
    if name in MEMBERS or name in _NOT_MISSES:
        return None
    if name.lower() in MEMBERS:
        return name.lower()
    import difflib  # only a name that nobody knows costs this

    close = difflib.get_close_matches(name, MEMBERS, n=1, cutoff=0.8)
    return close[0] if close else None


def wrong_member(name: object, value: object) -> Optional[Tuple[str, Dict[str, str]]]:
    """What is wrong with one member, in half a sentence, and a right one; None if nothing is.

    Members with an unknown name are not judged: newer releases have more of them.
    """
    if not isinstance(name, str):
        return f"{name!r} is no member name (text is needed)", {"task_time": "on"}
    meant = near_miss(name)
    if meant is not None:
        wrong = f"there is no member {name!r} (did you mean {meant!r}?)"
        return wrong, {meant: MEMBERS[meant].example}
    member = MEMBERS.get(name)
    right = {name: "on" if member is None else member.example}
    if not isinstance(value, str):
        note = "YAML reads a bare on as True" if isinstance(value, bool) else "all values are text"
        return f"{name} is {value!r} and must be text in quotes ({note})", right
    if member is None or member.accepts(value):
        return None
    note = " (leave it out to switch it off)" if name == "training_trace" else ""
    return f"{name} is {value!r} and must be {member.meaning}{note}", right
