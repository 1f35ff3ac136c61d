"""Starts a program as the launcher starts a rank."""

import os
from pathlib import Path
from typing import Dict, List, Mapping, Sequence, Tuple

from ascend_session.witness import STARTUP, put_first

__all__ = ["as_rank"]

_NAME_ITSELF = 'ASCEND_SESSION_RANK_PID=$$ exec "$@"'


def as_rank(
    command: Sequence[str], folder: Path, added: Mapping[str, str]
) -> Tuple[List[str], Dict[str, str]]:
    """The command, and what is to be added to the environment; the pid is the rank's then."""
    path = added.get("PYTHONPATH", os.environ.get("PYTHONPATH"))
    variables = {"ASCEND_SESSION_RANK_FOLDER": str(folder), **added}
    variables["PYTHONPATH"] = put_first(STARTUP, path)
    return ["/bin/sh", "-c", _NAME_ITSELF, "sh", *command], variables
