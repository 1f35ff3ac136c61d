"""How the ranks of an example find out that they hold the same weights."""

from typing import Any, List

import numpy as np
import pytest

from ascend_session import ascend_system
from ascend_session.examples.digits import WeightCheck, digest_of, require_equal_weights


def check(tf: Any, weight_of_rank_1: np.float32) -> Any:
    """Compare a weight on two ranks, of which the first has 1; return what they agree on."""
    with ascend_system() as system:
        own = weight_of_rank_1 if system.rank else np.float32(1)
        tf.get_variable("weight", initializer=own)
        weights = WeightCheck(system.size)
        with system.session() as sess:
            sess.run(tf.global_variables_initializer())
            return weights.run(sess, system.rank + 0.5)


@pytest.mark.ranks(2)
def test_ranks_whose_weights_differ_in_one_bit_exit_and_name_the_rank(tf: Any) -> None:
    with pytest.raises(SystemExit, match="The weights of rank 1 differ"):
        check(tf, np.nextafter(np.float32(1), np.float32(2)))


@pytest.mark.ranks(2)
def test_ranks_with_equal_weights_get_the_mean_of_their_losses(tf: Any) -> None:
    assert check(tf, np.float32(1)) == (1.0, digest_of([np.float32(1)]).hex())


def test_one_rank_exchanges_nothing(tf: Any) -> None:
    tf.get_variable("weight", initializer=np.float32(1))
    check = WeightCheck(1)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert check.run(sess, 0.5) == (0.5, digest_of([np.float32(1)]).hex())
    types = {op.type for op in tf.get_default_graph().get_operations()}
    assert not any("Dataset" in name or "Hcom" in name for name in types)


def test_every_bit_counts() -> None:
    weights = [np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros(2, np.float32)]
    same = [array.copy() for array in weights]
    assert digest_of(weights) == digest_of(same)
    assert len(digest_of(weights)) == 8
    same[1][1] = -0.0
    assert digest_of(weights) != digest_of(same)


@pytest.mark.parametrize(
    ("digests", "ranks"), [([7, 8, 7], "rank 1 differ"), ([7, 8, 7, -9], "ranks 1, 3 differ")]
)
def test_all_ranks_that_differ_are_named(digests: List[int], ranks: str) -> None:
    with pytest.raises(SystemExit, match=f"^The weights of {ranks} from those of rank 0.$"):
        require_equal_weights(digests)


def test_equal_weights_are_no_reason_to_end() -> None:
    require_equal_weights([7, 7, 7])
