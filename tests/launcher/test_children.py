"""Processes as a look sees them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ascend_session.launcher.job.children import SeenProcess


def _look_at_replaced(program: Path) -> SeenProcess:
    """Look at a program that runs, and whose file was replaced as by an update."""
    process = subprocess.Popen([str(program), "1000"])  # returns when the program runs
    try:
        os.unlink(os.path.realpath(str(program)))
        seen = SeenProcess(process.pid)
        assert seen.program  # is read now
        return seen
    finally:
        process.kill()
        process.wait()


def _copy_sleep(path: Path) -> Path:
    return Path(shutil.copy(str(shutil.which("sleep")), str(path)))


def test_a_shell_whose_file_was_replaced_is_one(tmp_path: Path) -> None:
    assert _look_at_replaced(_copy_sleep(tmp_path / "bash")).is_shell


@pytest.mark.parametrize(("name", "is_shell"), [("sh", True), ("sleep", False)])
def test_one_file_for_many_programs_is_a_shell_only_under_its_name(
    tmp_path: Path, name: str, is_shell: bool
) -> None:
    (tmp_path / name).symlink_to(_copy_sleep(tmp_path / "busybox"))
    assert _look_at_replaced(tmp_path / name).is_shell is is_shell
