"""Launchers on two nodes that real Open MPI starts: both are this machine."""

import json
import os
import sys
from pathlib import Path
from typing import List

import pytest

from tests.launcher.nodes import MEETING
from tests.schedulers.running import Mpi

# In place of ssh: what is to run on another machine, the first word, runs here.
_AGENT = '#!/bin/sh\nshift\nexec sh -c "$*"\n'
_LAUNCH = [sys.executable, "-m", "ascend_session.cli", "launch", "--backend", "stub", "-n", "2"]


@pytest.fixture
def on_two_nodes(tmp_path: Path) -> List[str]:
    """Words for mpirun, which then takes this machine for two."""
    agent = tmp_path / "agent"
    agent.write_text(_AGENT)
    agent.chmod(0o755)
    where = ["--host", "localhost,other", "--mca", "plm_rsh_agent", str(agent)]
    return [*where, "--map-by", "ppr:1:node"]


def test_ranks_of_two_launchers_meet_and_have_all_cpus(
    mpi: Mpi, tmp_path: Path, on_two_nodes: List[str]
) -> None:
    script = tmp_path / "meet.py"
    script.write_text(f"{MEETING}\nprint(json.dumps(sorted(os.sched_getaffinity(0))))\n")
    logs = tmp_path / "logs"
    asked = [*_LAUNCH, "--log-dir", str(logs), str(script)]
    ran = mpi.run("--bind-to", "none", *on_two_nodes, *asked, MEETING_SECONDS="60")
    assert ran.returncode == 0, ran.stderr
    said = [
        path.read_text().splitlines()
        for path in sorted(logs.glob("*.node_*/attempt_1/*/stdout.log"))
    ]
    assert len({path.parent for path in logs.glob("*.node_[01]/attempt_1/*/stdout.log")}) == 4
    assert sorted(json.loads(place)[:2] for place, _ in said) == [[rank, 4] for rank in range(4)]
    cpus = sorted(os.sched_getaffinity(0))
    assert [json.loads(text) for _, text in said] == [cpus] * 4


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_launchers_that_are_bound_to_one_cpu_say_so(mpi: Mpi, on_two_nodes: List[str]) -> None:
    ran = mpi.run("--bind-to", "hwthread", *on_two_nodes, *_LAUNCH, "--dry-run", __file__)
    assert ran.returncode == 0, ran.stderr
    assert (ran.stdout + ran.stderr).count("--bind-to none") == 2
