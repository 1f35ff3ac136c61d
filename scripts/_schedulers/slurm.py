"""A private Slurm: a controller and some nodes on this machine, for as long as somebody wants it.

``slurm.py`` starts it, prints one line of JSON with the variables to use it by, or with
``trouble``, and ends; a process of its own stays, which ends everything and removes all files as
soon as its standard input is closed, it is told to end, or it fails. Its standard output is closed
when that is done.

All of it is one user's: own key, own sockets and ports, own configuration, in a temporary folder.
"""

import argparse
import contextlib
import ctypes
import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from typing import Any, Dict, Iterator, List, Sequence

import psutil
from packages import FetchError, Programs, fetch

_START = 60.0  # seconds until all nodes answer, on a machine that is busy
_END = 20.0  # seconds until jobs have ended after scancel, and then daemons after SIGTERM
_LOOK = 1.0  # seconds between looks at what has lost its parent
_ROUNDS = 5  # of ending what is left; what is there after them cannot be ended
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36  # prctl(2)

_CONFIGURATION = """\
ClusterName=private
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
PluginDir={plugins}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1
# The nodes have the CPUs that they are said to have, not those of the machine.
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
MessageTimeout=60
KillWait=5
JobRequeue=0
# So that jobs of two such clusters, which see the same ports, have different numbers.
FirstJobId={first}
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
_NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus}"


class ClusterError(Exception):
    """Why there is no Slurm: a sentence, and the last lines of the logs."""


class Cluster:
    """The daemons, which end with this process."""

    def __init__(self, programs: Programs, folder: str, nodes: int, cpus: int) -> None:
        """Writes what they need; ``cpus`` are those that each node claims."""
        self._programs = programs
        self._folder = folder
        self._names = [f"node{number}" for number in range(1, nodes + 1)]
        self._daemons: List[Any] = []
        self.environ = {**programs.environ(), "SLURM_CONF": os.path.join(folder, "slurm.conf")}
        controller, *ports = _free_ports(nodes + 1)
        host = socket.gethostname().partition(".")[0]
        lines = [
            _NODE.format(name=name, host=host, port=port, cpus=cpus)
            for name, port in zip(self._names, ports)
        ]
        written = _CONFIGURATION.format(
            host=host,
            controller=controller,
            user=os.getuid(),
            folder=folder,
            plugins=programs.slurm_plugins,
            first=random.randrange(1, 60_000_000),
            nodes="\n".join(lines),
        )
        _write(self.environ["SLURM_CONF"], written.encode())
        _write(os.path.join(folder, "munge.key"), os.urandom(128))
        for name in ("state", *self._names):
            os.mkdir(os.path.join(folder, name))

    def start(self) -> None:
        """Starts the daemons and waits until the nodes answer.

        Raises:
            ClusterError: They do not.
        """
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log"}
        words = [f"--{option}={self._folder}/munge.{end}" for option, end in files.items()]
        self._daemon("munged", "--foreground", f"--seed-file={self._folder}/munge.seed", *words)
        self._wait("munged", lambda: os.path.exists(os.path.join(self._folder, "munge.socket")))
        self._daemon("slurmctld", "-D", "-i")
        stepd = self._programs.path("slurmstepd")
        for name in self._names:
            self._daemon("slurmd", "-D", "-N", name, "-d", stepd)
        self._wait("Slurm", self._answers)

    def reap(self) -> None:
        """Takes note of what has lost its parent, become this process's child, and ended."""
        daemons = {daemon.pid for daemon in self._daemons}
        for child in psutil.Process().children():
            if child.pid not in daemons:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(child.pid, os.WNOHANG)

    def stop(self) -> None:
        """Ends jobs, then daemons, then whatever has not ended."""
        if len(self._daemons) > 1:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                self._call("scancel", "--user", str(os.getuid()))
                deadline = time.monotonic() + _END
                while self._call("squeue", "-h").strip() and time.monotonic() < deadline:
                    time.sleep(0.1)
        for daemon in reversed(self._daemons):
            daemon.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(_END)
        # A killed one's children become this process's, and are found in the next round.
        for _ in range(_ROUNDS):
            left = psutil.Process().children(recursive=True)
            if not left:
                return
            for process in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, _END)

    def _daemon(self, name: str, *words: str) -> None:
        log = os.path.join(self._folder, f"{name}.out")
        with open(log, "ab") as out:
            daemon = subprocess.Popen(
                [self._programs.path(name), *words],
                env={**os.environ, **self.environ},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                preexec_fn=_die_with_parent,
            )
        self._daemons.append(daemon)

    def _call(self, *words: str) -> str:
        ran = subprocess.run(
            [self._programs.path(words[0]), *words[1:]],
            env={**os.environ, **self.environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_START,
            text=True,
        )
        return ran.stdout

    def _answers(self) -> bool:
        return self._call("sinfo", "-h", "-N", "-o", "%T").split() == ["idle"] * len(self._names)

    def _wait(self, name: str, is_there: Any) -> None:
        deadline = time.monotonic() + _START
        while not is_there():
            dead = any(daemon.poll() is not None for daemon in self._daemons)
            if dead or time.monotonic() > deadline:
                said = "\n".join(_tails(self._folder))
                how = "has ended" if dead else f"does not answer after {_START:g} s"
                raise ClusterError(f"The private {name} {how}. The ends of its logs:\n{said}")
            time.sleep(0.1)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_SET_PDEATHSIG, signal.SIGKILL)


