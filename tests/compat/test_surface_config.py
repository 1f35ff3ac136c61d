"""NPURunConfig and its parts: what they take, what they refuse, and what comes of them."""

import json
from typing import Any, Dict

import pytest

from ascend_session import AscendConfig, AscendConfigWarning, UnsupportedError
from ascend_session.compat.vendor_modules import signature_of
from ascend_session.config.ends import AdapterView, Stage
from ascend_session.config.entry import check_value
from ascend_session.config.option import option_fields, options_by_key
from ascend_session.config.options import AdapterOptions
from tests.compat.surface import has_estimators, of_estimator

npu_config = of_estimator("npu_config")
NPURunConfig = npu_config.NPURunConfig
estimators = of_estimator("npu_estimator")
add_entry, parameters = estimators._add_entry, estimators._parameters
ARGUMENTS = signature_of(of_estimator("npu_config").ARGUMENTS).parameters


@pytest.mark.skipif(hasattr(NPURunConfig, "replace"), reason="this TensorFlow has tf.estimator")
def test_without_estimators_that_is_said_when_it_is_used() -> None:
    with pytest.raises(UnsupportedError, match=r"NPURunConfig needs tf\.estimator\.RunConfig"):
        NPURunConfig()


@has_estimators
def test_arguments_have_the_vendors_places_and_attributes() -> None:
    config = NPURunConfig(1, None, "folder", 7, precision_mode="allow_mix_precision")
    assert (config.model_dir, config.tf_random_seed) == ("folder", 7)
    assert config._precision_mode == "allow_mix_precision"
    assert config.iterations_per_loop == 1
    assert config.save_checkpoints_steps == 100  # where tf.estimator would save every 10 minutes
    assert (config.save_summary_steps, config.keep_checkpoint_max) == (0, 5)
    assert config.replace(model_dir="other")._precision_mode == "allow_mix_precision"


@has_estimators
@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"iterations_per_loop": 0}, ValueError),
        ({"iterations_per_loop": "5"}, TypeError),
        ({"mix_compile_mode": 1}, TypeError),
        ({"mix_compile_mode": True, "iterations_per_loop": 2}, ValueError),
        ({"jit_compile": True}, TypeError),
        ({"horovod_mode": 1}, ValueError),
        ({"graph_run_mode": 2}, ValueError),
        ({"graph_run_mode": -1}, ValueError),
        ({"enable_exception_dump": "1"}, TypeError),
        ({"dump_config": {}}, ValueError),
        ({"experimental_config": {}}, ValueError),
        ({"dynamic_input_config": {}}, ValueError),
        ({"precison_mode": "x"}, TypeError),
        ({"save_checkpoints_secs": 1, "save_checkpoints_steps": 1}, ValueError),
    ],
)
def test_what_the_vendors_refuses_is_refused_in_the_same_way(
    given: Dict[str, Any], error: Any
) -> None:
    with pytest.raises(error):
        NPURunConfig(**given)


@has_estimators
def test_it_refuses_what_the_table_of_options_says_it_refuses() -> None:
    refused = []
    for key, option in options_by_key(AdapterOptions).items():
        for ends in option.ends:
            for value in (-1, 0, 1, 2, 3):
                view = AdapterView({key: value}, {key: value}, {})
                is_wrong = ends.by is Stage.RUN_CONFIG and check_value(key, value)
                if is_wrong and ends.covers(key, view):
                    refused.append(key)
                    with pytest.raises((TypeError, ValueError)):
                        NPURunConfig(**{option.path: value})
    named = {
        key
        for key, option in options_by_key(AdapterOptions).items()
        if any(ends.by is Stage.RUN_CONFIG for ends in option.ends)
    }
    assert set(refused) == named


