"""customize_dtypes: the data types of single operators, by name or by type.

Source: hicann/ge, op_cust_dtypes_config_parser.cc (ParseDTypeFromLine), and TypeUtils
(kStringTodataTypeMap) for the names of data types. GE refuses the whole file for a line that does
not parse, even a comment or a blank line, although the documented sample has both.
"""

import functools
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.findings import Place
from ascend_session.jsonfile import BOM
from ascend_session.option_files.base import OptionFile, mapping_field
from ascend_session.option_files.source_file import SourceFile, encode, trim
from ascend_session.text import did_you_mean

_IN = "InputDtype"
_OUT = "OutputDtype"
_TYPE_PREFIX = "OpType::"
_MOST_BYTES = 1023  # of a line: GE's buffer has 1024
_COMMENTS = ("#", "//", ";")

# The types that GE knows with the prefix DT_; those of the newest releases come last.
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

_Slots = Tuple[Optional[str], ...]


@dataclass(frozen=True)
class Dtypes:
    """Data types of one operator; frozen.

    Attributes:
        inputs: The type of each input, in lower case ("float16"); None leaves it unchanged.
        outputs: The type of each output, in the same form.

    Raises:
        ConfigError: For a type that GE does not know, for which it would refuse the file.
    """

    inputs: _Slots = ()
    outputs: _Slots = ()

    def __post_init__(self) -> None:
        for field in ("inputs", "outputs"):
            slots = getattr(self, field)
            if isinstance(slots, (str, bytes)) or not isinstance(slots, Sequence):
                raise CustomDtypes._unusable(f"{field} is a list of types, not {slots!r}.")
            for dtype in slots:
                fault = "it is not text." if not isinstance(dtype, (str, type(None))) else ""
                fault = fault or (_find_dtype_fault(dtype) if dtype else "")
                if fault:
                    raise CustomDtypes._unusable(f"{dtype!r} cannot be used: {fault}")
            kept = [dtype.lower() if dtype else None for dtype in slots]
            while kept and kept[-1] is None:  # a trailing None has no effect
                kept.pop()
            object.__setattr__(self, field, tuple(kept))


@dataclass(frozen=True, repr=False)
class CustomDtypes(OptionFile):
    """The data types of operators, for ``customize_dtypes``; frozen.

    Attributes:
        by_name: ``{operator name: Dtypes}``; takes precedence over the type. A mapping of the
            fields of Dtypes is converted.
        by_type: ``{operator type of Ascend IR: Dtypes}``.

    Raises:
        ConfigError: For a name that cannot be written in a line, or a line of more than 1023 bytes,
            at which GE silently stops reading.
    """

    by_name: Mapping[str, Dtypes] = mapping_field()
    by_type: Mapping[str, Dtypes] = mapping_field()

    OPTION: ClassVar[str] = "customize_dtypes"
    NAME: ClassVar[str] = "customize_dtypes.cfg"
    WHAT: ClassVar[str] = "a file of data types"

    def __post_init__(self) -> None:
        self._copy_mapping("by_name", "Dtypes", functools.partial(_read_entry, False))
        self._copy_mapping("by_type", "Dtypes", functools.partial(_read_entry, True))

    def text(self) -> str:
        """Format one line for each operator: names first, then types."""
        lines = [_write_line(name, dtypes, False) for name, dtypes in self.by_name.items()]
        lines += [_write_line(name, dtypes, True) for name, dtypes in self.by_type.items()]
        return "".join(f"{line}\n" for line in lines)

    @classmethod
    def _read(cls, source: SourceFile) -> Dict[str, Any]:
        entries: Dict[bool, Dict[str, Dtypes]] = {False: {}, True: {}}
        first_lines: Dict[Tuple[bool, str], int] = {}
        for place, line in source.lines():
            if source.is_hopeless:
                break
            if len(encode(line)) > _MOST_BYTES:
                source.skip(
                    place,
                    f"GE stops reading here: the line has more than {_MOST_BYTES} bytes. It "
                    "reports no error, and what follows is not read either.",
                )
                break
            if "\0" in line:
                zero_byte = place._replace(column=line.index("\0") + 1)
                source.skip(zero_byte, "GE reads this line up to its zero byte only.")
                line = line.partition("\0")[0]
            try:
                parsed = _parse_line(line)
            except _LineError as error:
                _refuse_line(source, place, line, error)
                continue
            first = first_lines.setdefault((parsed.is_type, parsed.name), place.line)
            if first != place.line:
                kind = "type" if parsed.is_type else "name"
                message = f"the {kind} {parsed.name!r} is already in line {first}."
                source.skip(place, f"GE skips this line: {message}")
            elif not _note_strange_line(source, place, parsed):
                entries[parsed.is_type][parsed.name] = parsed.dtypes
        return {"by_name": entries[False], "by_type": entries[True]}


