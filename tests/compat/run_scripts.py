"""Runs the text of a script as ``ascend-session run`` has it run, in a Python that forks."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Optional

from ascend_session.witness import RUN_VARIABLE, STARTUP, put_first

__all__ = ["PREFACE", "environment", "run_script"]

_REPOSITORY = Path(__file__).resolve().parents[2]

PREFACE = """
import os, sys
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()

def options(**values):
    proto = tf.ConfigProto()
    entry = proto.graph_options.rewrite_options.custom_optimizers.add()
    entry.name = "NpuOptimizer"
    for key, value in values.items():
        field = "b" if isinstance(value, bool) else "i" if isinstance(value, int) else "s"
        setattr(entry.parameter_map[key], field, value.encode() if field == "s" else value)
    proto.graph_options.rewrite_options.memory_optimization = 2
    proto.graph_options.rewrite_options.remapping = 2
    return proto
"""
"""What scripts begin with: TensorFlow in graph mode, and protos with an entry."""


def environment(**more: str) -> Dict[str, str]:
    """What scripts find in their environment."""
    path = [str(_REPOSITORY), more.pop("PYTHONPATH", os.environ.get("PYTHONPATH", ""))]
    own = {"PYTHONPATH": os.pathsep.join(filter(None, path)), "TF_CPP_MIN_LOG_LEVEL": "2"}
    return {**os.environ, **own, "PYTHONWARNINGS": "ignore::FutureWarning", **more}


def run_script(
    folder: Path,
    text: str,
    *arguments: str,
    python: str = sys.executable,
    asked: Optional[str] = "backend=stub",
    variables: Optional[Dict[str, str]] = None,
) -> Any:
    """Runs it to its end.

    Args:
        folder: Where it is written and run.
        text: The script.
        arguments: Its own.
        python: What runs it.
        asked: What the command asks the witness for.
        variables: More of the environment.
    """
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    given = environment(**(variables or {}))
    if asked is not None:
        given[RUN_VARIABLE] = asked
        given["PYTHONPATH"] = put_first(STARTUP, given["PYTHONPATH"])
    return subprocess.run(
        [python, "train.py", *arguments],
        cwd=folder,
        env=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
