"""Grammars of the options that give shapes: input_shape, dynamic_dims, dynamic_inputs_shape_range.

Sources: CheckInputShape and CheckDynamicDims in npu_attrs.cc, ParseInputShapeRange in
om_partition_subgraphs_pass.cc, GE's option_utils.cc (how shapes and ranges are read)
and multi_batch_options.cc (profiles); manual, NPURunConfig Options.
"""

import re
from typing import Any, List, Mapping, Sequence, Tuple, Union

from typing_extensions import Annotated

from ascend_session.config.grammars import (
    COUNT,
    INT64_MAX,
    UnusableError,
    grammar,
    is_list,
    is_whole,
    list_of,
    mapping_of,
    parse_whole,
    text_or,
)

_FEWEST_PROFILES = 2
MOST_PROFILES = 256  # 100 on all but Ascend 950; which it is only the device knows
_LABELS = ("getnext", "data")
_RANGE_EXAMPLE = {"getnext": [[128, (3, 5), -1]]}
_SHAPES = r"\[[^\[\]]*\](,\[[^\[\]]*\])*"


_DIM = {"type": "integer", "minimum": -1}


@grammar(
    "text, a mapping of names to lists of ints",
    "data:1,1,40,-1;label:1,-1",
    text_or(mapping_of(list_of(_DIM))),
)
def input_shape(value: object) -> str:
    """Inputs and their shapes: ``"data:1,1,40,-1;label:1,-1"`` or {name: dims}, in that order.

    -1 marks a dimension that the profiles of dynamic_dims give. The shape of a scalar is 0 in
    the text, ``[]`` in a mapping.

    Raises:
        ValueError: Also for another negative number, which the adapter takes, and for a name
            given twice, of which GE keeps the first.
    """
    text = value if isinstance(value, str) else _write_inputs(value)
    if not text:
        raise UnusableError("it names no input")
    names: List[str] = []
    for item, (name, dims) in zip(text.split(";"), split_inputs(text)):
        if name in names:
            raise UnusableError(f"the input {name!r} is named twice")
        if not name:
            raise UnusableError(f"{item!r} is not of the form name:dimensions")
        for dim in dims:
            if dim != "-1" and parse_whole(dim, 0, INT64_MAX) is None:
                reason = "is not a dimension (0 or more, or -1; no blanks)"
                raise UnusableError(f"{dim!r} in {item!r} {reason}")
        names.append(name)
    return text


InputShape = Annotated[Union[str, Mapping[str, Sequence[int]]], input_shape]


def split_inputs(text: str) -> List[Tuple[str, List[str]]]:
    """Split into names, without outer blanks, and dimensions; at the last colon, as GE does."""
    items = (item.rpartition(":") for item in text.split(";"))
    return [(name.strip(), dims.split(",")) for name, _, dims in items]


def _write_inputs(value: object) -> str:
    if not isinstance(value, Mapping):
        raise UnusableError
    for name, dims in value.items():
        if not isinstance(name, str) or not name.strip() or ";" in name:
            raise UnusableError(f"{name!r} is not a name (text without ';')")
        if not is_list(dims) or not all(map(is_whole, dims)):
            raise UnusableError(f"{dims!r} is not a list of ints", {"data": [1, 1, 40, -1]})
    shapes = {name: ",".join(map(str, dims)) or "0" for name, dims in value.items()}
    return ";".join(f"{name}:{dims}" for name, dims in shapes.items())


_PROFILES = list_of(list_of(COUNT, minItems=1), minItems=_FEWEST_PROFILES, maxItems=MOST_PROFILES)


@grammar("text, a list of lists of ints", "20,20,1,1;40,40,2,2", text_or(_PROFILES))
def dynamic_dims(value: object) -> str:
    """Profiles for the -1 dimensions: ``"20,20,1,1;40,40,2,2"``, or a list of lists of ints.

    2 to 256 profiles (100 on all but Ascend 950, which is a rule's business), all with the same
    number of sizes, each size above 0, no profile twice (GE refuses these).
    """
    if not isinstance(value, str):
        if not is_list(value) or not all(is_list(p) and all(map(is_whole, p)) for p in value):
            raise UnusableError
        value = ";".join(",".join(map(str, profile)) for profile in value if is_list(profile))
    profiles = split_profiles(value)
    for size in (size for profile in profiles for size in profile):
        if parse_whole(size, 1, INT64_MAX) is None:
            raise UnusableError(f"{size!r} is not a size (a whole number above 0, without blanks)")
    if not _FEWEST_PROFILES <= len(profiles) <= MOST_PROFILES:
        limits = f"{_FEWEST_PROFILES} to {MOST_PROFILES} are needed"
        raise UnusableError(f"it has {len(profiles)} profiles, separated with ';', and {limits}")
    counts = sorted({len(profile) for profile in profiles})
    if len(counts) > 1:
        raise UnusableError(f"one profile has {counts[0]} sizes and another {counts[-1]}")
    if len({tuple(map(int, profile)) for profile in profiles}) < len(profiles):
        raise UnusableError("a profile is given twice")
    return value


