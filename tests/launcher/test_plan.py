"""The plan as a whole: commands, folders, attempts, and what making it costs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest

from ascend_session.errors import BackendError, JobError
from ascend_session.launcher.plan.plan import plan_job
from tests.launcher.jobs import Bench, bench

__all__ = ["bench"]

HEAVY = {"tensorflow", "numpy", "rich", "click", "yaml", "psutil", "tenacity", "attr"}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"script": "train.py"}, [sys.executable, "train.py"]),
        ({"module": "package.main"}, [sys.executable, "-m", "package.main"]),
        ({"module": "package", "python": "/bin/sh"}, ["/bin/sh", "-m", "package"]),
        ({"program": "/bin/sh"}, ["/bin/sh"]),
    ],
)
def test_a_rank_runs_what_was_asked_for(bench: Bench, asked: Dict[str, Any], words: Any) -> None:
    made = bench.plan(**asked, args=["--epochs", "3", "a b"], processes=2)
    assert [list(rank.command) for rank in made.ranks] == [[*words, "--epochs", "3", "a b"]] * 2


def test_a_program_is_looked_for_as_in_a_shell(bench: Bench) -> None:
    tool = bench.folder / "bin" / "tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    for asked in (
        {"program": "tool", "env": {"PATH": str(tool.parent)}},
        {"program": "tool", "env": {"PATH": "bin"}},
        {"program": "bin/tool"},
    ):
        assert bench.plan(processes=1, **asked).ranks[0].command == (str(tool),)


@pytest.mark.parametrize("asked", [{}, {"log_dir": "logs"}])
def test_a_relative_path_in_a_folder_that_was_removed_is_refused(
    bench: Bench, tmp_path_factory: Any, monkeypatch: Any, asked: Dict[str, Any]
) -> None:
    gone = tmp_path_factory.mktemp("gone")
    monkeypatch.chdir(gone)
    gone.rmdir()
    own_folder = {"cwd": str(bench.folder)} if asked else {"cwd": None}
    with pytest.raises(JobError, match="working directory has been removed"):
        bench.plan(processes=1, script="train.py", **own_folder, **asked)


@pytest.mark.parametrize("name", ["-c", "-m"])
def test_a_script_that_begins_with_a_dash_is_no_option(bench: Bench, name: str) -> None:
    (bench.folder / name).write_text("print('ran')")
    rank = bench.plan(script=name, processes=1).ranks[0]
    said = subprocess.run(rank.command, cwd=rank.cwd, stdout=subprocess.PIPE, check=True)
    assert said.stdout == b"ran\n"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"script": "no.py"}, "There is no script /"),
        (
            {"program": "no_such_tool", "processes": 1},
            "program='no_such_tool': no folder of PATH='/usr/bin:/bin'",
        ),
        ({"program": "./train.py", "processes": 1}, "train.py does not exist or is not executable"),
        ({"python": "no_such_python"}, "python='no_such_python': no folder of PATH"),
        ({"cwd": "/no/such/folder"}, "there is no folder /no/such/folder"),
    ],
)
def test_what_is_not_there_is_refused(bench: Bench, asked: Dict[str, Any], said: str) -> None:
    with pytest.raises(JobError) as refused:
        bench.plan(**asked)
    assert said in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize("note", ["a minute", "-1", "nan", "inf"])
def test_a_time_for_notes_that_is_none_is_refused(bench: Bench, note: str) -> None:
    with pytest.raises(JobError, match="is not a number of seconds"):
        bench.plan(env={"ASCEND_SESSION_STALL_NOTE": note})
    bench.plan(env={"ASCEND_SESSION_STALL_NOTE": "0.5"})


def test_a_backend_that_is_none_is_refused(bench: Bench) -> None:
    with pytest.raises(BackendError, match="'gpu' is not a backend"):
        bench.plan(backend="gpu")


def test_each_rank_has_folders_and_files_of_its_own(bench: Bench) -> None:
    made = bench.plan(processes=12)
    assert made.folder == str(bench.folder / "ascend-logs" / made.job_id / "attempt_1")
    for number, rank in enumerate(made.ranks):
        assert rank.folder == os.path.join(made.folder, f"rank_{number}")
        inside = [rank.stdout, rank.stderr, rank.plog, rank.work]
        assert {os.path.dirname(path) for path in inside} == {rank.folder}
        assert len(set(inside)) == 4


def test_a_later_attempt_has_an_id_and_a_folder_of_its_own(bench: Bench) -> None:
    config = bench.config(processes=1)
    first = plan_job(config, bench.environ)
    second = plan_job(config, bench.environ, attempt=2, run=first.run)
    assert second.job_id != first.job_id
    assert os.path.dirname(second.folder) == os.path.dirname(first.folder)
    assert second.folder.endswith("attempt_2")
    named = bench.config(processes=1, job_id="mine")
    assert plan_job(named, bench.environ, attempt=2, run="mine").job_id == "mine_2"


def test_a_job_id_that_was_used_before_gets_a_new_folder(bench: Bench) -> None:
    for name in ("mine", "mine.2"):
        config = bench.config(processes=1, job_id="mine")
        first = plan_job(config, bench.environ)
        assert (first.job_id, first.run) == ("mine", name)
        os.makedirs(first.folder)
        second = plan_job(config, bench.environ, attempt=2, run=first.run)
        assert os.path.dirname(second.folder) == os.path.dirname(first.folder)


def test_a_plan_writes_nothing(bench: Bench) -> None:
    before = sorted(bench.folder.rglob("*"))
    bench.plan()
    assert sorted(bench.folder.rglob("*")) == before


def test_a_plan_leaves_its_environment_as_it_was(bench: Bench) -> None:
    bench.environ.update({"RANK_ID": "7", "HELP_CLUSTER": "1"})
    before = dict(bench.environ)
    made = bench.plan(processes=1)
    assert bench.environ == before
    assert "HELP_CLUSTER" not in made.ranks[0].environment


def test_a_plan_is_json(bench: Bench) -> None:
    bench.nodes([4, 5])
    bench.environ["TOKEN"] = "secret\udcff"
    made = bench.with_table(args=["x"])
    shown = json.loads(json.dumps(made.as_dict()))
    assert (shown["backend"], shown["size"], shown["attempt"]) == ("npu", 2, 1)
    assert [rank["device_id"] for rank in shown["ranks"]] == [0, 1]
    assert [rank["physical_id"] for rank in shown["ranks"]] == [4, 5]
    assert shown["ranks"][1]["changed"]["DEVICE_ID"] == "5"
    assert shown["ranks"][1]["cpus"] is None


def test_the_whole_environment_is_not_shown(bench: Bench) -> None:
    bench.environ["TOKEN"] = "secret"
    made = bench.plan(processes=1)
    assert "secret" not in json.dumps(made.as_dict())
    assert made.ranks[0].environment["TOKEN"] == "secret"


def test_a_script_runs_in_a_planned_environment(bench: Bench) -> None:
    (bench.folder / "train.py").write_text("import os; print(os.environ['RANK_ID'], os.getcwd())")
    rank = bench.plan(processes=3).ranks[2]
    ran = subprocess.run(
        rank.command, cwd=rank.cwd, env=dict(rank.environment), stdout=subprocess.PIPE, check=True
    )
    assert ran.stdout.decode().split() == ["2", os.path.realpath(str(bench.folder))]


@pytest.mark.parametrize("nodes", [0, 8])
def test_making_a_plan_imports_nothing_heavy(bench: Bench, nodes: int) -> None:
    if nodes:
        bench.nodes(range(nodes))
    code = (
        "import sys\n"
        "from ascend_session import LaunchConfig\n"
        "from ascend_session.launcher.plan.plan import plan_job\n"
        f"config = LaunchConfig(script='train.py', cwd={str(bench.folder)!r},"
        f" rank_table={str(bench.table)!r})\n"
        f"assert len(plan_job(config, {bench.environ!r}).ranks) == 8\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    root = str(Path(__file__).resolve().parents[2])
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=root, stdout=subprocess.PIPE, check=True, text=True
    )
    assert set(ran.stdout.split()) & HEAVY == set()
