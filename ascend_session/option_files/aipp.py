"""insert_op_file: preprocessing of images in front of a network (AIPP).

GE reads the file with protobuf's own text parser (ReadProtoFromText), and so does this: the same
library comes with every TensorFlow. It is no dependency of this package, and asked for only when
such a file is read. Where a field stands that parser does not tell; `FieldPlaces` finds it.

Source: hicann/ge, insert_aipp_op_util.cc (Parse, CheckPositionNotRepeat) and aipp_op.cc; protobuf's
text format; options notes c.
"""

import functools
import importlib
import re
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, Iterator, List, Mapping, Sequence, Tuple

from ascend_session.errors import UnsupportedError
from ascend_session.option_files.aipp_fields import (
    AIPP_MODES,
    INPUT_FORMATS,
    AippField,
    AippOp,
    aipp_fields,
    faults,
    remarks_about,
)
from ascend_session.option_files.base import OptionFile, unusable
from ascend_session.option_files.remarks import FileFindings, LineAndColumn
from ascend_session.option_files.source import BOM, Kind, Source, shortened
from ascend_session.text import did_you_mean

_COMMENT_OR_TEXT = re.compile(r"#[^\n]*|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'")
_SLASHES = re.compile(r"(?m)^([ \t]*)//[^\n]*")
_FIELD = re.compile(r"\b([A-Za-z_]\w*)[ \t\r\n]*[:{<]")
_BLOCK_START = re.compile(r"\baipp_op\b")


def plain(text: str, fix: bool) -> str:
    """``text`` as protobuf gets it; bytes that are no UTF-8 are legal in its comments only.

    Args:
        text: The text of the file.
        fix: Whether a byte order mark and comments behind ``//`` are left out.
    """
    if fix:
        text = _SLASHES.sub(r"\1#", text[1:] if text.startswith(BOM) else text)
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class FieldPlaces:
    """Finds fields in the text."""

    def __init__(self, source: Source, text: str) -> None:
        self._source = source
        # Of the same length, so that places stay what they are.
        self._text = _COMMENT_OR_TEXT.sub(lambda found: " " * len(found.group()), text)
        self._blocks: List[int] = [found.start() for found in _BLOCK_START.finditer(self._text)]

    def others(self, known: Sequence[str]) -> List[Tuple[str, LineAndColumn]]:
        """Names of fields that are not among ``known``, each where it first stands."""
        found: Dict[str, LineAndColumn] = {}
        for match in _FIELD.finditer(self._text):
            name = match.group(1)
            if name not in known and name not in found:
                found[name] = self._source.places.of(min(match.start(), len(self._source.text)))
        return list(found.items())

    def of(self, block: int, name: str) -> LineAndColumn:
        """Line and column of the last ``name`` in a block counted from 0, or of the block."""
        if block >= len(self._blocks):
            return (1, 1)
        start = self._blocks[block]
        end = self._blocks[block + 1] if block + 1 < len(self._blocks) else len(self._text)
        found = list(re.finditer(rf"\b{name}\b", self._text[start:end]))
        at = start + (found[-1].start() if found else 0)
        return self._source.places.of(min(at, len(self._source.text)))


_TYPES: Dict[str, int] = {"int32": 5, "uint32": 13, "bool": 8, "float": 2, "string": 9}
_MESSAGE, _ENUM = 11, 14
_ONE, _MANY = 1, 3
_OPS = {"aipp_op": "AippOpParams", "multi_shape_op": "MultiShapeOpParams"}


def protobuf(module: str) -> Any:
    """A module of protobuf.

    Raises:
        UnsupportedError: If it is not installed.
    """
    try:
        return importlib.import_module(f"google.protobuf.{module}")
    except ImportError as error:
        raise UnsupportedError(
            f"An AIPP file is read with protobuf, which cannot be imported: {error}.",
            hint="It comes with TensorFlow; alone: pip install protobuf.",
        ) from error


@functools.lru_cache(maxsize=None)
def message_class() -> Any:
    """The class of the message; made once."""
    file = protobuf("descriptor_pb2").FileDescriptorProto(
        name="ascend_session/insert_op.proto", package="domi", syntax="proto3"
    )
    ops = file.message_type.add(name="InsertNewOps")
    ops.field.add(
        name="aipp_op", number=1, label=_MANY, type=_MESSAGE, type_name=".domi.AippOpParams"
    )
    ops.field.add(
        name="multi_shape_op",
        number=2,
        label=_MANY,
        type=_MESSAGE,
        type_name=".domi.MultiShapeOpParams",
    )
    _add_aipp(file.message_type.add(name="AippOpParams"))
    _add_multi_shape(file.message_type.add(name="MultiShapeOpParams"))
    pool = protobuf("descriptor_pool").DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    found = pool.FindMessageTypeByName("domi.InsertNewOps")
    factory = protobuf("message_factory")
    if hasattr(factory, "GetMessageClass"):
        return factory.GetMessageClass(found)
    return factory.MessageFactory(pool).GetPrototype(found)


