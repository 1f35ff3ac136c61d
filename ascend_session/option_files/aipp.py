"""insert_op_file: preprocessing of images in front of a network (AIPP).

GE reads the file with protobuf's own text parser (ReadProtoFromText), and so does this: the same
library comes with every TensorFlow. It is no dependency of this package, and asked for only when
such a file is read. Where a field stands that parser does not tell; `_FieldPlaces` finds it.

Source: hicann/ge, insert_aipp_op_util.cc (Parse, CheckPositionNotRepeat) and aipp_op.cc; protobuf's
text format; guides/facts/option_files.md#insert_op_file.
"""

import functools
import importlib
import re
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, Iterator, List, Mapping, Sequence, Tuple

from ascend_session.errors import UnsupportedError
from ascend_session.findings import Place
from ascend_session.jsonfile import BOM
from ascend_session.option_files.aipp_fields import (
    ENUMS,
    AippField,
    AippOp,
    aipp_fields,
    find_faults,
    find_remarks,
)
from ascend_session.option_files.base import OptionFile, unusable_value
from ascend_session.option_files.source import SourceFile
from ascend_session.requirements import protobuf_command
from ascend_session.text import did_you_mean, shorten

_BLOCK = "aipp_op"
_OTHER_FIELDS = (_BLOCK, "multi_shape_op", "mode", "batch_list")
_UNSET: Tuple[Any, ...] = (0, False, "", "undefined", "UNDEFINED")

_COMMENT_OR_TEXT = re.compile(r"#[^\n]*|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'")
_SLASHES = re.compile(r"(?m)^([ \t]*)//[^\n]*")
_FIELD = re.compile(r"\b([A-Za-z_]\w*)[ \t\r\n]*[:{<]")
_BLOCK_START = re.compile(rf"\b{_BLOCK}\b")
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
    WHAT: ClassVar[str] = "an AIPP file"

    def __post_init__(self) -> None:
        given = self.ops
        if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Sequence):
            raise unusable_value(self.OPTION, f"ops is a list of AippOp, not {given!r}.")
        object.__setattr__(self, "ops", tuple(map(_to_op, given)))
        for number, _, message in _find_clashes([vars(op) for op in self.ops]):
            raise unusable_value(self.OPTION, f"ops[{number}]: {message}")

    def text(self) -> str:
        """Write the blocks in protobuf's text form, only what is set."""
        lines: List[str] = [] if self.ops else ["# no input is preprocessed"]
        for op in self.ops:
            lines += [f"{_BLOCK} {{", *_write_fields(op), "}"]
        return "".join(f"{line}\n" for line in lines)

    @classmethod
    def _read(cls, source: SourceFile) -> Dict[str, Any]:
        if not source.text:
            source.refuse(Place(1, 1), "The file is empty.")
            return {}
        text = source.text
        if source.fix:
            text = _SLASHES.sub(r"\1#", text[1:] if text.startswith(BOM) else text)
        # Bytes that are no UTF-8 are legal in comments only.
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        places = _FieldPlaces(source, text)
        blocks = _read_blocks(source, places, text)
        is_refused = bool(source.errors())
        for number, block in enumerate(blocks):
            for name, message in find_faults(block) if not is_refused else ():
                source.refuse(places.of(number, name), f"{name}: {message}")
            is_refused = bool(source.errors())
            for name, message in find_remarks(block):
                source.skip(places.of(number, name), f"{name}: {message}")
        for number, name, message in _find_clashes(blocks):
            source.refuse(places.of(number, name), message)
        return {"ops": blocks}


class _FieldPlaces:
    """Finds fields in the text that protobuf reads."""

    def __init__(self, source: SourceFile, text: str) -> None:
        self._source = source
        # Of the same length, so that places stay what they are.
        self._text = _COMMENT_OR_TEXT.sub(lambda match: " " * len(match.group()), text)
        self._blocks = [match.start() for match in _BLOCK_START.finditer(self._text)]

    def others(self, known: Sequence[str]) -> List[Tuple[str, Place]]:
        """Find the fields that are not among ``known``, each where it first stands."""
        places: Dict[str, Place] = {}
        for match in _FIELD.finditer(self._text):
            name = match.group(1)
            if name not in known and name not in places:
                places[name] = self._place(match.start())
        return list(places.items())

    def of(self, block: int, name: str) -> Place:
        """Find the last ``name`` in a block counted from 0, or the block."""
        if block >= len(self._blocks):
            return Place(1, 1)
        start, *behind = self._blocks[block : block + 2]
        end = behind[0] if behind else len(self._text)
        matches = list(re.finditer(rf"\b{name}\b", self._text[start:end]))
        return self._place(start + (matches[-1].start() if matches else 0))

    def _place(self, at: int) -> Place:
        return self._source.place(min(at, len(self._source.text)))


