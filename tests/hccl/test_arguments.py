"""What is refused while the graph is built, on both backends, and what is taken."""

import warnings
from typing import Any, Callable, Dict, List, Tuple

import numpy as np
import pytest

from ascend_session import AscendConfigWarning, LifecycleError, hccl

# hccl_ops.cc, attribute T of HcomAllReduce, HcomReduce and HcomReduceScatter
REDUCED = {"int8", "int16", "int32", "int64", "float16", "float32", "bfloat16"}
# allreduce.md: the types of each product, of which prod "does not support int16 or bfp16"
MULTIPLIED = REDUCED - {"int16", "bfloat16"}
# ... of HcomAllGather, HcomSend, HcomReceive, HcomAllToAllV and HcomAllToAllVC
MOVED = {
    *("int8", "int16", "int32", "float16", "float32", "int64", "uint64", "uint8"),
    *("uint16", "uint32", "float64", "bfloat16"),
}
EVERY = {*MOVED, "bool", "string", "complex64", "complex128"}

Build = Callable[[Any], Any]

# Each function with a tensor of four elements, in a job of any size.
BY_NAME: Dict[str, Tuple[Build, Any]] = {
    "allreduce": (lambda x: hccl.allreduce(x, "sum"), REDUCED),
    "reduce": (lambda x: hccl.reduce(x, "sum", 0), REDUCED),
    "reduce_scatter": (lambda x: hccl.reduce_scatter(x, "sum", 2), REDUCED),
    "allreduce to a product": (lambda x: hccl.allreduce(x, "prod"), MULTIPLIED),
    "reduce to a product": (lambda x: hccl.reduce(x, "prod", 0), MULTIPLIED),
    "reduce_scatter to a product": (lambda x: hccl.reduce_scatter(x, "prod", 2), MULTIPLIED),
    "allgather": (lambda x: hccl.allgather(x, 2), MOVED),
    "broadcast": (lambda x: hccl.broadcast([x], 0), {*MOVED, "bool"}),
    "send": (lambda x: hccl.send(x, 0, 1), MOVED),
    "receive": (lambda x: hccl.receive([4], x.dtype, 0, 1), MOVED),
    "all_to_all_v": (lambda x: hccl.all_to_all_v(x, [4], [0], [4], [0]), MOVED),
    "all_to_all_v_c": (lambda x: hccl.all_to_all_v_c(x, [[4]], 0), MOVED),
}


@pytest.mark.parametrize("name", BY_NAME)
def test_the_types_are_those_of_the_vendors_operator(tf: Any, either: str, name: str) -> None:
    build, known = BY_NAME[name]
    tensors = {dtype: tf.placeholder(getattr(tf, dtype), [4]) for dtype in sorted(EVERY)}
    for dtype in known:
        build(tensors[dtype])
    for dtype in EVERY - known:
        said = f"^hccl.{name.split()[0]}: .* is {dtype}, but HCCL takes int8, .* Cast it: tf.cast"
        with pytest.raises(TypeError, match=said):
            build(tensors[dtype])


