"""Grammar of dynamic_inputs_shape_range: ranges of shapes for getnext and placeholder inputs.

Sources: seed 000; ParseInputShapeRange in om_partition_subgraphs_pass.cc (groups) and in GE's
option_utils.cc (shapes). GE trims blanks around a number and nowhere else.
"""

import re
from typing import List, Mapping, Optional

from ascend_session.config.grammar import (
    INT64_MAX,
    is_list,
    is_whole,
    refused,
    whole,
    wrong_type,
)

__all__ = ["dynamic_inputs_shape_range", "shape_range_groups"]

_EXAMPLE = "getnext:[128,3~5,2~128,-1],[64,3~5];data:[128,-1]"
_FORMS = "text, a mapping of 'getnext' and 'data' to lists of shapes"
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
            raise refused(value, problem, _EXAMPLE)
        labels.append(label)
    return text


def shape_range_groups(text: str) -> List[str]:
    """The labels of a legal ``text``, in order: "getnext", "data" or both."""
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
        raise wrong_type(value, _FORMS, _EXAMPLE)
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
