"""The command becomes the script's plain Python, in this very process."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.compat.run_scripts import environment

SCRIPT = """
import os, sys
print(sys.argv, "ASCEND_SESSION_RUN" in os.environ, os.getppid(), __name__)
print({n: v for n, v in os.environ.items() if n.startswith("ASCEND_SESSION")}, sys.warnoptions)
sys.exit(5)
"""


def ran(folder: Path, *words: str) -> Any:
    (folder / "train.py").write_text(SCRIPT)
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "ascend_session.cli", "run", *words],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_script_gets_its_arguments_and_the_commands_process(tmp_path: Path) -> None:
    ended = ran(tmp_path, "train.py", "--strict", "-x")
    assert ended.returncode == 5, ended.stderr
    first, second = ended.stdout.splitlines()
    assert first == f"['train.py', '--strict', '-x'] False {os.getpid()} __main__"
    assert second.startswith("{} ['ignore")


def test_a_module_and_what_the_command_itself_is_asked(tmp_path: Path) -> None:
    ended = ran(tmp_path, "--backend", "stub", "--strict", "-m", "train", "a")
    assert ended.returncode == 5, ended.stderr
    first, second = ended.stdout.splitlines()
    assert first.startswith(f"['{tmp_path / 'train.py'}', 'a']")
    assert "{'ASCEND_SESSION_STRICT': '1', 'ASCEND_SESSION_BACKEND': 'stub'}" in second


def test_a_backend_that_is_none_starts_nothing(tmp_path: Path) -> None:
    ended = ran(tmp_path, "--backend", "gpu", "train.py")
    assert ended.returncode == 2
    assert "is not a backend" in ended.stderr
    assert ended.stdout == ""
