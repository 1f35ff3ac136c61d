"""The packages that nothing but a command of their own needs can be cut out of the package."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "ascend_session"
LEAVES = {"aoe": ["aoe", "report"], "audit": ["audit", "."], "compat": ["run", "train.py"]}
TRAIN = """
import numpy as np
import tensorflow.compat.v1 as tf
from ascend_session import AscendConfig, ascend_session, current_system, hccl

tf.disable_eager_execution()
config = AscendConfig(precision_mode="allow_mix_precision")
assert config.parameter_map()["precision_mode"] == "allow_mix_precision"
with ascend_session(config) as session:
    total = session.run(hccl.allreduce(np.float32(current_system().rank + 1), "sum"))
    print("total", total)
"""


@pytest.fixture
def command(tmp_path):
    """Calls the command of a copy of the package in which packages are missing."""

    def command(*words, without):
        copy = tmp_path / "copy"
        if not copy.exists():

            def ignored(folder, names):
                return {*without} if Path(folder) == PACKAGE else ()

            shutil.copytree(str(PACKAGE), str(copy / "ascend_session"), ignore=ignored)
            (tmp_path / "train.py").write_text(TRAIN)
        return subprocess.run(
            [sys.executable, "-m", "ascend_session.cli", *words],
            cwd=str(tmp_path),
            env={**os.environ, "PYTHONPATH": str(copy), "TF_CPP_MIN_LOG_LEVEL": "2"},
            capture_output=True,
            text=True,
        )

    return command


def test_without_any_leaf_a_job_trains_on_the_stub(command):
    done = command(
        "launch", "-n", "2", "--backend", "stub", "train.py", without=[*LEAVES, "testing"]
    )
    assert (done.returncode, sorted(done.stdout.splitlines())) == (
        0,
        ["[0] total 3.0", "[1] total 3.0"],
    ), done.stderr


@pytest.mark.parametrize("leaf", sorted(LEAVES))
def test_the_command_of_a_missing_leaf_says_so_and_stays_in_the_help(command, leaf):
    asked = LEAVES[leaf]
    done = command(*asked, without=[leaf])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"ascend-session: error: `ascend-session {asked[0]}` needs the package "
        f"ascend_session.{leaf}, which is not part of this installation.\n"
        "  hint: Install ascend_session with all of its packages.\n"
    )
    listed = command("--help", without=[leaf])
    assert (listed.returncode, listed.stderr) == (0, "")
    assert f"\n  {asked[0]} " in listed.stdout
