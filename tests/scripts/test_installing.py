"""What the failures of venv and pip mean, in one sentence."""

import sys
from pathlib import Path

import pytest

from environments import Environment
from installing import explain

BROKEN_LINK = (
    "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...)'\n"
)
NOTHING = (
    "ERROR: Could not find a version that satisfies the requirement rich (from versions: none)\n"
    "ERROR: No matching distribution found for rich\n"
)
OLDER_ONLY = (
    "ERROR: Could not find a version that satisfies the requirement rich>99 (from versions: 1)\n"
    "ERROR: No matching distribution found for rich>99\n"
)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("ERROR: [Errno 28] No space left on device\n", "because the disk is full: make room"),
        (BROKEN_LINK + NOTHING, "because the package index could not be reached: connect"),
        (NOTHING, 'because pip was offered no "rich" at all: check the network'),
        (OLDER_ONLY, 'installation failed ("No matching distribution found for rich>99"):'),
        ("building\nerror: no compiler\nhint: x\n", 'installation failed ("no compiler"):'),
        ("Killed\n", 'installation failed ("Killed"):'),
        ("", 'installation failed ("pip said nothing"):'),
    ],
)
def test_a_failure_is_named_together_with_its_log(tmp_path: Path, log: str, words: str) -> None:
    environment = Environment(str(tmp_path), "py37", "", sys.executable)
    (tmp_path / ".venv").mkdir()
    Path(environment.log).write_text(log)
    sentence = explain(environment)
    assert sentence.startswith(".venv/py37 could not be set up because ")
    assert words in sentence
    assert sentence.endswith(f"and run this again (the details are in {environment.log}).")
