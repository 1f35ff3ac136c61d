"""The option experimental_accelerate_train_mode, looked at when a graph is compiled.

Source: guides/facts/precision.md#accelerated-training; geop_npu.cc,
ParserAccelerateTrain and CheckAndModifyPrecisionMode; npu_attrs.cc, GetStepFromEnv and
GetLossFromEnv.
"""

import os
import re
from typing import Any, Dict

from fake_ge.entry import Entry
from fake_ge.fatal import internal_error, invalid_argument

__all__ = ["check_acceleration"]

_RATIOS = {"step": (0.2, 0.9), "loss": (1.01, 1.5)}
_VARIABLES = {"step": ("TOTAL_STEP", "STEP_NOW"), "loss": ("TARGET_LOSS", "LOSS_NOW")}
_PRECISIONS = (None, "", "allow_fp32_to_fp16", "must_keep_origin_dtype")
_PRECISIONS_V2 = ("", "origin")


def check_acceleration(entry: Entry, options: Dict[str, Any]) -> None:
    """Refuses a mode that is malformed, or that the precision does not go with.

    Args:
        entry: The options of the session.
        options: What GE was initialised with.

    Raises:
        InternalError: Of TensorFlow.
        InvalidArgumentError: Of TensorFlow, if a variable that says where training is is missing.
    """
    mode = entry.get("experimental_accelerate_train_mode")
    if not mode:
        return
    parts = mode.split("|")
    if len(parts) not in (2, 3) or parts[0] not in ("fast", "fast1") or parts[1] not in _RATIOS:
        raise internal_error(f"Format of accelerate_train_mode is invalid: {mode}")
    # a5: steps are uint32, losses float
    readable = _is_step if parts[1] == "step" else _is_number
    for name in _VARIABLES[parts[1]]:
        text = os.environ.get(name, "")
        if not text:
            raise invalid_argument(
                f"{name} is not set, which is needed when accelerate by {parts[1]}"
            )
        if not readable(text):
            raise invalid_argument(f"{name} is invalid, should be a number: {text}")
    least, most = _RATIOS[parts[1]]
    # The grammar: "third field missing or empty"; a default is inside the limits; either will do.
    ratio = parts[2] if len(parts) == 3 and parts[2] else str(most)
    if not _is_number(ratio) or not least <= float(ratio) <= most:
        raise internal_error(f"accelerate_train_mode third part is invalid: {ratio}")
    # a4: "if v2 is set it must be origin; v2 is looked at first"
    if options.get("precision_mode_v2") is not None:
        fits = options["precision_mode_v2"] in _PRECISIONS_V2
    else:
        fits = options.get("precision_mode") in _PRECISIONS
    if not fits:
        raise internal_error("accelerate fast_value is not support with this precision mode")


def _is_step(text: str) -> bool:
    return bool(re.fullmatch(r"\s*[0-9]+\s*", text)) and int(text) < 2**32


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
