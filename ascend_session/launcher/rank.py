"""One rank of a plan."""

from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId

__all__ = ["Rank"]


class Rank(NamedTuple):
    """What is started as one rank of a job, and where it runs.

    Attributes:
        rank: Its number in the job, from 0.
        local: Its number on this node, from 0.
        command: The program, by its absolute path, and its arguments.
        cwd: Working directory, absolute.
        environment: The complete environment.
        changed: The part of it that differs from the launcher's environment.
        device: Logical id of its device.
        physical: Physical id of its device; None on the stub.
        cpus: The CPUs that it may use; None means those of the launcher.
        folder: Its own folder, absolute. It, ``plog`` and ``work`` are made before the start.
        stdout: File for what it writes to standard output.
        stderr: File for what it writes to standard error.
        plog: Folder for the vendor's logs.
        work: Folder for what the vendor's stack leaves behind.
    """

    rank: int
    local: int
    command: Tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    changed: Mapping[str, str]
    device: LogicalDeviceId
    physical: Optional[PhysicalDeviceId]
    cpus: Optional[Tuple[int, ...]]
    folder: str
    stdout: str
    stderr: str
    plog: str
    work: str

    def as_dict(self, complete: bool = False) -> Dict[str, Any]:
        """The rank as plain values.

        Args:
            complete: Whether to add the whole environment, which may hold secrets.
        """
        found: Dict[str, Any] = {
            "rank": self.rank,
            "command": list(self.command),
            "cwd": self.cwd,
            "device_id": int(self.device),
            "physical_id": None if self.physical is None else int(self.physical),
            "cpus": None if self.cpus is None else list(self.cpus),
            "folder": self.folder,
            "stdout": self.stdout,
            "stderr": self.stderr,
            "plog": self.plog,
            "work": self.work,
            "changed": dict(self.changed),
        }
        return {**found, "environment": dict(self.environment)} if complete else found
