"""Real Slurm and real Open MPI; the tests of this folder skip where they cannot be had."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Dict, Iterator

import pytest

from tests.schedulers.running import PATIENCE, Mpi, Slurm

_SCRIPTS = Path(__file__).resolve().parents[2] / "scripts" / "_schedulers"
# Looked at now, for tests run without the variables of this project. CI says "required" once: what
# cannot be tested there is a failure; and "no" for its other Python, which is none of their matter.
_ASKED = os.environ.get("ASCEND_SESSION_TEST_SCHEDULERS", "if they can be had")


def _miss(why: str) -> None:
    if _ASKED == "required":
        pytest.fail(f"ASCEND_SESSION_TEST_SCHEDULERS=required, but: {why}", pytrace=False)
    pytest.skip(why)


@pytest.fixture(scope="session")
def scheduler_programs() -> Dict[str, str]:
    """The variables with which the programs run."""
    if _ASKED == "no":
        pytest.skip("ASCEND_SESSION_TEST_SCHEDULERS=no")
    ran = subprocess.run(
        [sys.executable, str(_SCRIPTS / "packages.py")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if ran.returncode:
        _miss(ran.stderr.strip())
    found: Dict[str, str] = json.loads(ran.stdout)
    return found


@pytest.fixture(scope="session")
def mpi(scheduler_programs: Dict[str, str]) -> Mpi:
    """Open MPI."""
    return Mpi(scheduler_programs)


@pytest.fixture(scope="session")
def slurm(scheduler_programs: Dict[str, str]) -> Iterator[Slurm]:
    """A Slurm of two nodes with four CPUs each, all of them this machine."""
    # Its processes are not children of this one. They end when the pipe is closed, however.
    starter = subprocess.Popen(
        [sys.executable, str(_SCRIPTS / "slurm.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with starter:
        assert starter.stdin is not None
        assert starter.stdout is not None
        said = json.loads(starter.stdout.readline())
        if "trouble" in said:
            pytest.fail(said["trouble"], pytrace=False)
        starter.wait(PATIENCE)
        made = Slurm(said["environ"], Path(said["folder"]))
        yield made
        starter.stdin.close()
        assert starter.stdout.read() == ""
    assert made.processes() == []
    assert not made.folder.exists()
