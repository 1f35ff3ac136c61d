"""The result files of AOE: what the manual's samples say, and what stands in none of them."""

import copy
import json
import os
import re
from pathlib import Path

import pytest

from ascend_session.aoe import find_results, read_results
from ascend_session.errors import ResultError
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
    assert (parsed.damage, parsed.doubts) == (None, ())
    return parsed.tasks[0].tunings[0]


def doubts(parsed):
    return [str(one) for one in parsed.doubts]


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


def test_the_sample_of_subgraphs_is_read_and_its_wrong_sum_is_pointed_out(parse) -> None:
    parsed = parse(content(SUBGRAPH_TASK))
    (tuning,) = parsed.tasks[0].tunings
    assert [(one.name[-4:], *one.update_modes) for one in tuning.subgraphs] == [
        ("7484", "add"),
        ("7586", "update"),
    ]
    assert tuning.model == (5.600486, 3.610442, 55.11)
    assert doubts(parsed) == [
        "38:18: total_num is 121, and added (1), updated (1), reserved (0) and unsatisfied (120) "
        "make 122."
    ]


def test_the_form_of_old_releases_is_read(parse) -> None:
    tuning = only(parse(content(OLD_TASK)[len(f'{{\n"{key()}":') : -2]))
    assert tuning.operators[0].tuned == (("", 134.0, 99.0, 35.35, "add"),)
    assert tuning.model == (113.588725, 113.236731, 0.31)


def test_a_key_that_occurs_twice_loses_no_task(parse) -> None:
    parsed = parse(content((key(), OPERATOR_TASK), (key(), SUBGRAPH_TASK)))
    assert [one.tunings[0].kind for one in parsed.tasks] == ["OPAT", "SGAT"]
    assert "occurs here again; both tasks are counted." in doubts(parsed)[0]


def test_a_task_without_anything_to_tune_is_a_task(parse) -> None:
    (found,) = parse(content([{"basic": {"tuning_name": "net"}}])).tasks
    assert (found.name, found.seconds, found.tunings) == ("net", None, ())


def test_a_task_without_a_time_was_interrupted(parse, tmp_path: Path) -> None:
    for time, interrupted in [({}, True), ({"tuning_time(s)": 3}, False)]:
        parsed = parse(content([{"basic": {"tuning_name": "net", **time}}]))
        assert parsed.tasks[0].interrupted is interrupted
        assert parsed.ok is not interrupted
    wrong = parse(content([{"basic": {"tuning_name": "net", "tuning_time(s)": "3"}}]))
    assert not wrong.tasks[0].interrupted
    assert len(wrong.doubts) == 1


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


@pytest.mark.parametrize("said", ["118.71%", "118.72%"])
def test_an_improvement_may_be_rounded_or_cut(parse, said) -> None:
    assert parse(content(task(operator("a", 58.781, 26.876, said=said)))).doubts == ()


@pytest.mark.parametrize("said", ["118.70%", "118.73%", "54.28%"])
def test_an_improvement_that_does_not_match_is_pointed_out(parse, said) -> None:
    (found,) = parse(content(task(operator("a", 58.781, 26.876, said=said)))).doubts
    assert f"performance_improvement of 'a' is {float(said[:-1]):g} %" in found.message
    assert "58.781 before and 26.876 after make 118.71 %." in found.message


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
        ((*FORMAT, "performance_before_tune(us)"), float("nan"), "NaN; it should be a number"),
        ((*FORMAT, "performance_before_tune(us)"), float("inf"), "Infinity; it should be"),
        ((*FORMAT, "performance_before_tune(us)"), 1e308, "1e+308; it should be a number from 0"),
        ((*FORMAT, "performance_before_tune(us)"), 10**400, "Infinity; it should be a number"),
        ((*FORMAT, "performance_before_tune(us)"), True, "true; it should be a number"),
        ((*FORMAT, "performance_before_tune(us)"), [], "an array; it should be a number"),
        ((*FORMAT, "performance_improvement"), 118.71, "118.71; it should be a percentage"),
        ((*FORMAT, "performance_improvement"), "118,71 %", "'118,71 %'; it should be"),
        ((*FORMAT, "update_mode"), None, "missing or null; it should be text"),
        (FORMAT, 3, "3; it should be an object"),
        ((*FIRST, "tune_performance"), [], "an array; it should be an object"),
        ((*FIRST, "op_name"), 7, "7; it should be text"),
        ((*FIRST, "op_type"), [1], "an array; it should be the name of a type"),
        (FIRST, "x", "'x'; it should be an object"),
        ((*SUMS, "total_num"), 13.0, "13.0; it should be a whole number"),
        ((*SUMS, "repo_hit_num"), -1, "-1; it should be a whole number"),
        ((1, "OPAT", "opat_tuning_result"), "done", "'done', none of tuning successful"),
        ((1, "OPAT", "opat_tuning_result"), "", "says none of tuning successful, tuning failed"),
        ((0, "basic", "tuning_time(s)"), "44", "'44'; it should be a number"),
    ],
)
def test_what_is_of_the_wrong_type_is_named_with_its_place(parse, path, value, said) -> None:
    whole = text(changed(path, value))
    (*_, found) = [one for one in parse(whole.encode()).doubts if said in one.message]
    line = whole.splitlines()[found.place.line - 1]
    assert path[-1] == 0 or f'"{path[-1]}"' in line
    assert line[found.place.column - 1 :].strip()


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ((*SUMS, "total_num"), 14, "total_num is 14, and added (2), updated (0), reserved (10)"),
        ((*SUMS, "repo_hit_num"), 9, "repo_hit_num is 9, and updated (0) and reserved (10)"),
        ((*SUMS, "repo_add_num"), 3, "repo_add_num is 3, and 2 with update mode 'add' are listed"),
        (
            (1, "OPAT", "tuning_failed_operators"),
            ["a"],
            "names 1 operator, and opat_tuning_result says 'tuning successful'",
        ),
    ],
)
def test_what_does_not_add_up_is_pointed_out(parse, path, value, said) -> None:
    assert any(said in one for one in doubts(parse(content(changed(path, value)))))


