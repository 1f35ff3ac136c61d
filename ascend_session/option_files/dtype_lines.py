"""One line of customize_dtypes, as GE takes it to pieces.

Source: hicann/ge, op_cust_dtypes_config_parser.cc (ParseDTypeFromLine), and TypeUtils
(kStringTodataTypeMap) for the names of data types.
"""

import difflib
import functools
from typing import List, NamedTuple, Optional, Tuple

from ascend_session.option_files.lines import trimmed

__all__ = [
    "DTYPES",
    "IN",
    "LONGEST",
    "OUT",
    "TYPE_HEAD",
    "DtypeLine",
    "LineError",
    "dtype_fault",
    "read_line",
]

IN = "InputDtype"
OUT = "OutputDtype"
TYPE_HEAD = "OpType::"
LONGEST = 1023  # bytes of a line: GE's buffer has 1024

# The types that GE knows under the prefix DT_. What releases have added last stands at the end.
DTYPES = (
    *("float", "float16", "float32", "bfloat16", "double"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"),
    *("complex32", "complex64", "complex128", "qint8", "qint16", "qint32", "quint8", "quint16"),
    *("resource", "string", "string_ref", "variant", "dual", "dual_sub_int8", "dual_sub_uint8"),
    *("int4", "uint1", "int2", "uint2"),
    *("hifloat8", "float8_e5m2", "float8_e4m3fn", "float8_e8m0", "float6_e3m2", "float6_e2m3"),
    *("float4_e2m1", "float4_e1m2", "hifloat4"),
)
_OTHER_NAMES = {"bf16": "bfloat16", "half": "float16", "fp16": "float16", "fp32": "float32"}


class DtypeLine(NamedTuple):
    """What a line says; trailing slots that are left alone are not kept."""

    is_type: bool
    name: str
    inputs: Tuple[Optional[str], ...]
    outputs: Tuple[Optional[str], ...]


class LineError(Exception):
    """GE cannot parse the line; ``column`` from 1 says where."""

    def __init__(self, column: int, message: str) -> None:
        super().__init__(message)
        self.column = column


def read_line(line: str) -> DtypeLine:
    """Takes a line to pieces.

    Raises:
        LineError: If GE refuses it.
    """
    is_type = line.startswith(TYPE_HEAD)
    rest = line[len(TYPE_HEAD) :] if is_type else line
    said = trimmed(rest)
    offset = len(line) - len(rest) + (rest.index(said) if said else 0)  # of what is said
    colon = said.find(":")
    if colon <= 0:
        missing = "it has no ':'." if colon < 0 else "there is no name in front of ':'."
        raise LineError(offset + 1, f"{missing} A line is Name::{IN}:...{OUT}:...")
    inputs, outputs = _sides(said, offset)
    return DtypeLine(is_type, said[:colon], inputs, outputs)


@functools.lru_cache(maxsize=1024)
def dtype_fault(dtype: str) -> str:
    """Why GE does not know a data type; empty if it does."""
    name = _lower(dtype)
    if name in DTYPES:
        return ""
    near = difflib.get_close_matches(name, DTYPES, 1) if len(name) < 60 else []
    meant = _OTHER_NAMES.get(name) or (near[0] if near else "")
    return f"GE knows no data type {dtype!r}." + (f" Write {meant}." if meant else "")


def _sides(said: str, offset: int) -> Tuple[Tuple[Optional[str], ...], Tuple[Optional[str], ...]]:
    start, end = said.find(IN), said.find(OUT)
    if start < 0 and end < 0:
        raise LineError(offset + 1, f"it has neither {IN} nor {OUT}.")
    if start > end >= 0:
        raise LineError(offset + start + 1, f"{IN} must stand in front of {OUT}.")
    for word, at in ((IN, start), (OUT, end)):
        if at >= 0 and at + len(word) == len(said):
            raise LineError(
                offset + at + 1, f"it ends with {word}, behind which GE skips one character; none "
                "is there, and the process ends.",
            )  # fmt: skip
        if at >= 0 and _is_of_several_bytes(said[at + len(word)]):
            raise LineError(offset + at + 1, f"':' is needed behind {word}.")
    inputs: Tuple[Optional[str], ...] = ()
    outputs: Tuple[Optional[str], ...] = ()
    if start >= 0:
        begin = start + len(IN) + 1
        # Right behind each other the length wraps around in C++, and all the rest is taken.
        stop = end if end >= begin else len(said)
        inputs = _slots(said[begin:stop], offset + begin)
    if end >= 0:
        begin = end + len(OUT) + 1
        outputs = _slots(said[begin:], offset + begin)
    return inputs, outputs


def _slots(said: str, offset: int) -> Tuple[Optional[str], ...]:
    slots: List[Optional[str]] = []
    for part in said.split(","):
        dtype = trimmed(part)
        if dtype:
            fault = dtype_fault(dtype)
            if fault:
                raise LineError(offset + part.index(dtype) + 1, fault)
        slots.append(_lower(dtype) or None)
        offset += len(part) + 1
    while slots and slots[-1] is None:
        slots.pop()
    return tuple(slots)


def _lower(text: str) -> str:
    """``text`` in lower case, if it is ASCII: other letters have nothing to do with C's toupper."""
    return text.lower() if all(letter < "\x80" for letter in text) else text


def _is_of_several_bytes(letter: str) -> bool:
    """Whether GE, which skips one byte, would take the rest of it for a type."""
    return letter > "\x7f" and not "\udc80" <= letter <= "\udcff"
