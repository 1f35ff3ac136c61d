"""Jobs whose processes are killed at random."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).resolve().parents[2]
BENCH = TOP / "scripts" / "_bench"


@pytest.fixture
def chaos(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return import_module("chaos")


def test_the_same_seed_gives_the_same_strikes(chaos: Any) -> None:
    strikes = chaos.draw(7, 200)
    assert strikes == chaos.draw(7, 200)
    assert strikes != chaos.draw(8, 200)
    assert {strike.victim for strike in strikes} == set(chaos.VICTIMS)
    assert {strike.signals for strike in strikes} == set(chaos.SIGNALS)
    assert {strike.rank for strike in strikes} == set(range(8))


def test_files_that_are_torn_are_named(tf: Any, chaos: Any, tmp_path: Path) -> None:
    tf.get_variable("weight", initializer=[1.0] * 1000)
    checkpoints = tmp_path / "checkpoints"
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        tf.train.Saver().save(sess, str(checkpoints / "model"))
    whole = {"history.json": "[]", "1.events.jsonl": "{}\n{}\n", "1.result.json": "", "a.log": "x"}
    for name, text in whole.items():
        (tmp_path / name).write_text(text)
    assert list(chaos.find_torn_files(tmp_path)) == []
    (tmp_path / "history.json").write_text("[1,")
    (tmp_path / "1.events.jsonl").write_text('{}\n{"event"')
    (tmp_path / "a.log").write_bytes(b"\xc3")
    (data,) = checkpoints.glob("model.data*")
    os.truncate(str(data), 100)
    faults = chaos.find_torn_files(tmp_path)
    torn = sorted(Path(fault.split()[0].rstrip(":")).name for fault in faults)
    assert torn == ["1.events.jsonl", "1.events.jsonl", "a.log", "history.json", "model.index"]


@pytest.mark.nightly  # it trains on eight ranks, a dozen times
def test_five_jobs_survive_chaos() -> None:
    ended = subprocess.run(
        [sys.executable, str(BENCH / "bench.py"), "--chaos", "--launches", "5", "--seed", "1346"],
        env={**os.environ, "PYTHONPATH": str(TOP)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=550,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.splitlines()[-1] == "5 of 5 launches ended as they should."
