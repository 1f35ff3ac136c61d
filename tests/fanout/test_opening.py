"""What fan_out opens, in which order, and with whom it shares the system."""

import threading
from typing import Any, Callable, Iterator, List

import pytest

from ascend_session import (
    AscendConfig,
    ConfigError,
    LifecycleError,
    ascend_session,
    ascend_system,
    current_system,
)
from ascend_session.fanout import FanOut, fan_out
from hardware_tests.backend_contract import entry, steps
from tests.fanout.conftest import device_of


def enter_only(block: Any) -> None:
    """Enters a block that must refuse."""
    with block:
        pass


def test_it_opens_device_after_device_and_closes_the_latest_first(
    recording: Any, build: Any
) -> None:
    def built(device_id: int) -> Any:
        recording.said.append(f"build {device_id}")
        return build(device_id)

    with fan_out(None, [2, 0, 1], built) as devices:
        assert current_system() is devices.system
        opened = [f"{what} {n}" for n in (2, 0, 1) for what in ("build", "open", "run Const")]
        assert recording.said == opened
        recording.said.clear()
    assert recording.said == ["close 1", "close 0", "close 2"]
    events = ["initialize"] + ["bring up", "session open"] * 3
    assert steps(devices.system) == events + ["session close"] * 3 + ["shutdown"]
    details = [event.detail for event in devices.system.events if event.name == "session open"]
    assert details == ["device 2", "device 0", "device 1"]


def test_each_device_has_its_graph_its_session_and_what_was_built(tf: Any, build: Any) -> None:
    outside = tf.get_default_graph()
    with fan_out(AscendConfig(hcom_parallel=True), [1, 3], build) as devices:
        assert isinstance(devices, FanOut)
        assert (len(devices), list(devices), devices.device_ids) == (2, [1, 3], (1, 3))
        assert list(devices.graphs) == list(devices.sessions) == list(devices.built) == [1, 3]
        assert len({outside, *devices.graphs.values()}) == 3
        for number, session in devices.sessions.items():
            assert session.graph is devices.graphs[number]
            assert devices.built[number].graph is devices.graphs[number]
            assert device_of(session._config) == number
            assert entry(session) == {"hcom_parallel": True, "session_device_id": number}
            assert session.run(devices.built[number]) == 10 * number
    assert outside.get_operations() == []
    assert all(session._closed for session in devices.sessions.values())


def test_graphs_stay_as_they_were_built(tf: Any) -> None:
    def build(device_id: int) -> List[str]:
        tf.constant(1) + tf.constant(2)
        graph = tf.get_default_graph()
        graph.finalize()
        return [op.name for op in graph.get_operations()]

    with fan_out(None, [0, 1], build) as devices:
        for number, graph in devices.graphs.items():
            assert [op.name for op in graph.get_operations()] == devices.built[number]
            assert len(devices.built[number]) == 3


def test_a_graph_without_constants_is_not_run_at_the_start(tf: Any, recording: Any) -> None:
    with fan_out(None, [0], lambda _: tf.placeholder(tf.float32)) as devices:
        assert recording.said == ["open 0"]
        assert devices.map(lambda session, fed: session.run(fed, {fed: 3.0})) == [3.0]


def test_a_constant_that_waits_for_another_operator_is_not_the_one_to_start_with(
    tf: Any, recording: Any
) -> None:
    def build(device_id: int) -> None:
        with tf.control_dependencies([tf.placeholder(tf.float32)]):
            tf.constant(1)

    with fan_out(None, [0], build):
        assert recording.said == ["open 0"]


def test_nothing_is_the_default_inside_the_block(tf: Any, build: Any) -> None:
    graph = tf.get_default_graph()
    with fan_out(None, [0, 1], build):
        assert tf.get_default_session() is None
        assert tf.get_default_graph() is graph


def test_the_defaults_of_an_outer_session_stay(tf: Any, build: Any) -> None:
    with ascend_session() as outer:
        with fan_out(None, [0, 1], build) as devices:
            assert tf.get_default_session() is outer
            devices.map(lambda session, built: session.run(built))
        assert tf.get_default_session() is outer
        assert outer.run(tf.constant(7)) == 7


def test_an_open_system_is_shared_with_its_options(tf: Any, build: Any) -> None:
    with ascend_system(AscendConfig(deterministic=1)) as system:
        with fan_out(None, [0, 1], build) as devices:
            assert devices.system is system
            for number, session in devices.sessions.items():
                assert entry(session) == {"deterministic": 1, "session_device_id": number}
        assert system.is_open
        assert steps(system)[-2:] == ["session close", "session close"]


def test_a_session_opened_inside_shares_the_system(tf: Any, build: Any) -> None:
    with fan_out(None, [0, 1], build) as devices:
        with ascend_session() as session:
            assert current_system() is devices.system
            assert session.run(tf.constant(7)) == 7
        assert devices.map(lambda session, built: session.run(built)) == [0, 10]


def test_two_fan_outs_share_one_system(tf: Any, build: Any) -> None:
    with fan_out(None, [0, 1], build) as outer, fan_out(None, [2], build) as inner:
        assert inner.system is outer.system
        assert outer.map(lambda session, built: session.run(built)) == [0, 10]
        assert inner.map(lambda session, built: session.run(built)) == [20]
    assert steps(outer.system)[-4:] == ["session close"] * 3 + ["shutdown"]


def test_options_that_differ_from_the_open_system_are_refused(tf: Any) -> None:
    asked: List[int] = []
    with ascend_system(AscendConfig(deterministic=1)) as system:
        with pytest.raises(ConfigError, match="deterministic=0 comes too late"):
            enter_only(fan_out(AscendConfig(deterministic=0), [0], asked.append))
        assert system.is_open
    assert asked == []


def test_another_backend_than_the_open_one_is_refused(tf: Any, build: Any) -> None:
    with ascend_system(backend="stub"):
        with pytest.raises(LifecycleError, match="npu backend was chosen"):
            enter_only(fan_out(None, [0], build, backend="npu"))


def test_a_block_is_entered_once(tf: Any, build: Any) -> None:
    block = fan_out(None, [0], build)
    with pytest.raises(LifecycleError, match="was not entered"):
        block.__exit__(None, None, None)
    with block as devices:
        with pytest.raises(LifecycleError, match=r"This fan_out\(...\) was entered already"):
            block.__enter__()
        assert devices.system.is_open
    block.__exit__(None, None, None)
    with pytest.raises(LifecycleError, match="entered already"):
        block.__enter__()
    assert current_system() is None


def test_a_generator_that_is_closed_leaves_its_block(tf: Any, build: Callable[[int], Any]) -> None:
    def opened() -> Iterator[Any]:
        with fan_out(None, [0], build) as devices:
            yield devices

    generator: Any = opened()
    devices = next(generator)
    generator.close()
    assert steps(devices.system)[-2:] == ["session close", "shutdown"]


def test_threads_have_fan_outs_of_their_own_on_one_system(tf: Any, build: Any) -> None:
    answers: List[Any] = []

    def work(first: int) -> None:
        with fan_out(None, [first, first + 1], build) as devices:
            answers.append(devices.map(lambda session, built: int(session.run(built))))

    with ascend_system() as system:
        threads = [threading.Thread(target=work, args=(first,)) for first in (0, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert steps(system).count("session close") == 4
    assert sorted(answers) == [[0, 10], [20, 30]]
