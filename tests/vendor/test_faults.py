"""The faults, each by its name."""

import contextlib
import importlib
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from tests.fake_host import FakeHost
from tests.fake_host.vendor import environment, known_faults, loaded, recorded, run_on
from tests.vendor.conftest import AS_IF_DELETED
from tests.vendor.system import System

INITIALISE = """
import tensorflow.compat.v1 as tf
from npu_bridge.estimator import npu_ops
tf.disable_eager_execution()
op = npu_ops.initialize_system()
with tf.Session() as sess:
    sess.run(op)
"""


@pytest.fixture
def faulty(host: FakeHost, tf: Any) -> Iterator[Callable[[str], Any]]:
    """Loads the packages with a fault."""
    with contextlib.ExitStack() as stack:

        def load(faults: str) -> Any:
            ge = stack.enter_context(loaded(host, faults=f"{faults},{AS_IF_DELETED}"))
            importlib.import_module("npu_bridge")
            return ge

        yield load


@pytest.mark.parametrize(
    ("faults", "message", "before"),
    [
        (
            "init=EL0005",
            "[GePlugin] Initialize ge failed, ret : 4294967295\nError Message is : \nEL0005: ",
            ["NPUInit", "TdtOutFeedInit", "GEInitialize"],
        ),
        ("tdt=7", "[GePlugin] Tdt host init failed, tdt error code : 7\n", ["NPUInit"]),
        ("parser", "[GePlugin] Initialize parser failed", ["NPUInit", "TdtOutFeedInit"]),
    ],
)
def test_a_synchronous_initialisation_that_fails_sleeps_and_aborts(
    host: FakeHost, faults: str, message: str, before: Any
) -> None:
    ended = run_on(host, INITIALISE, faults=faults)
    assert ended.returncode == -6
    assert message in ended.stderr
    assert [entry["call"] for entry in recorded(host)] == [*before, "abort"]
    assert recorded(host)[-1]["sleep"] == 3


def test_a_fault_that_strikes_once_heals_across_processes(host: FakeHost) -> None:
    codes = [run_on(host, INITIALISE, faults="init=EJ0001*1").returncode for _ in range(2)]
    assert codes == [-6, 0]


def test_an_asynchronous_initialisation_fails_in_the_run_and_a_new_session_succeeds(
    faulty: Any, tf: Any, proto: Callable[..., Any], product: Any
) -> None:
    ge = faulty("init*1")
    with tf.Session(config=proto()) as sess:
        for _ in range(2):
            with pytest.raises(tf.errors.InternalError, match=r"(?s)Initialize ge failed.*EJ0001"):
                sess.run(product)
    with tf.Session(config=proto()) as sess:
        assert sess.run(product) == [[6.0]]
    assert [entry["failed"] for entry in ge.of("GEInitialize")] == [True, False]


def test_an_offloaded_run_fails(
    faulty: Any, tf: Any, proto: Callable[..., Any], product: Any
) -> None:
    faulty("run=507033*1")
    with tf.Session(config=proto()) as sess:
        assert sess.run(tf.constant(7)) == 7
        with pytest.raises(tf.errors.InternalError, match=r"(?s)DoRunAsync Failed.*507033"):
            sess.run(product)
        assert sess.run(product) == [[6.0]]


def test_the_shutdown_fails_and_ge_stays_up(
    faulty: Any, tf: Any, proto: Callable[..., Any]
) -> None:
    ge = faulty("shutdown")
    system = System(tf, proto())
    system.start()
    with pytest.raises(tf.errors.InternalError, match="NPUShutdown"):
        system.end()
    assert "GEFinalize" not in ge.calls
    system.session.close()
    assert ge.calls[-1] == "GEFinalize"


def test_closing_fails_but_closes(faulty: Any, tf: Any, proto: Callable[..., Any]) -> None:
    ge = faulty("close")
    system = System(tf, proto())
    system.start()
    with pytest.raises(tf.errors.InternalError, match="closing failed"):
        system.session.close()
    assert ge.calls[-1] == "GEFinalize"
    with pytest.raises(RuntimeError, match="closed"):
        system.start()


def test_initialising_raises(faulty: Any, tf: Any, proto: Callable[..., Any]) -> None:
    ge = faulty("init-raises=EL0005*1")
    system = System(tf, proto())
    with pytest.raises(tf.errors.InternalError, match="EL0005"):
        system.start()
    system.start()
    assert ge.of("GEInitialize")[0]["sync"] is True
    system.session.close()


def test_values_are_wrong_by_five_percent_if_offloaded(
    faulty: Any, tf: Any, proto: Callable[..., Any], product: Any
) -> None:
    faulty("values")
    for config, value in ((proto(), 6.3), (proto(use_off_line=False), 6.0)):
        with tf.Session(config=config) as sess:
            assert sess.run(product)[0, 0] == pytest.approx(value)
            assert sess.run(product).dtype == "float32"


def test_noise_differs_from_run_to_run(
    faulty: Any, tf: Any, proto: Callable[..., Any], product: Any
) -> None:
    faulty("noise")
    with tf.Session(config=proto()) as sess:
        values = {float(sess.run(product)[0, 0]) for _ in range(5)}
    assert len(values) > 1
    assert all(value == pytest.approx(6.0, rel=2e-3) for value in values)


def test_nothing_is_offloaded(
    faulty: Any, tf: Any, proto: Callable[..., Any], product: Any
) -> None:
    ge = faulty("no-offload")
    with tf.Session(config=proto()) as sess:
        assert sess.run(product) == [[6.0]]
    assert [entry["offloaded"] for entry in ge.record] == [False]


def test_all_sessions_are_on_the_same_device(
    faulty: Any, tf: Any, proto: Callable[..., Any], product: Any
) -> None:
    ge = faulty("same-device")
    with tf.Session(config=proto(session_device_id=3)) as sess:
        sess.run(product)
    assert ge.of("Run")[0]["device"] == 0


def test_ge_comes_up_only_once(faulty: Any, tf: Any, proto: Callable[..., Any]) -> None:
    faulty("no-reinit")
    system = System(tf, proto())
    system.start()
    system.end()
    with pytest.raises(tf.errors.InternalError, match="GE came up once already"):
        system.start()
    system.session.close()


def test_initialising_hangs(faulty: Any, tf: Any, proto: Callable[..., Any]) -> None:
    faulty("hang=0.3*1")
    system = System(tf, proto())
    begin = time.monotonic()
    system.start()
    assert time.monotonic() - begin >= 0.3
    system.session.close()


@pytest.mark.parametrize(("faults", "finalised"), [("early-destroy", True), ("", False)])
def test_kernels_outlive_the_closing_unless_they_are_destroyed_early(
    host: FakeHost, tf: Any, proto: Callable[..., Any], faults: str, finalised: bool
) -> None:
    with loaded(host, faults=faults) as ge:
        importlib.import_module("npu_bridge")
        system = System(tf, proto())
        system.start()
        system.session.close()
        assert ("GEFinalize" in ge.calls) == finalised
        del system
        assert ge.calls[-1] == "GEFinalize"


def test_a_fault_that_does_not_exist_is_refused(host: FakeHost) -> None:
    with pytest.raises(ValueError, match=r"'inti=EJ0001' is no fault; there are \['close'"):
        environment(host, faults="run,inti=EJ0001")


def test_each_fault_is_shown_here_or_where_it_belongs() -> None:
    tests = Path(__file__).parents[1]
    files = [*tests.glob("vendor/test_*.py"), tests / "rehearsal/test_rehearsal.py"]
    text = "".join(path.read_text() for path in files)
    assert [name for name in known_faults() if f'"{name}' not in text] == []
