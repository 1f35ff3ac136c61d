"""Environment variables that describe a job, read as the adapter does, and their traps.

Source: the adapter's ge_plugin.cc (Init, SetRankTableFileEnv and SetCmChiefWorkSizeEnv), and its
manual's pages on environment variables (tfa_env).
"""

import json
import os
import re
from typing import Any, Dict, List, Mapping, Optional

from ascend_session.errors import JobError
from ascend_session.rank_folder import LAUNCHED
from ascend_session.text import join_words
from ascend_session.vendor import parse_seconds

RENDEZVOUS = "ASCEND_SESSION_RENDEZVOUS"
"""Variable with the name of the rendezvous on the stub."""

GRACE = "ASCEND_SESSION_GRACE"
"""Variable with the seconds between a launcher's SIGTERM and SIGKILL."""

STALL_NOTE = "ASCEND_SESSION_STALL_NOTE"
"""Variable with the seconds that a rank may wait before the launcher reports it; 0 for never."""

INDEPENDENT = "ASCEND_SESSION_INDEPENDENT"
"""Variable that is 1 where each rank trains a model of its own, as in a sweep."""

_CHIEF_VARIABLES = ("CM_CHIEF_IP", "CM_CHIEF_PORT", "CM_CHIEF_DEVICE", "CM_WORKER_SIZE")


def read_number(environ: Mapping[str, str], name: str) -> Optional[int]:
    """Read a variable as an int; None if it is unset or no number, which the adapter ignores."""
    text = environ.get(name, "").strip()
    # Newer releases of Python refuse to read numbers of thousands of digits.
    return int(text) if re.fullmatch(r"-?[0-9]{1,4000}", text) else None


def read_seconds(environ: Mapping[str, str], name: str) -> Optional[float]:
    """Read a variable as seconds with at most two decimals; None if it is anything else."""
    return parse_seconds(environ.get(name, ""))


def is_independent(environ: Mapping[str, str]) -> bool:
    """Return whether each rank of the job trains a model of its own, so that none is compared."""
    return environ.get(INDEPENDENT, "") not in ("", "0")


def check_stall_note(environ: Mapping[str, str]) -> None:
    """Raise JobError if `STALL_NOTE` is set but no number of seconds."""
    if environ.get(STALL_NOTE) and read_seconds(environ, STALL_NOTE) is None:
        raise JobError(
            f"{STALL_NOTE}={environ[STALL_NOTE]!r} is not a number of seconds, such as 60 or 0.5.",
            hint=f"export {STALL_NOTE}=60, or unset it.",
        )


def read_size(environ: Mapping[str, str]) -> Optional[int]:
    """Read the number of processes of the job; None if unset (-1 counts as unset)."""
    size = read_number(environ, "RANK_SIZE") or read_number(environ, "CM_WORKER_SIZE")
    return size if size is not None and size > 0 else None


def find_superseded(environ: Mapping[str, str]) -> List[str]:
    """List the launcher's settings that a script below it has overridden.

    Such a script starts and numbers ranks itself. The launcher's settings describe the script's
    process, so that they do not count for these ranks.
    """
    pairs = [pair.partition("=") for pair in environ.get(LAUNCHED, "").split()]
    launched = {name: value for name, _, value in pairs}
    names = [*launched, "RANK_ID", "RANK_SIZE"] if launched else []
    if all(environ.get(name) == launched.get(name) for name in names):
        return []
    return [name for name, value in launched.items() if environ.get(name) == value]


def uses_collectives(environ: Mapping[str, str]) -> bool:
    """Return whether the adapter starts HCCL: with a rank table, a chief, or HELP_CLUSTER."""
    return any(environ.get(name) for name in ("RANK_TABLE_FILE", "CM_CHIEF_IP", "HELP_CLUSTER"))


def read_task(environ: Mapping[str, str]) -> Any:
    """Read the ``task`` of ``TF_CONFIG``, of any JSON type; None without one."""
    return _read_tf_config(environ).get("task")


def read_task_type(environ: Mapping[str, str]) -> Optional[str]:
    """Read the task type in ``TF_CONFIG``, such as ``ps`` or ``evaluator``; None without one."""
    task = read_task(environ)
    kind = task.get("type") if isinstance(task, dict) else None
    return kind if isinstance(kind, str) else None


