"""How the ranks of an example find out that they hold the same weights."""

from pathlib import Path
from typing import Any, List

import numpy as np
import pytest

from ascend_session.examples.digits import WeightCheck, digest_of, require_equal_weights
from tests.examples.running import Outcome, launch

# Two ranks; if told "unequal", the weight of the second is another in its last bit.
RANKS = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
import numpy as np
import tensorflow.compat.v1 as tf
from ascend_session import ascend_system
from ascend_session.examples.digits import WeightCheck

tf.disable_eager_execution()
with ascend_system() as system:
    value = np.float32(1)
    if system.rank == system.size - 1 and sys.argv[1] == "unequal":
        value = np.nextafter(value, np.float32(2))
    tf.get_variable("weight", initializer=value)
    check = WeightCheck(system.size)
    with system.session() as sess:
        sess.run(tf.global_variables_initializer())
        print(*check.run(sess, system.rank + 0.5))
"""


def launched(tmp_path: Path, python: str, kind: str) -> Outcome:
    script = tmp_path / "program.py"
    script.write_text(RANKS)
    return launch(2, "--log-dir", "logs", str(script), kind, cwd=tmp_path, python=python)


def test_ranks_whose_weights_differ_in_one_bit_end_and_say_who(
    tmp_path: Path, forking_python: str
) -> None:
    ended = launched(tmp_path, forking_python, "unequal")
    assert ended.code == 1
    assert "The weights of rank 1 differ from those of rank 0." in ended.stdout


def test_ranks_with_equal_weights_get_the_mean_of_their_losses(
    tmp_path: Path, forking_python: str
) -> None:
    ended = launched(tmp_path, forking_python, "equal")
    assert ended.code == 0, ended.stdout + ended.stderr
    one = digest_of([np.float32(1)]).hex()
    assert sorted(ended.stdout.splitlines()) == [f"[0] 1.0 {one}", f"[1] 1.0 {one}"]


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
