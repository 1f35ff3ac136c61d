"""The coordinator's port: the launcher of node 0 holds it, and no other launcher opens any."""

import os
import socket
from pathlib import Path
from typing import Any, Callable, Dict, List, Set

import pytest

from ascend_session.cluster.variables import COORDINATOR
from ascend_session.errors import AscendError, JobError, PreflightError
from ascend_session.launcher import Event, Over, Planned, launch
from tests.launcher.jobs import Bench, bench
from tests.launcher.nodes import port_kept
from tests.launcher.supervised import config, job

__all__ = ["bench"]

_LOOK = """
def sockets(process):
    folder = f"/proc/{process}/fd"
    found = []
    for name in os.listdir(folder):
        try:
            found.append(os.readlink(f"{folder}/{name}"))
        except FileNotFoundError:  # the folder itself, which was open then
            continue
    return [text for text in found if text.startswith("socket:")]
print(*sockets(os.getpid()))
print(*sockets(os.getppid()))
"""


def sockets_here() -> Set[str]:
    """The sockets of this process."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue
    return {text for text in found if text.startswith("socket:")}


def is_free(port: int) -> bool:
    """Whether a program that shares no port can have this one."""
    with socket.socket() as wanting:
        try:
            wanting.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@pytest.fixture
def node_0() -> Dict[str, Any]:
    """What node 0 of two is asked, with a port that nobody else has."""
    with port_kept() as port:
        pass
    return {"nnodes": 2, "node_rank": 0, "coordinator": f"127.0.0.1:{port}", "processes": 2}


def port_of(asked: Dict[str, Any]) -> int:
    return int(asked["coordinator"].rpartition(":")[2])


def test_node_0_holds_the_port_until_it_is_closed(bench: Bench, node_0: Dict[str, Any]) -> None:
    before = sockets_here()
    made = bench.plan(**node_0)
    assert not is_free(port_of(node_0))
    made.held_port.close()
    made.held_port.close()
    assert is_free(port_of(node_0))
    assert sockets_here() == before


def test_a_rank_that_listens_keeps_the_port(bench: Bench, node_0: Dict[str, Any]) -> None:
    made, port = bench.plan(**node_0), port_of(node_0)
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(1)
        made.held_port.close()
        assert not is_free(port)
        socket.create_connection(("127.0.0.1", port), 60).close()


def test_other_nodes_hold_nothing(bench: Bench, node_0: Dict[str, Any]) -> None:
    before = sockets_here()
    bench.plan(**{**node_0, "node_rank": 1})
    assert sockets_here() == before


@pytest.mark.parametrize("asked", ["one rank", "several ranks", "devices"])
def test_a_job_of_one_node_opens_no_port_and_has_no_coordinator(bench: Bench, asked: str) -> None:
    bench.environ[COORDINATOR] = "127.0.0.1:1"
    before = sockets_here()
    if asked == "devices":
        bench.nodes(range(2))
        made = bench.with_table()
    else:
        made = bench.plan(processes=1 if asked == "one rank" else 8)
    assert sockets_here() == before
    assert not any(COORDINATOR in rank.environment for rank in made.ranks)
    assert "it belongs to another job" in made.removed[COORDINATOR]
    shown = made.as_dict()
    assert shown["coordinator"] is None


def test_neither_ranks_nor_the_guardian_inherit_the_port(
    tmp_path: Path, node_0: Dict[str, Any]
) -> None:
    kept: List[Set[str]] = []

    def look(event: Event) -> None:
        if isinstance(event, Planned):
            kept.append(sockets_here())
        if isinstance(event, Over):
            kept.append(set() if is_free(port_of(node_0)) else {"held"})

    run = job(tmp_path, _LOOK, ranks=2, on_event=look, **node_0)
    assert len(kept[0]) >= 2
    assert kept[1] == {"held"}
    assert is_free(port_of(node_0))
    for rank in range(2):
        own, guardians = run.said(rank).split("\n")[:2]
        assert own == ""
        assert len(guardians.split()) == 1  # on which it talks with the launcher
        assert not set(guardians.split()) & kept[0]


@pytest.mark.parametrize(
    "asked", [{"show": "7"}, {"script": "not_there.py"}], ids=["show", "script"]
)
def test_a_plan_that_fails_holds_nothing(
    bench: Bench, node_0: Dict[str, Any], asked: Dict[str, Any]
) -> None:
    before = sockets_here()
    with pytest.raises(AscendError) as refused:
        bench.plan(**node_0, **asked)
    assert sockets_here() == before, refused.value


def _raise_when_planned(event: Event) -> None:
    if isinstance(event, Planned):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("more", "on_event", "error"),
    [
        ({"events": "/nowhere/events"}, None, AscendError),
        ({"log_dir": "/dev/null/logs"}, None, PreflightError),
        ({"log_dir": "/dev/null/logs", "preflight": False}, None, JobError),
        ({}, _raise_when_planned, ZeroDivisionError),
    ],
    ids=["events", "checked folder", "folder", "listener"],
)
def test_a_launch_that_fails_holds_nothing(
    tmp_path: Path,
    node_0: Dict[str, Any],
    more: Dict[str, Any],
    on_event: Callable[[Event], None],
    error: type,
) -> None:
    before = sockets_here()
    with pytest.raises(error) as failed:
        launch(config(tmp_path, "", 2, **node_0, **more), output=2, on_event=on_event)
    assert sockets_here() == before, failed.value
