"""The examples of sessions that others open where there is a device: on the fake host."""

import importlib
import sys
from pathlib import Path
from typing import Any, Iterator

import pytest

from ascend_session import training
from ascend_session.examples._plane import STEPS, difference
from tests.fake_host import FakeHost
from tests.fake_host.vendor import Loaded, live_host, loaded

ESTIMATOR = Path(__file__).parent / "vendor_estimator"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[FakeHost]:
    """Eight devices."""
    if sys.version_info >= (3, 8):
        pytest.skip("the vendor's adapter is built for TensorFlow 1.15, which Python 3.7 has")
    host = live_host(tmp_path)
    yield host
    host.close()


@pytest.fixture
def ge(tf: Any, host: FakeHost) -> Iterator[Loaded]:
    """The vendor's packages, and the estimator that the fake host's have not."""
    with loaded(host) as ge:
        package = importlib.import_module("npu_bridge.estimator.npu")
        package.__path__.append(str(ESTIMATOR))
        yield ge
        tf.keras.backend.set_session(None)


@pytest.mark.parametrize(
    "name", ["monitored", "supervisor", "keras_fit", "estimator", "frozen_graph"]
)
def test_the_device_computes_the_same_and_is_shut_down(
    ge: Loaded, tmp_path: Path, name: str
) -> None:
    example = importlib.import_module(f"ascend_session.examples.{name}")
    ours = example.with_ascend_session(tmp_path / "with")
    offloaded = sum(run["offloaded"] for run in ge.of("Run"))
    assert offloaded >= (1 if name == "frozen_graph" else STEPS)
    (started,) = ge.of("GEInitialize")
    assert started["options"]["precision_mode"] == "allow_mix_precision"
    (session,) = ge.of("GESession")
    assert session["options"]["graph_run_mode"] == (0 if name == "frozen_graph" else 1)
    assert ge.calls[-1] == "NPUShutdown"
    usual = example.without(tmp_path / "without")
    assert difference(usual, ours) < 1e-5


def test_an_estimator_on_the_device_is_the_vendors(ge: Loaded, tmp_path: Path) -> None:
    estimator = importlib.import_module("ascend_session.examples.estimator")
    with estimator.ascend_system(estimator.CONFIG) as system:
        made = training.estimator(lambda features: None, system, str(tmp_path / "models"))
    assert type(made).__module__ == "npu_bridge.estimator.npu.npu_estimator"
    assert made.model_dir == str(tmp_path / "models")
    (entry,) = made.config.session_config.graph_options.rewrite_options.custom_optimizers
    assert entry.parameter_map["precision_mode"].s == b"allow_mix_precision"
    assert "npu_bridge.npu_init" not in sys.modules  # it would change all sessions
