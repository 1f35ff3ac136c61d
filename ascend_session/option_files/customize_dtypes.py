"""customize_dtypes: the data types of single operators, by name or by type.

Source: hicann/ge, op_cust_dtypes_config_parser.cc (ParseDTypeFromLine), and TypeUtils
(kStringTodataTypeMap) for the names of data types; seed 000. A line that does not parse makes GE
refuse the whole file, comments and blank lines among them, although the documented sample has
both.
"""

import functools
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.option_files.base import Frozen, OptionFile, check_text_of, unusable
from ascend_session.option_files.remarks import FileFindings
from ascend_session.option_files.source import BOM, Kind, Source, encoded, lines_of, trimmed
from ascend_session.text import did_you_mean

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
    meant = _OTHER_NAMES.get(name) or did_you_mean(name, DTYPES)
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
        inputs = _read_slots(said[begin:stop], offset + begin)
    if end >= 0:
        begin = end + len(OUT) + 1
        outputs = _read_slots(said[begin:], offset + begin)
    return inputs, outputs


def _read_slots(said: str, offset: int) -> Tuple[Optional[str], ...]:
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


@dataclass(frozen=True)
class Dtypes:
    """Data types of one operator; frozen.

    Attributes:
        inputs: One for each input, in lower case ("float16"); None leaves that input alone.
        outputs: The same for the outputs.

    Raises:
        ConfigError: For a type that GE does not know, which makes it refuse the file.
    """

    inputs: Tuple[Optional[str], ...] = ()
    outputs: Tuple[Optional[str], ...] = ()

    def __post_init__(self) -> None:
        for field in ("inputs", "outputs"):
            given = getattr(self, field)
            if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
                raise unusable("customize_dtypes", f"{field} is a list of types, not {given!r}.")
            object.__setattr__(self, field, _checked_slots(given))


@dataclass(frozen=True, repr=False)
class CustomDtypes(OptionFile):
    """The data types of operators, for ``customize_dtypes``; frozen.

    Attributes:
        by_name: ``{operator name: Dtypes}``, or a mapping of its fields; counts before the type.
        by_type: ``{operator type of Ascend IR: Dtypes}``.

    Raises:
        ConfigError: For a name that no line can hold, or a line of more than 1023 bytes, at which
            GE stops reading without a word.
    """

    by_name: Mapping[str, Dtypes] = Frozen({})
    by_type: Mapping[str, Dtypes] = Frozen({})

    OPTION: ClassVar[str] = "customize_dtypes"
    NAME: ClassVar[str] = "customize_dtypes.cfg"
    KIND: ClassVar[Kind] = Kind("a file of data types")

    def __post_init__(self) -> None:
        for field, is_type in (("by_name", False), ("by_type", True)):
            given = getattr(self, field)
            if not isinstance(given, Mapping):
                raise unusable(self.OPTION, f"{field} is a mapping of Dtypes, not {given!r}.")
            made = {name: _dtypes(dtypes) for name, dtypes in given.items()}
            for name, dtypes in made.items():
                _check_entry(name, dtypes, is_type)
            object.__setattr__(self, field, Frozen(made))

    def dtypes_of(self, op_type: str, name: Optional[str] = None) -> Optional[Dtypes]:
        """What an operator gets, None if the file does not name it; its name counts first."""
        found = None if name is None else self.by_name.get(name)
        return self.by_type.get(op_type) if found is None else found

    def text(self) -> str:
        """One line for each operator: names first, then types."""
        lines = [_line(name, dtypes, False) for name, dtypes in self.by_name.items()]
        lines += [_line(name, dtypes, True) for name, dtypes in self.by_type.items()]
        return "".join(f"{line}\n" for line in lines)

    @classmethod
    def _understood(cls, source: Source, findings: FileFindings, fix: bool) -> Any:
        reader = _Lines(findings, fix)
        for number, line in enumerate(lines_of(source.text), 1):
            if not reader.take(line, number) or findings.many:
                break
        return lambda: cls(
            *(
                {name: Dtypes(one.inputs, one.outputs) for name, one in reader.found[kind].items()}
                for kind in (False, True)
            )
        )


