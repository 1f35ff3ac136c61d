"""A host with the vendor's packages, and an NPU script's usual objects."""

import importlib
import sys
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from ascend_session.config.proto import add_to_entry
from tests.fake_host import FakeHost
from tests.fake_host.vendor import Loaded, live_host, loaded
from tests.vendor.system import System


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Skips where these packages stand for nothing, and only serve tests of what uses them."""
    if sys.version_info >= (3, 8):
        pytest.skip("the vendor's adapter is built for TensorFlow 1.15, which Python 3.7 has")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[FakeHost]:
    """Eight devices, operators, and the real ``/proc``."""
    host = live_host(tmp_path)
    yield host
    host.close()


# guides/facts/process.md#life-of-ge-in-a-process: what "closing" does there was seen with objects
# that went at once; these tests keep theirs, and so need kernels that go with the closing.
AS_IF_DELETED = "early-destroy"


@pytest.fixture
def ge(tf: Any, host: FakeHost) -> Iterator[Loaded]:
    """The vendor's packages, imported; closing a session is also the end of its kernels."""
    with loaded(host, faults=AS_IF_DELETED) as ge:
        importlib.import_module("npu_bridge")
        yield ge


@pytest.fixture
def proto(tf: Any) -> Callable[..., Any]:
    """Makes a ``tf.ConfigProto`` with these options in its entry."""

    def made(**options: Any) -> Any:
        config = tf.ConfigProto()
        add_to_entry(config, options)
        return config

    return made


@pytest.fixture
def product(tf: Any) -> Any:
    """A tensor that the device computes: 6."""
    return tf.matmul(tf.constant([[2.0]]), tf.constant([[3.0]]))


@pytest.fixture
def system(ge: Loaded, tf: Any, proto: Callable[..., Any]) -> Iterator[System]:
    """A session of its own for the two operators of the system."""
    system = System(tf, proto())
    yield system
    system.session.close()