def _read_blocks(source: SourceFile, places: _FieldPlaces, text: str) -> List[Dict[str, Any]]:
    """Read each block as the values of its fields; none if protobuf refuses the text."""
    text_format = _import_protobuf("text_format")
    try:
        message = _parse_known(source, places, text)
    except text_format.ParseError as error:
        reason = shorten(str(error).split(" : ", 1)[-1].strip(), 200)
        source.refuse(_place_of(error), f"This is not protobuf's text form: {reason}")
        return []
    except (RecursionError, ValueError) as error:
        source.refuse(Place(1, 1), f"This is not protobuf's text form: {error}")
        return []
    if message is None:
        return []
    if message.multi_shape_op:
        source.skip(Place(1, 1), "GE ignores multi_shape_op.")
    blocks = []
    for number, op in enumerate(message.aipp_op):
        block: Dict[str, Any] = {}
        for field in aipp_fields():
            value = getattr(op, field.name)
            if field.form == "once" and len(value) > 1:
                place = places.of(number, field.name)
                source.refuse(place, f"{field.name} may occur only once in a block.")
            block[field.name] = _to_python(field, value)
        blocks.append(block)
    return blocks


def _parse_known(source: SourceFile, places: _FieldPlaces, text: str) -> Any:
    """Parse the message without what a newer one may have, which is noted.

    Returns:
        The message; None if what is unknown cannot be left out.

    Raises:
        text_format.ParseError: If protobuf refuses the text.
    """
    text_format = _import_protobuf("text_format")
    unknown = None
    for is_lenient in (False, True):
        message = _message_class()()
        try:
            text_format.Parse(text, message, allow_unknown_field=is_lenient)
            break
        except text_format.ParseError as error:
            if _UNKNOWN.search(str(error)) is None:
                raise
            unknown, message = error, None
    if unknown is not None:
        _note_unknown(source, places, unknown)
    return message


def _note_unknown(source: SourceFile, places: _FieldPlaces, error: Any) -> None:
    """Note fields of a block, or a value, that the message as it is known here does not have."""
    match = _UNKNOWN.search(str(error))
    word = (match.group(1) or match.group(2)) if match else ""
    known = [field.name for field in aipp_fields()]
    for name, place in places.others((*known, *_OTHER_FIELDS)) or [(word, _place_of(error))]:
        quoted = shorten(name)
        message = f"{quoted!r} is unknown here; if GE does not know it either, it refuses the file."
        source.skip_unknown(place, message, functools.partial(_field_hint, name, known))


def _field_hint(name: str, known: Sequence[str]) -> str:
    near = did_you_mean(name, known)
    return f"Known is {near}." if near else "Look into the manual of your toolkit."


def _place_of(error: Any) -> Place:
    return Place(error.GetLine() or 1, error.GetColumn() or 1)


def _to_python(field: AippField, value: Any) -> Any:
    if field.form == "many":
        return tuple(value)
    if field.form == "once":
        return value[0] if value else None
    words = ENUMS.get(field.kind)
    if words is not None:
        return words[value] if 0 <= value < len(words) else str(value)
    return value


def _find_clashes(blocks: Sequence[Mapping[str, Any]]) -> Iterator[Tuple[int, str, str]]:
    """Find blocks that GE refuses beside the first: number, field and a sentence."""
    if not blocks:
        return
    by_name = bool(blocks[0]["related_input_name"])
    field = "related_input_name" if by_name else "related_input_rank"
    first_blocks: Dict[Any, int] = {}
    for number, block in enumerate(blocks):
        first = first_blocks.setdefault(block[field], number)
        if number and bool(block["related_input_name"]) != by_name:
            message = f"The first block has {field}, so every other block needs it too."
            yield number, field, message
        elif first != number:
            yield number, field, f"{field}: {block[field]!r} has block {first + 1} already."


