"""The adapter's own variables, for a rank that a scheduler has started without them.

The adapter reads RANK_ID, RANK_SIZE, ASCEND_DEVICE_ID and RANK_TABLE_FILE from the environment of
its process (launch_facts.md, A6), and nothing of Slurm's, Open MPI's or Kubernetes'. So they are
there while a system is open, and gone afterwards.
"""

import os
from typing import Dict, Mapping, Optional

from ascend_session.cluster.job import Job
from ascend_session.cluster.kubernetes import find_mounted_place
from ascend_session.cluster.schedulers import read_identity

__all__ = ["Exports"]


class Exports:
    """What a scheduler says, under the adapter's names.

    Args:
        environ: The environment of the process; what it says itself stays.

    Attributes:
        variables: What is missing there; nothing for a rank alone, and without a scheduler.

    Raises:
        JobError: If two sources say different things of this process.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.variables: Dict[str, str] = {}
        self._before: Dict[str, Optional[str]] = {}
        identity = read_identity(environ)
        mounted = find_mounted_place(environ, identity)
        if mounted is not None:
            self.variables = mounted.missing_variables(environ)
            return
        claim = identity.scheduler
        job = None if claim is None else Job.detect(environ)
        if claim is None or job is None or job.size == 1:
            return
        wanted = {"JOB_ID": claim.seed}
        if not environ.get("CM_CHIEF_IP"):  # where they would switch collectives off
            wanted.update(RANK_ID=str(job.rank), RANK_SIZE=str(job.size))
        if not environ.get("DEVICE_ID"):
            wanted["ASCEND_DEVICE_ID"] = str(job.device_id)
        missing = {name: value for name, value in wanted.items() if not environ.get(name)}
        self.variables = {name: value for name, value in missing.items() if value}

    def set(self) -> None:
        """Puts them into the environment of this process."""
        self._before = {name: os.environ.get(name) for name in self.variables}
        os.environ.update(self.variables)

    def unset(self) -> None:
        """Makes them what they were, empty or not there; does nothing if they are not set."""
        before, self._before = self._before, {}
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
