"""The system's operators, questions about ranks, and marks on nodes."""

import inspect
import warnings
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

from ascend_session import AscendConfigWarning, UnsupportedError
from ascend_session.session.system import current_system
from tests.compat.surface import module
from tests.compat.watching import unwatch_sessions
from tests.rank_processes import Ranks

ESTIMATOR = "npu_bridge.estimator"


@pytest.fixture
def system(tf: Any) -> Iterator[None]:
    """The system that a test opens ends with it."""
    yield
    unwatch_sessions()


def test_ranks_are_known_between_initialisation_and_shutdown(tf: Any, system: None) -> None:
    npu_ops, api = module(f"{ESTIMATOR}.npu_ops"), module("hccl.manage.api")
    up, down = npu_ops.initialize_system(), npu_ops.shutdown_system()
    assert isinstance(up, tf.Operation)
    with pytest.raises(ValueError, match=r"get rank id error\. ret\[2\]"):
        api.get_rank_id()
    assert current_system() is None, "building the operators must not take the session's options"
    with tf.Session() as sess:
        sess.run(up)
        assert (api.get_rank_id(), api.get_rank_size()) == (0, 1)
        assert (api.get_local_rank_id(), api.get_local_rank_size()) == (0, 1)
        sess.run(down)
        with pytest.raises(ValueError, match=r"get rank size error\. ret\[2\]"):
            api.get_rank_size()
        sess.run(up)
        assert api.get_rank_size() == 1


def test_the_systems_operators_refuse_eager_execution(tf: Any, monkeypatch: Any) -> None:
    npu_ops = module(f"{ESTIMATOR}.npu_ops")
    monkeypatch.setattr(tf, "executing_eagerly", lambda: True)
    for function, name in [(npu_ops.NPUInit, "tf.NPUInit"), (npu_ops.NPUShutdown, "NPUShutdown")]:
        with pytest.raises(RuntimeError, match=rf"{name}\(\) is not compatible with eager"):
            function()


def test_the_plugin_brings_the_system_up_without_a_session(system: None, tmp_path: Path) -> None:
    plugin, api = module(f"{ESTIMATOR}.npu.npu_plugin"), module("hccl.manage.api")
    wrong = [
        ({"graph_run_mode": 2}, "graph_run_mode"),
        ({"enable_profiling": True}, "profiling_options must be set"),
        ({"aoe_mode": "3"}, "aoe_mode"),
        ({"aoe_mode": "2", "work_path": str(tmp_path / "none")}, "is not exists"),
        ({"op_debug_level": -1}, "op_debug_level must be nonnegative"),
    ]
    for given, said in wrong:
        with pytest.raises(ValueError, match=said):
            plugin.npu_resource_init(**given)
    with pytest.raises(TypeError, match="hcom_multi_mode"):
        plugin.npu_resource_init(hcom_multi_mode=1)
    assert current_system() is None
    plugin.npu_resource_init(precision_mode="allow_mix_precision")
    assert api.get_rank_size() == 1
    plugin.npu_resource_shutdown()
    with pytest.raises(ValueError, match="ret"):
        api.get_rank_size()
    plugin.npu_global_init(1, 0, False)
    assert api.get_rank_id() == 0
    plugin.npu_close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("", 1, [0]), "group name is empty"),
        ((7, 1, [0]), "group must be a python str"),
        (("g" * 128, 1, [0]), "group name is invalid"),
        (("g", 0, []), "rank_num"),
        (("g", 1, (0,)), "rank_ids must be a python list"),
        (("g", 2, [0]), "not equal to rank_ids len"),
        (("g", 1, [-1]), "rank_id"),
        (("g", 1, [3]), r"create group error\. ret\[1\]"),
    ],
)
def test_groups_that_cannot_be_are_value_errors(system: None, arguments: Any, said: str) -> None:
    module("script_run").script_run().bring_up()
    with pytest.raises(ValueError, match=said):
        module("hccl.manage.api").create_group(*arguments)


def test_splits_of_gradients_are_checked() -> None:
    api = module("hccl.split.api")
    api.set_split_strategy_by_idx([3, 5, 8])
    api.set_split_strategy_by_size([60, 20.0, 20], "hccl_world_group")
    for values, said in [
        ((1, 2), "must be a python list"),
        ([], "length is 0"),
        ([1.0], "not python int type"),
        ([2**32], "out-of-range"),
        ([3, 3], "not ascending"),
    ]:
        with pytest.raises(ValueError, match=said):
            api.set_split_strategy_by_idx(values)
    for values, said in [([60, 30], "not 100%"), ([-1, 101], "negative"), (["1"], "int or float")]:
        with pytest.raises(ValueError, match=said):
            api.set_split_strategy_by_size(values)


@pytest.mark.parametrize(
    ("scope", "marks"),
    [
        ("without_npu_compile_scope", {"_without_npu_compile": True}),
        ("keep_dtype_scope", {"_keep_dtype": 1}),
        ("npu_mem_type_scope", {"_output_memory_type": 1}),
        ("npu_variable_scope", {"_variable_placement": b"all"}),
    ],
)
def test_scopes_mark_the_nodes_made_inside(tf: Any, scope: str, marks: Any) -> None:
    npu_scope = module(f"{ESTIMATOR}.npu.npu_scope")
    with getattr(npu_scope, scope)():
        inside = tf.add(1, 2)
    outside = tf.add(1, 2)
    for name, value in marks.items():
        assert inside.op.get_attr(name) == value
        with pytest.raises(ValueError, match=name):
            outside.op.get_attr(name)
    with tf.Session() as sess:
        assert sess.run(inside) == 3


