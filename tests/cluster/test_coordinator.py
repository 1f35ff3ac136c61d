"""Where ranks on several nodes meet if nobody has said it."""

import os
import socket
from pathlib import Path
from typing import Dict, Tuple

import pytest

from ascend_session.backends.stub_job import find_rendezvous
from ascend_session.cluster import (
    COORDINATOR,
    Job,
    coordinator,
    derive_port,
    find_coordinator,
    find_node_address,
    is_loopback,
    read_identity,
    split_address,
)
from ascend_session.errors import JobError
from tests.schedulers.situations import recorded


def of(environ: Dict[str, str]) -> object:
    return find_coordinator(environ, read_identity(environ).scheduler)


def test_what_is_said_counts() -> None:
    assert of({COORDINATOR: "here:1", **recorded("mpirun")}) == "here:1"


def test_without_a_scheduler_nothing_follows() -> None:
    assert of({"RANK_SIZE": "2"}) is None


@pytest.mark.parametrize("name", ["mpirun", "step, one node"])
def test_ranks_on_one_node_need_no_address(name: str) -> None:
    assert of(recorded(name)) is None


def test_two_jobs_have_two_ports_and_all_ranks_of_one_have_the_same() -> None:
    ports = {derive_port(f"slurm_{job}_0") for job in range(100)}
    assert len(ports) > 95
    assert all(20000 <= port < 30000 for port in ports)
    assert derive_port("slurm_42_0") == derive_port("slurm_42_0")


def test_ranks_of_mpirun_on_several_nodes_have_to_be_told() -> None:
    environ = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "8", "PMIX_NAMESPACE": "1"}
    assert of({**environ, "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}) is None


@pytest.mark.parametrize("name", ["step, arbitrary, other", "step of two components"])
def test_ranks_that_do_not_know_the_node_of_rank_0_have_to_be_told(name: str) -> None:
    assert of(recorded(name)) is None
    job = Job.detect(recorded(name))
    with pytest.raises(JobError, match="nothing says which of them is rank 0's") as refused:
        find_rendezvous(job, recorded(name))
    assert f"{COORDINATOR}=HOST:PORT" in str(refused.value.hint)


def test_ranks_on_several_nodes_meet_on_the_first_one_of_the_step(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(_scontrol(tmp_path, "NodeName=x NodeAddr=192.0.2.7 Port=1")))
        step = {**recorded("step, four tasks a node"), "SLURM_STEP_NODELIST": "no-such-node[1-2]"}
        assert str(of(step)).startswith("192.0.2.7:")
        assert str(of({**step, "SLURM_STEP_RESV_PORTS": "12001-12002"})) == "192.0.2.7:12001"
        assert str(of({**step, "SLURM_STEP_NODELIST": "localhost,x"})).startswith("localhost:")


def test_a_node_with_an_ipv6_address_is_written_in_brackets(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(_scontrol(tmp_path, "NodeName=x NodeAddr=fd00::7 Port=1")))
        step = {**recorded("step, uneven"), "SLURM_STEP_NODELIST": "no-such-node[1-2]"}
        host, _ = split_address(str(of(step)))
    assert host == "fd00::7"


@pytest.mark.parametrize("said", ["", "NodeName=x State=UNKNOWN", None])
def test_a_node_that_nobody_knows_is_refused(tmp_path: Path, said: str) -> None:
    folder = tmp_path / "empty" if said is None else _scontrol(tmp_path, said)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(folder))
        with pytest.raises(JobError, match="'no-such-node1', the first node of") as refused:
            find_node_address("no-such-node1")
    assert f"export {COORDINATOR}=HOST:PORT" in str(refused.value.hint)


def test_a_name_that_can_be_looked_up_is_left_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "_ask_slurm", lambda name: pytest.fail("was asked for"))
    assert find_node_address(socket.gethostname()) == socket.gethostname()


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("10.0.0.1:4000", ("10.0.0.1", 4000)),
        ("node-1.example:65535", ("node-1.example", 65535)),
        ("[fd00::2]:1", ("fd00::2", 1)),
    ],
)
def test_an_address_has_two_parts(address: str, parts: Tuple[str, int]) -> None:
    assert split_address(address) == parts


@pytest.mark.parametrize(
    "port", ["", "0", "65536", "x", "\u00b2", "\u0661", "9" * 5000, "-1", "+1"]
)
def test_what_is_no_port_is_refused(port: str) -> None:
    for host in ("here", "[fd00::2]"):
        with pytest.raises(JobError, match="is not of the form HOST:PORT"):
            split_address(f"{host}:{port}")


@pytest.mark.parametrize("address", ["here", ":1", ""])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(JobError, match="is not of the form HOST:PORT"):
        split_address(address)


def test_ipv6_without_brackets_is_refused_with_them() -> None:
    with pytest.raises(JobError, match=r"an IPv6 address is written \[fd00::2\]:1"):
        split_address("fd00::2:1")


@pytest.mark.parametrize(
    ("host", "inside"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("192.0.2.1", False),
        ("0.0.0.0", False),
        ("node1", False),
    ],
)
def test_loopback_is_this_machine_and_nothing_else(host: str, inside: bool) -> None:
    assert is_loopback(host) is inside


def _scontrol(folder: Path, said: str) -> Path:
    program = folder / "scontrol"
    program.write_text(f"#!/bin/sh\necho '{said}'\n")
    program.chmod(0o755)
    assert os.access(str(program), os.X_OK)
    return folder
