"""What reaches a backend: the vendor's operators with the vendor's arguments, and nothing else."""

import importlib
import inspect
import re
from collections import Counter
from typing import Any, Callable, Dict, List

import numpy as np
import pytest

from ascend_session import ascend_system, hccl
from ascend_session.backends.npu import NpuBackend
from ascend_session.hccl import allreduce_many
from ascend_session.session import graphs
from tests.fake_host.signatures import HCCL_OPS, VENDOR_MODULES
from tests.hccl.recorder import Recorder

PUBLIC = (
    *("allreduce", "allgather", "broadcast", "reduce", "reduce_scatter"),
    *("send", "receive", "all_to_all_v", "all_to_all_v_c"),
)


def default_of(text: str) -> inspect.Signature:
    """A signature from its text, as in VENDOR_MODULES."""
    scope: Dict[str, Any] = {}
    exec(f"def function{text}: pass", scope)
    return inspect.signature(scope["function"])


@pytest.mark.parametrize("name", PUBLIC)
def test_the_signatures_are_the_vendors(name: str) -> None:
    ours = inspect.signature(getattr(hccl, name)).parameters.values()
    theirs = default_of(VENDOR_MODULES[HCCL_OPS][name]).parameters.values()
    assert [(p.name, p.default) for p in ours] == [(p.name, p.default) for p in theirs]


def test_an_operator_is_of_the_backend_that_is_chosen_when_it_is_built(
    tf: Any, ge: Any, recorder: Recorder, monkeypatch: Any
) -> None:
    x = tf.constant([1.0])
    for backend in ("stub", "npu"):
        monkeypatch.setenv("ASCEND_SESSION_BACKEND", backend)
        hccl.allgather(x, 2)
    assert [call for call, _ in recorder.calls] == ["allgather"]


def test_the_names_are_all_there() -> None:
    groups = {"create_group", "destroy_group", "rank", "size", "local_rank", "local_size"}
    groups |= {"world_rank", "group_rank", "WORLD_GROUP"}
    assert set(hccl.__all__) == {*PUBLIC, *groups}


