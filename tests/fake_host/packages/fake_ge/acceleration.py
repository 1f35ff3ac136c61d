"""The option experimental_accelerate_train_mode, looked at when a graph is compiled.

Source: options_notes.md, a4, a5 and the grammar below the table; geop_npu.cc,
ParserAccelerateTrain.
"""

import os
from typing import Any, Dict

from fake_ge.entry import Entry
from fake_ge.fatal import internal_error, invalid_argument

__all__ = ["check_acceleration"]

_RATIOS = {"step": (0.2, 0.9), "loss": (1.01, 1.5)}
_VARIABLES = {"step": ("TOTAL_STEP", "STEP_NOW"), "loss": ("TARGET_LOSS", "LOSS_NOW")}
_PRECISIONS = (None, "", "allow_fp32_to_fp16", "must_keep_origin_dtype")


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
    for name in _VARIABLES[parts[1]]:
        if not _is_number(os.environ.get(name, "")):
            raise invalid_argument(f"{name} is not set, which is needed when accelerate")
    least, most = _RATIOS[parts[1]]
    ratio = parts[2] if len(parts) == 3 and parts[2] else str(most)
    if not _is_number(ratio) or not least <= float(ratio) <= most:
        raise internal_error(f"accelerate_train_mode third part is invalid: {ratio}")
    v2 = options.get("precision_mode_v2")
    if v2 not in (None, "", "origin") or options.get("precision_mode") not in _PRECISIONS:
        raise internal_error("accelerate fast_value is not support with this precision mode")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
