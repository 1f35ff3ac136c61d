"""Grammars of options that are a list, a number or a path, and one place to import the others.

Each function takes the vendor's text, which it returns to the letter, or a structured form, and
returns the text that the adapter gets. It raises ValueError with one sentence.

Sources: checkDumpStep and CheckDeviceList in npu_attrs.cc, seeds 000 and 002, options.json.
"""

import os
import re
from typing import Any, Dict, List, Optional

from ascend_session.config.accelerate import accelerate_train_mode, accelerate_trigger
from ascend_session.config.grammar import (
    INT32_MAX,
    has_blank,
    is_list,
    is_whole,
    refused,
    whole,
    wrong_type,
)
from ascend_session.config.in_out_pairs import in_out_pair
from ascend_session.config.switches import (
    auto_multistream_parallel_mode,
    optimization_switch,
    stream_max_parallel_num,
)

__all__ = [
    "SCHEMAS",
    "accelerate_train_mode",
    "accelerate_trigger",
    "aicore_num",
    "auto_multistream_parallel_mode",
    "comma_names",
    "dump_layer",
    "dump_step",
    "in_out_pair",
    "local_device_list",
    "memory_size",
    "optimization_switch",
    "path_text",
    "stream_max_parallel_num",
]

_TEXT = {"type": "string"}
_NAMES = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]}
_STEP = {"type": "integer", "minimum": 0, "maximum": INT32_MAX}
_STEP_RANGE = {"type": "array", "items": _STEP, "minItems": 2, "maxItems": 2}
_STEP_LIST = {"type": "array", "items": {"anyOf": [_STEP, _STEP_RANGE]}, "maxItems": 100}
_COUNT = {"type": "integer", "minimum": 1}
_COUNTS = {"type": "object", "additionalProperties": _COUNT}
_ID_LIST = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}}
_CORES = {"type": "array", "items": {"anyOf": [_COUNT, {"type": "null"}]}, "maxItems": 2}
_MODE = {"type": "object", "required": ["kind", "trigger"]}

SCHEMAS: Dict[str, Dict[str, Any]] = {
    "accelerate_train_mode": {"anyOf": [_TEXT, {"type": "array"}, _MODE]},
    "aicore_num": {"anyOf": [_TEXT, _CORES]},
    "auto_multistream_parallel_mode": {
        "type": "string",
        "pattern": "^(cv|(LoadBalance|MainStream|WeightedLoadBalance):[1-9][0-9]?)$",
    },
    "comma_names": _NAMES,
    "dump_layer": _NAMES,
    "dump_step": {"anyOf": [_TEXT, _STEP, _STEP_LIST]},
    "in_out_pair": {"anyOf": [_TEXT, {"type": "array", "minItems": 1}]},
    "local_device_list": {"anyOf": [_TEXT, _ID_LIST]},
    "memory_size": {"anyOf": [{"type": "string", "pattern": "^[0-9]+$"}, _COUNT]},
    "optimization_switch": {
        "anyOf": [_TEXT, {"type": "object", "additionalProperties": {"type": "boolean"}}]
    },
    "path_text": _TEXT,
    "stream_max_parallel_num": {"anyOf": [_TEXT, _COUNTS]},
}

_STEPS_EXAMPLE = "0|3-5|10"
_STEPS_FORMS = "text, one step, a range, a list of steps, of (first, last) pairs and of ranges"
_MOST_STEPS = 100
_NO_BLANKS = "[^ \t\n\v\f\r]+"  # what >> of a C++ stream reads as one name
_MOST_BYTES = 2**64 - 1


def dump_step(value: object) -> str:
    """Steps to dump: ``"0|3-5|10"``, or ints, (first, last) pairs and ranges in a list.

    At most 100 items; steps 0..2147483647 (the adapter reads them with atoi); a range rises. A
    tuple at the top is a list of steps, a pair stands inside a list: ``[(3, 5)]``.

    Raises:
        ValueError: Also for what the adapter takes but reads as something else: "5-", "-5", "0|".
    """
    text = value if isinstance(value, str) else _steps_text(value)
    parts = text.split("|")
    if len(parts) > _MOST_STEPS:
        wrong = f"it has {len(parts)} items and the adapter takes at most {_MOST_STEPS}"
        raise refused(value, wrong, _STEPS_EXAMPLE)
    for part in parts:
        problem = _wrong_step(part, text)
        if problem is not None:
            raise refused(value, problem, _STEPS_EXAMPLE)
    return text


def _wrong_step(part: str, text: str) -> Optional[str]:
    if not text:
        return "it names no step (leave the option out to dump every step)"
    if not part:
        return "a step is missing before or after a '|'"
    bounds = [whole(bound, 0, INT32_MAX) for bound in part.split("-")]
    first, last = bounds[0], bounds[-1]
    if first is None or last is None or len(bounds) > 2:
        return f"{part!r} is neither a step (0 to {INT32_MAX}) nor a range such as '3-5'"
    if len(bounds) == 2 and first >= last:
        return f"the range {part!r} must go from a lower step to a higher one"
    return None


def _steps_text(value: object) -> str:
    items = [value] if is_whole(value) or isinstance(value, range) else value
    if not is_list(items):
        raise wrong_type(value, _STEPS_FORMS, _STEPS_EXAMPLE)
    return "|".join(_step_text(item, value) for item in items)