CASES: Dict[str, Callable[[Any], Any]] = {
    "allreduce": lambda x: hccl.allreduce(x, "max", 0, -1, "g"),
    "allgather": lambda x: hccl.allgather(x, 2, "g", 2, 5),
    "broadcast": lambda x: hccl.broadcast([x, x], 1, 0, -1, "g"),
    "reduce": lambda x: hccl.reduce(x, "min", 1, 0, 3, "g"),
    "reduce_scatter": lambda x: hccl.reduce_scatter(x, "sum", 2, "g", 2, 5),
    "send": lambda x: hccl.send(x, 7, 1, "g"),
    "receive": lambda x: hccl.receive([4], "float32", 7, 1, "g"),
    "all_to_all_v": lambda x: hccl.all_to_all_v(x, [4], [0], [2], [1], "g"),
    "all_to_all_v_c": lambda x: hccl.all_to_all_v_c(x, [[4]], 0, 2, 5, "g"),
}
DEFAULTS: Dict[str, Callable[[Any], Any]] = {
    "allreduce": lambda x: hccl.allreduce(x, "sum"),
    "allgather": lambda x: hccl.allgather(x, 2),
    "broadcast": lambda x: hccl.broadcast([x, x], 1),
    "reduce": lambda x: hccl.reduce(x, "sum", 1),
    "reduce_scatter": lambda x: hccl.reduce_scatter(x, "sum", 2),
    "send": lambda x: hccl.send(x, 7, 1),
    "receive": lambda x: hccl.receive([4], "float32", 7, 1),
    "all_to_all_v": lambda x: hccl.all_to_all_v(x, [4], [0], [2], [1]),
    "all_to_all_v_c": lambda x: hccl.all_to_all_v_c(x, [[4]], 0),
}
ARGUMENTS: Dict[str, List[Dict[str, Any]]] = {
    "allreduce": [
        {"reduction": "max", "fusion": 0, "fusion_id": -1, "group": "g"},
        {"reduction": "sum", "fusion": 1, "fusion_id": -1, "group": "hccl_world_group"},
    ],
    "allgather": [
        {"rank_size": 2, "group": "g", "fusion": 2, "fusion_id": 5},
        {"rank_size": 2, "group": "hccl_world_group", "fusion": 0, "fusion_id": -1},
    ],
    "broadcast": [
        {"root_rank": 1, "fusion": 0, "fusion_id": -1, "group": "g"},
        {"root_rank": 1, "fusion": 2, "fusion_id": 0, "group": "hccl_world_group"},
    ],
    "reduce": [
        {"reduction": "min", "root_rank": 1, "fusion": 0, "fusion_id": 3, "group": "g"},
        {
            "reduction": "sum",
            "root_rank": 1,
            "fusion": 0,
            "fusion_id": -1,
            "group": "hccl_world_group",
        },
    ],
    "reduce_scatter": [
        {"reduction": "sum", "rank_size": 2, "group": "g", "fusion": 2, "fusion_id": 5},
        {
            "reduction": "sum",
            "rank_size": 2,
            "group": "hccl_world_group",
            "fusion": 0,
            "fusion_id": -1,
        },
    ],
    "send": [
        {"sr_tag": 7, "dest_rank": 1, "group": "g"},
        {"sr_tag": 7, "dest_rank": 1, "group": "hccl_world_group"},
    ],
    "receive": [
        {"shape": [4], "data_type": "float32", "sr_tag": 7, "src_rank": 1, "group": "g"},
        {
            "shape": [4],
            "data_type": "float32",
            "sr_tag": 7,
            "src_rank": 1,
            "group": "hccl_world_group",
        },
    ],
    "all_to_all_v": [
        {
            "send_counts": [4],
            "send_displacements": [0],
            "recv_counts": [2],
            "recv_displacements": [1],
            "group": group,
        }
        for group in ("g", "hccl_world_group")
    ],
    "all_to_all_v_c": [
        {"send_count_matrix": [[4]], "rank": 0, "fusion": 2, "fusion_id": 5, "group": "g"},
        {
            "send_count_matrix": [[4]],
            "rank": 0,
            "fusion": 0,
            "fusion_id": -1,
            "group": "hccl_world_group",
        },
    ],
}
TENSORS = {"tensor", "tensors", "send_data"}


def readable(tf: Any, given: Dict[str, Any]) -> Dict[str, Any]:
    """The arguments as plain values; without the data, of which the tests have their own."""

    def plain(value: Any) -> Any:
        if isinstance(value, tf.Tensor):
            assert value.dtype == tf.int64
            return tf.get_static_value(value).tolist()
        if isinstance(value, tf.DType):
            return value.name
        return value.as_list() if isinstance(value, tf.TensorShape) else value

    return {name: plain(value) for name, value in given.items() if name not in TENSORS}


