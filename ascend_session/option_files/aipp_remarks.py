"""What GE takes in an AIPP block and does not use, or the manual does not allow.

Sources: hicann/ge, aipp_op.cc (SetDefaultParams, ConvertParamToAttr, GetAndCheckTarget); options
notes c for the ranges of the manual.
"""

from typing import Any, Iterator, Mapping, Tuple

from ascend_session.option_files.aipp_fields import INPUT_FORMATS, aipp_fields

__all__ = ["remarks_about"]

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


def remarks_about(block: Mapping[str, Any]) -> Iterator[Tuple[str, str]]:
    """A field, and what there is to say about its value."""
    is_static = block["aipp_mode"] == "static"
    other, word = (_DYNAMIC, "dynamic") if is_static else (_STATIC, "static")
    for name in other:
        if block[name] and block[name] != "UNDEFINED":
            yield name, f"GE uses it for a {word} AIPP only."
    if block["input_edge_idx"]:
        yield "input_edge_idx", "GE does not use it."
    if is_static:
        yield from _about_static(block)


_STATIC = tuple(field.name for field in aipp_fields() if field.name not in (*_GENERAL, *_DYNAMIC))


def _about_static(block: Mapping[str, Any]) -> Iterator[Tuple[str, str]]:
    if block["input_format"] not in (*_DOCUMENTED, "UNDEFINED"):
        yield "input_format", f"The manual has {', '.join(_DOCUMENTED)} only."
    for switch, names in _SWITCHED.items():
        for name in names:
            if block[name] and not block[switch]:
                yield name, f"GE sets it to 0, as {switch} is not true."
            elif block[switch] and "padding_size" in name and block[name] > _MOST_PADDING:
                yield name, f"The manual allows at most {_MOST_PADDING}."
    for side, (low, high) in _SIZES.items():
        yield from _about_side(block, side, low, high)


def _about_side(
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