def _write_fields(op: AippOp) -> Iterator[str]:
    for field in aipp_fields():
        value = getattr(op, field.name)
        for item in value if field.form == "many" else (value,):
            if item is not None and (field.form != "one" or item not in _UNSET):
                yield f"    {field.name}: {_write_value(field, item)}"


def _write_value(field: AippField, value: Any) -> str:
    if field.kind == "bool":
        return "true" if value else "false"
    if field.kind == "string":
        letters = (
            chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}"
            for byte in value.encode("utf-8")
        )
        return f'"{"".join(letters)}"'
    return repr(value) if field.kind == "float" else str(value)


def _to_op(value: Any) -> AippOp:
    if isinstance(value, Mapping):
        try:
            return AippOp(**value)
        except TypeError as error:
            message = f"{dict(value)!r} are no fields: {error}."
            raise unusable_value(Aipp.OPTION, message) from None
    if not isinstance(value, AippOp):
        raise unusable_value(Aipp.OPTION, f"{value!r} is no AippOp.")
    return value


# The message, as protobuf needs it -------------------------------------------------------------

_TYPES = {"int32": 5, "uint32": 13, "bool": 8, "float": 2, "string": 9}
_MESSAGE, _ENUM = 11, 14
_ONE, _MANY = 1, 3


def _import_protobuf(module: str) -> Any:
    """Import a module of protobuf.

    Raises:
        UnsupportedError: If it is not installed.
    """
    try:
        return importlib.import_module(f"google.protobuf.{module}")
    except ImportError as error:
        raise UnsupportedError(
            f"An AIPP file is read with protobuf, which cannot be imported: {error}.",
            hint=f"It comes with TensorFlow; alone: {protobuf_command()}.",
        ) from error


@functools.lru_cache(maxsize=None)
def _message_class() -> Any:
    """Make the class of the message InsertNewOps."""
    file = _import_protobuf("descriptor_pb2").FileDescriptorProto(
        name="ascend_session/insert_op.proto", package="domi", syntax="proto3"
    )
    root = file.message_type.add(name="InsertNewOps")
    _add_field(root, "aipp_op", 1, _MANY, _MESSAGE, "AippOpParams")
    _add_field(root, "multi_shape_op", 2, _MANY, _MESSAGE, "MultiShapeOpParams")
    aipp = file.message_type.add(name="AippOpParams")
    for name, words in ENUMS.items():
        _add_enum(aipp, name, words)
    for field in aipp_fields():
        label = _ONE if field.form == "one" else _MANY
        if field.kind in ENUMS:
            kind = f"AippOpParams.{field.kind}"
            _add_field(aipp, field.name, field.number, label, _ENUM, kind)
        else:
            _add_field(aipp, field.name, field.number, label, _TYPES[field.kind])
    shapes = file.message_type.add(name="MultiShapeOpParams")
    _add_enum(shapes, "MultiShapeMode", ("batch", "resolution"))
    _add_field(shapes, "mode", 1, _ONE, _ENUM, "MultiShapeOpParams.MultiShapeMode")
    _add_field(shapes, "related_input_rank", 2, _ONE, _TYPES["uint32"])
    _add_field(shapes, "batch_list", 11, _MANY, _TYPES["uint32"])
    pool = _import_protobuf("descriptor_pool").DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    descriptor = pool.FindMessageTypeByName("domi.InsertNewOps")
    factory = _import_protobuf("message_factory")
    if hasattr(factory, "GetMessageClass"):
        return factory.GetMessageClass(descriptor)
    return factory.MessageFactory(pool).GetPrototype(descriptor)


def _add_field(message: Any, name: str, number: int, label: int, kind: int, of: str = "") -> None:
    type_name = f".domi.{of}" if of else None
    message.field.add(name=name, number=number, label=label, type=kind, type_name=type_name)


def _add_enum(message: Any, name: str, words: Sequence[str]) -> None:
    enum = message.enum_type.add(name=name)
    for number, word in enumerate(words):
        enum.value.add(name=word, number=number)
