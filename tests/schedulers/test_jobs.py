"""Jobs of eight ranks over two nodes of real Slurm and under real Open MPI, on the stub."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List

import psutil
import pytest

from tests.schedulers.running import PATIENCE, ROOT, Mpi, Slurm, processes_with
from tests.waiting import wait_until

RANKS, PER_NODE = 8, 4
_TRAIN = str(Path(__file__).parent / "programs" / "train.py")
_OURS = "TEST_OF_SCHEDULERS"  # a variable that the processes of one job have


class Jobs:
    """Starts the training in the ways that there are, and sees what becomes of it."""

    def __init__(self, slurm: Slurm, mpi: Mpi, python: str, folder: Path) -> None:
        self._slurm = slurm
        self._mpi = mpi
        self._python = python
        self._folder = folder
        (folder / "ranks").mkdir()

    @contextlib.contextmanager
    def started(self, way: str, what: str) -> Iterator["subprocess.Popen[str]"]:
        """Starts it; nothing of it lives at the end of the block.

        Its ranks are started as a user's are where it runs to its end below launchers; else they
        are forks, which have TensorFlow at once.
        """
        anew = (way, what) == ("launchers of Slurm", "once")
        python = sys.executable if anew else self._python
        launch = [sys.executable, "-m", "ascend_session.cli", "launch"]
        launch += ["--log-dir", str(self._folder), "-n", str(PER_NODE), "--python", python]
        words = {
            "launchers of Slurm": ["srun", "-N2", "--ntasks-per-node=1", *launch],
            "ranks of Slurm": ["srun", "-n8", python],
            "ranks of Open MPI": ["-n", "8", python],
        }[way]
        programs = self._mpi if "Open MPI" in way else self._slurm
        asked = [*words, _TRAIN, str(self._folder / "ranks"), what]
        with programs.start(*asked, **{_OURS: str(self._folder)}) as process:
            try:
                yield process
            finally:
                left = self._left_after(process.poll() is not None)
        assert left == []

    def ran(self, way: str, what: str) -> "subprocess.CompletedProcess[str]":
        """Runs it to its end."""
        with self.started(way, what) as process:
            return self.ended(process)

    def ended(self, process: "subprocess.Popen[str]") -> "subprocess.CompletedProcess[str]":
        """Waits for its end."""
        out, err = process.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess([], process.returncode, out, err)

    def trained(self, process: "subprocess.Popen[str]") -> List[Dict[str, Any]]:
        """What the ranks say, as soon as all of them have trained."""

        def have_all_trained() -> bool:
            assert process.poll() is None, process.communicate()
            return len(self.said()) == RANKS

        wait_until(have_all_trained, PATIENCE)
        return self.said()

    def said(self) -> List[Dict[str, Any]]:
        """What the ranks have said, in order."""
        files = sorted((self._folder / "ranks").glob("*.json"))
        return [json.loads(file.read_text()) for file in files]

    def _left_after(self, ended: bool) -> List[str]:
        """What lives of it; a moment is given to what its own parents still see ending."""
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not processes_with(_OURS, str(self._folder)), 10 if ended else 0)
        left = processes_with(_OURS, str(self._folder))
        for one in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        return [str(one) for one in left]


@pytest.fixture
def jobs(slurm: Slurm, mpi: Mpi, forking_python: str, tmp_path: Path) -> Jobs:
    return Jobs(slurm, mpi, forking_python, tmp_path)


@pytest.mark.parametrize(
    ("way", "nodes"), [("launchers of Slurm", 2), ("ranks of Slurm", 2), ("ranks of Open MPI", 1)]
)
def test_every_rank_knows_its_place_and_all_compute_together(
    jobs: Jobs, way: str, nodes: int
) -> None:
    ran = jobs.ran(way, "once")
    assert ran.returncode == 0, ran.stderr
    per_node = RANKS // nodes
    for rank, said in enumerate(jobs.said()):
        node, local = divmod(rank, per_node)
        said.pop("pid")
        assert said == {
            "rank": rank,
            "size": RANKS,
            "local_rank": local,
            "local_size": per_node,
            "device_id": local,
            "sum": sum(range(RANKS)),
            "node": f"node{node + 1}" if nodes > 1 else None,
        }
    assert len(jobs.said()) == RANKS


def test_a_killed_rank_is_the_cause_on_both_nodes(jobs: Jobs) -> None:
    with jobs.started("launchers of Slurm", "on") as process:
        os.kill(jobs.trained(process)[5]["pid"], signal.SIGKILL)
        ran = jobs.ended(process)
    assert ran.returncode == 128 + signal.SIGKILL, ran.stderr
    assert "the job failed. Rank 5 was killed by SIGKILL" in ran.stderr
    assert "node2: task 1: Exited with exit code 137" in ran.stderr
    assert "the job failed. The cause is on another node: rank 5 " in ran.stderr
    assert "node1: task 0: Exited with exit code 1\n" in ran.stderr


def test_a_killed_rank_ends_the_others_without_a_launcher(jobs: Jobs) -> None:
    with jobs.started("ranks of Open MPI", "on") as process:
        os.kill(jobs.trained(process)[5]["pid"], signal.SIGKILL)
        ran = jobs.ended(process)
    assert ran.returncode == 128 + signal.SIGKILL, ran.stderr
    assert "process rank 5 with PID" in ran.stderr
    assert "exited on signal 9" in ran.stderr


def test_a_rank_that_fails_gives_its_code_to_the_job(jobs: Jobs) -> None:
    ran = jobs.ran("launchers of Slurm", "fail")
    assert ran.returncode == 3, ran.stderr
    assert "the job failed. Rank 5 exited with code 3." in ran.stderr
    assert "The cause is on another node: rank 5 failed: SystemExit: 3" in ran.stderr


def test_scancel_ends_everything(jobs: Jobs, slurm: Slurm) -> None:
    with jobs.started("launchers of Slurm", "on") as process:
        jobs.trained(process)
        numbers = slurm.run("squeue", "-h", "-o", "%i").stdout.split()
        assert slurm.run("scancel", *numbers).returncode == 0
        ran = jobs.ended(process)
    assert ran.returncode == 128 + signal.SIGTERM, ran.stderr
    assert "CANCELLED" in ran.stderr
    assert ran.stderr.count("The launcher was stopped by SIGTERM.") == 2


def test_this_project_is_what_ranks_run(slurm: Slurm) -> None:
    where = "import ascend_session; print(ascend_session.__file__)"
    ran = slurm.run("srun", "-N2", "--ntasks-per-node=1", sys.executable, "-c", where)
    assert set(ran.stdout.split()) == {str(ROOT / "ascend_session" / "__init__.py")}, ran.stderr
