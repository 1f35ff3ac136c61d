"""Environments of real Slurm and Open MPI, and how each of them comes about.

``environments.json`` was recorded from Debian 12's slurm-wlm 22.05.8 and openmpi-bin 4.1.4, with
two nodes of four CPUs on one machine. What differs from time to time (ports, pids, numbers of jobs)
is as it was then. Two more are in it that do not come about again: "step, arbitrary", rank 0 of
``salloc -N2 -n3 srun -m arbitrary -w node2,node1,node1``, and "step, arbitrary, other", its rank 2.
That controller dies of the next job after such a step.
"""

import json
from pathlib import Path
from typing import Dict, NamedTuple

__all__ = ["SITUATIONS", "Situation", "recorded"]

_FILE = Path(__file__).parent / "environments.json"


class Situation(NamedTuple):
    """One way to be started.

    Attributes:
        command: What comes before the program; a batch script is what ``sbatch`` runs.
        who: Which of the processes was looked at: ``rank 5`` or ``script``.
    """

    command: str
    who: str


_MIXED = "salloc -w node2 -N1 -n2 : -w node1 -N1 -n1 srun --het-group=0,1"

SITUATIONS: Dict[str, Situation] = {
    "step, one task a node": Situation("srun -N2 --ntasks-per-node=1", "rank 1"),
    "step, four tasks a node": Situation("srun -n8", "rank 5"),
    "step, uneven": Situation("srun -N2 -n5", "rank 4"),
    "step, cyclic": Situation("srun -n8 -m cyclic", "rank 3"),
    "step, one node": Situation("srun -n2", "rank 1"),
    "step, pmi2": Situation("srun --mpi=pmi2 -n2", "rank 1"),
    "step, shell": Situation("srun -n4 --pty", "rank 0"),
    "step of two components": Situation(_MIXED, "rank 1"),
    "step of two components, second": Situation(_MIXED, "rank 2"),
    "batch script": Situation("sbatch -N2 -n8", "script"),
    "batch script of one task": Situation("sbatch", "script"),
    "step of a batch script": Situation("sbatch -N2 --ntasks-per-node=1 --wrap srun", "rank 1"),
    "allocation": Situation("salloc -N2 -n8", "script"),
    "step of an allocation": Situation("salloc -N2 srun --ntasks-per-node=1", "rank 1"),
    "mpirun": Situation("mpirun -n 8", "rank 5"),
    "mpirun, one rank": Situation("mpirun -n 1", "rank 0"),
    "mpirun in an allocation, first node": Situation("salloc -N2 -n8 mpirun -n 8", "rank 0"),
    "mpirun in an allocation, second node": Situation("salloc -N2 -n8 mpirun -n 8", "rank 5"),
}


def recorded(name: str) -> Dict[str, str]:
    """The variables of Slurm, Open MPI and PMI in that situation."""
    found: Dict[str, str] = json.loads(_FILE.read_text())[name]
    return found
