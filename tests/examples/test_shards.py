"""The example of a launched job, and the demo that ends with it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_session.examples.demo import RANKS, launch_words
from ascend_session.examples.digits import Examples
from ascend_session.examples.shards import share

TOP = Path(__file__).resolve().parents[2]


def test_the_shares_of_all_ranks_are_the_examples_each_once() -> None:
    numbers = list(range(21))
    shares = [share(Examples(numbers, numbers), rank, 8) for rank in range(8)]
    assert sorted(number for one in shares for number in one.images) == numbers
    assert all(one.images == one.labels for one in shares)


def test_the_demo_launches_eight_ranks_on_the_stub() -> None:
    words = launch_words("out", 3)
    assert RANKS == 8
    assert words[:5] == ["launch", "-n", "8", "--backend", "stub"]
    assert words[-6:] == [
        "-m",
        "ascend_session.examples.shards",
        "--epochs",
        "3",
        "--output",
        "out",
    ]


def test_launched_ranks_train_each_on_its_share(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    words = launch_words(str(tmp_path / "out"), 1)
    words[2] = "2"
    ended = subprocess.run(
        [sys.executable, "-m", "ascend_session.cli", *words],
        env={**os.environ, "PYTHONPATH": str(TOP)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    said = re.findall(r"^\[(\d)\] rank (\d) of 2 on device (\d): (\d+) images", ended.stdout, re.M)
    assert sorted(said) == [("0", "0", "0", "719"), ("1", "1", "1", "718")]
    assert (tmp_path / "out" / "rank_1" / "model.index").exists()
    assert "each trains alone" in ended.stdout
