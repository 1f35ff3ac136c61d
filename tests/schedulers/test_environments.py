"""What real Slurm and Open MPI tell the processes that they start, as it was recorded."""

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Dict, List, Set

import pytest

from tests.schedulers.running import Mpi, Slurm
from tests.schedulers.situations import SITUATIONS, Situation, recorded

_SHOW = [sys.executable, "-S", str(Path(__file__).parent / "programs" / "show.py")]
_TERMINAL = [
    *(sys.executable, "-S", "-c"),
    "import os, pty, sys; sys.exit(os.WEXITSTATUS(pty.spawn(sys.argv[1:])))",
]
# What tells a process its place; other variables have values of the moment, or none of interest.
_PLACE = re.compile(
    r"SLURM_(STEP_|JOB_)?(NUM_)?(PROCID|LOCALID|NODEID|NTASKS|NPROCS|TASKS|NNODES|NODES|NODELIST|"
    r"TASKS_PER_NODE|NTASKS_PER_NODE|GTIDS|CPUS_ON_NODE|CPUS_PER_NODE|DISTRIBUTION|MPI_TYPE|HET_SIZE)"
    r"|SLURMD_NODENAME|OMPI_COMM_WORLD_.*|OMPI_MCA_orte_(num_nodes|ess_.*)"
    r"|PMIX_RANK|PMI_(RANK|SIZE)"
)


def test_two_nodes_have_a_task_each(slurm: Slurm) -> None:
    ran = slurm.run("srun", "-N2", "--ntasks-per-node=1", "-l", "printenv", "SLURMD_NODENAME")
    assert ran.returncode == 0, ran.stderr
    assert sorted(ran.stdout.split()) == ["0:", "1:", "node1", "node2"]


def test_a_nodes_claim_is_more_than_the_machine_has(slurm: Slurm) -> None:
    ran = slurm.run("sinfo", "-h", "-o", "%D %c")
    assert ran.stdout.split() == ["2", "4"]


@pytest.mark.parametrize("name", sorted(SITUATIONS))
def test_processes_are_told_what_they_were_told_before(name: str, starts: "Starts") -> None:
    told = starts.seen(SITUATIONS[name])
    before = recorded(name)
    assert _names(told) == _names(before)
    assert _places(told) == _places(before)


class Starts:
    """Each command, run once; ``folder`` is for what its processes say."""

    def __init__(self, slurm: Slurm, mpi: Mpi, folder: Path) -> None:
        self._slurm = slurm
        self._mpi = mpi
        self._folder = folder
        self._found: Dict[str, List[Dict[str, str]]] = {}

    def seen(self, situation: Situation) -> Dict[str, str]:
        """The variables of the process that is looked at in a situation."""
        command = situation.command
        if command not in self._found:
            self._found[command] = self._run(command)
        found = self._found[command]
        if situation.who == "script":
            (only,) = found
            return only
        rank = situation.who.split()[1]
        ranked = "OMPI_COMM_WORLD_RANK" if "mpirun" in command else "SLURM_PROCID"
        return next(one for one in found if one[ranked] == rank)

    def _run(self, command: str) -> List[Dict[str, str]]:
        folder = self._folder / str(len(self._found))
        folder.mkdir()
        _run(command.split(), [*_SHOW, str(folder)], self._slurm, self._mpi)
        return [json.loads(file.read_text()) for file in folder.glob("*.json")]


@pytest.fixture(scope="module")
def starts(slurm: Slurm, mpi: Mpi, tmp_path_factory: pytest.TempPathFactory) -> Starts:
    return Starts(slurm, mpi, tmp_path_factory.mktemp("starts"))


def _run(command: List[str], program: List[str], slurm: Slurm, mpi: Mpi) -> None:
    if command[0] == "mpirun":
        ran = mpi.run(*command[1:], *program)
    elif command[0] == "sbatch":
        inside = ["srun", *program] if command[-1] == "srun" else program
        asked = [word for word in command[1:] if word not in ("--wrap", "srun")]
        script = " ".join(map(shlex.quote, inside))
        ran = slurm.run("sbatch", "--wait", "-o", "/dev/null", *asked, "--wrap", script)
    else:
        at = command.index("mpirun") + 1 if "mpirun" in command else 0
        own = ["--allow-run-as-root"] if at else []
        terminal = _TERMINAL if "--pty" in command else []
        ran = slurm.run(*terminal, *command[:at], *own, *command[at:], *program)
    assert ran.returncode == 0, ran.stderr


def _names(variables: Dict[str, str]) -> Set[str]:
    """Without those by which Open MPI's parts talk to each other, which vary with its plugins."""
    return {name for name in variables if not re.match("OMPI_(?!COMM_WORLD)|PMIX_(?!RANK)", name)}


def _places(variables: Dict[str, str]) -> Dict[str, str]:
    """With only that of the distribution which is looked at, for Slurm varies the rest."""
    found = {name: value for name, value in variables.items() if _PLACE.fullmatch(name)}
    if "SLURM_DISTRIBUTION" in found and found["SLURM_DISTRIBUTION"] != "arbitrary":
        found["SLURM_DISTRIBUTION"] = "another"
    return found