class _Lines:
    """Takes one line after the other."""

    def __init__(self, findings: FileFindings, fix: bool) -> None:
        self.found: Dict[bool, Dict[str, DtypeLine]] = {False: {}, True: {}}
        self._numbers: Dict[Tuple[bool, str], int] = {}
        self._findings = findings
        self._fix = fix

    def take(self, line: str, number: int) -> bool:
        """Notes what a line says; returns whether GE reads on."""
        if not self._fix and len(encoded(line)) > LONGEST:
            self._findings.skip(
                (number, 1),
                f"GE stops reading here: the line has more than {LONGEST} bytes. It reports no "
                "error, and what follows is not read either.",
            )
            return False
        if self._fix:
            line = trimmed(line[1:] if line.startswith(BOM) else line)
            if not line or line.startswith(("#", "//", ";")):
                return True
        if "\0" in line:
            column = line.index("\0") + 1
            self._findings.skip((number, column), "GE reads this line up to its zero byte only.")
            line = line[: column - 1]
        try:
            read = read_line(line)
        except LineError as error:
            self._refuse(line, number, error)
            return True
        self._note(read, number)
        return True

    def _note(self, read: DtypeLine, number: int) -> None:
        known = (read.is_type, read.name)
        first = self._numbers.setdefault(known, number)
        if first != number:
            kind = "type" if read.is_type else "name"
            message = (
                f"GE skips this line: the {kind} {read.name!r} stands in line {first} already."
            )
            self._findings.skip((number, 1), message)
            return
        self._remark(read, number)
        if IN not in read.name and OUT not in read.name:
            self.found[read.is_type][read.name] = read

    def _remark(self, read: DtypeLine, number: int) -> None:
        place = (number, 1)
        name = read.name
        if IN in name or OUT in name:
            message = f"There is no operator in this line: GE takes {name!r} for its name."
            self._findings.skip(place, message, f"Write Name::{IN}:... in front.")
        elif name.startswith(BOM):
            message = f"A byte order mark is part of the name for GE: {name!r}."
            self._findings.skip(place, message, "Save without.")
        elif not read.is_type and name.lower() == "optype":
            self._findings.skip(
                place,
                f"GE takes {name!r} for the name of an operator: no type is meant here.",
                f"A type begins with {TYPE_HEAD} in column 1.",
            )
        elif name != trimmed(name):
            self._findings.skip(place, f"The blank belongs to the name for GE: {name!r}.")
        elif not any(read.inputs) and not any(read.outputs):
            self._findings.skip(place, f"This line changes no data type of {name!r}.")

    def _refuse(self, line: str, number: int, error: LineError) -> None:
        shown = trimmed(line)
        if not shown:
            message = "GE refuses the whole file for this blank line."
            hint = "Take it out, as fixed() and `config check-file --fix` do."
        elif shown.startswith(("#", "//", ";")):
            message = (
                "GE refuses the whole file for this comment. The sample in the manual has comments "
                "for the reader only."
            )
            hint = "Take it out, as fixed() and `config check-file --fix` do."
        else:
            message, hint = f"GE refuses the whole file for this line: {error}", ""
        self._findings.refuse((number, error.column), message, hint or None)


def _dtypes(given: Any) -> Any:
    """A mapping of the fields of `Dtypes` as such; everything else as it is."""
    is_fields = isinstance(given, Mapping) and set(given) <= {"inputs", "outputs"}
    return Dtypes(**given) if is_fields else given


def _checked_slots(given: Sequence[Any]) -> Tuple[Optional[str], ...]:
    """Types in lower case; slots left alone at the end say nothing and are left out."""
    made: List[Optional[str]] = []
    for dtype in given:
        fault = "it is no text." if not isinstance(dtype, (str, type(None))) else ""
        if dtype and not fault:
            fault = dtype_fault(dtype)
        if fault:
            raise unusable("customize_dtypes", f"{dtype!r} cannot be used: {fault}")
        made.append(dtype.lower() if dtype else None)
    while made and made[-1] is None:
        made.pop()
    return tuple(made)


def _line(name: str, dtypes: Dtypes, is_type: bool) -> str:
    head = f"{TYPE_HEAD}{name}" if is_type else name
    colons = ":" if is_type or name == TYPE_HEAD[:-2] else "::"
    inputs = ",".join(dtype or "" for dtype in dtypes.inputs)
    outputs = ",".join(dtype or "" for dtype in dtypes.outputs)
    said = f"{IN}:{inputs}" if dtypes.inputs or not dtypes.outputs else ""
    said += f"{OUT}:{outputs}" if dtypes.outputs else ""
    line = f"{head}{colons}{said}"
    # One colon is enough, where two are a byte too much.
    return line if len(line.encode("utf-8", "surrogatepass")) <= LONGEST else f"{head}:{said}"


def _check_entry(name: object, dtypes: object, is_type: bool) -> None:
    option = CustomDtypes.OPTION
    if not isinstance(dtypes, Dtypes):
        raise unusable(option, f"{name!r} needs Dtypes (inputs, outputs), not {dtypes!r}.")
    wrong = f"{name!r} cannot stand in {CustomDtypes.NAME}"
    if not isinstance(name, str) or set(name) & set(":\n\0") or IN in name or OUT in name:
        raise unusable(option, f"{wrong}: a name is one line without ':' and {IN} and {OUT}.")
    line = _line(name, dtypes, is_type)
    check_text_of(option, repr(name), name)
    size = len(encoded(line))
    if size > LONGEST:
        raise unusable(
            option, f"{name[:60]!r}: its line has {size} bytes, and GE stops at {LONGEST}."
        )
    try:
        read = read_line(line)
    except LineError:
        raise unusable(option, f"{wrong}: no name is left without its blanks.") from None
    if read != DtypeLine(is_type, name, dtypes.inputs, dtypes.outputs):
        raise unusable(option, f"{wrong}: GE would read it as {read.name!r}.")
