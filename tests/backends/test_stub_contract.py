"""The backend contract, on the stub."""

import pytest

from tests.backend_contract import BackendContract


@pytest.mark.smoke
class TestStub(BackendContract):
    @pytest.fixture
    def backend_name(self) -> str:
        return "stub"
