"""A graph that is built for one backend or the other, before a system is open and after."""

from pathlib import Path
from typing import Any, Iterator

import pytest

from ascend_session.backends.stub import StubBackend
from ascend_session.session import graphs
from tests.fake_host.vendor import Loaded, loaded_on
from tests.hccl.recorder import Recorder


@pytest.fixture
def recorder(tf: Any, monkeypatch: Any) -> Recorder:
    """Takes the place of the stub's operators."""
    recorder = Recorder()
    monkeypatch.setattr(StubBackend, "operators", recorder)
    monkeypatch.setitem(graphs._created, "stub", StubBackend({}))
    return recorder


@pytest.fixture
def ge(tf: Any, tmp_path: Path) -> Iterator[Loaded]:
    """The vendor's packages on a host with two devices, which `auto` chooses."""
    with loaded_on(tmp_path, chips=2) as ge:
        yield ge


@pytest.fixture(params=["stub", "npu"])
def either(request: Any, tf: Any) -> str:
    """The graph is built for this backend, as `auto` chooses it."""
    if request.param == "npu":
        request.getfixturevalue("ge")
    return str(request.param)
