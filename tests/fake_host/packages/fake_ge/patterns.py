"""The forms that the adapter wants texts in.

Source: npu_attrs.cc, the functions CheckInputShape, CheckDynamicDims, CheckDeviceList and
checkDumpStep; om_partition_subgraphs_pass.cc, ParseInputShapeRange;
guides/facts/adapter.md#what-a-bad-option-does; guides/facts/dumps.md#data-dump.
"""

import re
from typing import List

__all__ = ["device_list", "dump_step", "dynamic_dims", "input_shape", "shape_range"]

_MOST_STEPS = 100
_MOST_GROUPS = 2


def device_list(text: str) -> bool:
    """``1,2,3``."""
    return bool(re.fullmatch(r"(\d+,)+", text + ","))


def input_shape(text: str) -> bool:
    """``x:-1,2;y:3``; an empty text is wrong."""
    return bool(text) and all(
        re.fullmatch(r"[\s\S]+:(-?\d+,)+", part + ",") for part in _split(text, ";")
    )


def dynamic_dims(text: str) -> bool:
    """``1,2;3,4``; an empty text is wrong."""
    return bool(text) and all(re.fullmatch(r"(\d+,)+", part + ",") for part in _split(text, ";"))


def shape_range(text: str) -> bool:
    """``getnext:[128 ,3~5],[1];data:[-1,3]``: at most two groups; an empty text is no range."""
    group = re.compile(r"\s*(getnext|data):\[[^\[\]]*\](,\[[^\[\]]*\])*\s*")
    groups = _split(text, ";")
    return len(groups) <= _MOST_GROUPS and all(group.fullmatch(one) for one in groups)


def dump_step(text: str) -> bool:
    """``0|5|10-20``; ``5-``, ``-5`` and ``0|`` count as right, too (g18)."""
    parts = _split(text, "|")
    return len(parts) <= _MOST_STEPS and all(_step(part) for part in parts)


def _step(part: str) -> bool:
    ends = _split(part, "-")
    if len(ends) not in (0, 1, 2) or any(end and not end.isdigit() for end in ends):
        return False
    return len(ends) < 2 or int(ends[0] or 0) < int(ends[1] or 0)


def _split(text: str, mark: str) -> List[str]:
    """As std::getline splits: nothing after a last mark."""
    parts = text.split(mark)
    return parts[:-1] if parts[-1] == "" else parts