REFUSED: List[Tuple[str, Any, type, str]] = [
    # reductions
    (
        "allreduce",
        lambda x: hccl.allreduce(x, "mean"),
        ValueError,
        "'mean' is not one of sum, prod",
    ),
    ("reduce", lambda x: hccl.reduce(x, "SUM", 0), ValueError, "'SUM' is not one of"),
    ("allreduce", lambda x: hccl.allreduce(x, None), TypeError, "reduction must be a str"),
    # group
    ("rank", lambda x: hccl.rank("g\ud800"), ValueError, "cannot be written as UTF-8"),
    # fusion
    ("allreduce", lambda x: hccl.allreduce(x, "sum", fusion=3), ValueError, "it can be 0 .*1 .*2"),
    ("allreduce", lambda x: hccl.allreduce(x, "sum", -1), ValueError, "fusion=-1"),
    ("allreduce", lambda x: hccl.allreduce(x, "sum", 2), ValueError, "fusion_id.*0 to.*is -1"),
    ("allreduce", lambda x: hccl.allreduce(x, "sum", 2, 2**31), ValueError, "this is 2147483648"),
    (
        "allreduce",
        lambda x: hccl.allreduce(x, "sum", 1, 4),
        ValueError,
        "fusion_id=4 needs fusion=2",
    ),
    ("allreduce", lambda x: hccl.allreduce(x, "sum", 0.0), TypeError, "fusion must be an int"),
    ("allreduce", lambda x: hccl.allreduce(x, "sum", 2, "1"), TypeError, "fusion_id must be an"),
    ("reduce", lambda x: hccl.reduce(x, "sum", 0, 1), ValueError, "fusion=1.*0 .*, 2 .*"),
    ("reduce_scatter", lambda x: hccl.reduce_scatter(x, "sum", 2, fusion=1), ValueError, "fusion"),
    ("allgather", lambda x: hccl.allgather(x, 2, fusion=1), ValueError, "fusion=1, but"),
    ("broadcast", lambda x: hccl.broadcast([x], 0, fusion=1), ValueError, "fusion=1, but"),
    ("broadcast", lambda x: hccl.broadcast([x], 0, 2, -1), ValueError, "this is -1"),
    ("all_to_all_v_c", lambda x: hccl.all_to_all_v_c(x, [[4]], 0, 1), ValueError, "fusion=1, but"),
    # numbers of ranks
    ("allgather", lambda x: hccl.allgather(x, 0), ValueError, "rank_size=0.* 1 to 32768"),
    ("allgather", lambda x: hccl.allgather(x, -2), ValueError, "rank_size=-2"),
    ("allgather", lambda x: hccl.allgather(x, 32769), ValueError, "rank_size=32769"),
    ("allgather", lambda x: hccl.allgather(x, 2.0), TypeError, "rank_size must be an int"),
    ("reduce_scatter", lambda x: hccl.reduce_scatter(x, "sum", 0), ValueError, "rank_size=0"),
    # ranks and tags
    ("reduce", lambda x: hccl.reduce(x, "sum", -1), ValueError, "root_rank=-1 is not a rank"),
    ("broadcast", lambda x: hccl.broadcast([x], "0"), TypeError, "root_rank must be an int"),
    ("send", lambda x: hccl.send(x, -1, 1), ValueError, "sr_tag=-1 must be from 0"),
    ("send", lambda x: hccl.send(x, 2**31, 1), ValueError, "sr_tag=2147483648"),
    ("send", lambda x: hccl.send(x, 0, -1), ValueError, "dest_rank=-1 is not a rank"),
    (
        "receive",
        lambda x: hccl.receive([1], "int8", 0, -1),
        ValueError,
        "src_rank=-1 is not a rank",
    ),
    ("receive", lambda x: hccl.receive([1], "int8", "a", 1), TypeError, "sr_tag must be an int"),
    ("all_to_all_v_c", lambda x: hccl.all_to_all_v_c(x, [[4]], -1), ValueError, "rank=-1 is not"),
    # groups
    ("allreduce", lambda x: hccl.allreduce(x, "sum", group=""), ValueError, "this one is empty"),
    ("allgather", lambda x: hccl.allgather(x, 2, "g" * 128), ValueError, "1 to 127 bytes.*128"),
    ("send", lambda x: hccl.send(x, 0, 1, "\u5b57" * 43), ValueError, "has 129"),
    ("broadcast", lambda x: hccl.broadcast([x], 0, group=None), TypeError, "group must be a str"),
    # shapes
    ("allgather", lambda x: hccl.allgather(x[0], 2), ValueError, "this is a scalar"),
    ("reduce_scatter", lambda x: hccl.reduce_scatter(x[0], "sum", 2), ValueError, "is a scalar"),
    (
        "reduce_scatter",
        lambda x: hccl.reduce_scatter(x, "sum", 3),
        ValueError,
        r"4 of the shape \[4\] is not a multiple of 3",
    ),
    ("receive", lambda x: hccl.receive([None, 2], "int8", 0, 1), ValueError, "fully defined"),
    ("receive", lambda x: hccl.receive(None, "int8", 0, 1), ValueError, "fully defined"),
    ("broadcast", lambda x: hccl.broadcast(x, 0), TypeError, r"Write hccl.broadcast\(\[x\]"),
    # counts
    (
        "all_to_all_v",
        lambda x: hccl.all_to_all_v(x, x, [0], [4], [0]),
        TypeError,
        r"send_counts must be ints or an int64 tensor, this is .*tf.cast\(x, tf.int64\)",
    ),
    ("all_to_all_v", lambda x: hccl.all_to_all_v(x, [1.5], [0], [4], [0]), TypeError, "ints or"),
    ("all_to_all_v", lambda x: hccl.all_to_all_v(x, [-1], [0], [4], [0]), ValueError, "below 0"),
    ("all_to_all_v", lambda x: hccl.all_to_all_v(x, [4], [1], [4], [0]), ValueError, "5 elements"),
    (
        "all_to_all_v",
        lambda x: hccl.all_to_all_v(x, [4], [0], [4], [0, 4]),
        ValueError,
        "recv_counts has 1 numbers, but recv_displacements has 2",
    ),
    ("all_to_all_v_c", lambda x: hccl.all_to_all_v_c(x, [[1, 2]], 0), ValueError, "row and one co"),
    ("all_to_all_v_c", lambda x: hccl.all_to_all_v_c(x, [[]], 0), ValueError, r"shape \[1, 0\]"),
    ("all_to_all_v_c", lambda x: hccl.all_to_all_v_c(x, [[4]], 1), ValueError, "the ranks 0 to 0"),
    ("all_to_all_v_c", lambda x: hccl.all_to_all_v_c(x, [[5]], 0), ValueError, "it has 4"),
    ("all_to_all_v_c", lambda x: hccl.all_to_all_v_c(x, [[-1]], 0), ValueError, "below 0"),
]