def _step_text(item: object, given: object) -> str:
    if is_whole(item):
        return str(item)
    if isinstance(item, range):
        if item.step != 1 or not item:
            raise refused(given, f"{item!r} must count up by 1 and not be empty", range(3, 6))
        return str(item[0]) if len(item) == 1 else f"{item[0]}-{item[-1]}"
    if is_list(item) and len(item) == 2 and is_whole(item[0]) and is_whole(item[1]):
        return f"{item[0]}-{item[1]}"
    wrong = f"{item!r} is neither a step, a (first, last) pair nor a range"
    raise refused(given, wrong, [0, (3, 5), 10])


def local_device_list(value: object) -> str:
    """Devices that the main process feeds: ``"0,1"`` or a list of ints.

    Raises:
        ValueError: For ids above 9 too: the adapter reads the list two characters at a time, so
            that "10,11" becomes 10, 0 and 1 (trap 18 of the option notes).
    """
    if not isinstance(value, str) and not (is_list(value) and all(is_whole(v) for v in value)):
        raise wrong_type(value, "text, a list of ids", "0,1")
    text = value if isinstance(value, str) else ",".join(str(item) for item in value)
    parts = text.split(",")
    for part in parts:
        if whole(part, 0, INT32_MAX) is None:
            raise refused(value, f"{part!r} is no device id (a digit, 0 to 9)", "0,1")
        if len(part) > 1:
            wrong = f"{part!r} has more than one digit, and the adapter reads each id as one digit"
            raise refused(value, wrong, "0,1")
    if len(set(parts)) < len(parts):
        raise refused(value, "a device is named twice", "0,1")
    return text


def comma_names(value: object) -> str:
    """Names with commas between: ``"A,B"`` or a list of names (passes, operator types).

    Raises:
        ValueError: For an empty name, or a blank or a comma inside one.
    """
    names = value.split(",") if isinstance(value, str) else _listed(value, "Pooling,SoftmaxV2")
    for name in names:
        if not name:
            raise refused(value, "a name is missing", "Pooling,SoftmaxV2")
        if has_blank(name) or "," in name:
            wrong = f"{name!r} has a blank or a comma in it (names have commas between, no blanks)"
            raise refused(value, wrong, "Pooling,SoftmaxV2")
    return value if isinstance(value, str) else ",".join(names)


def dump_layer(value: object) -> str:
    """Operators to dump: ``"conv1 conv2"`` with blanks between, or a list of names.

    Raises:
        ValueError: For a comma too: no operator name has one, it would be taken into the name.
    """
    example = "conv1 conv2"
    names = re.findall(_NO_BLANKS, value) if isinstance(value, str) else _listed(value, example)
    if not names:
        raise refused(value, "it names no operator", example)
    for name in names:
        if "," in name:
            wrong = f"{name!r} has a comma in it, and names are separated with blanks"
            raise refused(value, wrong, example)
        if not name or has_blank(name):
            raise refused(value, f"{name!r} is no operator name", ["conv1", "conv2"])
    return value if isinstance(value, str) else " ".join(names)


def _listed(value: object, example: str) -> List[str]:
    names = [name for name in value if isinstance(name, str)] if is_list(value) else []
    if not is_list(value) or len(names) < len(value):
        raise wrong_type(value, "text, a list of names", example)
    if not names:
        raise refused(value, "it has no name in it", example)
    return names


def aicore_num(value: object) -> str:
    """Upper limit of cube and vector cores: ``"24|48"``, or a (cube, vector) pair.

    Chips without vector cores take ``"24|"`` or ``(24, None)``. GE wants plain decimals above 0,
    without leading zeros or blanks, and only warns when the ``|`` is missing.
    """
    text = value if isinstance(value, str) else _cores_text(value)
    cube, bar, vector = text.partition("|")
    if not bar:
        wrong = "the '|' between cube and vector cores is missing ('24|' where there is no vector)"
        raise refused(value, wrong, "24|48")
    for part in [cube, vector] if vector else [cube]:
        if whole(part, 1, INT32_MAX) is None or part.startswith("0"):
            wrong = f"{part!r} is no number of cores (decimal above 0, no leading 0, no blank)"
            raise refused(value, wrong, "24|48")
    return text


def _cores_text(value: object) -> str:
    if is_list(value) and len(value) == 2:
        cube, vector = value
        if is_whole(cube) and (vector is None or is_whole(vector)):
            return f"{cube}|{'' if vector is None else vector}"
    raise wrong_type(value, "text, a (cube, vector) pair of ints", "24|48")


def memory_size(value: object) -> str:
    """A size in bytes, above 0: an int or decimal text."""
    if not isinstance(value, str) and not is_whole(value):
        raise wrong_type(value, "a number of bytes, as an int or as decimal text", 2**30)
    text = value if isinstance(value, str) else str(value)
    if whole(text, 1, _MOST_BYTES) is None:
        raise refused(value, "a number of bytes above 0 is needed, in digits only", str(2**30))
    return text


def path_text(value: object) -> str:
    """A path as text: str or any os.PathLike.

    Raises:
        ValueError: For an empty path, one with a NUL character or a name that is not UTF-8 text
            (the adapter gets its options as UTF-8), and bytes.
    """
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str):
        raise wrong_type(path, "text, os.PathLike", "dump/step0")
    if not path:
        raise refused(value, "it is empty (leave the option out to use the default)", "dump/step0")
    if "\0" in path:
        raise refused(value, "a path has no NUL character in it", "dump/step0")
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        raise refused(value, "it is not UTF-8 text (half a surrogate pair)", "dump/step0") from None
    return path
