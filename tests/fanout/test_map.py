"""Work on all devices at the same time, and what becomes of it when one fails."""

import itertools
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, List, Tuple

import pytest

from ascend_session import AscendError, LifecycleError, ascend_system
from ascend_session.errors import FanOutError
from ascend_session.failures.scanner import classify, root_cause
from ascend_session.fanout import fan_out
from hardware_tests.backend_contract import steps
from tests.session.backends import blocking_op


def run(session: Any, built: Any) -> int:
    return int(session.run(built))


@pytest.fixture
def devices(tf: Any, build: Any) -> Any:
    """Three open devices, in no order."""
    with fan_out(None, [2, 0, 1], build) as devices:
        yield devices


def test_results_come_in_the_order_of_the_devices(devices: Any) -> None:
    assert devices.map(run) == [20, 0, 10]
    assert devices.map(lambda session, built: built.graph) == list(devices.graphs.values())


def test_all_devices_work_at_the_same_time(devices: Any) -> None:
    together = threading.Barrier(3)

    def meet(session: Any, built: Any) -> Tuple[str, int]:
        together.wait(60)
        answer = run(session, built)
        together.wait(60)
        return threading.current_thread().name, answer

    names, answers = zip(*devices.map(meet))
    assert answers == (20, 0, 10)
    assert len(set(names)) == 3
    assert all(name.startswith("ascend-session-fan-out") for name in names)


def test_the_device_is_the_default_in_its_thread_and_only_there(tf: Any, devices: Any) -> None:
    def defaults(session: Any, built: Any) -> List[bool]:
        own = [tf.get_default_session() is session, tf.get_default_graph() is built.graph]
        return [*own, bool(built.eval() == session.run(built))]

    graph = tf.get_default_graph()
    assert devices.map(defaults) == [[True] * 3] * 3
    assert tf.get_default_session() is None
    assert tf.get_default_graph() is graph


def test_no_thread_is_left_after_a_map(devices: Any) -> None:
    before = threading.active_count()
    devices.map(run)
    assert threading.active_count() == before


def test_variables_keep_their_values_from_map_to_map(tf: Any) -> None:
    def build(device_id: int) -> Any:
        counter = tf.get_variable("counter", initializer=float(device_id), use_resource=True)
        return tf.global_variables_initializer(), counter.assign_add(1.0)

    with fan_out(None, [0, 5], build) as devices:
        devices.map(lambda session, built: session.run(built[0]))
        devices.map(lambda session, built: session.run(built[1]))
        counts = devices.map(lambda session, built: float(session.run(built[1])))
    assert counts == [2.0, 7.0]


def test_a_failure_names_its_device_and_the_others_are_waited_for(devices: Any) -> None:
    failed = threading.Event()

    def work(session: Any, built: Any) -> int:
        if session is devices.sessions[0]:
            failed.set()
            raise ZeroDivisionError("too small")
        assert failed.wait(60)
        return run(session, built)

    with pytest.raises(FanOutError) as raised:
        devices.map(work)
    error = raised.value
    assert error.message == "Device 0 failed in the phase map: ZeroDivisionError: too small"
    assert (error.device_id, error.phase, error.hint) == (0, "map", None)
    assert error.failures == {0: error.__cause__}
    assert error.results == {2: 20, 1: 10}
    assert devices.map(run) == [20, 0, 10]


def test_several_failures_are_listed_in_the_order_of_the_devices(devices: Any) -> None:
    def work(session: Any, built: Any) -> int:
        answer = run(session, built)
        if answer == 10:
            raise AscendError("Nothing works.", hint="Mend it.")
        return 1 // answer + {}[answer] if answer else 1 // answer

    with pytest.raises(RuntimeError) as raised:
        devices.map(work)
    error: Any = raised.value
    assert error.message.splitlines() == [
        "3 devices failed:",
        "  1. Device 2 failed in the phase map: KeyError: 20",
        "  2. Device 0 failed in the phase map: ZeroDivisionError: integer division or modulo by "
        "zero",
        "  3. Device 1 failed in the phase map: AscendError: Nothing works.",
    ]
    assert (list(error.failures), error.device_id, error.results) == ([2, 0, 1], 2, {})
    assert isinstance(error.__cause__, KeyError)
    assert error.hint == "Mend it."


def test_a_failure_of_tensorflow_is_the_cause(tf: Any) -> None:
    def build(device_id: int) -> Any:
        return tf.Assert(device_id != 1, ["the device is on fire"])

    with pytest.raises(FanOutError, match="the device is on fire") as raised:
        with fan_out(None, [0, 1], build) as devices:
            devices.map(lambda session, built: session.run(built))
    assert isinstance(raised.value.__cause__, tf.errors.InvalidArgumentError)
    assert raised.value.results == {0: None}
    assert steps(devices.system)[-3:] == ["session close", "session close", "shutdown"]


