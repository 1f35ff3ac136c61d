"""The backend contract, on the npu backend over the fake host."""

from pathlib import Path
from typing import Any, Iterator

import pytest

from hardware_tests.backend_contract import BackendContract
from tests.fake_host.vendor import live_host, loaded


class TestNpu(BackendContract):
    @pytest.fixture
    def backend_name(self, tf: Any, tmp_path: Path) -> Iterator[str]:
        host = live_host(tmp_path / "host", chips=2)
        with loaded(host):
            yield "npu"
        host.close()