def has_parameter_servers(environ: Mapping[str, str]) -> bool:
    """Return whether ``TF_CONFIG`` describes a job with parameter servers."""
    cluster = _read_tf_config(environ).get("cluster")
    has_servers = isinstance(cluster, dict) and bool(cluster.get("ps"))
    return has_servers or read_task_type(environ) == "ps"


def _read_tf_config(environ: Mapping[str, str]) -> Dict[str, Any]:
    try:
        config = json.loads(environ.get("TF_CONFIG") or "{}")
    except (ValueError, RecursionError):
        return {}
    return config if isinstance(config, dict) else {}


def find_traps(environ: Mapping[str, str]) -> List[str]:
    """List, in sentences, contradictions in an environment that the adapter does not report.

    In most cases it silently switches collectives off, and every rank trains alone; in the others
    HCCL or the adapter aborts the process.
    """
    traps = []
    table, chief = environ.get("RANK_TABLE_FILE"), environ.get("CM_CHIEF_IP")
    size, rank = environ.get("RANK_SIZE"), environ.get("RANK_ID")
    workers = environ.get("CM_WORKER_SIZE")
    if table and chief:
        traps.append("RANK_TABLE_FILE and CM_CHIEF_IP are both set.")
    if table:
        if workers:
            traps.append("RANK_TABLE_FILE and CM_WORKER_SIZE are both set.")
        number = read_number(environ, "RANK_SIZE")
        if number is not None and (number == 0 or number < -1):
            traps.append(f"RANK_TABLE_FILE is set, but RANK_SIZE={number}.")
        if rank and read_number(environ, "RANK_ID") is None:
            traps.append(
                f"RANK_ID={rank!r} is not a rank; current HCCL aborts the process, with a rank "
                "table of version 1.0."
            )
    if chief:
        if size:
            traps.append("CM_CHIEF_IP and RANK_SIZE are both set.")
        missing = [name for name in _CHIEF_VARIABLES if not environ.get(name)]
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            traps.append(f"CM_CHIEF_IP is set, but {join_words(missing)} {verb} not.")
        number = read_number(environ, "CM_WORKER_SIZE")
        if workers and (number is None or number < 1):
            traps.append(f"CM_WORKER_SIZE={workers!r} is not a number of processes.")
    if not isinstance(read_task(environ), (dict, type(None))):
        traps.append("The task in TF_CONFIG is not an object; the adapter aborts the process.")
    task_type = read_task_type(environ)
    if task_type == "ps":
        traps.append(
            'TF_CONFIG says that this process is a "ps", for which the adapter does not initialise '
            "the device."
        )
    if task_type == "evaluator" and uses_collectives(environ):
        traps.append('TF_CONFIG says that this process is an "evaluator", for which HCCL is off.')
    return traps


def find_missing_table(environ: Mapping[str, str]) -> str:
    """Return an error if ``RANK_TABLE_FILE`` names no file; else an empty text.

    Alone this is harmless on the stub. With another error it is the first thing to look at.
    """
    table = environ.get("RANK_TABLE_FILE")
    is_missing = table and not os.path.isfile(table)
    return f"RANK_TABLE_FILE={table!r}: there is no such file." if is_missing else ""


def find_wrong_numbers(environ: Mapping[str, str]) -> List[str]:
    """List, in sentences, RANK_SIZE and RANK_ID if they are no numbers; none with a rank table.

    The adapter reads such a size as 1, and such a rank as 0 in every process.
    """
    if environ.get("RANK_TABLE_FILE"):
        return []
    problems = []
    size, rank = environ.get("RANK_SIZE"), environ.get("RANK_ID")
    if size and read_number(environ, "RANK_SIZE") is None:
        problems.append(f"RANK_SIZE={size!r} is not a number of processes, such as 8.")
    if rank and read_number(environ, "RANK_ID") is None and (read_size(environ) or 1) > 1:
        problems.append(f"RANK_ID={rank!r} is not a rank: give each process a number from 0.")
    return problems
