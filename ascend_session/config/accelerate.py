"""Grammar of accelerate_train_mode: which low precision, what ends it, and how much of it.

Sources: seed 001; ParserAccelerateTrain in geop_npu.cc, which reads the ratio with
strings::safe_strtof of TensorFlow 1.15 and compares 32-bit floats.
"""

import re
import struct
from typing import List, Mapping

from ascend_session.config.grammar import is_list, is_whole, refused, wrong_type

__all__ = ["accelerate_train_mode", "accelerate_trigger"]

_EXAMPLE = "fast|step|0.9"
_FORMS = "text, (kind, trigger), (kind, trigger, ratio), a mapping with these names"
_FIELDS = ("kind", "trigger", "ratio")
_KINDS = ("fast", "fast1")
_LIMITS = {"step": ("0.2", "0.9"), "loss": ("1.01", "1.5")}
_DECIMAL = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_LONGEST_RATIO = 31  # safe_strtof refuses 32 characters and more


def accelerate_train_mode(value: object) -> str:
    """Low precision for the first part of training: ``"fast|step|0.9"``, a tuple or a mapping.

    kind is fast (float16) or fast1 (bfloat16), trigger step or loss. The ratio may be missing or
    empty (0.9 for step, 1.05 for loss); limits, inclusive: step 0.2..0.9, loss 1.01..1.5.
    """
    text = value if isinstance(value, str) else _mode_text(value)
    fields = text.split("|")
    if len(fields) not in (2, 3):
        wrong = f"it has {len(fields)} fields and must have two or three, with '|' between"
        raise refused(value, wrong, _EXAMPLE)
    if fields[0] not in _KINDS:
        wrong = f"the first field is {fields[0]!r} and must be 'fast' or 'fast1'"
        raise refused(value, wrong, _EXAMPLE)
    if fields[1] not in _LIMITS:
        wrong = f"the second field is {fields[1]!r} and must be 'step' or 'loss'"
        raise refused(value, wrong, _EXAMPLE)
    if len(fields) == 3 and fields[2]:
        _check_ratio(fields[2], fields[1], value)
    return text


def accelerate_trigger(text: str) -> str:
    """What ends the low precision in a legal ``text``: "step" or "loss"."""
    return text.split("|")[1]


def _check_ratio(ratio: str, trigger: str, given: object) -> None:
    low, high = _LIMITS[trigger]
    example = f"fast|{trigger}|{high}"
    if re.fullmatch(_DECIMAL, ratio) is None or len(ratio) > _LONGEST_RATIO:
        wrong = f"the ratio {ratio!r} is no decimal number of at most {_LONGEST_RATIO} characters"
        raise refused(given, wrong, example)
    if not _float32(low) <= _float32(ratio) <= _float32(high):
        wrong = f"the ratio {ratio!r} is outside {low} to {high}, the limits for {trigger!r}"
        raise refused(given, wrong, example)


def _float32(text: str) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", float(text)))[0])
    except OverflowError:
        return float("inf")


def _mode_text(value: object) -> str:
    fields: List[object] = []
    if isinstance(value, Mapping) and set(value) <= set(_FIELDS):
        fields = [value.get(name) for name in _FIELDS]
    elif is_list(value):
        fields = list(value)
    if len(fields) == 3 and fields[2] is None:
        fields = fields[:2]
    texts = [_field_text(field) for field in fields]
    if len(texts) not in (2, 3) or not all(texts):
        raise wrong_type(value, _FORMS, ("fast", "step", 0.9))
    return "|".join(texts)


def _field_text(field: object) -> str:
    if isinstance(field, float):
        return repr(float(field))
    if is_whole(field):
        return str(field)
    return field if isinstance(field, str) and "|" not in field else ""