@pytest.mark.parametrize(
    ("name", "build", "error", "said"), REFUSED, ids=[f"{one[0]}-{one[3]}" for one in REFUSED]
)
def test_what_is_refused_is_refused_with_a_sentence(
    tf: Any, either: str, name: str, build: Build, error: type, said: str
) -> None:
    tensor = tf.placeholder(tf.float32, [4])
    with pytest.raises(error, match=said) as refused:
        build(tensor)
    assert name in str(refused.value)
    assert str(refused.value).endswith(".")
    assert type(refused.value) is error


TAKEN: List[Tuple[str, Build]] = [
    ("each reduction", lambda x: [hccl.allreduce(x, r) for r in ("sum", "prod", "max", "min")]),
    ("no fusion", lambda x: hccl.allreduce(x, "sum", fusion=0, fusion_id=7)),
    ("fusion by id", lambda x: hccl.allreduce(x, "sum", fusion=2, fusion_id=2**31 - 1)),
    ("numpy's ints", lambda x: hccl.allgather(x, np.int64(2), fusion=np.int32(0))),
    ("the most ranks", lambda x: hccl.allgather(x, 32768)),
    ("the longest name", lambda x: hccl.allreduce(x, "sum", group="g" * 127)),
    ("a scalar", lambda x: [hccl.allreduce(x[0], "sum"), hccl.reduce(x[0], "max", 0)]),
    ("a list of numbers", lambda x: [hccl.allreduce([1, 2], "sum"), hccl.allgather([1.5], 2)]),
    ("several types", lambda x: hccl.broadcast((x, [True], [[1, 2]]), 0)),
    ("numbers that overlap", lambda x: hccl.all_to_all_v(x, [4, 4], [0, 0], [4, 4], [0, 0])),
    ("nothing to send", lambda x: hccl.all_to_all_v(x, [0, 4], [9, 0], [0, 1], [0, 0])),
    ("a column of counts", lambda x: hccl.all_to_all_v(x, [4], [0], [[4]], [0])),
    ("a flat matrix", lambda x: hccl.all_to_all_v_c(x, [0, 9, 2, 2], 1)),
]


