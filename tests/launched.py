"""Launches one of tests/programs as a job on the real launcher."""

import os
from pathlib import Path
from typing import Any

from ascend_session import LaunchConfig, LaunchResult, launch

__all__ = ["launched"]

_TESTS = Path(__file__).resolve().parent


def launched(program: str, ranks: int, folder: Path, **asked: Any) -> LaunchResult:
    """Runs it to its end.

    Args:
        program: Its name in tests/programs.
        ranks: How many of it.
        folder: Where it runs and leaves its logs.
        asked: More of `LaunchConfig`; the ranks find this project and what PYTHONPATH says.
    """
    path = os.pathsep.join(filter(None, [str(_TESTS.parent), os.environ.get("PYTHONPATH", "")]))
    own = {"PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "2"}
    config = {
        "script": str(_TESTS / "programs" / program),
        "processes": ranks,
        "backend": "stub",
        "cwd": str(folder),
        "show": "none",
        **asked,
        "env": {**own, **asked.get("env", {})},
    }
    return launch(LaunchConfig(**config))
