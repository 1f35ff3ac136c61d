"""Plants faults in a copy of the checkout, one at a time, and says which test sees each.

``python scripts/_faults/plant.py [WORDS]`` plants those of ``faults.yaml`` whose sentence has all
WORDS, runs their tests with the interpreter it is started with, and ends with 1 if a fault is not
seen. A redesign keeps the sentences, and writes for each where it stands then.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Any, Dict, List

import yaml

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "ascend-logs", "digits-output")
_LIMIT_S = 1800.0


def read_faults() -> List[Dict[str, Any]]:
    """Read the faults: ``name``, the module ``file``, ``old`` and ``new`` text, and ``tests``."""
    with open(os.path.join(TOP, "scripts", "_faults", "faults.yaml"), encoding="utf-8") as file:
        faults: List[Dict[str, Any]] = yaml.safe_load(file)
    return faults


def find_failing_test(copy: str, tests: str) -> str:
    """Run tests in a copy of the checkout until one fails; return its name, or an empty text."""
    for name in tests.split():
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", name]
        ran = subprocess.run(
            command,
            cwd=copy,
            env={**os.environ, "PYTHONPATH": copy},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_LIMIT_S,
        )
        if ran.returncode:
            match = re.search(r"^(?:FAILED|ERROR) (\S+)", ran.stdout, re.MULTILINE)
            return match[1] if match else f"{name}: exit code {ran.returncode}"
    return ""


def plant(fault: Dict[str, Any], copy: str) -> str:
    """Plant a fault in a copy of the checkout, run its tests, and take it out again.

    Raises:
        ValueError: If the text that it replaces does not stand there once.
    """
    path = os.path.join(copy, "ascend_session", fault["file"])
    with open(path, encoding="utf-8") as file:
        right = file.read()
    if right.count(fault["old"]) != 1:
        raise ValueError(f"{fault['file']} does not have the text once: {fault['old']!r}")
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(right.replace(fault["old"], fault["new"]))
        return find_failing_test(copy, fault["tests"])
    finally:
        with open(path, "w", encoding="utf-8") as file:
            file.write(right)


def main(words: List[str]) -> int:
    """Plant the faults that have these words; return the exit code."""
    faults = [fault for fault in read_faults() if all(word in fault["name"] for word in words)]
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "checkout")
        shutil.copytree(TOP, copy, ignore=_LEFT_OUT)
        for fault in faults:
            seen = plant(fault, copy)
            missed += not seen
            print(f"{'seen' if seen else 'MISSED':6}  {fault['name']}  {seen}", flush=True)
    print(f"{len(faults) - missed} of {len(faults)} faults are seen.")
    return 1 if missed or not faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
