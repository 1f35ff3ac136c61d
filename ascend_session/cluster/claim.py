"""What one source, such as a scheduler, says of a process's place in its job."""

import re
from typing import Mapping, NamedTuple, Optional, Tuple

from ascend_session.cluster.variables import number

__all__ = ["FIELDS", "Claim", "Said", "plain", "said"]

FIELDS = ("rank", "size", "local_rank", "local_size")
"""What two sources may not say differently."""


class Said(NamedTuple):
    """A number and the variable that says it."""

    value: int
    variable: str

    def __str__(self) -> str:
        return f"{self.variable}={self.value}"


class Claim(NamedTuple):
    """What one source says; None for what it does not say.

    Attributes:
        source: ``Slurm``, ``Open MPI``, ``PMIx``; ``this environment`` for the adapter's variables.
        key: Under which it is chosen, see `schedulers.CHOICE`; empty for this environment.
        where: What it says it of, such as ``step 42.0``; may be empty.
        rank: Number of the process, from 0.
        size: Number of processes.
        local_rank: Number of the process on its node, from 0.
        local_size: Number of processes on its node.
        node: The node, in words that differ between nodes; empty if nothing says it.
        seed: Text that is the same for all processes of the job, and for no other job; fit for
            ``JOB_ID``.
        hosts: How many nodes there are, and the name of the first; None if nothing says it.
        port: A port that is kept for the job on its nodes; None if there is none.
    """

    source: str
    key: str = ""
    where: str = ""
    rank: Optional[Said] = None
    size: Optional[Said] = None
    local_rank: Optional[Said] = None
    local_size: Optional[Said] = None
    node: str = ""
    seed: str = ""
    hosts: Optional[Tuple[int, str]] = None
    port: Optional[int] = None

    @property
    def name(self) -> str:
        """Source and place, as in ``Slurm, step 42.0``."""
        return f"{self.source}, {self.where}" if self.where else self.source

    @property
    def is_on_one_node(self) -> bool:
        """Whether it says that all processes are on one node."""
        if self.hosts is not None:
            return self.hosts[0] == 1
        return None not in (self.size, self.local_size) and (
            self.size[0] == self.local_size[0]  # type: ignore[index]
        )


def plain(text: str) -> str:
    """The text without what names of files and jobs had better not have, such as PMIx's ``@``."""
    return re.sub("[^A-Za-z0-9_-]", "_", text)[-100:]


def said(environ: Mapping[str, str], *names: str) -> Optional[Said]:
    """The first of these variables that is a number of 0 or more."""
    for name in names:
        value = number(environ, name)
        if value is not None and value >= 0:
            return Said(value, name)
    return None
