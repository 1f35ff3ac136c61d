"""The backend contract, on the device."""

from typing import Any

import pytest

from ascend_session import AscendConfig, ascend_session
from hardware_tests.backend_contract import BackendContract, entry


class TestNpu(BackendContract):
    @pytest.fixture
    def backend_name(self) -> str:
        return "npu"

    # A device lacks nothing.
    test_a_missing_capability_says_why = None  # type: ignore[assignment]

    # A device computes queues itself, where an enqueue that blocks holds up what would dequeue (the
    # vendor's whitelist of operators has both).
    test_queue_runners_under_a_coordinator = None  # type: ignore[assignment]

    # The contract's own has a precision mode, which would stay in this process.
    def test_the_proto_has_exactly_the_entry(self, tf: Any, backend_name: str) -> None:
        config = AscendConfig(graph_run_mode=1, hcom_parallel=False)
        with ascend_session(config, backend=backend_name) as sess:
            assert entry(sess) == {"graph_run_mode": 1, "hcom_parallel": False}
