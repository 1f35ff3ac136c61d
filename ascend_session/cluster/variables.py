"""Variables that describe a job, read as the adapter reads them (ge_plugin.cc)."""

import json
import re
from typing import Any, Mapping, Optional

__all__ = [
    "COORDINATOR",
    "PORT",
    "RANK_FOLDER",
    "has_parameter_servers",
    "number",
    "seconds_given",
    "size_given",
    "task",
    "task_type",
    "uses_collectives",
]

RANK_FOLDER = "ASCEND_SESSION_RANK_FOLDER"
"""Names a rank's own folder, absolute; a process that has it was launched by this package."""

COORDINATOR = "ASCEND_SESSION_COORDINATOR"
"""Where rank 0 of a job on the stub listens for the others, ``host:port``."""

PORT = "ASCEND_SESSION_PORT"
"""The port that is kept for the TensorFlow server of this rank, in a job on the stub."""


def number(environ: Mapping[str, str], name: str) -> Optional[int]:
    """The variable as a number; None if unset or not a number, which the adapter ignores."""
    text = environ.get(name, "").strip()
    # Newer releases of Python refuse to read numbers of thousands of digits.
    return int(text) if re.fullmatch(r"-?[0-9]{1,4000}", text) else None


def seconds_given(environ: Mapping[str, str], name: str) -> Optional[float]:
    """The variable as seconds with at most two decimals; None if unset or anything else.

    Source: HCOMM, IsValidExecTimeOutMs in externalinput.cc.
    """
    text = environ.get(name, "")
    return float(text) if re.fullmatch(r"[0-9]{1,300}(\.[0-9]{1,2})?", text) else None


def uses_collectives(environ: Mapping[str, str]) -> bool:
    """Whether the adapter starts HCCL: with a rank table, a chief, or HELP_CLUSTER."""
    return any(environ.get(name) for name in ("RANK_TABLE_FILE", "CM_CHIEF_IP", "HELP_CLUSTER"))


def size_given(environ: Mapping[str, str]) -> Optional[int]:
    """How many processes the job has, where a variable says so; the adapter takes -1 for unset."""
    size = number(environ, "RANK_SIZE") or number(environ, "CM_WORKER_SIZE")
    return size if size is not None and size > 0 else None


def task(environ: Mapping[str, str]) -> Any:
    """The ``task`` of ``TF_CONFIG``, whatever it is; None without one."""
    config = _tf_config(environ)
    return config.get("task") if isinstance(config, dict) else None


def task_type(environ: Mapping[str, str]) -> Optional[str]:
    """What ``TF_CONFIG`` says that this process is: ``ps``, ``worker``, ``evaluator`` ..."""
    found = task(environ)
    kind = found.get("type") if isinstance(found, dict) else None
    return kind if isinstance(kind, str) else None


def has_parameter_servers(environ: Mapping[str, str]) -> bool:
    """Whether ``TF_CONFIG`` describes a job with parameter servers, or a process that is one."""
    config = _tf_config(environ)
    cluster = config.get("cluster") if isinstance(config, dict) else None
    return task_type(environ) == "ps" or (isinstance(cluster, dict) and bool(cluster.get("ps")))


def _tf_config(environ: Mapping[str, str]) -> Any:
    try:
        return json.loads(environ.get("TF_CONFIG") or "null")
    except (ValueError, RecursionError):
        return None
