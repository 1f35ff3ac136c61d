"""Runs programs below Slurm and Open MPI."""

import os
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Mapping

import psutil

__all__ = ["PATIENCE", "ROOT", "Mpi", "Slurm", "processes_with"]

PATIENCE = 300.0  # seconds; eight processes that import TensorFlow on two cores take their time
ROOT = Path(__file__).resolve().parents[2]


class _Programs:
    """Programs that run with certain variables, in addition to this process's."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = dict(variables)

    def environ(self, **more: str) -> Dict[str, str]:
        """The environment; a test's own Python finds this project in it.

        Where the tests themselves are a job of Slurm or Open MPI, its variables are left out.
        """
        theirs = ("SLURM", "OMPI_", "PMI")
        own = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
        path = {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"}
        return {**own, **self.variables, **path, **more}

    def start(self, *words: str, **more: str) -> "subprocess.Popen[str]":
        """Starts a program, whose streams are pipes."""
        return subprocess.Popen(
            self.command(words),
            env=self.environ(**more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, **more: str) -> "subprocess.CompletedProcess[str]":
        """Runs a program to its end."""
        with self.start(*words, **more) as process:
            try:
                out, err = process.communicate(timeout=PATIENCE)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def command(self, words: Any) -> List[str]:
        """The words that are executed."""
        return list(words)


class Mpi(_Programs):
    """Open MPI, on this machine alone."""

    def command(self, words: Any) -> List[str]:
        # It refuses to run as root, and more ranks than CPUs, unless it is told twice.
        return ["mpirun", "--allow-run-as-root", "--oversubscribe", *words]


class Slurm(_Programs):
    """A running Slurm."""

    def __init__(self, variables: Mapping[str, str], folder: Path) -> None:
        super().__init__(variables)
        self.folder = folder

    def processes(self) -> List[psutil.Process]:
        """All processes of its jobs, and its own."""
        return processes_with("SLURM_CONF", self.variables["SLURM_CONF"])


def processes_with(name: str, value: str) -> List[psutil.Process]:
    """All processes that have this variable."""
    return [one for one in psutil.process_iter() if _variables(one).get(name) == value]


def _variables(process: psutil.Process) -> Dict[str, str]:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return {}
        found: Dict[str, str] = process.environ()
    except psutil.Error:
        return {}
    return found