@pytest.mark.parametrize("table", [CASES, DEFAULTS], ids=["given", "defaults"])
@pytest.mark.parametrize("name", PUBLIC)
def test_the_vendors_function_is_called_with_the_vendors_arguments(
    tf: Any, ge: Any, name: str, table: Any, monkeypatch: Any
) -> None:
    x = tf.placeholder(tf.float32, [4])
    hccl.allreduce(x, "sum")  # loads the packages
    module = importlib.import_module(HCCL_OPS)
    called = []

    def recording(function: str, text: str) -> Any:
        signature = default_of(text)

        def record(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            called.append((function, dict(bound.arguments)))
            return [x]

        return record

    for function, text in VENDOR_MODULES[HCCL_OPS].items():
        monkeypatch.setattr(module, function, recording(function, text))
    before = len(ge.calls)
    table[name](x)
    ((function, given),) = called
    assert function == name
    assert readable(tf, given) == ARGUMENTS[name][table is DEFAULTS]
    data = [value for key, value in given.items() if key in TENSORS]
    assert data == ([] if name == "receive" else [[x, x]] if name == "broadcast" else [x])
    assert ge.calls[before:] == []


@pytest.mark.parametrize("table", [CASES, DEFAULTS], ids=["given", "defaults"])
@pytest.mark.parametrize("name", PUBLIC)
def test_another_backend_gets_the_same(tf: Any, recorder: Recorder, name: str, table: Any) -> None:
    x = tf.placeholder(tf.float32, [4])
    table[name](x)
    ((function, given),) = recorder.calls
    assert function == name
    assert readable(tf, given) == ARGUMENTS[name][table is DEFAULTS]


VENDOR_TYPES = {
    "allreduce": "HcomAllReduce",
    "allgather": "HcomAllGather",
    "broadcast": "HcomBroadcast",
    "reduce": "HcomReduce",
    "reduce_scatter": "HcomReduceScatter",
    "send": "HcomSend",
    "receive": "HcomReceive",
    "all_to_all_v": "HcomAllToAllV",
    "all_to_all_v_c": "HcomAllToAllVC",
}


@pytest.mark.parametrize("name", PUBLIC)
def test_the_graph_has_what_the_vendors_function_builds_and_no_more(
    tf: Any, ge: Any, name: str
) -> None:
    with tf.Graph().as_default() as ours:
        DEFAULTS[name](tf.placeholder(tf.float32, [4]))
    vendors = importlib.import_module(HCCL_OPS)
    given = dict(ARGUMENTS[name][1])
    for key in given:
        if key.endswith(("counts", "displacements", "matrix")):
            given[key] = np.array(given[key], np.int64)
    with tf.Graph().as_default() as theirs:
        x = tf.placeholder(tf.float32, [4])
        data = [] if name == "receive" else [[x, x]] if name == "broadcast" else [x]
        getattr(vendors, name)(*data, **given)
    assert kinds_in(ours) == kinds_in(theirs)
    assert kinds_in(ours)[VENDOR_TYPES[name]] >= 1


def kinds_in(graph: Any) -> Any:
    """How many operators of each type there are, the vendor's by their own types."""
    op_type = importlib.import_module("fake_ge.graphs").op_type
    return Counter(op_type(operation) for operation in graph.get_operations())


def test_several_at_a_time_are_one_operator_each(tf: Any, ge: Any) -> None:
    x, y = tf.placeholder(tf.float32, [4]), tf.placeholder(tf.int32, [])
    made = allreduce_many([x, y], "sum", fusion=2, fusion_id=3)
    assert [tensor.shape.as_list() for tensor in made] == [[4], []]
    assert [re.sub(r"(_\d+)?:0", "", tensor.name) for tensor in made] == ["HcomAllReduce"] * 2
    assert allreduce_many([], "sum") == []


class TestWhoseCollectives:
    def test_those_of_the_open_system_come_first(self, tf: Any, ge: Any, monkeypatch: Any) -> None:
        with ascend_system() as system:
            assert graphs.graph_backend() is system.graph_backend
            assert graphs._created == {}

    def test_without_a_system_those_of_the_backend_that_is_chosen(self, tf: Any, ge: Any) -> None:
        assert isinstance(graphs.graph_backend(), NpuBackend)
        assert "NPUInit" not in ge.calls

    def test_they_are_made_once(self, tf: Any, ge: Any) -> None:
        assert graphs.graph_backend() is graphs.graph_backend()

    def test_the_variable_chooses_as_for_a_system(
        self, tf: Any, ge: Any, recorder: Recorder, monkeypatch: Any
    ) -> None:
        monkeypatch.setenv("ASCEND_SESSION_BACKEND", "stub")
        assert graphs.graph_backend().operators is recorder
