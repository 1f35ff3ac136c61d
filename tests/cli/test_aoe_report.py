"""``ascend-session aoe report``: text and JSON."""

import json
from time import process_time

import pytest

from tests.aoe.samples import OPERATOR_TASK, SUBGRAPH_TASK, content, many, operator, task

OPAT = "aoe_result_opat_20240315_101530123_4711.json"
SGAT = "aoe_result_sgat_20240316_101530123_4711.json"


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A working directory with the results of both samples."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / OPAT).write_bytes(content(OPERATOR_TASK))
    (tmp_path / SGAT).write_bytes(content(SUBGRAPH_TASK))
    return tmp_path


def lines(called):
    return [" ".join(line.split()) for line in called.out.splitlines()]


def test_it_shows_what_was_tuned_here(call, work):
    called = call("aoe", "report")
    assert (called.code, called.err) == (0, "")
    said = lines(called)
    assert said[0] == f"{OPAT}: 1 task"
    assert "Tuning task name operators tuning successful 44 2 0 10 10 1 13" in said
    assert "Tuning task name sub-graphs - 19 1 1 0 1 120 121" in said
    assert (
        "2 operators: 75.491 us before, 42.586 us after, 32.905 us saved (77.27 % faster)." in said
    )
    assert (
        "31.905 58.781 26.876 118.71 Format add SoftmaxV2 "
        "bert/encoder/layer_10/attention/self/Softmax_OPAT_0" in said
    )
    assert "2.011 4.584 2.573 78.15 - update - 1024942313106057586" in said


def test_the_folder_of_the_variable_comes_first(call, work, monkeypatch):
    folder = work / "other"
    folder.mkdir()
    (folder / OPAT).write_bytes(content(many(1)))
    monkeypatch.setenv("ASCEND_WORK_PATH", str(folder))
    assert lines(call("aoe", "report"))[0] == f"{folder}/{OPAT}: 1 task"
    (folder / OPAT).unlink()
    assert lines(call("aoe", "report"))[0] == f"{OPAT}: 1 task"


def test_without_results_it_says_where_it_has_looked(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASCEND_WORK_PATH", "/nowhere")
    called = call("aoe", "report")
    assert (called.code, called.out) == (1, "")
    assert f"in /nowhere nor in {tmp_path}." in called.err
    assert "hint: Name the file or its folder." in called.err


def test_json_has_every_operator_and_is_strict(call, work):
    wrong = operator("a", 2.0, 1.0)
    del wrong["tune_performance"]["Schedule"]["performance_before_tune(us)"]
    (work / OPAT).write_bytes(content(task(wrong), many(30)))
    called = call("aoe", "report", "--json", OPAT)
    found = json.loads(called.out, parse_constant=pytest.fail)
    assert (found["ok"], called.code) == (True, 0)
    assert len(found["operators"]) == 31
    assert found["operators"][-1]["saved"] is None
    assert found["totals"]["operators"]["known"] == 30
    assert found["files"][0]["tasks"][1]["tunings"][0]["summary"]["added"] == 30
    assert set(found["files"][0]) == {"file", "damage", "tasks"}
    assert (
        len(json.loads(call("aoe", "report", "--json", "--top", "3", OPAT).out)["operators"]) == 3
    )


def names(call, *arguments):
    found = json.loads(call("aoe", "report", "--json", *arguments).out)
    return [one["name"] for one in (*found["operators"], *found["subgraphs"])]


def test_what_saves_most_comes_first_and_the_rest_is_cut(call, tmp_path):
    path = tmp_path / "a.json"
    tuned = [
        operator("net/b", 100.0, 60.0, "Conv2D", "Format"),
        operator("net/a", 10.0, 2.0, ["MatMulV2", "Relu"]),
        operator("net/c[1]", 50.0, 45.0, "MatMulV2", mode="update"),
    ]
    path.write_bytes(content(task(*tuned)))
    file = str(path)
    assert names(call, file) == ["net/b", "net/a", "net/c[1]"]
    assert names(call, file, "--top", "2") == ["net/b", "net/a"]
    shown = call("aoe", "report", file, "--top", "1").out
    assert "... and 2 more; --top shows them, and --json." in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--top", "0"], "0 is not in the range"),
    ],
)
def test_a_wrong_call_is_two(call, work, arguments, said):
    called = call("aoe", "report", *arguments)
    assert called.code == 2
    assert said in " ".join(called.err.split())


def test_failed_operators_make_it_one_and_are_named(call, tmp_path):
    path = tmp_path / "a.json"
    failing = task(outcome="tuning failed", failed=["res4a_branch1", "x\x1b[31m"])
    path.write_bytes(content(failing))
    called = call("aoe", "report", str(path))
    assert called.code == 1
    assert "Tuning failed for 2 operators: res4a_branch1, x\\x1b[31m.\n" in called.out


def test_half_a_file_gives_its_whole_tasks_and_one(call, work):
    half = content(OPERATOR_TASK, SUBGRAPH_TASK)[:-400]
    (work / OPAT).write_bytes(half)
    called = call("aoe", "report", OPAT)
    assert called.code == 1
    assert lines(called)[0] == f"{OPAT}: 1 task"
    assert "damaged: " in called.out
    assert "the rest is missing. Before it: 1 whole task." in called.out


def test_a_file_that_is_missing_is_told_beside_the_others(call, work):
    called = call("aoe", "report", "none.json", OPAT)
    assert called.code == 1
    assert lines(called)[0] == f"{OPAT}: 1 task"
    assert called.err.startswith("ascend-session: error: none.json: does not exist.\n")
    assert call("aoe", "report", "none.json").code == 1


def test_the_time_of_a_model_is_told_with_its_task_where_there_are_several(call, work):
    said = lines(call("aoe", "report", SGAT))
    assert next(one for one in said if "model took" in one).startswith("The model took 5.600 ms")
    both = [dict(SUBGRAPH_TASK[0], basic={"tuning_name": name}) for name in ("bert", "resnet")]
    (work / SGAT).write_bytes(content(*([basic, SUBGRAPH_TASK[1]] for basic in both)))
    said = [one for one in lines(call("aoe", "report", SGAT)) if "model took" in one]
    assert [one.split()[0] for one in said] == ["bert:", "resnet:"]


def test_operators_of_unknown_time_are_counted(call, work):
    for number, said in [(1, "The time of 1 more is not"), (2, "The times of 2 more are not")]:
        wrong = [operator("b", 2.0, 1.0) for _ in range(number)]
        for one in wrong:
            del one["tune_performance"]["Schedule"]["performance_after_tune(us)"]
        (work / OPAT).write_bytes(content(task(operator("a", 2.0, 1.0), *wrong)))
        assert f"{said} known." in call("aoe", "report", OPAT).out


def test_nothing_in_an_error_controls_the_terminal(call, work):
    called = call("aoe", "report", "a\x1b[31m.json")
    assert called.err.startswith("ascend-session: error: a\\x1b[31m.json: does not exist.\n")


def test_ten_thousand_operators_are_shown_quickly(call, tmp_path):
    path = tmp_path / OPAT
    path.write_bytes(content(many(10_000), indent=None))
    begin = process_time()
    called = call("aoe", "report", str(path))
    assert process_time() - begin < 40  # under a second, where nothing else runs
    assert called.code == 0
    assert "10,000 operators: " in called.out
    assert len(json.loads(call("aoe", "report", str(path), "--json").out)["operators"]) == 10_000
