"""What is meant for the device runs there: the executed graph has the adapter's own operator.

A graph that stays on the CPU computes the same numbers, so that a result shows nothing.
"""

from typing import Any

import pytest

from ascend_session import AscendConfig, AscendConfigWarning, ascend_session
from hardware_tests.graphs import CASES, list_offloaded


@pytest.mark.parametrize("name", ["matmul", "convolution"])
def test_it_is_offloaded(tf: Any, name: str) -> None:
    fetch, feed = CASES[name].in_graph(tf)
    with ascend_session(backend="npu") as sess:
        assert list_offloaded(tf, sess, fetch, feed)


def test_nothing_is_offloaded_where_that_is_switched_off(tf: Any) -> None:
    fetch, feed = CASES["matmul"].in_graph(tf)
    with pytest.warns(AscendConfigWarning, match="host CPU"):
        with ascend_session(AscendConfig(use_off_line=False), backend="npu") as sess:
            assert list_offloaded(tf, sess, fetch, feed) == []
