"""The number of steps for which every rank has data."""

from pathlib import Path

import pytest

from ascend_session import ConfigError, LifecycleError, ascend_system
from ascend_session.training import common_steps
from tests.launched import launched

_PROGRAM = """
import tensorflow.compat.v1 as tf
from ascend_session import ascend_system, hccl, training
tf.disable_eager_execution()
with ascend_system() as system:
    steps = training.common_steps(3 + 2 * system.rank)
    total = hccl.allreduce(tf.ones([1]), "sum")
    with system.session() as sess:
        for _ in range(steps):
            sess.run(total)
    print("steps", steps, training.common_steps(9 - system.rank))
"""


def test_all_ranks_get_the_smallest_number(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_PROGRAM)
    result = launched("", 2, tmp_path, script=str(tmp_path / "train.py"))
    assert result.code == 0
    assert [Path(rank.stdout).read_text() for rank in result.ranks] == ["steps 3 8\n"] * 2


def test_one_rank_gets_its_own_number() -> None:
    with ascend_system(backend="stub"):
        assert common_steps(7) == 7


def test_what_is_no_number_of_steps_is_refused() -> None:
    with ascend_system(backend="stub"):
        with pytest.raises(TypeError, match="must be an int"):
            common_steps(1.5)
        with pytest.raises(ConfigError, match="n=-1"):
            common_steps(-1)
    with pytest.raises(LifecycleError, match="open system"):
        common_steps(1)
