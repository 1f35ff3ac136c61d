"""A job of several ranks on one machine opens no port, in any of its processes."""

import contextlib
import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Set

import psutil
import pytest

_REPOSITORY = Path(__file__).resolve().parents[2]
_RANKS = 4

# A rank that has a child it has started and one it has forked while it is among the others.
_RANK = """
import fcntl, os, subprocess, sys
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
from ascend_session import ascend_system, hccl
def await_test():
    with open(sys.argv[1]) as held:
        fcntl.flock(held, fcntl.LOCK_SH)
total = hccl.allreduce(tf.constant([1.0]), "sum")
with ascend_system() as system, system.session() as sess:
    assert sess.run(total).tolist() == [system.size]
    started = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    forked = os.fork()
    if not forked:
        await_test()
        os._exit(0)
    print("ready", flush=True)
    await_test()
    assert sess.run(total).tolist() == [system.size]
    os.waitpid(forked, 0)
    started.communicate()
"""


def sockets_of(process: psutil.Process) -> Set[str]:
    """The inodes of a process's sockets."""
    links = []
    for name in os.listdir(f"/proc/{process.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # it was open for a moment
            links.append(os.readlink(f"/proc/{process.pid}/fd/{name}"))
    return {link[len("socket:[") : -1] for link in links if link.startswith("socket:")}


def unix_sockets() -> Set[str]:
    """The inodes of all Unix sockets."""
    return {line.split()[6] for line in Path("/proc/net/unix").read_text().splitlines()[1:]}


@pytest.mark.smoke
def test_no_process_of_a_job_on_one_machine_has_a_port(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(_RANK)
    words = ["launch", "-n", str(_RANKS), "--backend", "stub", "--log-dir", str(tmp_path / "logs")]
    with (tmp_path / "held").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # until it is closed the ranks wait
        launcher = subprocess.Popen(
            [sys.executable, "-m", "ascend_session.cli", *words, str(script), held.name],
            cwd=str(_REPOSITORY),
            env={**os.environ, "PYTHONPATH": str(_REPOSITORY), "TF_CPP_MIN_LOG_LEVEL": "2"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
        )
        assert launcher.stdout is not None
        lines, waiting = [], _RANKS
        while waiting and (not lines or lines[-1]):
            lines.append(launcher.stdout.readline())
            waiting -= lines[-1].endswith("ready\n")
        processes = []
        with contextlib.suppress(psutil.NoSuchProcess):
            processes = [psutil.Process(launcher.pid)]
            processes += processes[0].children(recursive=True)
        opened = [found for one in processes for found in one.net_connections("inet")]
        # No list of connections has a port that is bound, but not listened at.
        sockets = {inode for one in processes for inode in sockets_of(one)} - unix_sockets()
    rest, _ = launcher.communicate(timeout=60)
    assert launcher.returncode == 0, "".join([*lines, rest])
    assert len(processes) >= 2 + 3 * _RANKS  # launcher and guardian; each rank and its children
    assert opened == []
    assert sockets == set()
