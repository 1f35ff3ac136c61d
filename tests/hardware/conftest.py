"""A fake host for each test, and the samples of what real programs print."""

from pathlib import Path
from typing import Iterator

import pytest

from tests.fake_host import FakeHost


@pytest.fixture
def host(tmp_path: Path) -> Iterator[FakeHost]:
    """An empty host."""
    made = FakeHost(tmp_path / "host")
    yield made
    made.close()
