"""What one ``aipp_op`` block can say, what GE demands of it, and what it takes and does not use.

Sources: insert_op.proto of the vendor (message AippOpParams, as published in Huawei-Ascend/
tensorflow, inc/register/proto); hicann/ge, aipp_op.cc (SetPaddingData for padding_value, which is
newer and whose number is not published: it does not stand in text; ValidateParams for what is
refused; SetDefaultParams, ConvertParamToAttr and GetAndCheckTarget for what is used);
guides/facts/option_files.md#insert_op_file for the ranges of the manual.
"""

import dataclasses
import functools
import struct
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.option_files.base import Brief, unusable_value
from ascend_session.text import is_writable

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


def _one(number: int, kind: str, default: Any) -> Any:
    return dataclasses.field(default=default, metadata={"field": (number, kind, "one")})


def _int(number: int, kind: str = "int32") -> Any:
    return _one(number, kind, 0)


def _switch(number: int) -> Any:
    return _one(number, "bool", False)


def _float(number: int) -> Any:
    return _one(number, "float", 0.0)


def _once(number: int, kind: str = "int32") -> Any:
    return dataclasses.field(default=None, metadata={"field": (number, kind, "once")})


@dataclasses.dataclass(frozen=True, repr=False)
class AippOp(Brief):
    """The preprocessing of one input of a network, under the vendor's names; frozen.

    What is not said is 0, False or empty, as for GE; it takes defaults of its own where a field is
    None. "static" has the values in the file, with "dynamic" they come with each image. Order:
    channel swap, crop, colour conversion, mean and scale, padding.

    Raises:
        ConfigError: For what GE refuses; all at once.
    """

    aipp_mode: str = _one(1, "AippMode", "undefined")
    related_input_rank: int = _int(2, "uint32")
    related_input_name: str = _one(6, "string", "")
    input_edge_idx: Tuple[int, ...] = dataclasses.field(
        default=(), metadata={"field": (3, "uint32", "many")}
    )
    max_src_image_size: int = _int(4, "uint32")  # bytes; for "dynamic"
    support_rotation: bool = _switch(5)
    input_format: str = _one(51, "InputFormat", "UNDEFINED")  # and all below, for "static"
    csc_switch: bool = _switch(52)
    cpadding_value: float = _float(53)
    rbuv_swap_switch: bool = _switch(54)
    ax_swap_switch: bool = _switch(55)
    single_line_mode: bool = _switch(56)
    src_image_size_w: int = _int(57)
    src_image_size_h: int = _int(58)
    crop: bool = _switch(59)
    load_start_pos_w: int = _int(60)
    load_start_pos_h: int = _int(61)
    crop_size_w: int = _int(62)
    crop_size_h: int = _int(63)
    resize: bool = _switch(64)
    resize_output_w: int = _int(65)
    resize_output_h: int = _int(66)
    padding: bool = _switch(67)
    left_padding_size: int = _int(68)
    right_padding_size: int = _int(69)
    top_padding_size: int = _int(70)
    bottom_padding_size: int = _int(71)
    padding_value: float = _float(72)
    mean_chn_0: int = _int(10)
    mean_chn_1: int = _int(11)
    mean_chn_2: int = _int(12)
    mean_chn_3: int = _int(19)
    min_chn_0: float = _float(13)
    min_chn_1: float = _float(14)
    min_chn_2: float = _float(15)
    min_chn_3: float = _float(20)
    var_reci_chn_0: Optional[float] = _once(16, "float")
    var_reci_chn_1: Optional[float] = _once(17, "float")
    var_reci_chn_2: Optional[float] = _once(18, "float")
    var_reci_chn_3: Optional[float] = _once(21, "float")
    matrix_r0c0: Optional[int] = _once(30)
    matrix_r0c1: Optional[int] = _once(31)
    matrix_r0c2: Optional[int] = _once(32)
    matrix_r1c0: Optional[int] = _once(33)
    matrix_r1c1: Optional[int] = _once(34)
    matrix_r1c2: Optional[int] = _once(35)
    matrix_r2c0: Optional[int] = _once(36)
    matrix_r2c1: Optional[int] = _once(37)
    matrix_r2c2: Optional[int] = _once(38)
    output_bias_0: Optional[int] = _once(39)
    output_bias_1: Optional[int] = _once(40)
    output_bias_2: Optional[int] = _once(41)
    input_bias_0: Optional[int] = _once(42)
    input_bias_1: Optional[int] = _once(43)
    input_bias_2: Optional[int] = _once(44)
    raw_rgbir_to_f16_n: int = _int(45, "uint32")

    def __post_init__(self) -> None:
        faults: List[str] = []
        for field in aipp_fields():
            value, fault = _check_field(field, getattr(self, field.name))
            object.__setattr__(self, field.name, value)
            faults += [f"{field.name}={value!r}: {fault}"] if fault else []
        faults = faults or [f"{name}: {fault}" for name, fault in find_faults(vars(self))]
        if faults:
            raise unusable_value("insert_op_file", " ".join(faults))

    def __reduce__(self) -> Tuple[Any, ...]:
        # Made anew, so that what is no number is equal to itself in another process too.
        return type(self), tuple(getattr(self, field.name) for field in dataclasses.fields(self))


