"""The environment of a tuning run, its result files, and what is said of it while it runs."""

import os

import pytest

from ascend_session.aoe.run import (
    TuningProgress,
    find_earlier_results,
    find_new_results,
    make_variables,
)
from ascend_session.errors import ConfigError

# ExecuteAoeTuning in the adapter's geop_npu.cc; manual of AOE, tuning result viewing.
TAKEN = "[INFO] TF_ADAPTER(1,python3): [geop_npu.cc:9] [GEOP] in tune mode, training graph handled by tools.\n"  # noqa: E501
BEGUN = "[INFO] Aoe tuning graph.\n"
TUNED = "[GEOP] Aoe success[0].\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory, and one that ASCEND_WORK_PATH may name."""
    (tmp_path / "here").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


@pytest.fixture
def log(folder):
    """A log that is written to piece by piece, and what looks at it."""
    path = folder / "plog" / "debug" / "plog-1_2.log"
    path.parent.mkdir(parents=True)
    path.write_text("")
    progress = TuningProgress([str(folder / "plog")], {}, {})

    def add(text):
        with open(str(path), "ab") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return progress.look()

    return add


def test_a_run_has_its_mode_its_folder_and_the_adapters_marks(folder):
    assert make_variables("operator", {}) == {
        "AOE_MODE": "2",
        "ASCEND_WORK_PATH": str(folder / "here"),
        "ASCEND_MODULE_LOG_LEVEL": "FMK=1",
    }


def test_folders_are_absolute_and_those_given_count_before_the_variables(folder):
    environ = {"ASCEND_WORK_PATH": "../work", "TUNE_BANK_PATH": "old"}
    assert make_variables("1", environ)["ASCEND_WORK_PATH"] == str(folder / "work")
    assert "TUNE_BANK_PATH" not in make_variables("1", environ)
    given = make_variables("1", environ, work_path="x", bank="y")
    assert given["ASCEND_WORK_PATH"] == str(folder / "here" / "x")
    assert given["TUNE_BANK_PATH"] == str(folder / "here" / "y")


@pytest.mark.parametrize("name", ["ASCEND_GLOBAL_LOG_LEVEL", "ASCEND_MODULE_LOG_LEVEL"])
def test_log_levels_of_the_user_stay(name):
    assert "ASCEND_MODULE_LOG_LEVEL" not in make_variables("2", {name: "3"})


def test_a_mode_that_there_is_not_is_refused():
    with pytest.raises(ConfigError):
        make_variables("3", {})


def test_results_are_looked_for_by_priority(folder):
    environ = {"ASCEND_WORK_PATH": str(folder / "work")}
    here = folder / "here" / "aoe_result_opat_1_2.json"
    here.write_text("{}")
    assert list(find_new_results(environ)) == list(find_new_results({})) == [str(here)]
    there = folder / "work" / "aoe_result_sgat_1_2.json"
    there.write_text("{}")
    assert list(find_new_results(environ)) == [str(there)]


def test_other_files_and_those_of_earlier_runs_are_no_results(folder):
    for name in ("aoe_result_opat_1.json.tmp", "aoe_result_xgat_1.json", "result.json"):
        (folder / "here" / name).write_text("{}")
    old = folder / "here" / "aoe_result_opat_0_1.json"
    old.write_text("{}")
    before = find_earlier_results({})
    assert list(before) == [str(old)]
    assert find_new_results({}, before) == {}
    new = folder / "here" / "aoe_result_opat_9_9.json"
    new.write_text("{}")
    assert list(find_new_results({}, before)) == [str(new)]


def test_a_file_that_is_written_to_again_belongs_to_the_run(folder):
    path = folder / "here" / "aoe_result_opat_0_1.json"
    path.write_text("{}")
    before = find_earlier_results({})
    path.write_text("{ }")
    assert list(find_new_results({}, before)) == [str(path)]


def test_results_are_in_the_order_in_which_they_were_written(folder):
    for number, name in enumerate("ba"):
        path = folder / "here" / f"aoe_result_opat_{name}.json"
        path.write_text("{}")
        os.utime(str(path), (number, number))
    assert [os.path.basename(path)[-6] for path in find_new_results({})] == ["b", "a"]


def test_marks_in_the_log_are_said_once_as_they_come(log):
    assert log(TAKEN) == ["The adapter has handed graph 1 to AOE."]
    assert log(BEGUN) == ["AOE started tuning a graph."]
    assert log("something else\n") == []
    assert log(TUNED + TAKEN) == ["Graph 1 is tuned.", "The adapter has handed graph 2 to AOE."]


def test_half_a_line_is_not_looked_at_before_its_end_comes(log):
    assert log(TAKEN[:70]) == []
    assert log(TAKEN[70:]) == ["The adapter has handed graph 1 to AOE."]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("exec aoe tuning func failed[11].", "AOE failed: tuning func, error 11."),
        ("exec aoe set graph func failed[-1].", "AOE failed: set graph func, error -1."),
        ("dlsym Aoe set tuning graph API failed, x", "AOE cannot be loaded: "),
        ("libaoe_tuning.so dlopen failed", "AOE cannot be loaded: "),
    ],
)
def test_failures_are_said_with_their_number(log, line, said):
    (sentence,) = log(f"[ERROR] {line}\n")
    assert sentence.startswith(said)


@pytest.mark.parametrize("content", [b"\xff\x00\n" * 9, b"x" * 3000000, b"aoe\n", b"\n\n"])
def test_whatever_a_log_holds_is_no_trouble(log, content):
    assert log(content) == []
    assert log("\n" + TAKEN) == ["The adapter has handed graph 1 to AOE."]


def test_a_log_that_comes_later_is_found(folder):
    progress = TuningProgress([str(folder / "stdout.log"), str(folder / "plog")], {}, {})
    assert progress.look() == []
    (folder / "stdout.log").write_text(TAKEN)
    assert progress.look() == ["The adapter has handed graph 1 to AOE."]


def test_the_result_file_is_counted_as_it_grows_though_it_is_half_written(folder):
    progress = TuningProgress([], {}, {})
    path = folder / "here" / "aoe_result_opat_20261121_1.json"
    path.write_text('{"report_1": [{"basic": {"tuning_name": "a"')
    assert progress.look() == [f"{path.name}: 1 task, 0 operators added or updated so far."]
    assert progress.look() == []
    path.write_text(path.read_text() + ' "op_name": "x", "op_name" : "y", "op_type"')
    assert progress.look() == [f"{path.name}: 1 task, 2 operators added or updated so far."]
    path.write_text(path.read_text() + " ")
    assert progress.look() == []


def test_subgraphs_are_counted_by_their_keys(folder):
    path = folder / "here" / "aoe_result_sgat_20261121_1.json"
    path.write_text('"tuning_name": 1, "tuning_name": 2, "repo_key": "3"')
    said = TuningProgress([], {}, {}).look()
    assert said == [f"{path.name}: 2 tasks, 1 subgraph added or updated so far."]


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_no_result_and_no_log(folder, make):
    make(str(folder / "here" / "aoe_result_opat_1.json"))
    make(str(folder / "here" / "plog-1.log"))
    make(str(folder / "stdout.log"))
    assert find_new_results({}) == {}
    assert TuningProgress([str(folder / "here"), str(folder / "stdout.log")], {}, {}).look() == []


def test_a_line_that_never_ends_is_no_trouble(log):
    for _ in range(5):
        assert log(b"x" * 2**20) == []
    assert log("\n" + TAKEN) == ["The adapter has handed graph 1 to AOE."]