class _Line(NamedTuple):
    is_type: bool
    name: str
    dtypes: Dtypes


class _LineError(Exception):
    """GE cannot parse the line; ``column`` counts from 1."""

    def __init__(self, column: int, message: str) -> None:
        super().__init__(message)
        self.column = column


def _parse_line(line: str) -> _Line:
    """Parse a line.

    Raises:
        _LineError: If GE refuses it.
    """
    is_type = line.startswith(_TYPE_PREFIX)
    rest = line[len(_TYPE_PREFIX) :] if is_type else line
    entry = trim(rest)
    offset = len(line) - len(rest) + (rest.index(entry) if entry else 0)
    colon = entry.find(":")
    if colon <= 0:
        missing = "it has no ':'." if colon < 0 else "there is no name before ':'."
        raise _LineError(offset + 1, f"{missing} A line is Name::{_IN}:...{_OUT}:...")
    start, end = entry.find(_IN), entry.find(_OUT)
    if start < 0 and end < 0:
        raise _LineError(offset + 1, f"it has neither {_IN} nor {_OUT}.")
    if start > end >= 0:
        raise _LineError(offset + start + 1, f"{_IN} must come before {_OUT}.")
    for word, at in ((_IN, start), (_OUT, end)):
        behind = at + len(word)
        if at >= 0 and behind == len(entry):
            raise _LineError(
                offset + at + 1,
                f"it ends with {word}, but GE skips one character after that: the process aborts "
                "because there is none.",
            )
        # GE skips one byte there; the rest of a longer character would become part of a type.
        if at >= 0 and entry[behind] > "\x7f" and not "\udc80" <= entry[behind] <= "\udcff":
            raise _LineError(offset + at + 1, f"{word} must be followed by ':'.")
    inputs: _Slots = ()
    outputs: _Slots = ()
    if start >= 0:
        begin = start + len(_IN) + 1
        # If the two words are adjacent, the length wraps around in C++, and GE takes all the rest.
        stop = end if end >= begin else len(entry)
        inputs = _parse_slots(entry[begin:stop], offset + begin)
    if end >= 0:
        begin = end + len(_OUT) + 1
        outputs = _parse_slots(entry[begin:], offset + begin)
    return _Line(is_type, entry[:colon], Dtypes(inputs, outputs))


def _parse_slots(text: str, offset: int) -> _Slots:
    slots: List[Optional[str]] = []
    for part in text.split(","):
        dtype = trim(part)
        fault = _find_dtype_fault(dtype) if dtype else ""
        if fault:
            raise _LineError(offset + part.index(dtype) + 1, fault)
        slots.append(dtype or None)
        offset += len(part) + 1
    return tuple(slots)


@functools.lru_cache(maxsize=1024)
def _find_dtype_fault(dtype: str) -> str:
    """Return a sentence if GE does not know a data type; empty if it does."""
    # C's toupper knows ASCII letters only.
    name = dtype.lower() if all(letter < "\x80" for letter in dtype) else dtype
    if name in DTYPES:
        return ""
    meant = _OTHER_NAMES.get(name) or did_you_mean(name, DTYPES)
    return f"GE knows no data type {dtype!r}." + (f" Write {meant}." if meant else "")


