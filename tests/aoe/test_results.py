"""The result files of AOE: what the manual's samples say, and what stands in none of them."""

import copy
import json
import os
import re
from pathlib import Path

import pytest

from ascend_session.aoe import find_results, read_results
from ascend_session.aoe.result_files import TunedItem, TunedWay
from ascend_session.aoe.results import compute_totals
from ascend_session.errors import ResultError, UnsupportedError
from tests.aoe.samples import (
    OLD_TASK,
    OPERATOR_TASK,
    SUBGRAPH_TASK,
    content,
    key,
    operator,
    task,
    text,
)


def only(parsed):
    """The one tuning of the one task of a file without a flaw."""
    assert parsed.damage is None
    return parsed.tasks[0].tunings[0]


def test_the_sample_of_operators_is_read(parse) -> None:
    parsed = parse(content(OPERATOR_TASK))
    first, second = only(parsed).operators
    assert (parsed.tasks[0].name, parsed.tasks[0].seconds) == ("Tuning task name", 44.0)
    assert first.types == ("SoftmaxV2",)
    assert first.tuned == (("Format", 58.781, 26.876, 118.71, "add"),)
    assert first.saved == pytest.approx(31.905)
    assert first.improvement == pytest.approx(118.71, abs=0.01)
    assert second.ways == ("Schedule",)
    assert only(parsed).summary == (2, 0, 10, 10, 1, 13)
    assert only(parsed).outcome == "tuning successful"


def test_the_sample_of_subgraphs_is_read_whose_counters_do_not_add_up(parse) -> None:
    parsed = parse(content(SUBGRAPH_TASK))
    tuning = only(parsed)
    assert [(one.name[-4:], *one.update_modes) for one in tuning.subgraphs] == [
        ("7484", "add"),
        ("7586", "update"),
    ]
    assert tuning.model == (5.600486, 3.610442, 55.11)
    assert tuning.summary == (1, 1, 0, 1, 120, 121)
    assert parsed.ok


def test_the_form_of_old_releases_is_read(parse) -> None:
    tuning = only(parse(content(OLD_TASK)[len(f'{{\n"{key()}":') : -2]))
    assert tuning.operators[0].tuned == (("", 134.0, 99.0, 35.35, "add"),)
    assert tuning.model == (113.588725, 113.236731, 0.31)


def test_a_key_that_occurs_twice_loses_no_task(parse) -> None:
    parsed = parse(content((key(), OPERATOR_TASK), (key(), SUBGRAPH_TASK)))
    assert [one.tunings[0].kind for one in parsed.tasks] == ["OPAT", "SGAT"]


def test_a_task_without_anything_to_tune_is_a_task(parse) -> None:
    (found,) = parse(content([{"basic": {"tuning_name": "net"}}])).tasks
    assert (found.name, found.seconds, found.tunings) == ("net", None, ())


def test_a_task_without_a_time_was_interrupted(parse, tmp_path: Path) -> None:
    for time, interrupted in [({}, True), ({"tuning_time(s)": 3}, False)]:
        parsed = parse(content([{"basic": {"tuning_name": "net", **time}}]))
        assert parsed.tasks[0].interrupted is interrupted
        assert parsed.ok is not interrupted


def test_a_task_of_subgraphs_of_which_nothing_is_told_has_failed(parse) -> None:
    empty = content([{"basic": {"tuning_name": "net", "tuning_time(s)": 3}}])
    operators = parse(empty, "aoe_result_opat_20240315_101530123_1.json")
    subgraphs = parse(empty, "aoe_result_sgat_20240315_101530123_1.json")
    assert (operators.ok, operators.outcomes(operators.tasks[0])) == (True, ("",))
    assert (subgraphs.ok, subgraphs.outcomes(subgraphs.tasks[0])) == (False, ("tuning failed",))


def test_an_operator_of_several_types_and_ways_saves_from_its_slowest_to_its_fastest(parse) -> None:
    one = operator("a", 58.0, 29.0, ["Conv2D", "Relu"], "Format")
    one["tune_performance"]["Schedule"] = {
        **operator("a", 29.0, 20.0)["tune_performance"]["Schedule"],
        "update_mode": "update",
    }
    found = only(parse(content(task(one)))).operators[0]
    assert found.types == ("Conv2D", "Relu")
    assert (found.before, found.after, found.saved) == (58.0, 20.0, 38.0)
    assert found.update_modes == ("add", "update")


