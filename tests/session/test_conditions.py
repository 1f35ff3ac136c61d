"""What the vendor demands of graph and environment when a session opens."""

import warnings
from typing import Any, Iterator

import pytest

from ascend_session import (
    AscendConfig,
    AscendConfigWarning,
    ExperimentalConfig,
    LifecycleError,
    UnsupportedError,
    ascend_session,
    ascend_system,
    current_system,
    hccl,
)
from ascend_session.session.conditions import (
    LOOPS_APPLIED,
    RANKS_OF_GRAPH,
    TAILING,
    check_conditions,
    warn_of_unused_loops,
)


@pytest.fixture
def quiet() -> Iterator[None]:
    """A warning fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


HOST = {"variable_placement": "Host"}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    LOOPING = AscendConfig(iterations_per_loop=10, enable_data_pre_proc=True)


class TestVariablesOnTheHost:
    @pytest.fixture
    def version_2(self, tf: Any) -> Iterator[None]:
        """Control flow version 2 and resource variables, as TensorFlow 2 has them."""
        switches = (
            (tf.control_flow_v2_enabled, tf.enable_control_flow_v2, tf.disable_control_flow_v2),
            (
                tf.resource_variables_enabled,
                tf.enable_resource_variables,
                tf.disable_resource_variables,
            ),
        )
        were = [is_on() for is_on, _, _ in switches]
        for _, turn_on, _ in switches:
            turn_on()
        yield
        for on, (_, turn_on, turn_off) in zip(were, switches):
            (turn_on if on else turn_off)()

    def test_they_need_control_flow_version_2(self, tf: Any, version_2: None) -> None:
        tf.disable_control_flow_v2()
        tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
        with pytest.raises(LifecycleError, match=r"version 1 operators .*Enter.*Switch") as refused:
            check_conditions(tf.get_default_graph(), HOST, {})
        assert "tf.enable_control_flow_v2()" in str(refused.value.hint)

    def test_a_graph_with_version_2_operators_is_fine(
        self, tf: Any, version_2: None, quiet: None
    ) -> None:
        tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
        check_conditions(tf.get_default_graph(), HOST, {})
        assert "While" in str([op.type for op in tf.get_default_graph().get_operations()])

    @pytest.mark.parametrize("off", ["disable_control_flow_v2", "disable_resource_variables"])
    def test_a_switch_that_is_off_warns(self, tf: Any, version_2: None, off: str) -> None:
        getattr(tf, off)()
        with pytest.warns(AscendConfigWarning, match="needs control flow v2 and resource"):
            check_conditions(tf.get_default_graph(), HOST, {})

    def test_variables_on_the_device_need_nothing(self, tf: Any, quiet: None) -> None:
        tf.disable_control_flow_v2()
        check_conditions(tf.get_default_graph(), {"variable_placement": "Device"}, {})
        assert not tf.control_flow_v2_enabled()


class TestLoops:
    def test_a_loop_count_that_nothing_applied_warns(self, tf: Any) -> None:
        with pytest.warns(AscendConfigWarning, match="each run made a single step"):
            warn_of_unused_loops(tf.get_default_graph(), {"iterations_per_loop": 10})

    def test_the_open_session_is_what_the_helper_needs_so_opening_does_not_warn(
        self, tf: Any, quiet: None
    ) -> None:
        check_conditions(tf.get_default_graph(), {"iterations_per_loop": 10}, {})
        assert tf.get_default_graph().get_collection(LOOPS_APPLIED) == []

    def test_a_loop_count_that_a_helper_applied_is_fine(self, tf: Any, quiet: None) -> None:
        graph = tf.get_default_graph()
        graph.add_to_collection(LOOPS_APPLIED, 10)
        warn_of_unused_loops(graph, {"iterations_per_loop": 10})
        assert graph.get_collection(LOOPS_APPLIED) == [10]

    def test_another_count_than_the_applied_one_warns(self, tf: Any) -> None:
        graph = tf.get_default_graph()
        graph.add_to_collection(LOOPS_APPLIED, 10)
        with pytest.warns(AscendConfigWarning, match="iterations_per_loop=20"):
            warn_of_unused_loops(graph, {"iterations_per_loop": 20})

    def test_single_steps_need_no_helper(self, tf: Any, quiet: None) -> None:
        warn_of_unused_loops(tf.get_default_graph(), {"iterations_per_loop": 1})
        assert tf.get_default_graph().get_collection(LOOPS_APPLIED) == []

    def test_it_is_said_when_the_session_has_closed_at_the_users_line(self, tf: Any) -> None:
        with pytest.warns(AscendConfigWarning, match="training.iterations_per_loop") as said:
            with ascend_session(LOOPING):
                assert [str(one.message) for one in said if "was set" in str(one.message)] == []
        late = [one for one in said if "was set" in str(one.message)]
        assert [one.filename for one in late] == [__file__]
        assert current_system() is None

    def test_after_an_error_it_is_not_said(self, tf: Any, quiet: None) -> None:
        with pytest.raises(ZeroDivisionError), ascend_session(LOOPING):
            raise ZeroDivisionError
        assert current_system() is None

    def test_a_one_shot_iterator_is_refused(self, tf: Any) -> None:
        tf.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next()
        with pytest.raises(LifecycleError, match="one-shot iterator") as refused:
            check_conditions(tf.get_default_graph(), {"iterations_per_loop": 2}, {})
        assert "make_initializable_iterator" in str(refused.value.hint)


class TestWhatTrainingNoted:
    @pytest.mark.parametrize("noted", [0, 1])
    def test_another_tailing_optimization_than_the_optimizers_is_refused(
        self, tf: Any, noted: int
    ) -> None:
        graph = tf.get_default_graph()
        graph.add_to_collection(TAILING, noted)
        other = {} if noted else {"is_tailing_optimization": True}
        found = f"is {not noted} in this session's configuration, but {bool(noted)} in the"
        with pytest.raises(LifecycleError, match=found):
            check_conditions(graph, other, {})
        check_conditions(graph, {"is_tailing_optimization": bool(noted)}, {})

    def test_a_graph_for_another_number_of_ranks_is_refused(self, tf: Any) -> None:
        graph = tf.get_default_graph()
        graph.add_to_collection(RANKS_OF_GRAPH, 4)
        check_conditions(graph, {}, {}, size=4)
        for size in (1, 8):
            said = rf"averaged over 4 rank\(s\), but the job has {size}"
            with pytest.raises(LifecycleError, match=said):
                check_conditions(graph, {}, {}, size=size)
        with ascend_system() as system:
            with pytest.raises(LifecycleError, match="but the job has 1"):
                system.session().__enter__()


@pytest.mark.parametrize("block", [ascend_system, ascend_session])
def test_parameter_servers_are_left_to_the_vendors_estimator(tf: Any, block: Any) -> None:
    config = AscendConfig(distribute=object(), mix_compile_mode=True)
    with pytest.raises(UnsupportedError, match="each session would train alone") as refused:
        block(config)
    assert "to_run_config_kwargs" in str(refused.value.hint)
    assert "distribute" in config.to_run_config_kwargs()


class TestDynamicProfiles:
    def test_a_second_dataset_input_is_refused(self, tf: Any) -> None:
        graph, parameters = tf.get_default_graph(), {"dynamic_dims": "1;2"}
        for _ in range(2):
            check_conditions(graph, parameters, {})
            dataset = tf.data.Dataset.range(3)
            tf.data.make_initializable_iterator(dataset).get_next()
        with pytest.raises(LifecycleError, match="reads from 2 iterators"):
            check_conditions(graph, parameters, {})


def test_what_a_collective_is_made_of_is_no_input_and_no_control_flow_of_the_users(tf: Any) -> None:
    tf.disable_control_flow_v2()
    for _ in range(2):
        hccl.allreduce(tf.ones([2]), "sum")
    check_conditions(tf.get_default_graph(), {"dynamic_dims": "1;2"}, {})
    with pytest.warns(AscendConfigWarning, match="needs control flow v2"):
        check_conditions(tf.get_default_graph(), HOST, {})


class TestAcceleration:
    @pytest.mark.parametrize(
        ("mode", "needed"),
        [("fast|step|0.5", ["STEP_NOW", "TOTAL_STEP"]), ("fast|loss", ["LOSS_NOW", "TARGET_LOSS"])],
    )
    def test_without_its_hook_it_warns_of_what_is_missing(
        self, tf: Any, mode: str, needed: Any
    ) -> None:
        parameters = {"experimental_accelerate_train_mode": mode}
        graph = tf.get_default_graph()
        with pytest.warns(AscendConfigWarning, match=" and ".join(needed)):
            check_conditions(graph, parameters, {})
        with pytest.warns(AscendConfigWarning, match=f"but {needed[1]} are not"):
            check_conditions(graph, parameters, {needed[0]: "1"})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_conditions(graph, parameters, dict.fromkeys(needed, "1"))


def test_the_warning_points_at_the_users_line(tf: Any) -> None:
    config = AscendConfig(variable_placement="Host", mix_compile_mode=True)
    tf.disable_control_flow_v2()
    with pytest.warns(AscendConfigWarning, match='variable_placement="Host"') as said:
        with ascend_session(config) as sess:
            assert sess.graph is tf.get_default_graph()
    assert {warning.filename for warning in said} == {__file__}


def test_a_session_warns_once_of_resources_that_the_graph_cache_does_not_take(
    tf: Any, tmp_path: Any
) -> None:
    folder = ExperimentalConfig(graph_compiler_cache_dir=str(tmp_path))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with tf.Graph().as_default():
            variable = tf.get_variable("w", [3], use_resource=True)
            with ascend_session(AscendConfig(experimental_config=folder)) as session:
                session.run(tf.global_variables_initializer())
                session.run(variable * 2)
    texts = [str(each.message) for each in caught if "resource operators" in str(each.message)]
    assert len(texts) == 1
    assert "such as 'w' (VarHandleOp)" in texts[0]


def test_a_session_is_silent_about_the_graph_cache_without_resources(
    tf: Any, tmp_path: Any
) -> None:
    folder = ExperimentalConfig(graph_compiler_cache_dir=str(tmp_path))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with tf.Graph().as_default(), ascend_session(
            AscendConfig(experimental_config=folder)
        ) as session:
            session.run(tf.constant(1.0))
    assert not [each for each in caught if "resource operators" in str(each.message)]


def _train_and_predict(tf: Any, config: AscendConfig, trains: bool) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with tf.Graph().as_default():
            variable = tf.get_variable("w", initializer=[1.0])
            train_op = tf.no_op()
            if trains:
                loss = tf.reduce_sum(variable * variable)
                train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
            with ascend_session(config) as session:
                session.run(tf.global_variables_initializer())
                session.run(train_op)
    return [str(each.message) for each in caught if "online inference" in str(each.message)]


def test_an_option_for_inference_is_noted_once_in_a_training_and_not_without_one(tf: Any) -> None:
    config = AscendConfig(graph_max_parallel_model_num=4)
    [text] = _train_and_predict(tf, config, trains=True)
    assert text.startswith(
        "graph_max_parallel_model_num=4 is for online inference, and this graph trains."
    )
    assert _train_and_predict(tf, config, trains=False) == []


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("graph_max_parallel_model_num", 1),
        ("buffer_optimize", "off_optimize"),
        ("quant_dumpable", "0"),
        ("precision_mode", "force_fp32"),
    ],
)
def test_defaults_and_options_for_every_use_are_not_noted_in_a_training(
    tf: Any, option: str, value: Any
) -> None:
    assert _train_and_predict(tf, AscendConfig(**{option: value}), trains=True) == []