@has_estimators
def test_a_cluster_needs_its_strategy_and_mixed_computing(monkeypatch: Any) -> None:
    cluster = {"cluster": {"ps": ["a:1"], "chief": ["b:1"]}, "task": {"type": "chief", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    with pytest.raises(ValueError, match="go together"):
        NPURunConfig()


@has_estimators
@pytest.mark.parametrize("name", ["auto_tune_mode", "mstune_mode", "es_cluster_config"])
def test_arguments_of_earlier_releases_are_taken_and_said_to_be_such(name: str) -> None:
    with pytest.warns(AscendConfigWarning, match=f"{name}='RL'.*earlier releases"):
        NPURunConfig(**{name: "RL"})


def test_parts_take_the_vendors_arguments_and_refuse_what_it_refuses() -> None:
    memory = npu_config.MemoryConfig(1, 2, "MemoryPriority")
    assert (memory._atomic_clean_policy, memory._variable_use_1g_huge_page) == (1, 0)
    with pytest.raises(ValueError, match="recompute='on'"):
        npu_config.GraphMemoryOptimizeConfig("on")
    with pytest.raises(ValueError, match="GraphMemoryOptimizeConfig"):
        npu_config.ExperimentalConfig(graph_memory_optimize_config="auto")
    with pytest.warns(AscendConfigWarning, match="before 2021"):
        npu_config.ProfilingConfig(True, enable_options=["task_trace"])
    assert [one.value for one in npu_config.NpuExecutePlacement][:2] == ["all", "cube"]


def test_each_option_is_an_argument_but_for_those_of_raw_sessions() -> None:
    options = [each for each in option_fields(AdapterOptions) if "." not in each.path]
    missing = [option.name for option in options if option.name not in ARGUMENTS]
    assert missing == [option.name for option in options if option.raw_only]


@has_estimators
def test_each_key_that_is_an_argument_reaches_the_entry() -> None:
    value = {"s": "text", "i": 1, "b": True}
    known = options_by_key(AdapterOptions)
    given = {key: value[o.field] for key, o in known.items() if o.field and key in ARGUMENTS}
    values = parameters(NPURunConfig(**given))
    assert {key: values.get(key) for key in given} == given


@has_estimators
def test_an_entry_has_what_npuestimator_writes_by_itself() -> None:
    values = parameters(NPURunConfig())
    assert len(values) == 36
    assert {
        key: values[key] for key in ("use_off_line", "min_group_size", "job", "task_index")
    } == {
        "use_off_line": True,
        "min_group_size": True,
        "job": "localhost",
        "task_index": 0,
    }
    assert values["experimental_logical_device_cluster_deploy_mode"] == "LB"
    assert (values["enable_dump"], values["enable_dump_debug"]) == (False, False)
    assert not {"precision_mode", "profiling_mode", "work_path", "dump_path"} & set(values)


@has_estimators
def test_an_entry_has_the_parts_under_the_adapters_keys() -> None:
    memory = npu_config.GraphMemoryOptimizeConfig(graph_slice="auto")
    config = NPURunConfig(
        aoe_mode="2",
        graph_memory_max_size=26 * 2**30,
        profiling_config=npu_config.ProfilingConfig(True),
        memory_config=npu_config.MemoryConfig(variable_use_1g_huge_page=None),
        dump_config=npu_config.DumpConfig(True, "/tmp", "0|5", dump_layer="a b"),
        dynamic_input_config=npu_config.DynamicInputConfig("x:-1", "1;2", 1),
        experimental_config=npu_config.ExperimentalConfig(
            logical_device_id="0:0", graph_memory_optimize_config=memory
        ),
    )
    values = parameters(config)
    assert (values["aoe_mode"], values["work_path"]) == ("2", "./")
    assert values["graph_memory_max_size"] == "27917287424"
    assert (values["profiling_mode"], values["profiling_options"]) == (True, "")
    assert (values["atomic_clean_policy"], values["static_memory_policy"]) == (0, 0)
    assert "variable_use_1g_huge_page" not in values
    assert (values["dump_step"], values["dump_debug_mode"]) == ("0|5", "all")
    assert (values["dump_data"], values["dump_layer"]) == ("tensor", "a b")
    assert (values["dynamic_node_type"], values["compile_hybrid_mode"]) == (1, 0)
    assert (values["experimental_logical_device_id"], values["graph_slice"]) == ("0:0", "auto")


@has_estimators
def test_dynamic_inputs_are_dropped_if_one_of_the_four_is_none() -> None:
    part = npu_config.DynamicInputConfig("x:-1", "1;2", 1, None)
    assert "input_shape" not in parameters(NPURunConfig(dynamic_input_config=part))


@has_estimators
def test_the_entry_is_in_the_proto_that_was_given_and_once_only(tf: Any) -> None:
    proto = tf.ConfigProto(log_device_placement=True)
    config = NPURunConfig(session_config=proto, precision_mode="allow_mix_precision")
    assert add_entry(add_entry(config)) is config
    rewrite = proto.graph_options.rewrite_options
    assert [one.name for one in rewrite.custom_optimizers] == ["NpuOptimizer"]
    assert len(rewrite.optimizers) == 9
    assert proto.log_device_placement
    with pytest.warns(AscendConfigWarning):  # of what is deprecated
        read = AscendConfig.from_config_proto(proto)
    assert read.precision_mode == "allow_mix_precision"


@has_estimators
def test_a_value_that_the_entry_cannot_hold_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        add_entry(NPURunConfig(precision_mode=5))
    with pytest.raises(TypeError):
        add_entry(NPURunConfig(enable_small_channel=None))


def test_every_session_gets_an_entry_whether_it_has_a_proto_or_not(tf: Any) -> None:
    def opened(self: Any, target: str = "", graph: Any = None, config: Any = None) -> Any:
        return target, graph, config

    given = tf.ConfigProto()
    make = npu_config.decorator_tf_session(opened)
    made = [make(None), make(None, config=None), make(None, "", None, given)]
    for _, _, proto in made:
        rewrite = proto.graph_options.rewrite_options
        assert [one.name for one in rewrite.custom_optimizers] == ["NpuOptimizer"]
        assert (rewrite.remapping, rewrite.memory_optimization) == (2, 2)  # OFF; MANUAL
        assert proto.allow_soft_placement
    assert made[2][2] is given


def test_an_entry_that_is_there_leaves_memory_optimization_alone(tf: Any) -> None:
    proto = tf.ConfigProto()
    proto.graph_options.rewrite_options.custom_optimizers.add().name = "NpuOptimizer"
    _, given = npu_config.set_npu_default_config(tf.Session.__init__, (), {"config": proto})
    assert given["config"] is proto
    assert proto.graph_options.rewrite_options.memory_optimization == 0
