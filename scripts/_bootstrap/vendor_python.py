"""Knows the interpreter that has the vendor's packages, in which alone a device can be tested.

It is used as it is, for its TensorFlow, NumPy and protobuf are the vendor's choice. If its pytest
is missing or too old, one is put into a folder of its own. That folder is the first to be looked in
while pytest is imported, and then the last, so that it hides nothing else of the interpreter's.
"""

import json
import os
import shutil
import subprocess
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from interpreters import PROBE_SECONDS

PYTEST = "pytest>=7.4"
# Looked at in this order if PYTHON names none.
NAMES = ("python3", "python", "python3.7")

# A folder that merely has the name is no package: it has no origin.
PROBE = """
import importlib.util, json, sys
spec = importlib.util.find_spec("npu_bridge")
try:
    from pytest import __version__ as pytest_version
except ImportError:
    pytest_version = "0.0"
has_vendor = spec is not None and spec.origin not in (None, "namespace")
print(json.dumps([sys.executable, sys.version_info[:3], has_vendor, pytest_version]))
"""

# With -c the working directory is on the path, as it is with -m.
_RUN = """
import sys
folder = sys.argv.pop(1)
sys.path.insert(0, folder)
import pytest
sys.path.remove(folder)
sys.path.append(folder)
sys.exit(pytest.console_main())
"""


class VendorPython(NamedTuple):
    """An interpreter that has ``npu_bridge``."""

    executable: str
    version: Tuple[int, ...]
    has_pytest: bool

    def command(self, folder: Optional[str]) -> List[str]:
        """Return what runs pytest in it, taken from this folder unless it has its own."""
        if folder is None:
            return [self.executable, "-m", "pytest"]
        return [self.executable, "-c", _RUN, folder]


def tests_hardware(arguments: Sequence[str], top: str) -> bool:
    """Whether these arguments of pytest name hardware tests, and no others."""
    named: Dict[str, bool] = {}
    for folder in ("hardware_tests", "tests"):
        begin = os.path.join(top, folder)
        paths = (os.path.join(top, each.split("::")[0]) for each in arguments)
        named[folder] = any(
            os.path.normpath(path) == begin or os.path.normpath(path).startswith(begin + os.sep)
            for path in paths
        )
    return named["hardware_tests"] and not named["tests"]


def find_vendor_python(environ: Mapping[str, str], top: str) -> Optional[VendorPython]:
    """Return the interpreter that ``PYTHON`` names, else one on PATH, if it has ``npu_bridge``."""
    for name in [environ["PYTHON"]] if environ.get("PYTHON") else NAMES:
        path = shutil.which(name, path=environ.get("PATH"))
        found = path and _probe(path, environ, top)
        if found:
            return found
    return None


def _probe(path: str, environ: Mapping[str, str], top: str) -> Optional[VendorPython]:
    """Ask the program; with PYTHONPATH, by which the vendor's set_env.sh adds packages."""
    try:
        answer = subprocess.run(
            [path, "-c", PROBE],
            env=dict(environ),
            cwd=top,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PROBE_SECONDS,
        )
        executable, version, has_vendor, pytest_version = json.loads(answer.stdout.decode("utf-8"))
        numbers = tuple(int(part) for part in pytest_version.split(".")[:2])
    except (OSError, ValueError, TypeError, subprocess.TimeoutExpired):
        return None
    return VendorPython(executable, tuple(version), numbers >= (7, 4)) if has_vendor else None