def _free_ports(count: int) -> Sequence[int]:
    taken = [socket.socket() for _ in range(count)]
    for each in taken:
        each.bind(("127.0.0.1", 0))
    found = [each.getsockname()[1] for each in taken]
    for each in taken:
        each.close()
    return found


def _write(path: str, content: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        file.write(content)


def _tails(folder: str) -> Iterator[str]:
    for name in sorted(os.listdir(folder)):
        if name.endswith((".log", ".out")):
            with open(os.path.join(folder, name), errors="replace") as file:
                lines = file.read().splitlines()[-5:]
            yield from (f"{name}: {line}" for line in lines)


def _own(ready: int, nodes: int, cpus: int) -> None:
    """What the process that stays does; says on ``ready`` how it began."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    folder = tempfile.mkdtemp(prefix="slurm-", dir="/tmp")  # the paths of sockets are short
    os.chmod(folder, 0o711)  # munged wants its socket to be within everybody's reach
    said: Dict[str, Any] = {}
    cluster = None
    try:
        try:
            cluster = Cluster(fetch(), folder, nodes, cpus)
            cluster.start()
            said = {"environ": cluster.environ, "folder": folder}
        except (ClusterError, FetchError, OSError, subprocess.TimeoutExpired) as failure:
            said = {"trouble": str(failure)}
        os.write(ready, json.dumps(said).encode() + b"\n")
        os.close(ready)
        if cluster is not None and "environ" in said:
            while not select.select([0, told], [], [], _LOOK)[0]:
                cluster.reap()
    finally:
        if cluster is not None:
            cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Starts the process that stays, and says what it says."""
    parser = argparse.ArgumentParser(description="Starts a private Slurm on this machine.")
    parser.add_argument("--nodes", type=int, default=2, help="how many nodes there are to be")
    parser.add_argument("--cpus", type=int, default=4, help="how many CPUs each of them claims")
    asked = parser.parse_args()
    hear, ready = os.pipe()
    if not os.fork():
        os.close(hear)
        os.setsid()
        try:
            _own(ready, asked.nodes, asked.cpus)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(0)
    os.close(ready)
    with open(hear) as file:
        print(file.read().strip() or json.dumps({"trouble": "It ended before it began."}))


if __name__ == "__main__":
    main()