def _note_strange_line(source: SourceFile, place: Place, line: _Line) -> bool:
    """Warn about a suspicious line; return True if it names no operator."""
    name = line.name
    if _IN in name or _OUT in name:
        message = f"This line names no operator: GE reads {name!r} as its name."
        source.skip(place, message, f"Begin the line with Name::{_IN}:...")
        return True
    if name.startswith(BOM):
        message = f"GE reads the byte order mark as part of the name: {name!r}."
        source.skip(place, message, "Save the file without it.")
    elif not line.is_type and name.lower() == "optype":
        message = f"GE reads {name!r} as the name of an operator, not of a type."
        source.skip(place, message, f"A type begins with {_TYPE_PREFIX} in column 1.")
    elif name != trim(name):
        source.skip(place, f"GE reads the blank as part of the name: {name!r}.")
    elif not any(line.dtypes.inputs) and not any(line.dtypes.outputs):
        source.skip(place, f"This line changes no data type of {name!r}.")
    return False


def _refuse_line(source: SourceFile, place: Place, line: str, error: _LineError) -> None:
    entry = trim(line)
    hint: Optional[str] = "Remove the line."
    if not entry:
        message = "GE refuses the whole file for this blank line."
    elif entry.startswith(_COMMENTS):
        message = (
            "GE refuses the whole file for this comment. The sample in the manual has comments for "
            "the reader only."
        )
    else:
        message, hint = f"GE refuses the whole file for this line: {error}", None
    source.refuse(place._replace(column=error.column), message, hint)


def _write_line(name: str, dtypes: Dtypes, is_type: bool) -> str:
    head = f"{_TYPE_PREFIX}{name}" if is_type else name
    colons = ":" if is_type or name == _TYPE_PREFIX[:-2] else "::"
    inputs = ",".join(dtype or "" for dtype in dtypes.inputs)
    outputs = ",".join(dtype or "" for dtype in dtypes.outputs)
    slots = f"{_IN}:{inputs}" if dtypes.inputs or not dtypes.outputs else ""
    slots += f"{_OUT}:{outputs}" if dtypes.outputs else ""
    line = f"{head}{colons}{slots}"
    # One colon is enough if two would make the line too long.
    return line if len(line.encode("utf-8", "surrogatepass")) <= _MOST_BYTES else f"{head}:{slots}"


def _read_entry(is_type: bool, name: Any, given: Any) -> Dtypes:
    """Return the Dtypes of an entry, made from a mapping of their fields if necessary."""
    is_fields = isinstance(given, Mapping) and set(given) <= {"inputs", "outputs"}
    dtypes = Dtypes(**given) if is_fields else given
    if not isinstance(dtypes, Dtypes):
        raise CustomDtypes._unusable(f"{name!r} needs Dtypes (inputs, outputs), not {dtypes!r}.")
    wrong = f"{name!r} cannot stand in {CustomDtypes.NAME}"
    if not isinstance(name, str) or set(name) & set(":\n\0") or _IN in name or _OUT in name:
        message = f"{wrong}: a name is one line without ':' and {_IN} and {_OUT}."
        raise CustomDtypes._unusable(message)
    line = _write_line(name, dtypes, is_type)
    CustomDtypes._check_writable(repr(name), name)
    size = len(encode(line))
    if size > _MOST_BYTES:
        message = f"{name[:60]!r}: its line has {size} bytes, and GE stops at {_MOST_BYTES}."
        raise CustomDtypes._unusable(message)
    try:
        parsed = _parse_line(line)
    except _LineError:
        raise CustomDtypes._unusable(f"{wrong}: no name is left without its blanks.") from None
    if parsed != _Line(is_type, name, dtypes):
        raise CustomDtypes._unusable(f"{wrong}: GE would read it as {parsed.name!r}.")
    return dtypes