DynamicDims = Annotated[Union[str, Sequence[Sequence[int]]], dynamic_dims]


def split_profiles(text: str) -> List[List[str]]:
    """Split into the sizes of each profile."""
    return [profile.split(",") for profile in text.split(";")]


_DIM_RANGE = list_of({"type": "integer"}, minItems=2, maxItems=2)
_SHAPE_LIST = list_of(list_of({"anyOf": [_DIM, _DIM_RANGE]}))
_RANGES = {
    "type": "object",
    "properties": dict.fromkeys(_LABELS, _SHAPE_LIST),
    "additionalProperties": False,
}


@grammar(
    "text, a mapping of 'getnext' and 'data' to lists of shapes",
    "getnext:[128,3~5,2~128,-1],[64,3~5];data:[128,-1]",
    text_or(_RANGES),
)
def dynamic_inputs_shape_range(value: object) -> str:
    """Shape ranges: ``"getnext:[128,3~5,-1],[64];data:[]"``, or {label: shapes}.

    The labels are getnext (dataset inputs) and data (placeholders), each at most once. A
    dimension is a size, low~high (inclusive; a (low, high) pair in a list), or -1; ``[]`` is a
    scalar. Blanks may stand around numbers only.
    """
    text = value if isinstance(value, str) else _write_groups(value)
    labels: List[str] = []
    for group in text.split(";"):
        label, colon, shapes = group.partition(":")
        if label not in _LABELS:
            raise UnusableError(f"{label!r} is neither 'getnext' nor 'data'")
        if label in labels:
            raise UnusableError(f"{label!r} is given twice (the shapes of one label go together)")
        if not colon:
            raise UnusableError(f"{group!r} has no ':'")
        _check_shapes(shapes)
        labels.append(label)
    return text


ShapeRange = Annotated[Union[str, Mapping[str, Any]], dynamic_inputs_shape_range]


def _check_shapes(shapes: str) -> None:
    if re.fullmatch(_SHAPES, shapes) is None:
        reason = "is not a list of shapes in brackets (no blank before or after a bracket)"
        raise UnusableError(f"{shapes!r} {reason}")
    for shape in shapes[1:-1].split("],["):
        for dim in shape.split(",") if shape else []:
            ends = [end.strip(" ") for end in dim.split("~")]
            if ends == ["-1"]:
                continue
            sizes = [parse_whole(end, 0, INT64_MAX) for end in ends]
            low, high = sizes[0], sizes[-1]
            if low is None or high is None or len(ends) > 2:
                raise UnusableError(f"{dim!r} is not a dimension (a size, low~high, or -1)")
            if low > high:
                raise UnusableError(f"the range {dim.strip()!r} starts above its end")


def _write_groups(value: object) -> str:
    if not isinstance(value, Mapping):
        raise UnusableError
    groups: List[str] = []
    for label, shapes in value.items():
        if not is_list(shapes) or not all(map(is_list, shapes)):
            reason = "is not a list of shapes, each a list of dimensions"
            raise UnusableError(f"{shapes!r} {reason}", _RANGE_EXAMPLE)
        groups.append(f"{label}:{','.join(map(_write_shape, shapes))}")
    return ";".join(groups)


def _write_shape(shape: object) -> str:
    dims: List[str] = []
    for dim in shape if is_list(shape) else []:
        if is_list(dim) and len(dim) == 2 and all(map(is_whole, dim)):
            dims.append(f"{dim[0]}~{dim[1]}")
        elif is_whole(dim):
            dims.append(str(dim))
        else:
            reason = "is not a dimension (a size, a (low, high) pair, or -1)"
            raise UnusableError(f"{dim!r} {reason}", _RANGE_EXAMPLE)
    return f"[{','.join(dims)}]"
