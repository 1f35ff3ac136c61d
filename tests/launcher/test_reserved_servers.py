"""The servers of TensorFlow and of gRPC take the ports that the launcher keeps for them."""

import os
import socket
from pathlib import Path
from typing import Set

import pytest

from ascend_session.launcher.events import Event, Over
from ascend_session.launcher.plan import Plan
from tests.launcher.supervised import job

# Rank 0 has each rank compute something. The others live until it has ended its part.
_SERVING = """
from concurrent import futures
import grpc
import tensorflow
tf = tensorflow.compat.v1
addresses = os.environ["ADDRESSES"].split(",")
coordinator = os.environ["ASCEND_SESSION_COORDINATOR"]
server = tf.train.Server(tf.train.ClusterSpec({"rank": addresses}), "rank", rank)
print(server.target)
if rank:
    open(os.environ["GATE"] + str(rank)).read()
else:
    meeting = grpc.server(futures.ThreadPoolExecutor(1))
    print(meeting.add_insecure_port(coordinator))
    meeting.start()
    with tf.Graph().as_default(), tf.Session(server.target) as sess:
        for task in range(len(addresses)):
            with tf.device("/job:rank/task:%d/cpu:0" % task):
                print(sess.run(tf.constant(40) + task))
    meeting.stop(None)
    for other in range(1, len(addresses)):
        open(os.environ["GATE"] + str(other), "w").close()
sys.stdout.flush()
os._exit(0)  # a server cannot be stopped
"""


def _knowing_all(planned: Plan) -> Plan:
    """The ranks are told all ports, and do not have to tell each other."""
    listed = ",".join(f"127.0.0.1:{port}" for port in planned.reserved.ports)
    ranks = [
        rank._replace(environment={**rank.environment, "ADDRESSES": listed})
        for rank in planned.ranks
    ]
    return planned._replace(ranks=tuple(ranks))


def _kept_here() -> Set[int]:
    """The ports that sockets of this process are bound to."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        link = f"/proc/self/fd/{name}"
        if os.path.islink(link) and os.readlink(link).startswith("socket:"):
            with socket.socket(fileno=os.dup(int(name))) as one:
                address = one.getsockname()
            found.update({address[1]} if isinstance(address, tuple) else {})
    return found


@pytest.mark.smoke
def test_servers_take_the_ports_that_are_kept_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in (1, 2):
        os.mkfifo(str(tmp_path / f"gate{rank}"))
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    kept: Set[int] = set()

    def look(event: Event) -> None:
        if isinstance(event, Over):
            kept.update(_kept_here())

    run = job(tmp_path, _SERVING, ranks=3, on_event=look, change=_knowing_all)
    logs = [run.said(rank, "stderr")[-2000:] for rank in range(3)]
    assert run.statuses == [0, 0, 0], logs
    coordinator = str(run.plan.reserved.coordinator).rpartition(":")[2]
    ports = [coordinator, *map(str, run.plan.reserved.ports)]
    targets = [run.said(rank).split()[0] for rank in range(3)]
    assert [target.rpartition(":")[2] for target in targets] == ports[1:]
    assert run.said(0).split()[1:] == [ports[0], "40", "41", "42"]
    # By this process, when no rank lives any more.
    assert set(map(int, ports)) <= kept
