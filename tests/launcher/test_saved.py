"""Which launch a folder belongs to, and results that are not as this version writes them."""

import json
import os
import shutil
from pathlib import Path
from typing import Any, Callable, Dict

import pytest

from ascend_session import launch
from ascend_session.launcher.verdict.saved import find_beside, find_launch_of, find_launches
from tests.launcher.supervised import config

_FAILS = "if rank: raise ValueError('no data')"
_NOTES_STEPS = """
from ascend_session import channel
pace = {"first_step_s": 1.5, "steps": 8, "seconds": 2.0, "samples": 64.0}
channel.send("step", step=9, total=None, time=3.0, pace=pace)
"""


@pytest.fixture(scope="module")
def logs(tmp_path_factory: Any) -> Path:
    """A folder with one launch of two ranks, of which rank 1 has failed."""
    folder: Path = tmp_path_factory.mktemp("job")
    assert launch(config(folder, _FAILS, 2)).code == 1
    return folder / "logs"


@pytest.fixture
def job(logs: Path, tmp_path: Path) -> Path:
    """A copy of that launch."""
    copy = tmp_path / "copies" / "job"
    shutil.copytree(str((logs / "latest").resolve()), str(copy))
    return copy


def _find(folder: Path) -> Any:
    (saved,) = find_launches(str(folder))
    return saved


def _change(job: Path, change: Callable[[Dict[str, Any]], Any]) -> None:
    values = json.loads((job / "result.json").read_text())
    change(values)
    (job / "result.json").write_text(json.dumps(values))


def test_it_is_found_from_any_folder_in_or_around_it(logs: Path) -> None:
    own = (logs / "latest").resolve()
    attempt = own / "attempt_1"
    for folder in (logs, logs / "latest", own, attempt, attempt / "rank_1", attempt / "rank_0"):
        saved = _find(folder)
        assert saved.result is not None
        assert saved.result.cause.said == "Rank 1 raised ValueError: no data."
        named = folder if folder.parent in (attempt, own) else attempt
        assert Path(saved.logs).resolve() == named
    assert find_launches(str(own / "attempt_1" / "rank_1"))[0].folder == str(own)


def test_one_that_was_moved_has_the_paths_of_today(job: Path) -> None:
    saved = _find(job)
    assert saved.result is not None
    (attempt,) = saved.result.attempts
    assert attempt.folder == str(job / "attempt_1")
    assert [rank.stderr for rank in attempt.ranks] == [
        str(job / "attempt_1" / f"rank_{rank}" / "stderr.log") for rank in (0, 1)
    ]


@pytest.mark.parametrize("more", ["", "/", "/train.py", ":7", ", and more"])
@pytest.mark.parametrize("other", [".old", "-2", "_2", "2"])
def test_folders_with_names_that_begin_alike_were_not_moved(
    job: Path, more: str, other: str
) -> None:
    before = ""

    def add(values: Dict[str, Any]) -> None:
        nonlocal before
        before = os.path.dirname(values["attempts"][0]["folder"])
        values["notes"] = [f"See {before}{other}{more} and {before}{more}"]

    _change(job, add)
    assert _find(job).result.notes == (f"See {before}{other}{more} and {job}{more}",)


@pytest.mark.parametrize("code", [_FAILS, _NOTES_STEPS, _NOTES_STEPS + _FAILS])
def test_the_result_is_read_as_it_was_written(tmp_path: Path, code: str) -> None:
    result = launch(config(tmp_path, code, 2))
    assert (result.attempts[0].pace is None) == (code == _FAILS)
    saved = _find(tmp_path / "logs")
    assert saved.result is not None
    assert str(saved.result) == str(result)
    assert saved.values == json.loads(json.dumps(result.as_dict()))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ('{"code": 1, "run": "job", "atte', "only a part of it"),
        ('{"accuracy": 0.9}', "is not the result of a launch"),
        ("[1, 2]", "is not the result of a launch"),
        ("[" * 100_000, "is not the result of a launch"),
        ('{"code": 0, "run": "job", "attempts": []}', "is not the result of a launch"),
        ('{"code": "0", "run": "x", "attempts": [{"folder": "/x/y"}]}', "not the result of a"),
        ('{"code": 0, "run": "x", "attempts": [{"folder": "/x/y"}]}', "this version can read"),
    ],
)
def test_one_that_cannot_be_read_leaves_the_logs(job: Path, text: str, why: str) -> None:
    (job / "result.json").write_text(text)
    saved = _find(job)
    assert saved.result is None
    assert saved.logs == str(job / "attempt_1")
    assert why in saved.trouble


