"""What is meant for the device runs there: the executed graph has the adapter's own operator.

A graph that stays on the CPU computes the same numbers, so that a result shows nothing.
"""

from typing import Any, Dict, List

import pytest

from ascend_session import AscendConfig, AscendConfigWarning, ascend_session
from hardware_tests.graphs import CASES


def offloaded(tf: Any, sess: Any, fetch: Any, feed: Dict[Any, Any]) -> List[str]:
    """The operators of the executed graph that stand for what was given to the device."""
    options = tf.RunOptions(output_partition_graphs=True)
    metadata = tf.RunMetadata()
    sess.run(fetch, feed, options=options, run_metadata=metadata)
    assert metadata.partition_graphs, "TensorFlow did not say what it executed"
    executed = [node for graph in metadata.partition_graphs for node in graph.node]
    return [node.name for node in executed if node.op == "GeOp"]


@pytest.mark.parametrize("name", ["matmul", "convolution"])
def test_it_is_offloaded(tf: Any, name: str) -> None:
    fetch, feed = CASES[name].in_graph(tf)
    with ascend_session(backend="npu") as sess:
        assert offloaded(tf, sess, fetch, feed)


def test_nothing_is_offloaded_where_that_is_switched_off(tf: Any) -> None:
    fetch, feed = CASES["matmul"].in_graph(tf)
    with pytest.warns(AscendConfigWarning, match="host CPU"):
        with ascend_session(AscendConfig(use_off_line=False), backend="npu") as sess:
            assert offloaded(tf, sess, fetch, feed) == []