def _add_aipp(message: Any) -> None:
    _add_enum(message, "AippMode", AIPP_MODES)
    _add_enum(message, "InputFormat", INPUT_FORMATS)
    for field in aipp_fields():
        made = message.field.add(name=field.name, number=field.number)
        made.label = _ONE if field.form == "one" else _MANY
        made.type = _TYPES.get(field.kind, _ENUM)
        if made.type == _ENUM:
            made.type_name = f".domi.AippOpParams.{field.kind}"


def _add_enum(message: Any, name: str, words: Sequence[str]) -> None:
    enum = message.enum_type.add(name=name)
    for number, word in enumerate(words):
        enum.value.add(name=word, number=number)


def _add_multi_shape(message: Any) -> None:
    _add_enum(message, "MultiShapeMode", ("batch", "resolution"))
    message.field.add(
        name="mode",
        number=1,
        label=_ONE,
        type=_ENUM,
        type_name=".domi.MultiShapeOpParams.MultiShapeMode",
    )
    message.field.add(name="related_input_rank", number=2, label=_ONE, type=_TYPES["uint32"])
    message.field.add(name="batch_list", number=11, label=_MANY, type=_TYPES["uint32"])


_WORDS = {"AippMode": AIPP_MODES, "InputFormat": INPUT_FORMATS}
_BLOCK = "aipp_op"
_OTHER_FIELDS = (_BLOCK, "multi_shape_op", "mode", "batch_list")
# What protobuf says of a field or value that a newer message may have; outside of a block there is
# nothing else in any.
_UNKNOWN = re.compile(
    r'"domi\.AippOpParams" has no field named "(\w+)"'
    r'|"domi\.AippOpParams\.\w+" has no value named (\w+)'
)


@dataclass(frozen=True, repr=False)
class Aipp(OptionFile):
    """The preprocessing of a network's inputs, for ``insert_op_file``; frozen.

    Attributes:
        ops: One `AippOp`, or a mapping of its fields, for each input that has one.

    Raises:
        ConfigError: For what GE refuses.
    """

    ops: Tuple[AippOp, ...] = ()

    OPTION: ClassVar[str] = "insert_op_file"
    NAME: ClassVar[str] = "insert_op.cfg"
    KIND: ClassVar[Kind] = Kind("an AIPP file")

    def __post_init__(self) -> None:
        given = self.ops
        if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Sequence):
            raise unusable(self.OPTION, f"ops is a list of AippOp, not {given!r}.")
        object.__setattr__(self, "ops", tuple(map(_op, given)))
        for number, _, message in _clashes([vars(op) for op in self.ops]):
            raise unusable(self.OPTION, f"ops[{number}]: {message}")

    def text(self) -> str:
        """The blocks in protobuf's text form, only what is said."""
        lines: List[str] = [] if self.ops else ["# no input is preprocessed"]
        for op in self.ops:
            lines += [f"{_BLOCK} {{", *_lines(op), "}"]
        return "".join(f"{line}\n" for line in lines)

    @classmethod
    def _understood(cls, source: Source, findings: FileFindings, fix: bool) -> Any:
        text = plain(source.text, fix)
        places = FieldPlaces(source, text)
        if not source.text:
            findings.refuse((1, 1), "The file is empty.")
            return cls
        blocks = _parsed(text, findings, places)
        for number, block in enumerate(blocks):
            for name, message in faults(block) if not findings.refused else ():
                findings.refuse(places.of(number, name), f"{name}: {message}")
            for name, message in remarks_about(block):
                findings.skip(places.of(number, name), f"{name}: {message}")
        for number, name, message in _clashes(blocks):
            findings.refuse(places.of(number, name), message)
        return lambda: cls(tuple(AippOp(**block) for block in blocks))


