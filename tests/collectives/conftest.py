"""Jobs of real processes on the stub."""

from typing import Any, Iterator

import pytest

from tests.rank_processes import Ranks


@pytest.fixture(scope="session")
def ranks(tmp_path_factory: Any) -> Iterator[Ranks]:
    """Runs the programs of tests/ranks_programs."""
    host = Ranks(tmp_path_factory.mktemp("ranks"))
    yield host
    host.close()