@pytest.mark.parametrize(("what", "build"), TAKEN, ids=[one[0] for one in TAKEN])
def test_what_the_vendor_takes_is_taken(tf: Any, either: str, what: str, build: Build) -> None:
    assert build(tf.placeholder(tf.float32, [4])) is not None


@pytest.mark.parametrize("shape", [None, [None], [None, 3]])
def test_what_the_graph_does_not_know_is_left_to_the_run(tf: Any, either: str, shape: Any) -> None:
    x = tf.placeholder(tf.float32, shape)
    unknown = tf.placeholder(tf.int64, None)
    hccl.reduce_scatter(x, "sum", 3)
    hccl.allgather(x, 3)
    if either == "stub":  # the fake's stand-in for the vendor's operator wants shapes
        hccl.all_to_all_v(x, unknown, unknown, unknown, unknown)
        hccl.all_to_all_v_c(x, unknown, 5)


def test_more_than_8_gb_are_refused(tf: Any, either: str) -> None:
    most = tf.placeholder(tf.float16, [1024, 1024, 4096])
    more = tf.placeholder(tf.float16, [1024, 1024, 4097])
    hccl.allreduce(most, "sum")
    for build in (
        lambda: hccl.allreduce(more, "sum"),
        lambda: hccl.reduce(more, "sum", 0),
        lambda: hccl.reduce_scatter(more, "sum", 2),
    ):
        with pytest.raises(ValueError, match=r"8592031744 bytes.*8589934592 \(8 GB\)"):
            build()
    hccl.allgather(more, 2)


def test_no_tensor_is_tensorflows_error(tf: Any, either: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        hccl.allreduce(object(), "sum")


def test_nothing_is_sent_for_an_empty_list(recorder: Any) -> None:
    assert hccl.broadcast([], 0) == []
    assert recorder.calls == []


class TestWarnings:
    def test_a_reduction_that_is_not_merged(self, tf: Any, either: str) -> None:
        with pytest.warns(AscendConfigWarning, match="fusion=2 has no effect on reduction='max'"):
            hccl.allreduce([1.0], "max", fusion=2, fusion_id=0)
        with pytest.warns(AscendConfigWarning, match="hccl.reduce_scatter: fusion=2 has no eff"):
            hccl.reduce_scatter([1.0, 2.0], "prod", 2, fusion=2, fusion_id=0)

    @pytest.mark.parametrize("is_resource", [False, True])
    def test_a_variable_straight_before_allreduce(
        self, tf: Any, either: str, is_resource: bool
    ) -> None:
        weights = tf.get_variable("weights", [2], use_resource=is_resource)
        for given in (weights, tf.identity(weights)):
            with pytest.warns(AscendConfigWarning, match="its input is the variable 'weights'"):
                hccl.allreduce(given, "sum")

    def test_a_warning_names_the_users_line(self, tf: Any, recorder: Any) -> None:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            hccl.allreduce(tf.get_variable("weights", [2]), "sum")
        assert [warning.filename for warning in said] == [__file__]

    def test_what_is_as_it_seems_is_not_warned_of(self, tf: Any, either: str) -> None:
        weights = tf.get_variable("weights", [2])
        hccl.allreduce(weights * 2.0, "max")
        hccl.broadcast([weights], 0)
        hccl.reduce(weights, "sum", 0, fusion=2, fusion_id=0)


def test_eager_execution_is_refused(tf: Any, either: str) -> None:
    from tensorflow.python.eager import context

    with context.eager_mode(), pytest.raises(LifecycleError, match="eager execution") as refused:
        hccl.allreduce([1.0], "sum")
    assert "disable_eager_execution" in str(refused.value.hint)
