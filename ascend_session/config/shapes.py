"""Grammars of the options that give shapes: input_shape, dynamic_dims, dynamic_inputs_shape_range.

Sources: CheckInputShape and CheckDynamicDims in npu_attrs.cc, ParseInputShapeRange in
om_partition_subgraphs_pass.cc, GE's option_utils.cc (how the texts are read) and
multi_batch_options.cc (what profiles may be), seed 000.
"""

from typing import Any, Dict, List, Mapping, Optional, Tuple

from ascend_session.config.grammar import (
    INT64_MAX,
    is_list,
    is_whole,
    refused,
    whole,
    wrong_type,
)
from ascend_session.config.shape_ranges import dynamic_inputs_shape_range, shape_range_groups

__all__ = [
    "SCHEMAS",
    "dynamic_dims",
    "dynamic_inputs_shape_range",
    "input_shape",
    "profile_arity",
    "profile_count",
    "shape_names",
    "shape_range_groups",
    "unknown_dims",
]

_TEXT = {"type": "string"}
_DIM = {"type": "integer", "minimum": -1}
_SIZE = {"type": "integer", "minimum": 1}
_RANGE = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}
_RANGES = {"type": "array", "items": {"type": "array", "items": {"anyOf": [_DIM, _RANGE]}}}
_PROFILE = {"type": "array", "items": _SIZE, "minItems": 1}

SCHEMAS: Dict[str, Dict[str, Any]] = {
    "dynamic_dims": {
        "anyOf": [_TEXT, {"type": "array", "items": _PROFILE, "minItems": 2, "maxItems": 256}]
    },
    "dynamic_inputs_shape_range": {
        "anyOf": [
            _TEXT,
            {
                "type": "object",
                "properties": {"getnext": _RANGES, "data": _RANGES},
                "additionalProperties": False,
            },
        ]
    },
    "input_shape": {
        "anyOf": [
            _TEXT,
            {"type": "object", "additionalProperties": {"type": "array", "items": _DIM}},
        ]
    },
}

_SHAPE_EXAMPLE = "data:1,1,40,-1;label:1,-1"
_DIMS_EXAMPLE = "20,20,1,1;40,40,2,2"
_FEWEST_PROFILES = 2
_MOST_PROFILES = 256  # 100 on all but Ascend 950; which it is only the device knows


def input_shape(value: object) -> str:
    """Inputs and their shapes: ``"data:1,1,40,-1;label:1,-1"`` or {name: dims}, in that order.

    -1 marks a dimension that the profiles of dynamic_dims give. The shape of a scalar is 0 in
    the text, ``[]`` in a mapping.

    Raises:
        ValueError: Also for another negative number, which the adapter takes, and for a name
            given twice, of which GE keeps the first.
    """
    text = value if isinstance(value, str) else _input_text(value)
    if not text:
        raise refused(value, "it names no input", _SHAPE_EXAMPLE)
    names: List[str] = []
    for item in text.split(";"):
        name, dims = _input(item)
        problem = _wrong_input(item, name, dims)
        if name in names:
            problem = f"the input {name!r} is named twice"
        if problem is not None:
            raise refused(value, problem, _SHAPE_EXAMPLE)
        names.append(name)
    return text


def _input(item: str) -> Tuple[str, str]:
    """Name and dimensions, cut at the last colon as GE does."""
    name, _, dims = item.rpartition(":")
    return name.strip(), dims


def _wrong_input(item: str, name: str, dims: str) -> Optional[str]:
    if not name:
        return f"{item!r} is not of the form name:dimensions"
    for dim in dims.split(","):
        if dim != "-1" and whole(dim, 0, INT64_MAX) is None:
            return f"{dim!r} in {item!r} is no dimension (0 or more, or -1; no blanks)"
    return None


def _input_text(value: object) -> str:
    if not isinstance(value, Mapping):
        raise wrong_type(value, "text, a mapping of names to lists of ints", _SHAPE_EXAMPLE)
    for name, dims in value.items():
        if not isinstance(name, str) or not name.strip() or ";" in name:
            raise refused(value, f"{name!r} is no name (text without ';')", _SHAPE_EXAMPLE)
        if not is_list(dims) or not all(is_whole(dim) for dim in dims):
            raise refused(value, f"{dims!r} is no list of ints", {"data": [1, 1, 40, -1]})
    shapes = {name: ",".join(str(dim) for dim in dims) or "0" for name, dims in value.items()}
    return ";".join(f"{name}:{dims}" for name, dims in shapes.items())


def shape_names(input_shape: str) -> List[str]:
    """The names of the inputs in a legal ``input_shape``, in order, without blanks around them."""
    return [_input(item)[0] for item in input_shape.split(";")]


def unknown_dims(input_shape: str) -> int:
    """How many dimensions of a legal ``input_shape`` are -1."""
    inputs = [_input(item)[1] for item in input_shape.split(";")]
    return sum(dims.split(",").count("-1") for dims in inputs)


def dynamic_dims(value: object) -> str:
    """Profiles for the -1 dimensions: ``"20,20,1,1;40,40,2,2"``, or a list of lists of ints.

    2 to 256 profiles (100 on all but Ascend 950, which is a rule's business), all with the same
    number of sizes, each size above 0, no profile twice (GE refuses these).
    """
    text = value if isinstance(value, str) else _profiles_text(value)
    profiles = [part.split(",") for part in text.split(";")]
    problem = _wrong_sizes(profiles) or _wrong_profiles(profiles)
    if problem is not None:
        raise refused(value, problem, _DIMS_EXAMPLE)
    return text


def _wrong_sizes(profiles: List[List[str]]) -> Optional[str]:
    for profile in profiles:
        for size in profile:
            if whole(size, 1, INT64_MAX) is None:
                return f"{size!r} is no size (a whole number above 0, without blanks)"
    return None


def _wrong_profiles(profiles: List[List[str]]) -> Optional[str]:
    if not _FEWEST_PROFILES <= len(profiles) <= _MOST_PROFILES:
        limits = f"{_FEWEST_PROFILES} to {_MOST_PROFILES}"
        return f"it has {len(profiles)} profiles, separated with ';', and {limits} are needed"
    counts = sorted({len(profile) for profile in profiles})
    if len(counts) > 1:
        return f"one profile has {counts[0]} sizes and another {counts[-1]}"
    if len({tuple(int(size) for size in profile) for profile in profiles}) < len(profiles):
        return "a profile is given twice"
    return None


def _profiles_text(value: object) -> str:
    profiles: List[str] = []
    for profile in value if is_list(value) else [None]:
        if not is_list(profile) or not all(is_whole(size) for size in profile):
            raise wrong_type(value, "text, a list of lists of ints", _DIMS_EXAMPLE)
        profiles.append(",".join(str(size) for size in profile))
    return ";".join(profiles)


def profile_arity(dynamic_dims: str) -> int:
    """How many sizes each profile of a legal ``dynamic_dims`` has."""
    return len(dynamic_dims.partition(";")[0].split(","))


def profile_count(dynamic_dims: str) -> int:
    """How many profiles a legal ``dynamic_dims`` has."""
    return len(dynamic_dims.split(";"))
