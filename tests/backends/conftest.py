"""What tests of jobs of many ranks share."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

import pytest

_TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def forking_python(tmp_path_factory: Any) -> Iterator[str]:
    """What a launch takes for its ranks' Python, and has TensorFlow imported already."""
    with subprocess.Popen(
        [sys.executable, str(_TESTS / "programs/nursery.py"), str(tmp_path_factory.mktemp("fork"))],
        env={**os.environ, "PYTHONPATH": str(_TESTS.parent), "TF_CPP_MIN_LOG_LEVEL": "2"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        universal_newlines=True,
    ) as nursery:
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        yield nursery.stdout.readline().strip()
        nursery.stdin.close()
