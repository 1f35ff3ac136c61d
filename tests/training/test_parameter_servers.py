"""Jobs with parameter servers: one story on every backend, in every place that meets them.

They are NPUEstimator's: `distribute` goes to it and nowhere else. A process that is a server opens
no system. A worker may open one, for its sessions with the servers are made by others; what
averages over ranks is refused there, for the servers have the variables.
"""

import contextlib
import json
from typing import Any

import pytest

from ascend_session import (
    AscendConfig,
    JobError,
    UnsupportedError,
    ascend_session,
    ascend_system,
    current_system,
    training,
)

CLUSTER = {"ps": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"]}


@pytest.fixture(params=["stub", "npu"])
def backend(request: Any, tf: Any) -> str:
    """Both backends, the device on the fake host."""
    if request.param == "npu":
        request.getfixturevalue("ge")
    return str(request.param)


def become(kind: str, monkeypatch: Any) -> None:
    """Makes this process a task of the cluster."""
    task = {"type": kind, "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": CLUSTER, "task": task}))


def test_a_server_opens_no_system(backend: str, monkeypatch: Any) -> None:
    become("ps", monkeypatch)
    with pytest.raises(JobError, match='this process is a "ps"') as refused:
        ascend_system(backend=backend).__enter__()
    assert "Open systems in workers only" in str(refused.value.hint)
    assert current_system() is None


def test_a_worker_opens_one_for_sessions_that_others_make(
    tf: Any, backend: str, monkeypatch: Any
) -> None:
    become("worker", monkeypatch)
    product = tf.matmul([[2.0]], [[3.0]])
    with ascend_system(backend=backend) as system:
        with tf.Session(system.target, config=system.session_config()) as sess:
            assert sess.run(product) == [[6.0]]


@pytest.mark.parametrize("opened", [False, True])
def test_what_averages_over_ranks_is_refused_in_a_worker(
    tf: Any, backend: str, opened: bool, monkeypatch: Any
) -> None:
    become("worker", monkeypatch)
    optimizer = tf.train.AdamOptimizer()
    block = ascend_system(backend=backend) if opened else contextlib.ExitStack()
    refused = pytest.raises(UnsupportedError, match="TF_CONFIG describes a job with parameter")
    with block:
        with refused:
            training.DistributedOptimizer(optimizer)
        with refused:
            training.distributed_gradients([tf.constant([1.0])])
        with refused:
            training.broadcast_global_variables(0)


def test_distribute_is_for_the_vendors_estimator(backend: str) -> None:
    strategy = object()
    config = AscendConfig(distribute=strategy, mix_compile_mode=True)
    for block in (ascend_system, ascend_session):
        with pytest.raises(UnsupportedError, match="only the vendor's NPUEstimator"):
            block(config, backend=backend)
    assert config.to_run_config_kwargs()["distribute"] is strategy
