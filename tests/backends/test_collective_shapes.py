"""The shapes of what collectives give (hccl_ops.cc; HCCL's inference of shapes)."""

from typing import Any

import pytest

from ascend_session.backends.collectives import (
    count_exchanged,
    gather_shape,
    scatter_shape,
)


@pytest.mark.parametrize(
    ("shape", "size", "result"),
    [
        ([2, 3], 4, [8, 3]),
        ([0], 4, [0]),
        ([2, None], 4, [8, None]),
        ([None, 3], 4, [None, 3]),
        (None, 4, None),
        ((5,), 1, [5]),
    ],
)
def test_gathered_tensors_lie_one_behind_the_other(shape: Any, size: int, result: Any) -> None:
    assert gather_shape(shape, size) == result


@pytest.mark.parametrize(
    ("shape", "size", "result"),
    [
        ([8, 3], 4, [2, 3]),
        ([0, 3], 4, [0, 3]),
        ([None, 3], 4, [None, 3]),
        ([8, None], 4, [2, None]),
        (None, 4, None),
    ],
)
def test_scattered_tensors_are_divided(shape: Any, size: int, result: Any) -> None:
    assert scatter_shape(shape, size) == result


def test_a_scalar_has_nothing_to_divide() -> None:
    with pytest.raises(ValueError, match=r"allgather .* this is a scalar.*tf.reshape\(x, \[1\]\)"):
        gather_shape([], 2)
    with pytest.raises(ValueError, match=r"reduce_scatter divides .* this is a scalar"):
        scatter_shape([], 2)


def test_what_cannot_be_divided_evenly_is_refused() -> None:
    with pytest.raises(ValueError, match=r"among 4 ranks, but 6 of the shape \[6, None\]"):
        scatter_shape([6, None], 4)


def test_an_exchange_gives_up_to_the_last_element_received() -> None:
    assert count_exchanged([3, 3], [0, 0]) == 3
    assert count_exchanged([2, 1, 0], [4, 0, 9]) == 9  # as HCCL counts: also for nothing at 9
    assert count_exchanged([], []) == 0
    with pytest.raises(ValueError, match="has 1 numbers, but recv_displacements has 2"):
        count_exchanged([1], [0, 1])
