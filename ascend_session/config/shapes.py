"""Grammars of the options that give shapes: input_shape, dynamic_dims, dynamic_inputs_shape_range.

Sources: CheckInputShape and CheckDynamicDims in npu_attrs.cc, ParseInputShapeRange in
om_partition_subgraphs_pass.cc, GE's option_utils.cc (how the texts are read) and
multi_batch_options.cc (what profiles may be), seed 000.
"""

import re
from typing import List, Mapping, Optional, Tuple

from ascend_session.config.grammar import (
    INT64_MAX,
    is_list,
    is_whole,
    refused,
    whole,
    wrong_type,
)

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
    """Split into name and dimensions, cut at the last colon as GE does."""
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
    """Give the names of the inputs in a legal ``input_shape``, in order, without outer blanks."""
    return [_input(item)[0] for item in input_shape.split(";")]


def unknown_dims(input_shape: str) -> int:
    """Count the dimensions of a legal ``input_shape`` that are -1."""
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
    """Count the sizes in each profile of a legal ``dynamic_dims``."""
    return len(dynamic_dims.partition(";")[0].split(","))


def profile_count(dynamic_dims: str) -> int:
    """Count the profiles of a legal ``dynamic_dims``."""
    return len(dynamic_dims.split(";"))


_RANGE_EXAMPLE = "getnext:[128,3~5,2~128,-1],[64,3~5];data:[128,-1]"
_RANGE_FORMS = "text, a mapping of 'getnext' and 'data' to lists of shapes"
_LABELS = ("getnext", "data")
_SHAPES = r"\[[^\[\]]*\](,\[[^\[\]]*\])*"


def dynamic_inputs_shape_range(value: object) -> str:
    """Shape ranges: ``"getnext:[128,3~5,-1],[64];data:[]"``, or {label: shapes}.

    The labels are getnext (dataset inputs) and data (placeholders), each at most once. A
    dimension is a size, low~high (inclusive; a (low, high) pair in a list), or -1; ``[]`` is a
    scalar. Blanks may stand around numbers only.
    """
    text = value if isinstance(value, str) else _groups_text(value)
    labels: List[str] = []
    for group in text.split(";"):
        label, colon, shapes = group.partition(":")
        problem = _wrong_shapes(shapes) if colon else f"{group!r} has no ':'"
        if label not in _LABELS:
            problem = f"{label!r} is neither 'getnext' nor 'data'"
        elif label in labels:
            problem = f"{label!r} is given twice (the shapes of one label go together)"
        if problem is not None:
            raise refused(value, problem, _RANGE_EXAMPLE)
        labels.append(label)
    return text


def shape_range_groups(text: str) -> List[str]:
    """Give the labels of a legal ``text``, in order: "getnext", "data" or both."""
    return [group.partition(":")[0] for group in text.split(";")]


def _wrong_shapes(shapes: str) -> Optional[str]:
    if re.fullmatch(_SHAPES, shapes) is None:
        return f"{shapes!r} is no list of shapes in brackets (no blank before or after a bracket)"
    for shape in shapes[1:-1].split("],["):
        for dim in shape.split(",") if shape else []:
            problem = _wrong_dim(dim)
            if problem is not None:
                return problem
    return None


def _wrong_dim(dim: str) -> Optional[str]:
    ends = [end.strip(" ") for end in dim.split("~")]
    if ends == ["-1"]:
        return None
    sizes = [whole(end, 0, INT64_MAX) for end in ends]
    low, high = sizes[0], sizes[-1]
    if low is None or high is None or len(ends) > 2:
        return f"{dim!r} is no dimension (a size, low~high, or -1)"
    return None if low <= high else f"the range {dim.strip()!r} starts above its end"


def _groups_text(value: object) -> str:
    if not isinstance(value, Mapping):
        raise wrong_type(value, _RANGE_FORMS, _RANGE_EXAMPLE)
    groups: List[str] = []
    for label, shapes in value.items():
        if not is_list(shapes) or not all(is_list(shape) for shape in shapes):
            wrong = f"{shapes!r} is no list of shapes, each a list of dimensions"
            raise refused(value, wrong, {"getnext": [[128, (3, 5), -1]]})
        texts = [_shape_text(shape, value) for shape in shapes]
        groups.append(f"{label}:{','.join(texts)}")
    return ";".join(groups)


def _shape_text(shape: object, given: object) -> str:
    dims: List[str] = []
    for dim in shape if is_list(shape) else []:
        if is_list(dim) and len(dim) == 2 and all(is_whole(end) for end in dim):
            dims.append(f"{dim[0]}~{dim[1]}")
        elif is_whole(dim):
            dims.append(str(dim))
        else:
            wrong = f"{dim!r} is no dimension (a size, a (low, high) pair, or -1)"
            raise refused(given, wrong, {"getnext": [[128, (3, 5), -1]]})
    return f"[{','.join(dims)}]"
