"""Whether the adapter would make one job of this process and the others that it belongs to.

What is refused on every backend stands in ``cluster/variables.py``; this is what only a device
needs.
"""

import os
from typing import Mapping

from ascend_session.cluster.job import Job
from ascend_session.cluster.schedulers import CHOICE, SourcedNumber
from ascend_session.cluster.variables import uses_collectives
from ascend_session.errors import JobError

__all__ = ["check_job"]


def check_job(job: Job, environ: Mapping[str, str]) -> None:
    """Refuses what would train alone without a word, or end the process.

    Source: launch_facts.md, A6; ge_plugin.cc, Init.

    Raises:
        JobError: With what is missing.
    """
    if job.size > 1 and not uses_collectives(environ):
        given = next(
            (claim.size for claim in job.identity.claims if claim.key and claim.size), None
        )
        name = "RANK_SIZE" if environ.get("RANK_SIZE") else "CM_WORKER_SIZE"
        alone = f"unset {name}" if given is None else f"export {CHOICE}=none"
        raise JobError(
            f"{given or SourcedNumber(job.size, name)}, but neither RANK_TABLE_FILE nor "
            "CM_CHIEF_IP is set: the adapter would leave collectives off without a word, and each "
            "rank train alone.",
            hint=f"export RANK_TABLE_FILE, or {alone} to train alone.",
        )
    if environ.get("RANK_TABLE_FILE"):
        _check_table(environ)


def _check_table(environ: Mapping[str, str]) -> None:
    path = environ["RANK_TABLE_FILE"]
    if not os.path.isfile(path):
        raise JobError(
            f"RANK_TABLE_FILE={path!r}: there is no such file; HCCL would end the process.",
            hint="export RANK_TABLE_FILE as the path of the job's rank table.",
        )
    if not environ.get("RANK_ID") and not environ.get("POD_NAME"):
        raise JobError(
            "RANK_TABLE_FILE is set, but neither RANK_ID nor POD_NAME says which of its ranks "
            "this process is; HCCL would fail.",
            hint="export RANK_ID as this process's rank, from 0.",
        )