def test_known_failures_get_their_advice(devices: Any) -> None:
    def work(session: Any, built: Any) -> None:
        raise RuntimeError("EI0002: The wait execution of the Notify register times out.")

    with pytest.raises(FanOutError) as raised:
        devices.map(work)
    assert "EI0002" in raised.value.message
    assert raised.value.hint == root_cause(classify("EI0002: x")).advice


def test_sys_exit_on_a_device_ends_the_program(devices: Any) -> None:
    def work(session: Any, built: Any) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit) as raised:
        devices.map(work)
    assert raised.value.code == 3


def test_a_map_inside_a_map_is_refused(devices: Any) -> None:
    with pytest.raises(FanOutError, match="A map is running on these devices") as raised:
        devices.map(lambda *_: devices.map(run))
    assert [type(error) for error in raised.value.failures.values()] == [LifecycleError] * 3
    assert devices.map(run) == [20, 0, 10]


def test_a_second_map_from_another_thread_is_refused(devices: Any) -> None:
    begun, go_on = threading.Barrier(4), threading.Event()

    def work(session: Any, built: Any) -> int:
        begun.wait(60)
        assert go_on.wait(60)
        return run(session, built)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(devices.map, work)
        begun.wait(60)
        with pytest.raises(LifecycleError, match="A map is running") as refused:
            devices.map(run)
        go_on.set()
        assert first.result(60) == [20, 0, 10]
    assert "wait for the first map" in str(refused.value.hint)


def test_maps_of_two_fan_outs_may_run_at_the_same_time(devices: Any, build: Any) -> None:
    together = threading.Barrier(4)

    def meet(session: Any, built: Any) -> int:
        together.wait(60)
        return run(session, built)

    with fan_out(None, [3], build) as other, ThreadPoolExecutor(1) as pool:
        first = pool.submit(devices.map, meet)
        assert other.map(meet) == [30]
        assert first.result(60) == [20, 0, 10]


def test_a_map_after_the_block_is_refused(tf: Any, build: Any) -> None:
    with ascend_system():
        with fan_out(None, [0], build) as devices:
            pass
        with pytest.raises(LifecycleError, match=r"This fan_out\(...\) was left") as refused:
            devices.map(run)
    assert "inside the block" in str(refused.value.hint)


def test_an_outer_block_that_is_left_first_closes_the_sessions(tf: Any, build: Any) -> None:
    outer = ascend_system()
    system = outer.__enter__()
    inner = fan_out(None, [0], build)
    devices = inner.__enter__()
    with pytest.raises(LifecycleError, match=r"1 session\(s\) opened inside it"):
        outer.__exit__(None, None, None)
    with pytest.raises(FanOutError, match="closed Session"):
        devices.map(run)
    inner.__exit__(None, None, None)
    assert steps(system)[-2:] == ["session close", "shutdown"]


def test_what_is_no_function_is_refused_before_any_device_works(devices: Any) -> None:
    with pytest.raises(TypeError, match="fn must be a function"):
        devices.map(None)


def test_leaving_the_block_frees_a_map_in_another_thread(tf: Any) -> None:
    begun = threading.Semaphore(0)
    with ThreadPoolExecutor(1) as pool:
        block = fan_out(None, [0, 1], lambda _: blocking_op(begun.release))
        with block as devices:
            mapping = pool.submit(devices.map, lambda session, built: session.run(built))
            assert begun.acquire(timeout=60)
            assert begun.acquire(timeout=60)
        with pytest.raises(FanOutError) as raised:
            mapping.result(60)
    assert list(raised.value.failures) == [0, 1]


def test_ctrl_c_ends_a_map_that_waits_for_tensorflow(tf: Any) -> None:
    numbers = itertools.count(1)

    def press_when_both_have_begun() -> None:
        if next(numbers) == 2:  # once, although both may come here at the same time
            os.kill(os.getpid(), signal.SIGINT)

    with fan_out(None, [0, 1], lambda _: blocking_op(press_when_both_have_begun)) as devices:
        with pytest.raises(KeyboardInterrupt):
            devices.map(lambda session, built: session.run(built))
        assert not [thread for thread in threading.enumerate() if "fan-out" in thread.name]
        assert all(session._closed for session in devices.sessions.values())
        with pytest.raises(LifecycleError, match="was stopped by KeyboardInterrupt"):
            devices.map(lambda session, built: None)
    assert steps(devices.system)[-3:] == ["session close", "session close", "shutdown"]