def test_one_that_is_missing_leaves_the_logs_of_the_last_attempt(job: Path) -> None:
    (job / "result.json").unlink()
    (job / "attempt_10").mkdir()
    saved = _find(job)
    assert saved.logs == str(job / "attempt_10")
    assert "is not there" in saved.trouble


def test_what_a_newer_version_adds_is_left_out(job: Path) -> None:
    def add(values: Dict[str, Any]) -> None:
        values["mood"] = {"steps": 3}
        values["attempts"][0]["mood"] = [1]
        values["attempts"][0]["cause"]["mood"] = None
        values["attempts"][0]["ranks"][1]["error"]["mood"] = 1.0

    _change(job, add)
    saved = _find(job)
    assert saved.result is not None
    assert saved.values["mood"] == {"steps": 3}


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values["attempts"][0]["cause"].update(said=5),
        lambda values: values["attempts"][0]["cause"].update(rank=7),
        lambda values: values["attempts"][0]["cause"].update(failure_class="worse"),
        lambda values: values["attempts"][0].update(ranks=[]),
        lambda values: values["attempts"][0]["ranks"][0].update(rank=-1),
        lambda values: values["attempts"][0]["ranks"].reverse(),
        lambda values: values["attempts"][0].update(started="now"),
        lambda values: values["attempts"][0].update(ended=float("inf")),
        lambda values: values["attempts"][0].update(pace={"steps": 3}),
        lambda values: values.update(notes=[1]),
        lambda values: values["attempts"][0]["cause"].pop("said"),
    ],
)
def test_values_that_no_version_writes_make_it_unreadable(job: Path, change: Any) -> None:
    _change(job, change)
    saved = _find(job)
    assert saved.result is None
    assert "this version can read" in saved.trouble


def test_an_earlier_attempt_is_explained_by_its_own_cause(tmp_path: Path) -> None:
    again = str(tmp_path / "again")
    code = f"if not os.path.exists({again!r}): open({again!r}, 'w'); os.kill(os.getpid(), 9)"
    result = launch(config(tmp_path, code, 1, max_restarts=1))
    assert result.ok
    job = tmp_path / "logs" / "latest"
    first, whole = _find(job / "attempt_1"), _find(job)
    assert first.result is not None
    assert (first.result.code, first.result.cause) == (137, result.attempts[0].cause)
    assert whole.result is not None
    assert whole.result.ok
    assert whole.logs == str(job / "attempt_2")


def test_of_several_launches_the_newest_counts(job: Path) -> None:
    older = job.parent / "older"
    shutil.copytree(str(job), str(older))
    os.utime(str(older), (1000, 1000))
    assert _find(job.parent).folder == str(job)
    (job / "result.json").unlink()  # as long as it runs
    assert _find(job.parent).folder == str(job)


def test_the_parts_of_a_job_on_several_nodes_are_one_job(job: Path) -> None:
    for name, changed in (("x.node_0", 3000), ("x.node_1", 3001), ("y.node_0", 2000)):
        shutil.copytree(str(job), str(job.parent / name))
        os.utime(str(job.parent / name), (changed, changed))
    os.utime(str(job), (1000, 1000))
    names = [Path(saved.folder).name for saved in find_launches(str(job.parent))]
    assert names == ["x.node_0", "x.node_1"]


def test_log_folders_that_were_brought_from_several_nodes_are_one_job(
    job: Path, tmp_path: Path
) -> None:
    for node in ("a", "b"):
        shutil.copytree(str(job.parent), str(tmp_path / "all" / node / "ascend-logs"))
    folders = [saved.folder for saved in find_launches(str(tmp_path / "all"))]
    assert folders == [str(tmp_path / "all" / node / "ascend-logs" / "job") for node in ("a", "b")]


@pytest.mark.parametrize("kind", ["file", "folder", "launch", "nothing"])
def test_latest_may_be_the_users_own(job: Path, kind: str) -> None:
    latest = job.parent / "latest"
    if kind == "file":
        latest.write_text("mine")
    elif kind == "folder":
        latest.mkdir()
        (latest / "notes.txt").write_text("mine")
    elif kind == "launch":  # a copy of an old one
        shutil.copytree(str(job), str(latest))
    assert _find(job.parent).folder == str(job)
    assert [saved.folder for saved in find_beside(str(latest))] == [str(job)]


def test_a_folder_without_launches_is_any_other(tmp_path: Path) -> None:
    (tmp_path / "attempt_1").mkdir()
    (tmp_path / "attempt_1" / "a.log").write_text("")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "result.json").write_text('{"accuracy": 0.9}')
    assert find_launches(str(tmp_path / "attempt_1")) == []
    assert find_launches(str(tmp_path / "other")) == []
    assert find_launch_of(str(tmp_path / "attempt_1" / "a.log")) is None
    assert find_beside(str(tmp_path / "missing")) == []
