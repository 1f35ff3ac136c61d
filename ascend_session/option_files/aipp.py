"""insert_op_file: preprocessing of images in front of a network (AIPP).

GE reads the file with protobuf's own text parser (ReadProtoFromText), and so does this: the same
library comes with every TensorFlow. It is no dependency of this package, and asked for only when
such a file is read. Where a field stands that parser does not tell; `_FieldPlaces` finds it.

Sources: insert_op.proto of the vendor (message AippOpParams, as published in Huawei-Ascend/
tensorflow, inc/register/proto); hicann/ge, insert_aipp_op_util.cc (Parse, CheckPositionNotRepeat)
and aipp_op.cc (SetPaddingData for padding_value, which is newer and whose number is not published:
it does not stand in text; ValidateParams for what is refused; SetDefaultParams, ConvertParamToAttr
and GetAndCheckTarget for what is used); protobuf's text format;
guides/facts/option_files.md#insert_op_file, also for the ranges of the manual.
"""

import dataclasses
import functools
import importlib
import re
import struct
from typing import (
    Any,
    ClassVar,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from ascend_session.errors import UnsupportedError
from ascend_session.findings import Place
from ascend_session.jsonfile import BOM
from ascend_session.option_files.base import Brief, OptionFile
from ascend_session.option_files.source import SourceFile
from ascend_session.requirements import protobuf_command
from ascend_session.text import did_you_mean, is_writable, shorten

AIPP_MODES = ("undefined", "static", "dynamic")
INPUT_FORMATS = (
    *("UNDEFINED", "YUV420SP_U8", "XRGB8888_U8", "RGB888_U8", "YUV400_U8"),
    *("NC1HWC0DI_FP16", "NC1HWC0DI_S8", "ARGB8888_U8", "YUYV_U8", "YUV422SP_U8", "AYUV444_U8"),
    *("RAW10", "RAW12", "RAW16", "RAW24", "RGB16", "RGB20", "RGB24"),
    *("RGB8_IR", "RGB16_IR", "RGB24_IR"),
)
ENUMS: Dict[str, Tuple[str, ...]] = {"AippMode": AIPP_MODES, "InputFormat": INPUT_FORMATS}
_LIMITS = {"int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1)}
_NAN = float("nan")  # one object, so that equal operators are equal


class AippField(NamedTuple):
    """A field of the vendor's message.

    Attributes:
        name: Its name.
        number: Its number in the message.
        kind: ``int32``, ``uint32``, ``bool``, ``float``, ``string``, ``AippMode`` or
            ``InputFormat``.
        form: ``one`` (0 if it is not set), ``once`` (repeated, of which GE takes one) or
            ``many``.
    """

    name: str
    number: int
    kind: str
    form: str


def _field(number: int, kind: str, default: Any) -> Any:
    return dataclasses.field(default=default, metadata={"number": number, "kind": kind})


@dataclasses.dataclass(frozen=True, repr=False)
class AippOp(Brief):
    """The preprocessing of one input of a network, under the vendor's names; frozen.

    What is not said is 0, False or empty, as for GE; it takes defaults of its own where a field is
    None. "static" has the values in the file, with "dynamic" they come with each image. Order:
    channel swap, crop, colour conversion, mean and scale, padding.

    Raises:
        ConfigError: For what GE refuses; all at once.
    """

    aipp_mode: str = _field(1, "AippMode", "undefined")
    related_input_rank: int = _field(2, "uint32", 0)
    related_input_name: str = _field(6, "string", "")
    input_edge_idx: Tuple[int, ...] = _field(3, "uint32", ())
    max_src_image_size: int = _field(4, "uint32", 0)  # bytes; for "dynamic"
    support_rotation: bool = _field(5, "bool", False)
    input_format: str = _field(51, "InputFormat", "UNDEFINED")  # and all below, for "static"
    csc_switch: bool = _field(52, "bool", False)
    cpadding_value: float = _field(53, "float", 0.0)
    rbuv_swap_switch: bool = _field(54, "bool", False)
    ax_swap_switch: bool = _field(55, "bool", False)
    single_line_mode: bool = _field(56, "bool", False)
    src_image_size_w: int = _field(57, "int32", 0)
    src_image_size_h: int = _field(58, "int32", 0)
    crop: bool = _field(59, "bool", False)
    load_start_pos_w: int = _field(60, "int32", 0)
    load_start_pos_h: int = _field(61, "int32", 0)
    crop_size_w: int = _field(62, "int32", 0)
    crop_size_h: int = _field(63, "int32", 0)
    resize: bool = _field(64, "bool", False)
    resize_output_w: int = _field(65, "int32", 0)
    resize_output_h: int = _field(66, "int32", 0)
    padding: bool = _field(67, "bool", False)
    left_padding_size: int = _field(68, "int32", 0)
    right_padding_size: int = _field(69, "int32", 0)
    top_padding_size: int = _field(70, "int32", 0)
    bottom_padding_size: int = _field(71, "int32", 0)
    padding_value: float = _field(72, "float", 0.0)
    mean_chn_0: int = _field(10, "int32", 0)
    mean_chn_1: int = _field(11, "int32", 0)
    mean_chn_2: int = _field(12, "int32", 0)
    mean_chn_3: int = _field(19, "int32", 0)
    min_chn_0: float = _field(13, "float", 0.0)
    min_chn_1: float = _field(14, "float", 0.0)
    min_chn_2: float = _field(15, "float", 0.0)
    min_chn_3: float = _field(20, "float", 0.0)
    var_reci_chn_0: Optional[float] = _field(16, "float", None)
    var_reci_chn_1: Optional[float] = _field(17, "float", None)
    var_reci_chn_2: Optional[float] = _field(18, "float", None)
    var_reci_chn_3: Optional[float] = _field(21, "float", None)
    matrix_r0c0: Optional[int] = _field(30, "int32", None)
    matrix_r0c1: Optional[int] = _field(31, "int32", None)
    matrix_r0c2: Optional[int] = _field(32, "int32", None)
    matrix_r1c0: Optional[int] = _field(33, "int32", None)
    matrix_r1c1: Optional[int] = _field(34, "int32", None)
    matrix_r1c2: Optional[int] = _field(35, "int32", None)
    matrix_r2c0: Optional[int] = _field(36, "int32", None)
    matrix_r2c1: Optional[int] = _field(37, "int32", None)
    matrix_r2c2: Optional[int] = _field(38, "int32", None)
    output_bias_0: Optional[int] = _field(39, "int32", None)
    output_bias_1: Optional[int] = _field(40, "int32", None)
    output_bias_2: Optional[int] = _field(41, "int32", None)
    input_bias_0: Optional[int] = _field(42, "int32", None)
    input_bias_1: Optional[int] = _field(43, "int32", None)
    input_bias_2: Optional[int] = _field(44, "int32", None)
    raw_rgbir_to_f16_n: int = _field(45, "uint32", 0)

    def __post_init__(self) -> None:
        faults: List[str] = []
        for field in aipp_fields():
            value, fault = _check_field(field, getattr(self, field.name))
            object.__setattr__(self, field.name, value)
            faults += [f"{field.name}={value!r}: {fault}"] if fault else []
        faults = faults or [f"{name}: {fault}" for name, fault in find_faults(vars(self))]
        if faults:
            raise Aipp._unusable(" ".join(faults))

    def __reduce__(self) -> Tuple[Any, ...]:
        # Made anew, so that what is no number is equal to itself in another process too.
        return type(self), tuple(getattr(self, field.name) for field in dataclasses.fields(self))


@functools.lru_cache(maxsize=None)
def aipp_fields() -> Tuple[AippField, ...]:
    """List the fields of the message, in the order in which they are written."""
    forms: Dict[Any, str] = {None: "once", (): "many"}
    return tuple(
        AippField(name=field.name, form=forms.get(field.default, "one"), **field.metadata)
        for field in dataclasses.fields(AippOp)
    )


_PADDING = tuple(f"{side}_padding_size" for side in ("left", "right", "top", "bottom"))
# What ValidateParams looks at; crop_size_h is not among it.
_NOT_NEGATIVE = (
    *("src_image_size_w", "src_image_size_h", "load_start_pos_w", "load_start_pos_h"),
    *("crop_size_w", "resize_output_w", "resize_output_h", *_PADDING),
)


def find_faults(values: Mapping[str, Any]) -> Iterator[Tuple[str, str]]:
    """Find why GE refuses one block: the field, and a sentence."""
    mode = values["aipp_mode"]
    if mode not in AIPP_MODES[1:]:
        yield "aipp_mode", "It has to be static or dynamic."
    elif mode == "dynamic":
        if values["max_src_image_size"] <= 0:
            yield "max_src_image_size", "For a dynamic AIPP it has to be more than 0 bytes."
    else:
        if values["input_format"] == "UNDEFINED":
            yield "input_format", "A static AIPP needs it, YUV420SP_U8 for example."
        for name in _NOT_NEGATIVE:
            if values[name] < 0:
                yield name, f"{values[name]} is less than 0."


def _check_field(field: AippField, value: Any) -> Tuple[Any, str]:
    """Give the value as it is kept, and why it cannot be; empty if it can."""
    if field.form == "many":
        if not isinstance(value, (tuple, list)):
            return value, "a list of numbers is needed."
        checked = [_check_item(field, item) for item in value]
        faults = " ".join(fault for _, fault in checked if fault)
        return tuple(item for item, _ in checked), faults
    if field.form == "once" and value is None:
        return None, ""
    return _check_item(field, value)


def _check_item(field: AippField, value: Any) -> Tuple[Any, str]:
    if field.kind in _LIMITS:
        low, high = _LIMITS[field.kind]
        is_legal = type(value) is int and low <= value <= high
        return value, "" if is_legal else f"a whole number from {low} to {high} is needed."
    if field.kind == "bool":
        return value, "" if type(value) is bool else "True or False is needed."
    if field.kind == "float":
        is_number = type(value) in (int, float)
        return (_as_single(value), "") if is_number else (value, "a number is needed.")
    if field.kind == "string":
        is_text = isinstance(value, str) and is_writable(value, strict=True)
        return value, "" if is_text else "text is needed."
    words = ENUMS[field.kind]
    if isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value):  # protobuf takes any number
        value = words[int(value)] if int(value) < len(words) else str(int(value))
        return value, ""
    return value, "" if value in words else f"one of {', '.join(words)} is needed."


def _as_single(value: float) -> float:
    """Give the shortest number that is the same in single precision, which is what GE keeps."""
    try:
        packed = struct.pack("<f", float(value))
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    (single,) = struct.unpack("<f", packed)
    if single != single:
        return _NAN
    for digits in range(6, 10):
        short = float(f"{single:.{digits}g}")
        if struct.pack("<f", short) == packed:
            return short
    return float(single)


_DOCUMENTED = INPUT_FORMATS[1:5]
_GENERAL = (
    *("aipp_mode", "related_input_rank", "related_input_name"),
    *("input_edge_idx", "raw_rgbir_to_f16_n"),
)
_DYNAMIC = ("max_src_image_size", "support_rotation")
_STATIC = tuple(field.name for field in aipp_fields() if field.name not in (*_GENERAL, *_DYNAMIC))
# A switch, and what GE sets to 0 without it
_SWITCHED = {
    "crop": ("load_start_pos_h", "load_start_pos_w", "crop_size_h", "crop_size_w"),
    "resize": ("resize_output_h", "resize_output_w"),
    "padding": _PADDING,
}
_MOST_PADDING = 32
_SIZES = {"w": (2, 4096), "h": (1, 4096)}


def find_remarks(block: Mapping[str, Any]) -> Iterator[Tuple[str, str]]:
    """Find what GE does not use, or the manual does not have: the field, and a sentence."""
    is_static = block["aipp_mode"] == "static"
    other, word = (_DYNAMIC, "dynamic") if is_static else (_STATIC, "static")
    for name in other:
        if block[name] and block[name] != "UNDEFINED":
            yield name, f"GE uses it for a {word} AIPP only."
    if block["input_edge_idx"]:
        yield "input_edge_idx", "GE does not use it."
    if not is_static:
        return
    if block["input_format"] not in (*_DOCUMENTED, "UNDEFINED"):
        yield "input_format", f"The manual has {', '.join(_DOCUMENTED)} only."
    for switch, names in _SWITCHED.items():
        for name in names:
            if block[name] and not block[switch]:
                yield name, f"GE sets it to 0, as {switch} is not true."
            elif block[switch] and switch == "padding" and block[name] > _MOST_PADDING:
                yield name, f"The manual allows at most {_MOST_PADDING}."
    for side, (low, high) in _SIZES.items():
        size = block[f"src_image_size_{side}"]
        start, length = block[f"load_start_pos_{side}"], block[f"crop_size_{side}"]
        if size and not low <= size <= high:
            yield f"src_image_size_{side}", f"The manual allows {low} to {high}, or 0."
        if block["crop"] and size and start + length > size:
            yield f"crop_size_{side}", f"{start} + {length} is more than the image has, {size}."
        if block["crop"] and start % 2 and block["input_format"] == "YUV420SP_U8":
            yield f"load_start_pos_{side}", "The manual wants an even number for YUV420SP_U8."


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


@dataclasses.dataclass(frozen=True, repr=False)
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
            raise self._unusable(f"ops is a list of AippOp, not {given!r}.")
        object.__setattr__(self, "ops", tuple(map(_to_op, given)))
        for number, _, message in _find_clashes([vars(op) for op in self.ops]):
            raise self._unusable(f"ops[{number}]: {message}")

    def text(self) -> str:
        """Write the blocks in protobuf's text form, only what is set."""
        lines: List[str] = [] if self.ops else ["# no input is preprocessed"]
        for op in self.ops:
            lines.append(f"{_BLOCK} {{")
            for field in aipp_fields():
                value = getattr(op, field.name)
                for item in value if field.form == "many" else (value,):
                    if item is not None and (field.form != "one" or item not in _UNSET):
                        lines.append(f"    {field.name}: {_write_value(field, item)}")
            lines.append("}")
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
    unknown: List[Tuple[str, Place]] = []
    for is_lenient in (False, True):
        message = _message_class()()
        try:
            text_format.Parse(text, message, allow_unknown_field=is_lenient)
            break
        except text_format.ParseError as error:
            match = _UNKNOWN.search(str(error))
            if match is None:
                raise
            unknown, message = [(match[1] or match[2], _place_of(error))], None
    known = [field.name for field in aipp_fields()]
    if unknown:
        unknown = places.others((*known, *_OTHER_FIELDS)) or unknown
    for name, place in unknown:
        what = repr(shorten(name))
        reason = f"{what} is unknown here; if GE does not know it either, it refuses the file."
        source.skip_unknown(place, reason, functools.partial(_field_hint, name, known))
    return message


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
            raise Aipp._unusable(f"{dict(value)!r} are no fields: {error}.") from None
    if not isinstance(value, AippOp):
        raise Aipp._unusable(f"{value!r} is no AippOp.")
    return value


# The message, as protobuf needs it -------------------------------------------------------------


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
    _add_field(root, "aipp_op", 1, "AippOpParams", is_repeated=True)
    _add_field(root, "multi_shape_op", 2, "MultiShapeOpParams", is_repeated=True)
    aipp = file.message_type.add(name="AippOpParams")
    for name, words in ENUMS.items():
        _add_enum(aipp, name, words)
    for field in aipp_fields():
        kind = f"AippOpParams.{field.kind}" if field.kind in ENUMS else field.kind
        _add_field(aipp, field.name, field.number, kind, is_repeated=field.form != "one")
    shapes = file.message_type.add(name="MultiShapeOpParams")
    _add_enum(shapes, "MultiShapeMode", ("batch", "resolution"))
    _add_field(shapes, "mode", 1, "MultiShapeOpParams.MultiShapeMode")
    _add_field(shapes, "related_input_rank", 2, "uint32")
    _add_field(shapes, "batch_list", 11, "uint32", is_repeated=True)
    pool = _import_protobuf("descriptor_pool").DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    descriptor = pool.FindMessageTypeByName("domi.InsertNewOps")
    factory = _import_protobuf("message_factory")
    if hasattr(factory, "GetMessageClass"):
        return factory.GetMessageClass(descriptor)
    return factory.MessageFactory(pool).GetPrototype(descriptor)


def _add_field(
    message: Any, name: str, number: int, kind: str, *, is_repeated: bool = False
) -> None:
    label = "LABEL_REPEATED" if is_repeated else "LABEL_OPTIONAL"
    named = {"type": f"TYPE_{kind.upper()}"} if kind.islower() else {"type_name": f".domi.{kind}"}
    message.field.add(name=name, number=number, label=label, **named)


def _add_enum(message: Any, name: str, words: Sequence[str]) -> None:
    values = [{"name": word, "number": number} for number, word in enumerate(words)]
    message.enum_type.add(name=name, value=values)