def test_failed_operators_are_named(parse) -> None:
    failing = task(operator("a", 2.0, 1.0), outcome="tuning failed", failed=["res4a_branch1"])
    parsed = parse(content(failing))
    assert only(parsed).failed == ("res4a_branch1",)
    assert not parsed.ok


def test_percentages_and_counters_are_those_of_the_file(parse) -> None:
    parsed = parse(content(task(operator("a", 58.781, 26.876, said="54.28%"), total_num=7)))
    assert only(parsed).operators[0].tuned[0].improvement == 54.28
    assert only(parsed).operators[0].improvement == pytest.approx(118.71, abs=0.01)
    assert only(parsed).summary.total == 7
    with pytest.raises(UnsupportedError, match=r"^ResultFile.doubts has been removed: "):
        _ = parsed.doubts


def test_what_is_missing_is_unknown(parse) -> None:
    bare = {"op_name": "a", "tune_performance": {"Format": {"performance_after_tune(us)": None}}}
    tuned = {"opat_tuning_result": "tuning successful", "repo_modified_operators": [bare]}
    parsed = parse(content([{"OPAT": {**tuned, "of a later release": 3}}]))
    assert only(parsed).operators[0].tuned == (("Format", None, None, None, ""),)
    assert only(parsed).operators[0].saved is None
    assert only(parsed).summary is None


def changed(path, value):
    """The sample of operators with one value changed."""
    made = copy.deepcopy(OPERATOR_TASK)
    inner = made
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return made


FIRST = (1, "OPAT", "repo_modified_operators", 0)
FORMAT = (*FIRST, "tune_performance", "Format")
SUMS = (1, "OPAT", "repo_summary")


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ((*FORMAT, "performance_after_tune(us)"), -1.5, "-1.5; it should be a number from 0"),
        ((*FORMAT, "performance_after_tune(us)"), "26", "'26'; it should be a number"),
        ((*FORMAT, "performance_before_tune(us)"), float("nan"), "a value is needed, not 'NaN"),
        ((*FORMAT, "performance_before_tune(us)"), 1e16, "1e+16; it should be a number from 0"),
        ((*FORMAT, "performance_before_tune(us)"), 10**400, "This number is too large."),
        ((*FORMAT, "performance_before_tune(us)"), True, "true; it should be a number"),
        ((*FORMAT, "performance_before_tune(us)"), [], "an array; it should be a number"),
        ((*FORMAT, "performance_improvement"), 118.71, "118.71; it should be a percentage"),
        ((*FORMAT, "performance_improvement"), "118,71 %", "'118,71 %'; it should be"),
        (FORMAT, 3, "Format is 3; it should be an object"),
        ((*FIRST, "tune_performance"), [], "an array; it should be an object"),
        ((*FIRST, "op_name"), 7, "op_name is 7; it should be text"),
        ((*FIRST, "op_type"), [1], "an array; it should be the name of a type"),
        (FIRST, "x", "An item is 'x'; it should be an object"),
        ((*SUMS, "total_num"), 13.0, "13.0; it should be a whole number"),
        ((*SUMS, "repo_hit_num"), -1, "-1; it should be a whole number"),
        ((1, "OPAT", "opat_tuning_result"), "done", "'done'; it should be one of tuning succ"),
        ((1, "OPAT", "tuning_failed_operators"), ["a", 7], "an array; it should be an array of n"),
        ((0, "basic", "tuning_time(s)"), "44", "'44'; it should be a number"),
    ],
)
def test_what_is_of_the_wrong_type_is_an_error_with_its_place(parse, path, value, said) -> None:
    whole = text(changed(path, value))
    with pytest.raises(ResultError) as caught:
        parse(whole.encode())
    _, line, column, message = str(caught.value).split(":", 3)
    assert said in message
    shown = whole.splitlines()[int(line) - 1]
    assert path[-1] == 0 or f'"{path[-1]}"' in shown
    assert shown[int(column) - 1 :].strip()


def test_a_missing_outcome_is_an_error_and_the_tasks_before_it_are_read(parse) -> None:
    without = copy.deepcopy(OPERATOR_TASK)
    del without[1]["OPAT"]["opat_tuning_result"]
    parsed = parse(content(OPERATOR_TASK, without))
    assert [one.key for one in parsed.tasks] == [key()]
    assert "opat_tuning_result is missing or null; it should be one of" in parsed.damage.message
    assert parsed.damage.message.endswith("Before it: 1 whole task.")
    assert not parsed.ok


