"""The number of steps for which every rank has data."""

from typing import Tuple

import pytest

from ascend_session import ConfigError, LifecycleError, ascend_system, hccl
from ascend_session.testing import run_ranks
from ascend_session.training import common_steps


def agree() -> Tuple[int, int]:
    """Run as many steps as all ranks have data for; they would hang if it were not the same."""
    import tensorflow.compat.v1 as tf

    tf.disable_eager_execution()
    with ascend_system() as system:
        steps = common_steps(3 + 2 * system.rank)
        total = hccl.allreduce(tf.ones([1]), "sum")
        with system.session() as sess:
            for _ in range(steps):
                sess.run(total)
        return steps, common_steps(9 - system.rank)


def test_all_ranks_get_the_smallest_number() -> None:
    assert run_ranks(agree, 2) == [(3, 8), (3, 8)]


def test_one_rank_gets_its_own_number(ascend_stub: None) -> None:
    with ascend_system():
        assert common_steps(7) == 7


def test_a_rank_without_data_and_one_with_the_most_are_asked_as_well(ascend_stub: None) -> None:
    with ascend_system():
        assert [common_steps(n) for n in (0, 2**31 - 1)] == [0, 2**31 - 1]
        with pytest.raises(ConfigError, match="n=2147483648 must be 0 to 2147483647"):
            common_steps(2**31)


def test_what_is_no_number_of_steps_is_refused(ascend_stub: None) -> None:
    with ascend_system():
        with pytest.raises(TypeError, match="must be an int"):
            common_steps(1.5)
        with pytest.raises(ConfigError, match="n=-1"):
            common_steps(-1)
    with pytest.raises(LifecycleError, match="open system"):
        common_steps(1)
