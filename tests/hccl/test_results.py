"""What the graph knows of the results, as the vendor's operators tell it (hccl_ops.cc)."""

from typing import Any, Dict, List, Optional

import pytest

from ascend_session import hccl

Lengths = Optional[List[Optional[int]]]


def results(x: Any) -> Dict[str, Any]:
    """Each function's result for two ranks."""
    return {
        "allreduce": hccl.allreduce(x, "sum"),
        "reduce": hccl.reduce(x, "max", 0),
        "broadcast": hccl.broadcast([x], 0)[0],
        "allgather": hccl.allgather(x, 2),
        "reduce_scatter": hccl.reduce_scatter(x, "min", 2),
    }


@pytest.mark.parametrize(
    ("shape", "gathered", "scattered"),
    [
        ([4, 3], [8, 3], [2, 3]),
        ([4, None], [8, None], [2, None]),
        ([0], [0], [0]),
        ([None, 3], [None, 3], [None, 3]),
        (None, None, None),
    ],
)
def test_the_shapes_are_the_vendors(
    tf: Any, either: str, shape: Lengths, gathered: Lengths, scattered: Lengths
) -> None:
    if either == "npu" and shape is not None and None in shape[:1]:
        pytest.skip("the operator that stands for the vendor's knows more than that one")
    made = results(tf.placeholder(tf.int32, shape))
    found = {name: lengths(tensor) for name, tensor in made.items()}
    assert found == {
        "allreduce": shape,
        "reduce": shape,
        "broadcast": shape,
        "allgather": gathered,
        "reduce_scatter": scattered,
    }
    assert {tensor.dtype for tensor in made.values()} == {tf.int32}


def test_what_is_received_has_the_shape_that_was_asked_for(tf: Any, either: str) -> None:
    received = hccl.receive(tf.TensorShape([2, 3]), tf.int8, 0, 1)
    assert (lengths(received), received.dtype) == ([2, 3], tf.int8)


def test_to_send_is_an_operation(tf: Any, either: str) -> None:
    assert isinstance(hccl.send([1.0], 0, 1), tf.Operation)


def test_several_tensors_keep_their_types_and_order(tf: Any, either: str) -> None:
    made = hccl.broadcast([[True], 1.5, [[1, 2]]], 0)
    assert [(tensor.dtype, lengths(tensor)) for tensor in made] == [
        (tf.bool, [1]),
        (tf.float32, []),
        (tf.int32, [1, 2]),
    ]


def lengths(tensor: Any) -> Lengths:
    """The static shape; None if nothing is known."""
    return None if tensor.shape.rank is None else list(tensor.shape.as_list())
