"""What a graph is built for: backend and ranks of the open system, else of the environment."""

import os
from typing import Any, Dict

from ascend_session.backends import choose, create
from ascend_session.backends.base import Backend
from ascend_session.cluster.job import Job
from ascend_session.cluster.variables import has_parameter_servers
from ascend_session.errors import JobError, UnsupportedError
from ascend_session.session.conditions import RANKS_OF_GRAPH
from ascend_session.session.system import current_system

_created: Dict[str, Backend] = {}


def graph_backend() -> Backend:
    """Return the backend whose operators go into a graph that is built now.

    Building the graph before a system is open is the normal case; then it is the backend that
    ``ascend_system()`` chooses in this environment, made once for a process.

    Raises:
        BackendError: If that backend cannot run here.
    """
    system = current_system()
    if system is not None:
        return system.graph_backend
    choice = choose("auto", os.environ)
    if choice.name not in _created:
        _created[choice.name] = create(choice, os.environ)
    return _created[choice.name]


def job_size(what: str) -> int:
    """Return the number of ranks: the open system's, else what the environment says.

    ``JOB_ID``, without which the vendor's optimizers end in an AttributeError (npu_common.py,
    ``NPUBasics``), is not read.

    Args:
        what: What needs it, as the beginning of a sentence.

    Raises:
        JobError: If the environment describes no job, or does not say how many ranks it has.
        UnsupportedError: In a job with parameter servers.
    """
    environ = os.environ
    if has_parameter_servers(environ):
        raise UnsupportedError(
            f"{what}: here each rank of a job has all variables, but TF_CONFIG describes a job "
            "with parameter servers (ps), which have them.",
            hint="unset TF_CONFIG, or train with the optimizer itself: the servers' variables "
            "take the gradients of all workers.",
        )
    system = current_system()
    if system is not None:
        return system.size
    if environ.get("RANK_SIZE") and environ.get("CM_WORKER_SIZE"):
        # util.py, get_ranksize: ValueError; ge_plugin.cc leaves collectives off without a word
        raise JobError(
            f"RANK_SIZE={environ['RANK_SIZE']} and CM_WORKER_SIZE={environ['CM_WORKER_SIZE']} are "
            "both set; the adapter would leave collectives off, and each rank train alone.",
            hint="unset CM_WORKER_SIZE in a job with a rank table, RANK_SIZE in one without.",
        )
    job = Job.detect(environ)
    if environ.get("RANK_TABLE_FILE") and job.identity.size is None:
        raise JobError(
            f"{what} needs the number of ranks while the graph is built, but only the rank table "
            "knows it: RANK_SIZE is not set.",
            hint="export RANK_SIZE, or build the graph inside the block of ascend_system(...).",
        )
    return job.size


def job_rank() -> int:
    """Return the rank of this process: the open system's, else what the environment says.

    Raises:
        JobError: If the environment describes no job.
    """
    system = current_system()
    return Job.detect(os.environ).rank if system is None else system.rank


def note_size(graph: Any, size: int) -> None:
    """Note in ``graph`` how many ranks it is for; opening a session compares it with the job."""
    if size not in graph.get_collection(RANKS_OF_GRAPH):
        graph.add_to_collection(RANKS_OF_GRAPH, size)