def test_a_key_that_stands_twice_in_a_task_is_an_error(parse) -> None:
    basic, tuned = (json.dumps(one)[1:-1] for one in OPERATOR_TASK)
    for part, name in ((tuned, "OPAT"), (basic, "basic")):
        twice = f'{{"{key()}": [{{{basic}, {tuned}, {part}}}]}}'
        with pytest.raises(ResultError, match=rf":1:\d+: The key '{name}' occurs twice in \[0\]\."):
            parse(twice.encode())


def test_an_improvement_beyond_all_numbers_is_unknown(parse) -> None:
    beyond, plain = operator("a", 1e15, 5e-324, said="1%"), operator("b", 3.0, 2.0)
    first, second = only(parse(content(task(beyond, plain)))).operators
    assert first.improvement is None
    assert second.improvement == pytest.approx(50.0)


def test_the_sample_with_a_missing_comma_and_without_braces_is_read(parse) -> None:
    """As it stands in the manual: between the added and the updated sub-graphs."""
    flawed = text(SUBGRAPH_TASK, OPERATOR_TASK)
    comma = flawed.index(",", flawed.index("]"))
    flawed = flawed[:comma] + flawed[comma + 1 :]
    for written in (flawed, flawed.strip()[1:-1]):
        parsed = parse(written.encode())
        assert [one.key for one in parsed.tasks] == [key(), key(1)]
        assert len(parsed.tasks[0].tunings[0].subgraphs) == 2
        assert (parsed.damage, parsed.ok) == (None, True)


def test_what_is_no_task_is_an_error_with_its_place(parse) -> None:
    parsed = parse(content(OPERATOR_TASK) + content((key(7), OPERATOR_TASK)))
    assert [one.key for one in parsed.tasks] == [key()]
    place, message = str(parsed.damage).split(": ", 1)
    assert place == f"{len(content(OPERATOR_TASK).splitlines())}:1"
    assert message.startswith("A task ('report_...') is needed here, not '}\\n{")
    other = parse(content(OPERATOR_TASK)[:-2] + b', "a": 1}')
    assert "is needed here, not ', \"a\": 1}'" in other.damage.message


def test_a_byte_order_mark_and_line_ends_of_windows_change_nothing(parse) -> None:
    plain = content(OPERATOR_TASK)
    marked = b"\xef\xbb\xbf" + plain.replace(b"\n", b"\r\n")
    assert parse(marked) == parse(plain)


def test_a_byte_that_is_no_text_is_an_error_with_its_place(parse) -> None:
    sample = content(OPERATOR_TASK)
    wrong = sample.replace(b"bert/encoder/layer_10", b"bert/\xffncoder/layer_10")
    with pytest.raises(ResultError, match=r"a.json:14:23: This byte is not UTF-8 text\."):
        parse(wrong)
    later = parse(content((key(3), SUBGRAPH_TASK))[:-3] + b"," + wrong[1:])
    assert len(later.tasks) == 1
    assert "This byte is not UTF-8 text. Before it: 1 whole task." in later.damage.message


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (b"", "a.json:1:1: is empty."),
        (b" \n\t", "a.json:1:1: is empty."),
        (b"\n hello", "a.json:2:2: A task ('report_...') is needed here, not 'hello'."),
        (b"null", "a.json:1:1: A task"),
        (b'{"\xff": 1 2}', "a.json:1:3: This byte is not UTF-8 text."),
        (b'{"report_1": 1 2}', "a.json:1:14: A task is 1; it should be an array."),
        (b'{"report_1": [1, 2}', "a.json:1:19: This is not JSON: ',' or ']' is needed, not '}'."),
        (b'{"a": 1}', "a.json:1:2: A task ('report_...') is needed here"),
        (b"[1, 2]", "a.json:1:2: An item of a task is 1; it should be an object."),
        ("{}".encode("utf-16"), "a.json:1:1: is UTF-16, not UTF-8 text"),
        (b"\x1f\x8b\x08", "a.json:1:1: is compressed, not UTF-8 text"),
        (b"[" * 100_000, "a.json:1:66: This is nested too deeply."),
    ],
)
def test_what_is_no_result_file_is_refused_with_its_place(parse, wrong, said) -> None:
    with pytest.raises(ResultError) as caught:
        parse(wrong, "a.json")
    assert said in str(caught.value)


