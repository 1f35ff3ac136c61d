"""Two pods whose controller has mounted the job's rank table: their ranks meet, on the stub."""

import json
from pathlib import Path
from typing import Any, Dict, List

import pytest

from ascend_session.cluster.kubernetes import MOUNTED
from tests.launcher.nodes import MEETING, Node, said

_HOSTS = ("127.0.0.1", "127.0.0.2")  # all of 127 is this machine


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What both pods have for a host."""
    monkeypatch.setenv("ASCEND_SESSION_HOST_ROOT", str(tmp_path))
    return tmp_path


def mount(root: Path, table: Any) -> None:
    place = Path(root, MOUNTED.lstrip("/"))
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps({"status": "completed", **table}))


def listed(server: int, ranks: List[int]) -> List[Dict[str, str]]:
    """Devices of a server."""
    return [
        {
            "device_id": str(place),
            "device_ip": f"192.168.{server}.{place + 1}",
            "rank_id": str(rank),
        }
        for place, rank in enumerate(ranks)
    ]


def met(folder: Path, pods: List[Dict[str, str]], **asked: Any) -> List[Any]:
    """Starts a launcher in each pod, the first one last; what their ranks say, by pod."""
    nodes = []
    for number in reversed(range(len(pods))):
        pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
        nobody = {"nnodes": None, "node_rank": None, "processes": None}
        nodes.append(Node(folder, number, MEETING, {**pod, **pods[number]}, **nobody, **asked))
    found = []
    for node in nodes:
        result = node.result()
        assert result.ok, said(result, "stderr")
        found.append([json.loads(text) for text in said(result)])
    return found[::-1]


def test_pods_of_one_machine_that_know_their_hosts_meet(root: Path, forking_python: str) -> None:
    """Two ranks in the first pod, one in the other."""
    servers = [
        {"server_id": _HOSTS[0], "device": listed(1, [0, 1])},
        {"server_id": _HOSTS[1], "device": listed(2, [2])},
    ]
    mount(root, {"version": "1.0", "server_count": "2", "server_list": servers})
    first, second = met(root, [{"HOST_IP": host} for host in _HOSTS], python=forking_python)
    assert first + second == [[rank, 3, [0, 1, 2]] for rank in range(3)]