def test_a_key_that_stands_twice_in_a_task_is_pointed_out(parse) -> None:
    basic, tuned = (json.dumps(one)[1:-1] for one in OPERATOR_TASK)
    for part in (tuned, basic):
        twice = f'{{"{key()}": [{{{basic}, {tuned}, {part}}}]}}'
        parsed = parse(twice.encode())
        assert len(parsed.tasks[0].tunings) == 1
        (doubt,) = parsed.doubts
        assert doubt.message.endswith("occurs twice in one object; only the last counts.")


def test_an_improvement_beyond_all_numbers_is_unknown(parse) -> None:
    beyond, plain = operator("a", 1e15, 5e-324, said="1%"), operator("b", 3.0, 2.0)
    first, second = only(parse(content(task(beyond, plain)))).operators
    assert first.improvement is None
    assert second.improvement == pytest.approx(50.0)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["a", 7, "b"], "7 in tuning_failed_operators is not the name of an operator."),
        (["a", [], 7, "b"], "2 items of tuning_failed_operators are not names of operators."),
    ],
)
def test_failed_operators_without_a_name_are_counted_in_one_sentence(parse, names, said) -> None:
    parsed = parse(content(task(outcome="tuning failed", failed=names)))
    assert parsed.tasks[0].tunings[0].failed == ("a", "b")
    assert [one.message for one in parsed.doubts] == [said]


def test_a_missing_comma_costs_one_task_and_is_the_one_error(parse) -> None:
    """The sample of the manual lacks one between the added and the updated sub-graphs."""
    flawed = text(SUBGRAPH_TASK, OPERATOR_TASK)
    comma = flawed.index(",", flawed.index("]"))
    parsed = parse((flawed[:comma] + flawed[comma + 1 :]).encode())
    assert [one.key for one in parsed.tasks] == [key(1)]
    assert str(parsed.damage) == (
        "23:5: This is not JSON: expecting ',' delimiter, not '\"update_repo_subgrap'. "
        "1 whole task can be read; the rest is lost."
    )


def test_tasks_without_braces_around_them_are_read(parse) -> None:
    """As the sample of sub-graphs stands in the manual."""
    inner = text(OPERATOR_TASK, SUBGRAPH_TASK).strip()[1:-1]
    parsed = parse(inner.encode())
    assert [one.key for one in parsed.tasks] == [key(), key(1)]
    assert "expecting an object" in parsed.damage.message


def test_two_files_in_one_are_both_read(parse) -> None:
    parsed = parse(content(OPERATOR_TASK) + content((key(7), OPERATOR_TASK)))
    assert [one.key for one in parsed.tasks] == [key(), key(7)]
    assert "expecting the end of the file" in parsed.damage.message


def test_a_byte_order_mark_and_line_ends_of_windows_change_nothing(parse) -> None:
    plain = content(OPERATOR_TASK)
    marked = b"\xef\xbb\xbf" + plain.replace(b"\n", b"\r\n")
    assert parse(marked) == parse(plain)


def test_a_byte_that_is_no_text_is_named_and_the_rest_read(parse) -> None:
    wrong = content(OPERATOR_TASK).replace(b"bert/encoder/layer_10", b"bert/\xffncoder/layer_10")
    parsed = parse(wrong)
    assert parsed.tasks[0].tunings[0].operators[0].name.startswith("bert/\ufffdncoder")
    assert str(parsed.damage).startswith("14:23: This byte is not UTF-8 text")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (b"", "a.json:1:1: is empty."),
        (b" \n\t", "a.json:1:1: is empty."),
        (b"\n hello", "a.json:2:2: This is not JSON: expecting an object, not 'hello'."),
        (b"null", "a.json:1:1: This is not JSON"),
        (b'{"\xff": 1 2}', "a.json:1:9: This is not JSON: expecting ',' delimiter, not '2}'."),
        (b'{"a": 1}', "a.json:1:1: is JSON without any task"),
        (b"[1, 2]", "a.json:1:1: is JSON without any task"),
        ("{}".encode("utf-16"), "a.json:1:1: is UTF-16, not UTF-8 text"),
        (b"\x1f\x8b\x08", "a.json:1:1: is compressed, not UTF-8 text"),
        (b"[" * 100_000, "a.json:1:1: This is not JSON: nested too deeply, not '[[["),
    ],
)
def test_what_is_no_result_file_is_refused_with_its_place(parse, wrong, said) -> None:
    with pytest.raises(ResultError) as caught:
        parse(wrong, "a.json")
    assert said in str(caught.value)


def test_damage_all_over_is_one_error(parse) -> None:
    parsed = parse(b'{"report_1":' * 3000)
    assert parsed.tasks == ()
    assert "This is not JSON" in parsed.damage.message or "in the middle" in parsed.damage.message


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
