"""What collectives on the stub do otherwise than those of a device: see backend_differences.py."""

from typing import Any, Dict, List

import numpy as np
import pytest

from ascend_session import ascend_system, hccl
from ascend_session.testing import run_ranks

RANKS = 3


def exchange() -> Dict[str, Any]:
    """Run as a rank of the stub what a device does otherwise."""
    import tensorflow.compat.v1 as tf

    tf.disable_eager_execution()
    with ascend_system() as system, system.session(tf.Graph()) as sess:
        rank, size = system.rank, system.size

        def run(tensor: Any) -> Any:
            return np.asarray(sess.run(tensor)).tolist()

        def fused(**merging: int) -> Any:
            one = tf.constant([rank + 1.0])
            return run([hccl.allreduce(one * (n + 1.0), "sum", **merging) for n in range(3)])

        own = tf.constant([rank + 1, 5])
        large = tf.constant([100], tf.int8)
        half = tf.constant([40000.0 if rank < 2 else -40000.0], tf.float16)
        numbers = np.random.RandomState(rank).standard_normal(1000).astype(np.float32)
        total = hccl.allreduce(tf.constant(numbers), "sum")
        # One element from each rank, with a place between that nobody writes to.
        counts = tf.constant([1] * size, tf.int64)
        begins = tf.constant([0] * size, tf.int64)
        places = tf.constant([2 * other for other in range(size)], tf.int64)
        number = tf.constant([rank + 1])
        found = {
            "reduced on others": run(hccl.reduce(own, "sum", 0)),
            "beyond int8": run(hccl.allreduce(large, "sum")),
            "half precision": run(hccl.allreduce(half, "sum")),
            "again": [sess.run(total).tobytes() == sess.run(total).tobytes() for _ in range(5)],
            "fused": [fused(fusion=0), fused(fusion=2, fusion_id=7)],
            "gaps": run(hccl.all_to_all_v(number, counts, begins, counts, places)),
        }
        # One that nobody offloads: a session without the entry.
        with tf.Session(graph=sess.graph) as other:
            found["plain session"] = other.run(hccl.allreduce(own, "max")).tolist()
        return found


@pytest.fixture(scope="module")
def said() -> List[Dict[str, Any]]:
    """What each rank found."""
    return run_ranks(exchange, RANKS)


def of_all(said: List[Dict[str, Any]], name: str) -> List[Any]:
    """What all ranks said of one thing."""
    return [one[name] for one in said]


def test_who_is_not_the_root_of_a_reduction_gets_zeros(said: List[Dict[str, Any]]) -> None:
    assert of_all(said, "reduced on others") == [[6, 15], [0, 0], [0, 0]]


def test_whole_numbers_that_are_too_large_wrap_around(said: List[Dict[str, Any]]) -> None:
    assert of_all(said, "beyond int8") == [[300 - 256]] * RANKS


def test_half_precision_is_added_in_single_precision(said: List[Dict[str, Any]]) -> None:
    assert of_all(said, "half precision") == [[40000.0]] * RANKS


def test_the_same_sum_has_the_same_bits_again(said: List[Dict[str, Any]]) -> None:
    assert of_all(said, "again") == [[True] * 5] * RANKS


def test_fusion_changes_no_value(said: List[Dict[str, Any]]) -> None:
    assert of_all(said, "fused") == [[[[6.0], [12.0], [18.0]]] * 2] * RANKS


def test_what_nobody_sends_is_zero(said: List[Dict[str, Any]]) -> None:
    assert of_all(said, "gaps") == [[1, 0, 2, 0, 3]] * RANKS


def test_a_session_without_the_entry_runs_collectives(said: List[Dict[str, Any]]) -> None:
    assert of_all(said, "plain session") == [[3, 5]] * RANKS
