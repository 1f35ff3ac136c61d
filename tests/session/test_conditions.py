"""What the vendor demands of graph and environment when a session opens."""

import warnings
from typing import Any, Iterator

import pytest

from ascend_session import AscendConfig, AscendConfigWarning, LifecycleError, ascend_session
from ascend_session.session.conditions import LOOPS_APPLIED, check_conditions


@pytest.fixture
def quiet() -> Iterator[None]:
    """A warning fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


HOST = {"variable_placement": "Host"}


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
        with pytest.warns(AscendConfigWarning, match="each run makes a single step"):
            check_conditions(tf.get_default_graph(), {"iterations_per_loop": 10}, {})

    def test_a_loop_count_that_a_helper_applied_is_fine(self, tf: Any, quiet: None) -> None:
        graph = tf.get_default_graph()
        graph.add_to_collection(LOOPS_APPLIED, 10)
        check_conditions(graph, {"iterations_per_loop": 10}, {})
        assert graph.get_collection(LOOPS_APPLIED) == [10]

    def test_another_count_than_the_applied_one_warns(self, tf: Any) -> None:
        graph = tf.get_default_graph()
        graph.add_to_collection(LOOPS_APPLIED, 10)
        with pytest.warns(AscendConfigWarning, match="iterations_per_loop=20"):
            check_conditions(graph, {"iterations_per_loop": 20}, {})

    def test_single_steps_need_no_helper(self, tf: Any, quiet: None) -> None:
        check_conditions(tf.get_default_graph(), {"iterations_per_loop": 1}, {})
        assert tf.get_default_graph().get_collection(LOOPS_APPLIED) == []

    def test_a_one_shot_iterator_is_refused(self, tf: Any) -> None:
        tf.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next()
        with pytest.raises(LifecycleError, match="one-shot iterator") as refused:
            check_conditions(tf.get_default_graph(), {"iterations_per_loop": 10}, {})
        assert "make_initializable_iterator" in str(refused.value.hint)


class TestDynamicProfiles:
    def test_a_second_dataset_input_is_refused(self, tf: Any) -> None:
        graph, parameters = tf.get_default_graph(), {"dynamic_dims": "1;2"}
        for _ in range(2):
            check_conditions(graph, parameters, {})
            dataset = tf.data.Dataset.range(3)
            tf.data.make_initializable_iterator(dataset).get_next()
        with pytest.raises(LifecycleError, match="reads from 2 iterators"):
            check_conditions(graph, parameters, {})


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