def write(folder: Path, name: str, *tasks) -> str:
    folder.mkdir(exist_ok=True, parents=True)
    (folder / name).write_bytes(content(*tasks))
    return str(folder / name)


def test_files_are_found_by_the_priority_of_the_manual(tmp_path: Path) -> None:
    here, work = tmp_path / "here", tmp_path / "work"
    late = write(here, "aoe_result_opat_20240316_101530123_12.json", OPERATOR_TASK)
    early = write(here, "aoe_result_sgat_20240315_101530123_12.json", SUBGRAPH_TASK)
    write(here, "aoe_result_opat.json", OPERATOR_TASK)
    environ = {"ASCEND_WORK_PATH": str(work)}
    assert find_results({}, here) == [early, late]
    assert find_results(environ, here) == [early, late]
    below = write(work / "aoe_data", "aoe_result_opat_20240317_101530123_12.json", OPERATOR_TASK)
    assert find_results(environ, here) == [below]
    direct = write(work, "aoe_result_opat_20240317_090000000_12.json", OPERATOR_TASK)
    assert find_results(environ, here) == [direct, below]
    assert find_results({}, tmp_path) == []


def test_several_files_are_one_result(tmp_path: Path) -> None:
    write(tmp_path, "aoe_result_opat_20240316_101530123_12.json", OPERATOR_TASK)
    write(tmp_path, "aoe_result_sgat_20240315_101530123_12.json", SUBGRAPH_TASK)
    found = read_results([tmp_path])
    assert [len(found.operators), len(found.subgraphs), len(found.tasks)] == [2, 2, 2]
    assert found.summary == (3, 1, 10, 11, 121, 134)
    assert found.ok


def test_a_file_that_cannot_be_read_is_told_beside_the_others(tmp_path: Path) -> None:
    good = write(tmp_path, "a.json", OPERATOR_TASK)
    found = read_results([tmp_path / "none.json", good])
    assert len(found.files) == 1
    assert f"{tmp_path}/none.json: does not exist." in str(found.unread[0])
    assert not found.ok


def test_a_file_that_is_named_twice_is_counted_once(tmp_path: Path) -> None:
    path = write(tmp_path, "aoe_result_opat_20240316_101530123_12.json", OPERATOR_TASK)
    (tmp_path / "link").symlink_to(path)
    found = read_results([path, tmp_path, tmp_path / "link", path])
    assert [file.name for file in found.files] == [path]
    other = write(tmp_path / "b", "aoe_result_opat_20240316_101530123_12.json", OPERATOR_TASK)
    assert len(read_results([path, other]).files) == 2


def test_a_folder_that_nobody_can_look_into_is_named(tmp_path: Path, monkeypatch) -> None:
    good = write(tmp_path, "a.json", OPERATOR_TASK)

    def locked(folder):
        raise PermissionError(13, "Permission denied", folder)

    monkeypatch.setattr(os, "listdir", locked)
    said = f"{tmp_path}: this folder cannot be read: Permission denied."
    assert said in str(read_results([tmp_path, good]).unread[0])
    with pytest.raises(ResultError, match="Permission denied"):
        find_results({"ASCEND_WORK_PATH": str(tmp_path)}, tmp_path)


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(str(tmp_path / "pipe"))
    (tmp_path / "link").symlink_to("nowhere")
    with open(str(tmp_path / "big.json"), "wb") as file:
        file.truncate((100 << 20) + 1)
    for name, said in [
        ("pipe", "is a pipe or a device, not a file"),
        (".", "there is no file aoe_result_opat_*.json or aoe_result_sgat_*.json"),
        ("big.json", "at most 100 MiB of a result file of AOE are read here"),
        ("none", "none: does not exist.$"),
        ("link", "link: does not exist.$"),
        ("big.json/a", "big.json/a: cannot be read: Not a directory.$"),
        ("a\0b", "is not a file name"),
    ]:
        with pytest.raises(ResultError) as caught:
            read_results([f"{tmp_path}/{name}"])
        assert re.search(said.replace("*", r"\*"), caught.value.message)


def test_a_time_of_zero_is_known_and_counts_in_the_totals() -> None:
    items = [
        TunedItem(str(times), (), (TunedWay("", *times, None, "add"),))
        for times in [(5.0, 0.0), (0.0, 0.0), (3.0, 2.0), (None, 1.0)]
    ]
    assert compute_totals(items) == (3, 8.0, 2.0)
    assert compute_totals(items[:2]) == (2, 5.0, 0.0)