def test_a_variable_is_placed_where_the_vendor_can_place_it() -> None:
    npu_scope = module(f"{ESTIMATOR}.npu.npu_scope")
    with pytest.raises(ValueError, match="NpuExecutePlacement"):
        npu_scope.npu_variable_scope("HOST").__enter__()


def test_dropout_divides_what_it_keeps(tf: Any) -> None:
    npu_ops = module(f"{ESTIMATOR}.npu_ops")
    x = tf.ones([1000])
    kept = [npu_ops.dropout(x, 0.8, seed=3), npu_ops.dropout(x, 0.8)]
    rate = tf.placeholder_with_default(np.float32(0.8), [])
    fed = npu_ops.dropout(x, rate)
    rows = npu_ops.dropout(tf.ones([100, 4]), 0.5, noise_shape=[100, 1])
    with tf.Session() as sess:
        found = sess.run([*kept, fed])
        assert not np.array_equal(sess.run(kept[1]), sess.run(kept[1]))
        row = sess.run(rows)
        gradient, value = sess.run([tf.gradients(kept[0], x)[0], kept[0]])
    for one in found:
        assert set(np.round(one, 5)) == {0.0, 1.25}
        assert 0.7 < np.count_nonzero(one) / 1000 < 0.9
    assert all(len(set(line)) == 1 for line in row)
    np.testing.assert_array_equal(gradient, value)
    assert npu_ops.dropout(x, 1.0) is x
    for wrong in (0.0, 1.5, -1):
        with pytest.raises(ValueError, match="keep_prob"):
            npu_ops.dropout(x, wrong)
    with pytest.raises(ValueError, match="floating point"):
        npu_ops.dropout(tf.constant([1]), 0.5)
    with pytest.raises(TypeError, match="DataType float64"):
        npu_ops.dropout(tf.constant([1.0], tf.float64), 0.5)


def test_a_mask_of_bits_is_what_it_is_used_for(tf: Any) -> None:
    gen = module("npu_bridge.helper.helper").get_gen_ops()
    x = tf.reshape(tf.range(1.0, 301.0), [3, 100])
    mask = gen.drop_out_gen_mask([3, 100], 0.5, 1, 2)
    y = gen.drop_out_do_mask(x, mask, 0.5)
    with tf.Session() as sess:
        bits, made, given = sess.run([mask, y, x])
    assert bits.dtype == np.uint8
    assert bits.shape == (3 * 128 // 8,)
    chosen = np.unpackbits(bits, bitorder="little")
    assert not chosen[300:].any()
    np.testing.assert_allclose(made.ravel(), given.ravel() * chosen[:300] / 0.5)
    assert 100 < chosen.sum() < 200


def test_the_library_has_each_operator_under_both_names(tf: Any) -> None:
    gen = module("npu_bridge.helper.helper").get_gen_ops()
    for name in (
        *("dynamic_rnn", "dynamic_rnn_v2", "npu_init", "lars_v2", "lars"),
        *("hcom_all_to_all_vc", "drop_out_gen_mask", "random_choice_with_mask"),
    ):
        assert inspect.isroutine(getattr(gen, name)), name
    assert gen.DynamicRnnV2 is gen.dynamic_rnn_v2
    assert gen.HcomAllToAllVC is gen.hcom_all_to_all_vc
    for name in ("gelu_grad", "get_shape", "dynamic_gru_v2", "NpuGetFloatStatusV2"):
        with pytest.raises(UnsupportedError, match=rf"npu_bridge\._tf_adapter\.{name} was used"):
            getattr(gen, name)()


def test_what_has_no_effect_on_a_cpu_says_so(tf: Any) -> None:
    plugin = module(f"{ESTIMATOR}.npu.npu_plugin")
    with pytest.warns(AscendConfigWarning, match="inf or nan"):
        plugin.set_device_sat_mode(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plugin.set_device_sat_mode(1)
    assert plugin.is_inf_nan_enabled()
    assert not plugin.get_schedule_aicore_task_early()
    assert plugin.set_schedule_aicore_task_early(True) == 0
    assert plugin.get_schedule_aicore_task_early()
    plugin.set_schedule_aicore_task_early(False)
    with tf.variable_scope("v"):
        assert plugin.get_rdma_cache(tf.float32, [2]).op.get_attr("_output_memory_type") == 1


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: Any) -> Iterator[Ranks]:
    """Runs the programs of tests/ranks_programs."""
    host = Ranks(tmp_path_factory.mktemp("ranks"))
    yield host
    host.close()


def test_ranks_of_a_job_exchange_under_the_vendors_names(ranks: Ranks) -> None:
    results = ranks.run("vendor_names", 3)
    for rank, result in enumerate(results):
        assert result.code == 0, result.log
        early, place, *rest = result.said
        assert early.startswith("get rank id error. ret[2]")
        assert place == [rank, 3, rank, 3]
        if rank:
            assert rest.pop(0) == [rank - 1, rank - 1, 1]
        gathered = [1.0, 2.0, 2.0, 2.0, 3.0, 2.0]
        first = [[6.0, 6.0], gathered, gathered, [2.0, 2.0], [3.0, 2.0], [6.0], [3.0, 2.0]]
        assert rest[:7] == first
        if rank:
            assert rest[7] == [5.0, 4.0]
        asked, ran = rest[-2:]
        assert (asked, ran) == ("NotUpError", "LifecycleError")
