"""Whom HCCL's lines name: shapes of several releases, with made-up addresses."""

from typing import List

import pytest

from ascend_session.failures.peers import Peer, find_peers


@pytest.mark.parametrize(
    ("text", "peers", "words"),
    [
        (
            "createLink para:rank[5]-localUserrank[4]-localIpAddr[10.0.0.1], "
            "dst_rank[6]-remoteUserrank[7]-remote_ip_addr[10.0.0.2]",
            [Peer(7, "10.0.0.2")],
            "rank 7 at 10.0.0.2",
        ),
        (
            "createLink para:rank[1]-localUserrank[1]-localIpAddr[10.0.0.1/1], "
            "remoteRank[0]-remoteUserrank[0]-remoteIpAddr[10.0.0.2/0], machineType[1]",
            [Peer(0, "10.0.0.2", 0)],
            "rank 0 at 10.0.0.2 (device 0)",
        ),
        ("dst_rank[5] did not answer", [Peer(5, in_group=True)], "rank 5 of its group"),
        (
            "srcRank (server 10.0.0.1, device ID 1) fails to connect to dstRank (server 10.0.0.2, "
            "device ID 3). Continue to analyze",
            [Peer(None, "10.0.0.2", 3)],
            "device 3 of 10.0.0.2",
        ),
        (
            "srcRank[10.0.0.1/0] connect destRank[10.0.0.2/4] fail.",
            [Peer(None, "10.0.0.2", 4)],
            "device 4 of 10.0.0.2",
        ),
        (
            "Local information: server 10.0.0.1, device ID 1, device IP 1.2.3.4. Peer information: "
            "server 10.0.0.2, device ID 6, device IP 1.2.3.5.",
            [Peer(None, "10.0.0.2", 6)],
            "device 6 of 10.0.0.2",
        ),
        ("the Notify record from remote rank: [3]. base information", [Peer(3)], "rank 3"),
        ("Waiting peer rank: 3; task information", [Peer(3)], "rank 3"),
        (
            'fault_info["Failed to connect agent[1,3,5,]"]',
            [Peer(1), Peer(3), Peer(5)],
            "rank 1",
        ),
        ('List of unconnected ranks: "[16,17,]".', [Peer(16), Peer(17)], "rank 16"),
        (
            "TopoExchangeAgent: connect server[10.0.0.1 : 60000] failed",
            [Peer(None, "10.0.0.1")],
            "the rank that collects the others, at 10.0.0.1",
        ),
        (
            "Cluster Exception Location[IP/ID]:[10.0.0.1/3], Arrival Time:[x]",
            [Peer(None, "10.0.0.1", 3)],
            "device 3 of 10.0.0.1",
        ),
    ],
)
def test_the_other_end_is_read_from_a_line(text: str, peers: List[Peer], words: str) -> None:
    assert find_peers(f"before\n{text}\nafter") == peers
    assert str(peers[0]) == words


@pytest.mark.parametrize(
    "text",
    ["", "remote rank [unknown]", "rank 5 failed", "dst_rank[x]", "remote rank 10.0.0.1"],
)
def test_a_line_that_names_nobody_gives_nobody(text: str) -> None:
    assert find_peers(text) == []


def test_each_peer_is_given_once_in_order_of_appearance() -> None:
    text = "dst_rank[5]-remoteUserrank[5]\nremote rank: [2]\ndst_rank[5]-remoteUserrank[5]\n"
    assert find_peers(text) == [Peer(5), Peer(2)]
