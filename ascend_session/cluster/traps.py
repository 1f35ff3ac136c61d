"""Environments that describe no job, although the adapter does not say so.

In most of them it switches collectives off without a word, and every rank trains alone; with the
others HCCL or the adapter ends the process. Source: launch_facts.md, A6 (ge_plugin.cc, Init,
SetRankTableFileEnv and SetCmChiefWorkSizeEnv).
"""

from typing import List, Mapping

from ascend_session.cluster.variables import number, task, task_type, uses_collectives

__all__ = ["traps"]

_CM_FAMILY = ("CM_CHIEF_IP", "CM_CHIEF_PORT", "CM_CHIEF_DEVICE", "CM_WORKER_SIZE")


def traps(environ: Mapping[str, str]) -> List[str]:
    """What is wrong with the job that ``environ`` describes, in sentences; empty if nothing."""
    found = []
    table, chief = environ.get("RANK_TABLE_FILE"), environ.get("CM_CHIEF_IP")
    if table and chief:
        found.append("RANK_TABLE_FILE and CM_CHIEF_IP are both set.")
    if table:
        found += _with_table(environ)
    if chief:
        found += _with_chief(environ)
    if not isinstance(task(environ), (dict, type(None))):
        found.append("The task in TF_CONFIG is no object; the adapter ends the process.")
    if task_type(environ) == "ps":
        found.append(
            'TF_CONFIG says that this process is a "ps", for which the adapter does not initialise '
            "the device."
        )
    if task_type(environ) == "evaluator" and uses_collectives(environ):
        found.append('TF_CONFIG says that this process is an "evaluator", for which HCCL is off.')
    return found


def _with_table(environ: Mapping[str, str]) -> List[str]:
    found = []
    if environ.get("CM_WORKER_SIZE"):
        found.append("RANK_TABLE_FILE and CM_WORKER_SIZE are both set.")
    size = number(environ, "RANK_SIZE")
    if size is not None and (size == 0 or size < -1):
        found.append(f"RANK_TABLE_FILE is set, but RANK_SIZE={size}.")
    rank, text = number(environ, "RANK_ID"), environ.get("RANK_ID")
    if text and rank is None:
        found.append(f"RANK_ID={text!r} is no rank; HCCL ends the process.")
    return found


def _with_chief(environ: Mapping[str, str]) -> List[str]:
    found = []
    if environ.get("RANK_SIZE"):
        found.append("CM_CHIEF_IP and RANK_SIZE are both set.")
    missing = [name for name in _CM_FAMILY if not environ.get(name)]
    if missing:
        *others, last = missing
        named = f"{', '.join(others)} and {last} are" if others else f"{last} is"
        found.append(f"CM_CHIEF_IP is set, but {named} not.")
    size = number(environ, "CM_WORKER_SIZE")
    if environ.get("CM_WORKER_SIZE") and (size is None or size < 1):
        found.append(f"CM_WORKER_SIZE={environ['CM_WORKER_SIZE']!r} is no number of processes.")
    return found
