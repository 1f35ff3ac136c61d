"""The grammar of accelerate_train_mode, with the limits that the adapter checks.

Source: ParserAccelerateTrain in geop_npu.cc, which reads the ratio with strings::safe_strtof of
TensorFlow 1.15 and compares 32-bit floats.
"""

import re
import struct
from typing import Any, List, Mapping, Sequence, Union

from typing_extensions import Annotated

from ascend_session.config.grammars import (
    UnusableError,
    grammar,
    is_list,
    is_whole,
    text_or,
)

_FORMS = "text, (kind, trigger), (kind, trigger, ratio), a mapping with these names"
_FIELDS = ("kind", "trigger", "ratio")
_SCHEMA = {"type": "object", "required": ["kind", "trigger"]}
KINDS = ("fast", "fast1")
VARIABLES = {"step": ("STEP_NOW", "TOTAL_STEP"), "loss": ("LOSS_NOW", "TARGET_LOSS")}
RATIO_LIMITS = {"step": ("0.2", "0.9"), "loss": ("1.01", "1.5")}
DECIMAL = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
LONGEST_NUMBER = 31  # safe_strtof refuses 32 characters and more


@grammar(_FORMS, "fast|step|0.9", text_or({"type": "array"}, _SCHEMA))
def accelerate_train_mode(value: object) -> str:
    """Low precision for the first part of training: ``"fast|step|0.9"``, a tuple or a mapping.

    kind is fast (float16) or fast1 (bfloat16), trigger step or loss. The ratio may be missing or
    empty (0.9 for step, 1.05 for loss); limits, inclusive: step 0.2..0.9, loss 1.01..1.5.
    """
    text = value if isinstance(value, str) else _join_mode(value)
    fields = text.split("|")
    if len(fields) not in (2, 3):
        reason = f"it has {len(fields)} fields and must have two or three, with '|' between"
        raise UnusableError(reason)
    kind, trigger = fields[:2]
    if kind not in KINDS:
        raise UnusableError(f"the first field is {kind!r} and must be 'fast' or 'fast1'")
    if trigger not in RATIO_LIMITS:
        raise UnusableError(f"the second field is {trigger!r} and must be 'step' or 'loss'")
    ratio = fields[2] if len(fields) == 3 else ""
    if ratio:
        low, high = RATIO_LIMITS[trigger]
        example = f"fast|{trigger}|{high}"
        if re.fullmatch(DECIMAL, ratio) is None or len(ratio) > LONGEST_NUMBER:
            reason = f"is not a decimal number of at most {LONGEST_NUMBER} characters"
            raise UnusableError(f"the ratio {ratio!r} {reason}", example)
        if not to_float32(low) <= to_float32(ratio) <= to_float32(high):
            reason = f"is outside {low} to {high}, the limits for {trigger!r}"
            raise UnusableError(f"the ratio {ratio!r} {reason}", example)
    return text


AccelerateMode = Annotated[Union[str, Sequence[Any], Mapping[str, Any]], accelerate_train_mode]


def accelerate_trigger(text: str) -> str:
    """Return what ends the low precision in a legal ``text``: "step" or "loss"."""
    return text.split("|")[1]


def to_float32(text: str) -> float:
    """Read a number as a 32-bit float, infinite beyond its range."""
    try:
        return float(struct.unpack("f", struct.pack("f", float(text)))[0])
    except OverflowError:
        return float("inf")


def _join_mode(value: object) -> str:
    fields: List[object] = []
    if isinstance(value, Mapping) and set(value) <= set(_FIELDS):
        fields = [value.get(name) for name in _FIELDS]
    elif is_list(value):
        fields = list(value)
    if len(fields) == 3 and fields[2] is None:
        fields = fields[:2]
    texts = [
        repr(float(field)) if isinstance(field, float) else str(field)
        for field in fields
        if isinstance(field, float) or is_whole(field) or _is_field(field)
    ]
    if len(texts) not in (2, 3) or len(texts) < len(fields):
        raise UnusableError(example=("fast", "step", 0.9))
    return "|".join(texts)


def _is_field(field: object) -> bool:
    return isinstance(field, str) and bool(field) and "|" not in field
