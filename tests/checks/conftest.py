"""A healthy host for each test; nobody else's ports count."""

from pathlib import Path
from typing import Any, Iterator

import pytest

from ascend_session.checks import network
from tests.checks.healthy import Healthy, free_base_port


@pytest.fixture
def healthy(tmp_path: Path, monkeypatch: Any) -> Iterator[Healthy]:
    """The host."""
    made = Healthy(tmp_path)
    # The real one may be taken by another run of these tests.
    monkeypatch.setattr(network, "DEVICE_PORT", free_base_port())
    yield made
    made.host.close()