@functools.lru_cache(maxsize=None)
def aipp_fields() -> Tuple[AippField, ...]:
    """List the fields of the message, in the order in which they are written."""
    return tuple(
        AippField(field.name, *field.metadata["field"]) for field in dataclasses.fields(AippOp)
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


# What ValidateParams looks at; crop_size_h is not among it.
_NOT_NEGATIVE = (
    *("src_image_size_w", "src_image_size_h", "load_start_pos_w", "load_start_pos_h"),
    *("crop_size_w", "resize_output_w", "resize_output_h", "left_padding_size"),
    *("right_padding_size", "top_padding_size", "bottom_padding_size"),
)


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
    if isinstance(value, str) and value.isdigit() and len(value) < 10:  # protobuf takes any number
        value = words[int(value)] if int(value) < len(words) else str(int(value))
        return value, ""
    return value, "" if value in words else f"one of {', '.join(words)} is needed."


def _as_single(value: float) -> float:
    """Give the shortest number that is the same in single precision, which is what GE keeps."""
    try:
        packed = struct.pack("<f", value)
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
_GENERAL = ("aipp_mode", "related_input_rank", "related_input_name", "input_edge_idx",
            "raw_rgbir_to_f16_n")  # fmt: skip
_DYNAMIC = ("max_src_image_size", "support_rotation")
# A switch, and what GE sets to 0 without it
_SWITCHED = {
    "crop": ("load_start_pos_h", "load_start_pos_w", "crop_size_h", "crop_size_w"),
    "resize": ("resize_output_h", "resize_output_w"),
    "padding": (
        "left_padding_size",
        "right_padding_size",
        "top_padding_size",
        "bottom_padding_size",
    ),
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
    if is_static:
        yield from _find_static_remarks(block)


_STATIC = tuple(field.name for field in aipp_fields() if field.name not in (*_GENERAL, *_DYNAMIC))


def _find_static_remarks(block: Mapping[str, Any]) -> Iterator[Tuple[str, str]]:
    if block["input_format"] not in (*_DOCUMENTED, "UNDEFINED"):
        yield "input_format", f"The manual has {', '.join(_DOCUMENTED)} only."
    for switch, names in _SWITCHED.items():
        for name in names:
            if block[name] and not block[switch]:
                yield name, f"GE sets it to 0, as {switch} is not true."
            elif block[switch] and "padding_size" in name and block[name] > _MOST_PADDING:
                yield name, f"The manual allows at most {_MOST_PADDING}."
    for side, (low, high) in _SIZES.items():
        yield from _find_side_remarks(block, side, low, high)


def _find_side_remarks(
    block: Mapping[str, Any], side: str, low: int, high: int
) -> Iterator[Tuple[str, str]]:
    size = block[f"src_image_size_{side}"]
    start, length = block[f"load_start_pos_{side}"], block[f"crop_size_{side}"]
    if size and not low <= size <= high:
        yield f"src_image_size_{side}", f"The manual allows {low} to {high}, or 0."
    if not block["crop"]:
        return
    if size and start + length > size:
        yield f"crop_size_{side}", f"{start} + {length} is more than the image has, {size}."
    if start % 2 and block["input_format"] == "YUV420SP_U8":
        yield f"load_start_pos_{side}", "The manual wants an even number for YUV420SP_U8."
