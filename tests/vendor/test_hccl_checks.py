"""What the vendor's functions for collectives refuse before anything is sent.

Source: hccl/split/api.py, hccl/manage/api.py; hccl_ops.cc.
"""

from typing import Any

import pytest

from tests.fake_host import FakeHost
from tests.fake_host.vendor import Loaded, run_on


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ("1,2", "idxList must be a python list"),
        ([], "idxList length is 0"),
        ([1.5], r"idx val\[1.5\] in idxList is not python int type"),
        ([-1], "out-of-range value, the correct value range is 0 to 4294967295"),
        ([2**32], "out-of-range"),
        ([2, 1], "not ascending"),
        ([1, 1], "not ascending"),
        ([0, 2**32 - 1], r"split error\. ret\["),
    ],
    ids=str,
)
def test_parts_by_index_are_ascending_indices(ge: Loaded, values: Any, reason: str) -> None:
    from hccl.split import api

    with pytest.raises(ValueError, match=reason):
        api.set_split_strategy_by_idx(values)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ("60,40", "dataSizeList must be a python list"),
        ([], "dataSizeList length is 0"),
        (["60", 40], "is not python int or float type"),
        ([110, -10], "cannot be a negative number"),
        ([60, 39], "sum is not 100%"),
        ([60, 40.0], r"split error, ret\["),
    ],
    ids=str,
)
def test_parts_by_size_are_percents_of_the_whole(ge: Loaded, values: Any, reason: str) -> None:
    from hccl.split import api

    with pytest.raises(ValueError, match=reason):
        api.set_split_strategy_by_size(values)


@pytest.mark.parametrize(
    ("group", "reason"),
    [(1, "must be a python str"), ("", "is empty"), ("g" * 128, r"name len\[128\] too long")],
)
def test_the_group_of_a_split_has_a_name(ge: Loaded, group: Any, reason: str) -> None:
    from hccl.split import api

    for call, values in (
        (api.set_split_strategy_by_idx, [1]),
        (api.set_split_strategy_by_size, [100]),
    ):
        with pytest.raises(ValueError, match=reason):
            call(values, group)


def test_a_translation_of_ranks_looks_at_the_group_first(ge: Loaded) -> None:
    from hccl.manage import api

    with pytest.raises(ValueError, match="group name is empty"):
        api.get_world_rank_from_group_rank("", -1)
    with pytest.raises(ValueError, match="group name is empty"):
        api.get_group_rank_from_world_rank(-1, "")
    with pytest.raises(ValueError, match=r"rank_id\[-1\] is less than 0"):
        api.get_world_rank_from_group_rank("g", -1)


def test_what_cannot_be_reduced_is_refused_when_the_graph_is_built(ge: Loaded, tf: Any) -> None:
    from npu_bridge.hccl import hccl_ops

    text, number = tf.constant(["x"]), tf.constant([1.0])
    for call in (
        lambda: hccl_ops.allreduce(text, "sum"),
        lambda: hccl_ops.reduce(text, "sum", 0),
        lambda: hccl_ops.reduce_scatter(tf.constant([True]), "sum", 1),
        lambda: hccl_ops.broadcast(number, 0),
    ):
        with pytest.raises(TypeError):
            call()
    for size in (0, -1):
        with pytest.raises(ValueError, match="rank_size should be greater than 0"):
            hccl_ops.allgather(number, size)
        with pytest.raises(ValueError, match="rank_size should be greater than 0"):
            hccl_ops.reduce_scatter(number, "sum", size)


_SCATTER = """
import sys
import npu_bridge, tensorflow.compat.v1 as tf
from npu_bridge.hccl import hccl_ops
tf.disable_eager_execution()
hccl_ops.reduce_scatter(tf.zeros([int(sys.argv[1]), 2]), "sum", 2)
"""


@pytest.mark.parametrize(("rows", "status"), [("4", 0), ("3", -6)])
def test_a_reduce_scatter_that_does_not_come_out_even_ends_the_process(
    host: FakeHost, rows: str, status: int
) -> None:
    ended = run_on(host, _SCATTER, rows)
    assert ended.returncode == status, ended.stderr
    assert ("N * rank_size" in ended.stderr) is (status != 0)


@pytest.mark.parametrize("keep", [0, -0.5, 1.5])
def test_dropout_keeps_a_part_of_numbers(ge: Loaded, tf: Any, keep: float) -> None:
    from npu_bridge.estimator import npu_ops

    numbers = tf.constant([1.0, 2.0])
    with pytest.raises(ValueError, match="keep_prob"):
        npu_ops.dropout(numbers, keep)
    with pytest.raises(ValueError, match="floating point"):
        npu_ops.dropout(tf.constant([1]), 0.5)
    assert npu_ops.dropout(numbers, 1.0) is numbers


@pytest.mark.parametrize("name", ["graph_run_mode", "enable_exception_dump", "op_debug_level"])
def test_numbers_of_a_ge_without_a_session_are_not_negative(ge: Loaded, name: str) -> None:
    from npu_bridge.estimator.npu import npu_plugin

    with pytest.raises(ValueError, match=name):
        npu_plugin.npu_resource_init(**{name: -1})
    assert ge.calls == []
