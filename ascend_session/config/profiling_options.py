"""The profiling_options JSON object: its grammar, and `ProfilingOptions`, which renders it.

Sources: section c of the option notes; seed 002 for the colon list of earlier releases.
"""

import json
import re
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from typing_extensions import Literal

from ascend_session.config.grammar import refused, wrong_type
from ascend_session.config.profiling_members import MEMBERS, wrong_member

__all__ = [
    "SCHEMAS",
    "ProfilingOptions",
    "profiling_members",
    "profiling_options",
    "unknown_members",
]

_Switch = Literal["on", "off"]
_Level = Literal["on", "off", "l0", "l1"]
_Hertz = Union[int, str]

_MOST_BYTES = 2047  # longer text is cut, and then no longer is JSON
_EXAMPLE = '{"output":"./","task_time":"on"}'
_FORMS = "JSON text, a mapping, ProfilingOptions"
_OLD_WORDS = ("training_trace", "traing_trace", "task_trace", "op_trace")
_OLD_FORM = "({0})(:({0}))*".format("|".join(_OLD_WORDS))

SCHEMAS: Dict[str, Dict[str, Any]] = {
    "profiling_options": {
        "anyOf": [
            {"type": "string", "maxLength": _MOST_BYTES},
            {
                "type": "object",
                "properties": {name: member.schema for name, member in MEMBERS.items()},
                "additionalProperties": {"type": "string"},
            },
        ]
    }
}


class ProfilingOptions:
    """What profiling collects, with the vendor's member names; frozen.

    All members are optional keyword arguments, absent from the JSON when not given. Switches are
    "on" or "off" (training_trace only "on"), levels also "l0" and "l1"; frequencies are in Hz, as
    int or digits; storage_limit has its unit ("200MB"). ``others`` takes members that newer CANN
    releases have in addition.

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
        others: Optional[Mapping[str, str]] = None,
    ) -> None:
        said = dict(locals())
        members = {name: _digits(name, said[name]) for name in MEMBERS if said[name] is not None}
        for name, value in dict(others or {}).items():
            if name in members:
                raise refused(others, f"the member {name!r} is given twice", {"task_tsfw": "on"})
            members[name] = value
        _check(members, members)
        self._members: Tuple[Tuple[str, str], ...]
        object.__setattr__(self, "_members", tuple(members.items()))

    def __getattr__(self, name: str) -> Optional[str]:
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
        said = ", ".join(f"{name}={text!r}" for name, text in self._members)
        return f"ProfilingOptions({said})"

    @property
    def members(self) -> Dict[str, str]:
        """The members that were given, as the JSON has them."""
        return dict(self._members)

    def render(self) -> str:
        """The JSON text for the adapter: string values, only what was given."""
        return _rendered(self.members)

    @classmethod
    def parse(cls, text: str) -> "ProfilingOptions":
        """Reads JSON text.

        Raises:
            ValueError: If `profiling_options` refuses the text, or it is empty.
        """
        if not text:
            raise refused(text, "it is empty, which lets the adapter take its default", _EXAMPLE)
        members = profiling_members(text)
        known: Dict[str, Any] = {k: v for k, v in members.items() if k in MEMBERS}
        return cls(others={k: v for k, v in members.items() if k not in MEMBERS}, **known)


def profiling_options(value: object) -> str:
    """What profiling collects: JSON text, a mapping of strings, or `ProfilingOptions`.

    The text has at most 2047 bytes in UTF-8. Empty text is legal: the adapter's default.

    Raises:
        ValueError: For text that GE would refuse at initialisation, the colon list of seed 002
            among it, and for a member whose name is nearly a known one.
    """
    if isinstance(value, str):
        profiling_members(value)
        return value
    if isinstance(value, ProfilingOptions):
        return _fitting(value.render(), value)
    if not isinstance(value, Mapping):
        raise wrong_type(value, _FORMS, _EXAMPLE)
    _check(value, value)
    return _fitting(_rendered(value), value)


def profiling_members(text: str) -> Dict[str, str]:
    """The members that ``text`` gives; none for empty text.

    Raises:
        ValueError: As `profiling_options`.
    """
    if not text:
        return {}
    if re.fullmatch(_OLD_FORM, text) is not None:
        raise _old_form(text)
    pairs = _pairs(_fitting(text, text))
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise refused(text, f"the member {twice!r} is given twice", _EXAMPLE)
    _check(members, text)
    return members


def unknown_members(text: str) -> List[str]:
    """The members of a legal ``text`` that are not known here; newer releases have more."""
    return [name for name in profiling_members(text) if name not in MEMBERS]


class _Pairs(List[Tuple[str, Any]]):
    """The members of one JSON object, doubles included."""


def _pairs(text: str) -> _Pairs:
    wrong = "it is no JSON object"
    try:
        found = json.loads(text, object_pairs_hook=_Pairs)
    except json.JSONDecodeError as error:
        wrong = f"it is no JSON ({error.msg} at character {error.pos + 1})"
    except (ValueError, RecursionError):
        wrong = "it is no JSON"
    else:
        if isinstance(found, _Pairs):
            return found
    raise refused(text, wrong, _EXAMPLE) from None


def _check(members: Mapping[Any, Any], given: object) -> None:
    for name, value in members.items():
        problem = wrong_member(name, value)
        if problem is not None:
            wrong, right = problem
            raise refused(given, wrong, right if isinstance(given, Mapping) else _rendered(right))


def _fitting(text: str, given: object) -> str:
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise refused(given, "it has half a surrogate pair in it", _EXAMPLE) from None
    if size > _MOST_BYTES:
        wrong = f"its text has {size} bytes and at most {_MOST_BYTES} are read"
        raise refused(given, wrong, _EXAMPLE)
    return text


def _rendered(members: Mapping[str, str]) -> str:
    return json.dumps(dict(members), ensure_ascii=False, separators=(",", ":"))


def _digits(name: str, value: object) -> Any:
    """A frequency given as an int becomes digits; everything else stays for the check."""
    number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if number and name.endswith("_freq") else value


def _old_form(text: str) -> ValueError:
    said = text.replace("traing_trace", "training_trace").split(":")
    members = {"output": "./"}
    if "training_trace" in said or "task_trace" in said:  # task_trace asks for both
        members["training_trace"] = "on"
    if "training_trace" not in said:
        members["task_trace" if "task_trace" in said else "task_time"] = "on"
    elif "task_trace" in said:
        members["task_trace"] = "on"
    wrong = "it is the colon list of earlier releases and JSON is needed today"
    if "op_trace" in said:
        wrong += ", which has no op_trace"
    return refused(text, wrong, _rendered(members))
