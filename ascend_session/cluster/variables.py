"""Variables that describe a job, read as the adapter reads them (ge_plugin.cc)."""

import json
import re
from typing import Mapping, Optional

__all__ = ["number", "task_type", "uses_collectives"]


def number(environ: Mapping[str, str], name: str) -> Optional[int]:
    """The variable as a number; None if unset or not a number, which the adapter ignores."""
    text = environ.get(name, "").strip()
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else None


def uses_collectives(environ: Mapping[str, str]) -> bool:
    """Whether the adapter starts HCCL: with a rank table, a chief, or HELP_CLUSTER."""
    return any(environ.get(name) for name in ("RANK_TABLE_FILE", "CM_CHIEF_IP", "HELP_CLUSTER"))


def task_type(environ: Mapping[str, str]) -> Optional[str]:
    """What ``TF_CONFIG`` says that this process is: ``ps``, ``worker``, ``evaluator`` ..."""
    try:
        task = json.loads(environ.get("TF_CONFIG") or "null")["task"]["type"]
    except (ValueError, KeyError, TypeError):
        return None
    return task if isinstance(task, str) else None
