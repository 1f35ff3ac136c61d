"""`result.json` in the folder of a launch."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest

from ascend_session import LaunchConfig, launch
from ascend_session.launcher.job.reports import Reports
from ascend_session.launcher.plan.plan import plan_job
from ascend_session.launcher.verdict.result import begin_result, format_result
from ascend_session.launcher.verdict.saved import write_result_of_killed
from tests.launcher.nodes import Node
from tests.launcher.supervised import PATIENCE, Gate, config
from tests.waiting import wait_until

_ROOT = Path(__file__).resolve().parents[2]
_FAILS = "if rank: raise ValueError('no data')"


def _read(folder: Path) -> Dict[str, Any]:
    path = folder / "logs" / "latest" / "result.json"
    values: Dict[str, Any] = json.loads(path.read_text())
    return values


def _start(folder: Path, code: str, *options: str) -> "subprocess.Popen[str]":
    (folder / "train.py").write_text(code)
    command = [sys.executable, "-m", "ascend_session", "launch", "--log-dir", str(folder / "logs")]
    return subprocess.Popen(
        [*command, "--backend", "stub", "-n", "2", *options, "train.py"],
        cwd=str(folder),
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )


@pytest.mark.parametrize("code", ["", _FAILS])
def test_it_is_the_result_of_the_launch(tmp_path: Path, code: str) -> None:
    result = launch(config(tmp_path, code, 2))
    assert _read(tmp_path) == json.loads(json.dumps(result.as_dict()))


def test_it_is_what_json_prints(tmp_path: Path) -> None:
    code = "import argparse\nargparse.ArgumentParser().parse_args()"
    process = _start(tmp_path, code, "--json")
    printed, _ = process.communicate(timeout=PATIENCE)
    assert _read(tmp_path) == json.loads(printed)


def test_it_has_the_advice_that_the_command_gives(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import argparse\nargparse.ArgumentParser().parse_args()")
    command = [sys.executable, "-m", "ascend_session", "launch", "--log-dir", "logs", "-n", "1"]
    subprocess.run(
        [*command, "--backend", "stub", "train.py", "--timestamps"],
        cwd=str(tmp_path),
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        timeout=PATIENCE,
        check=False,
    )
    assert (
        "Put options of ascend-session launch first"
        in _read(tmp_path)["attempts"][0]["cause"]["advice"]
    )


def test_it_has_every_attempt(tmp_path: Path) -> None:
    again = str(tmp_path / "again")
    code = f"if not os.path.exists({again!r}): open({again!r}, 'w'); os.kill(os.getpid(), 9)"
    result = launch(config(tmp_path, code, 1, max_restarts=1))
    assert len(result.attempts) == 2
    values = _read(tmp_path)
    assert [attempt["number"] for attempt in values["attempts"]] == [1, 2]
    assert values["attempts"][0]["cause"]["exit_code"] == 137


def test_each_node_has_its_own(tmp_path: Path) -> None:
    nodes = [Node(tmp_path, number, "print('here')") for number in (0, 1)]
    results = [node.result() for node in nodes]
    paths = sorted(tmp_path.glob("logs/*.node_*/result.json"))
    assert [json.loads(path.read_text())["run"] for path in paths] == [
        result.run for result in results
    ]


def test_of_a_launcher_that_is_killed_the_guardian_writes_it(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    code = f"""
import os, signal
rank = os.environ["RANK_ID"]
with open({str(gate.path)!r}, "w") as file:
    file.write(rank + chr(10))
if rank == "0":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(3))
while True:
    signal.pause()
"""
    process = _start(tmp_path, code, "--grace", "20")
    gate.lines(2)
    process.kill()
    process.communicate(timeout=PATIENCE)
    wait_until(lambda: (tmp_path / "logs" / "latest" / "result.json").exists(), PATIENCE)
    gate.close()
    values = _read(tmp_path)
    assert values["code"] == 128 + signal.SIGKILL
    (attempt,) = values["attempts"]
    assert attempt["cause"]["said"] == "The launcher was killed."
    assert attempt["ended"] > attempt["started"]
    assert [rank["outcome"] for rank in attempt["ranks"]] == ["stopped", "stopped"]
    assert attempt["ranks"][1]["status"] == -signal.SIGTERM
    assert all(rank["pid"] and rank["started"] for rank in attempt["ranks"])
    assert {*values} == {*launch(config(tmp_path / "other", "", 1)).as_dict()}


def test_of_a_killed_launcher_of_a_later_node_it_has_what_became_of_its_own_ranks(
    tmp_path: Path,
) -> None:
    asked: Dict[str, Any] = {"processes": 4, "nnodes": 2, "node_rank": 1, "set": {"aoe_mode": "2"}}
    asked.update(program="/bin/sh", backend="stub", log_dir=str(tmp_path))
    plan = plan_job(LaunchConfig(**asked), dict(os.environ))
    reports = Reports()
    for rank in (0, 4, 5):  # the first one here counts
        options = [["aoe_mode", "2", f"of rank {rank}"]]
        reports.note(rank, 100 + rank, {"kind": "replaced", "options": options})
    events = [
        *(("start", rank, 100 + rank, 1.0) for rank in (4, 5, 6)),
        ("not_started", 7, "started", 2, "No such file or directory", 2.0),
        ("exit", 4, 0, 3.0),
        ("exit", 5, 3, 4.0),
        ("stopping", "failure", 5.0),
        ("exit", 6, -signal.SIGTERM, 6.0),
        ("left_behind", ("7 sleep",), 7.0),
        ("over", ("8 sleep",), 9.0),
    ]
    folders = [rank.folder for rank in plan.ranks]
    os.makedirs(os.path.dirname(plan.folder))
    text = format_result(begin_result(plan, (), 0.5))
    write_result_of_killed(text, folders, events, reports)
    path = os.path.join(os.path.dirname(plan.folder), "result.json")
    values = json.loads(Path(path).read_text())
    assert values["replaced"] == [["aoe_mode", "2", "of rank 4"]]
    (attempt,) = values["attempts"]
    assert [attempt[name] for name in ("swept", "left", "ended")] == [["7 sleep"], ["8 sleep"], 9.0]
    names = ("rank", "outcome", "pid", "status", "started", "ended")
    assert [[rank[name] for name in names] for rank in attempt["ranks"]] == [
        [4, "succeeded", 104, 0, 1.0, 3.0],
        [5, "failed", 105, 3, 1.0, 4.0],
        [6, "stopped", 106, -signal.SIGTERM, 1.0, 6.0],
        [7, "not started", None, None, None, 2.0],
    ]
    trouble = "Rank 7 could not be started: No such file or directory."
    assert attempt["ranks"][3]["trouble"] == trouble


def test_one_that_cannot_be_written_is_a_note(tmp_path: Path) -> None:
    def take_away(event: Any) -> None:
        if type(event).__name__ == "Over":
            (folder,) = (path for path in (tmp_path / "logs").iterdir() if not path.is_symlink())
            (folder / "result.json").mkdir()

    result = launch(config(tmp_path, "", 1), on_event=take_away)
    assert result.ok
    assert result.notes == ("result.json could not be written: Is a directory.",)


def test_explain_reads_the_logs_beside_it(tmp_path: Path) -> None:
    result = launch(config(tmp_path, _FAILS, 2))
    for folder in (tmp_path / "logs", tmp_path / "logs" / result.run):
        printed = subprocess.run(
            [sys.executable, "-m", "ascend_session", "explain", str(folder)],
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            stdout=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
            check=True,
        ).stdout
        assert "ValueError: no data" in printed
        assert "result.json" not in printed