def _parsed(text: str, findings: FileFindings, places: FieldPlaces) -> List[Dict[str, Any]]:
    """The blocks of the text, as the values of their fields."""
    message = _message(text, findings, places)
    if message is None:
        return []
    if message.multi_shape_op:
        findings.skip((1, 1), "GE does not look at multi_shape_op.")
    blocks = []
    for number, op in enumerate(message.aipp_op):
        block: Dict[str, Any] = {}
        for field in aipp_fields():
            found = getattr(op, field.name)
            if field.form == "once" and len(found) > 1:
                place = places.of(number, field.name)
                findings.refuse(place, f"{field.name} may stand in a block only once.")
            block[field.name] = _value(field, found)
        blocks.append(block)
    return blocks


def _message(text: str, findings: FileFindings, places: FieldPlaces) -> Any:
    """The message; None if there is none to look at, which is noted."""
    text_format = protobuf("text_format")
    try:
        return _known_part(text, findings, places)
    except text_format.ParseError as error:
        said = str(error).split(" : ", 1)[-1].strip()
        findings.refuse(_place(error), f"This is not protobuf's text form: {shortened(said, 200)}")
    except (RecursionError, ValueError) as error:
        findings.refuse((1, 1), f"This is not protobuf's text form: {error}")
    return None


def _known_part(text: str, findings: FileFindings, places: FieldPlaces) -> Any:
    """The message without what a newer one may have, which is noted."""
    text_format = protobuf("text_format")
    unknown = None
    for lenient in (False, True):
        message = message_class()()
        try:
            text_format.Parse(text, message, allow_unknown_field=lenient)
            break
        except text_format.ParseError as error:
            if _UNKNOWN.search(str(error)) is None:
                raise
            unknown, message = error, None
    if unknown is not None:
        _note_unknown(unknown, findings, places)
    return message


def _note_unknown(error: Any, findings: FileFindings, places: FieldPlaces) -> None:
    """Notes fields of a block, or a value, that the message as it is known here does not have."""
    found = _UNKNOWN.search(str(error))
    word = (found.group(1) or found.group(2)) if found else ""
    known = [field.name for field in aipp_fields()]
    for name, place in places.others((*known, *_OTHER_FIELDS)) or [(word, _place(error))]:
        message = (
            f"{shortened(name)!r} is not known here; if GE does not know it, it refuses the file."
        )
        findings.not_known(place, message, functools.partial(_near, name, known))


def _near(name: str, known: Sequence[str]) -> str:
    near = did_you_mean(name, known)
    return f"Known is {near}." if near else "Look into the manual of your toolkit."


def _place(error: Any) -> LineAndColumn:
    return (error.GetLine() or 1, error.GetColumn() or 1)


def _value(field: AippField, found: Any) -> Any:
    if field.form == "many":
        return tuple(found)
    if field.form == "once":
        return found[0] if found else None
    words = _WORDS.get(field.kind)
    if words is not None:
        return words[found] if 0 <= found < len(words) else str(found)
    return found


def _clashes(blocks: Sequence[Mapping[str, Any]]) -> Iterator[Tuple[int, str, str]]:
    """Blocks that GE refuses beside the first: number, field and a sentence."""
    if not blocks:
        return
    by_name = bool(blocks[0]["related_input_name"])
    field = "related_input_name" if by_name else "related_input_rank"
    seen: Dict[Any, int] = {}
    for number, block in enumerate(blocks):
        if number and bool(block["related_input_name"]) != by_name:
            message = f"The first block has {field}, and then every other needs it too."
            yield number, field, message
        elif block[field] in seen:
            message = f"{field}: {block[field]!r} has block {seen[block[field]] + 1} already."
            yield number, field, message
        seen.setdefault(block[field], number)


def _lines(op: AippOp) -> Iterator[str]:
    for field in aipp_fields():
        value = getattr(op, field.name)
        for one in value if field.form == "many" else (value,):
            if one is not None and (field.form != "one" or one not in _UNSAID):
                yield f"    {field.name}: {_written(field, one)}"


_UNSAID: Tuple[Any, ...] = (0, False, "", "undefined", "UNDEFINED")


def _written(field: AippField, value: Any) -> str:
    if field.kind == "bool":
        return "true" if value else "false"
    if field.kind == "string":
        return '"' + "".join(map(_letter, value.encode("utf-8"))) + '"'
    return repr(value) if field.kind == "float" else str(value)


def _letter(byte: int) -> str:
    """One byte inside of quotes."""
    return chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}"


def _op(given: Any) -> AippOp:
    if isinstance(given, Mapping):
        try:
            return AippOp(**given)
        except TypeError as error:
            raise unusable(Aipp.OPTION, f"{dict(given)!r} are no fields: {error}.") from None
    if not isinstance(given, AippOp):
        raise unusable(Aipp.OPTION, f"{given!r} is no AippOp.")
    return given
