"""``ascend-session aoe report``: text, JSON, a page, and another run beside it."""

import json
import os
import re
import xml.etree.ElementTree as ET
from html import unescape
from pathlib import Path
from time import process_time

import pytest

from tests.aoe.samples import OPERATOR_TASK, SUBGRAPH_TASK, content, many, operator, task

OPAT = "aoe_result_opat_20240315_101530123_4711.json"
SGAT = "aoe_result_sgat_20240316_101530123_4711.json"
STRANGE = "<b>&\"'\x01]]></svg><script>alert(1)</script>调优\ud800"


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
    assert "2.011 4.584 2.573 78.16 - update - 1024942313106057586" in said
    assert said[-1].startswith(f"doubtful: {SGAT}:38:18: total_num is 121, and added (1)")


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
    wrong["tune_performance"]["Schedule"]["performance_before_tune(us)"] = float("nan")
    (work / OPAT).write_bytes(content(task(wrong), many(30)))
    called = call("aoe", "report", "--json", OPAT)
    found = json.loads(called.out, parse_constant=pytest.fail)
    assert (found["ok"], called.code) == (True, 0)
    assert len(found["operators"]) == 31
    assert found["operators"][-1]["saved"] is None
    assert found["totals"]["operators"]["known"] == 30
    assert found["files"][0]["tasks"][1]["tunings"][0]["summary"]["added"] == 30
    (doubt,) = found["files"][0]["doubts"]
    assert doubt["message"].startswith("performance_before_tune(us) is NaN")
    assert (
        len(json.loads(call("aoe", "report", "--json", "--top", "3", OPAT).out)["operators"]) == 3
    )


def names(call, *arguments):
    found = json.loads(call("aoe", "report", "--json", *arguments).out)
    return [one["name"] for one in (*found["operators"], *found["subgraphs"])]


def test_it_is_sorted_and_filtered(call, tmp_path):
    path = tmp_path / "a.json"
    tuned = [
        operator("net/b", 100.0, 60.0, "Conv2D", "Format"),
        operator("net/a", 10.0, 2.0, ["MatMulV2", "Relu"]),
        operator("net/c[1]", 50.0, 45.0, "MatMulV2", mode="update"),
    ]
    path.write_bytes(content(task(*tuned)))
    file = str(path)
    assert names(call, file) == ["net/b", "net/a", "net/c[1]"]
    assert names(call, file, "--sort", "improvement") == ["net/a", "net/b", "net/c[1]"]
    assert names(call, file, "--sort", "after") == ["net/b", "net/c[1]", "net/a"]
    assert names(call, file, "--sort", "name") == ["net/a", "net/b", "net/c[1]"]
    assert names(call, file, "--sort", "type")[0] == "net/b"
    assert names(call, file, "--filter", "type=MatMul*") == ["net/a", "net/c[1]"]
    assert names(call, file, "--filter", "type=MatMul*", "--filter", "update=add") == ["net/a"]
    assert names(call, file, "--filter", "way=Format") == ["net/b"]
    assert names(call, file, "--filter", "c[1]") == ["net/c[1]"]
    assert names(call, file, "--filter", "none") == []
    shown = call("aoe", "report", file, "--top", "1").out
    assert "... and 2 more; --top shows them, and --json." in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sort", "size"], "'size' is not one of saved, improvement, before"),
        (["--filter", "size=3"], "'size' is not one of name, type, way, update."),
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
    assert "and the rest is missing. Before it: 1 whole task." in called.out


def test_a_file_that_is_missing_is_told_beside_the_others(call, work):
    called = call("aoe", "report", "none.json", OPAT)
    assert called.code == 1
    assert lines(called)[0] == f"{OPAT}: 1 task"
    assert called.err.startswith("ascend-session: error: none.json: does not exist.\n")
    assert call("aoe", "report", "none.json").code == 1


def test_two_runs_are_compared(call, tmp_path):
    now, then = tmp_path / "now.json", tmp_path / "then.json"
    same = operator("same", 9.0, 8.0)
    now.write_bytes(
        content(
            task(operator("a", 9.0, 2.0), operator("b", 9.0, 4.5), operator("new", 3.0, 1.0), same)
        )
    )
    old = task(
        operator("a", 9.0, 3.0),
        operator("b", 9.0, 4.0),
        same,
        outcome="tuning failed",
        failed=["gone"],
    )
    then.write_bytes(content(old))
    called = call("aoe", "report", str(now), "--against", str(then))
    assert called.code == 0
    said = lines(called)
    assert "After tuning: 1 faster, 1 slower, 1 the same, 1 only here, 0 only there." in said
    assert "slower +0.500 4.000 4.500 us b" in said
    assert "faster -1.000 3.000 2.000 us a" in said
    assert "only here - - 1.000 us new" in said
    assert f"Compared with {then}:" in said
    assert "Tuning failed only there: gone." in said
    assert "there 3 0 0 0 0 3" in said
    found = json.loads(call("aoe", "report", "--json", str(now), "--against", str(then)).out)
    assert found["against"]["faster"][0]["difference"] == -1.0
    assert found["against"]["failed_there"] == ["gone"]


def test_the_page_compares_two_runs_as_the_text_does(call, tmp_path):
    now, then, html = (str(tmp_path / name) for name in ("now.json", "then.json", "page.html"))
    Path(now).write_bytes(content(task(operator("a", 9.0, 2.0), operator("new", 3.0, 1.0))))
    old = task(operator("a", 9.0, 3.0), outcome="tuning failed", failed=["gone"])
    Path(then).write_bytes(content(old))
    assert call("aoe", "report", now, "--against", then, "--html", html).code == 0
    made = page(Path(html))
    assert then in [one.text for one in made.iter(f"{XHTML}p")]
    rows = [[cell.text for cell in row] for row in made.iter(f"{XHTML}tr")]
    assert ["there", "1", "0", "0", "0", "0", "1"] in rows
    assert ["faster", "-1.000", "3.000", "2.000", "us", "a"] in rows
    assert ["only here", "-", "-", "1.000", "us", "new"] in rows
    items = [one.text for one in made.iter(f"{XHTML}li")]
    assert "After tuning: 1 faster, 0 slower, 0 the same, 1 only here, 0 only there." in items
    assert "gone" in items
    assert "Tuning failed only there" in [one.text for one in made.iter(f"{XHTML}h3")]


def test_a_filter_holds_for_both_runs_that_are_compared(call, tmp_path):
    now, then = tmp_path / "now.json", tmp_path / "then.json"
    now.write_bytes(content(task(operator("a", 9.0, 2.0), operator("b", 9.0, 4.5, "Conv2D"))))
    then.write_bytes(content(task(operator("a", 9.0, 3.0), operator("b", 9.0, 4.0, "Conv2D"))))
    arguments = ("aoe", "report", str(now), "--against", str(then), "--filter", "type=MatMul*")
    said = lines(call(*arguments))
    assert "After tuning: 1 faster, 0 slower, 0 the same, 0 only here, 0 only there." in said
    assert (
        "There: 1 operator: 9.000 us before, 3.000 us after, 6.000 us saved (200.00 % faster)."
        in said
    )
    assert (
        "Here: 1 operator: 9.000 us before, 2.000 us after, 7.000 us saved (350.00 % faster)."
        in said
    )
    found = json.loads(call(*arguments, "--json").out)
    assert found["against"]["totals"]["operators"]["before"] == 9.0
    assert found["against"]["slower"] == []


def test_what_is_lost_of_the_other_run_is_told(call, work):
    (work / "half.json").write_bytes(content(OPERATOR_TASK, OPERATOR_TASK)[:-300])
    called = call("aoe", "report", OPAT, "--against", "half.json", "--html", "page.html")
    assert called.code == 1
    assert "damaged: half.json:" in called.out
    (damaged,) = [
        one.text for one in page(work / "page.html").iter() if one.get("class") == "damaged"
    ]
    assert damaged.startswith("damaged: half.json:")
    found = json.loads(call("aoe", "report", OPAT, "--against", "half.json", "--json").out)
    assert found["against"]["damage"][0]["file"] == "half.json"
    assert found["against"]["unread"] == []


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
            one["tune_performance"]["Schedule"]["performance_after_tune(us)"] = "x"
        (work / OPAT).write_bytes(content(task(operator("a", 2.0, 1.0), *wrong)))
        assert f"{said} known." in call("aoe", "report", OPAT).out


def test_nothing_in_an_error_controls_the_terminal(call, work):
    called = call("aoe", "report", "a\x1b[31m.json")
    assert called.err.startswith("ascend-session: error: a\\x1b[31m.json: does not exist.\n")


def page(path: Path) -> ET.Element:
    return ET.fromstring(path.read_text(encoding="utf-8"))


XHTML = "{http://www.w3.org/1999/xhtml}"
SVG = "{http://www.w3.org/2000/svg}"


def test_the_page_has_a_picture_and_loads_nothing(call, work):
    called = call("aoe", "report", "--html", "page.html")
    assert (called.code, called.err) == (
        0,
        "ascend-session: page.html: a page of what was tuned.\n",
    )
    made = page(work / "page.html")
    operators, subgraphs = made.iter(f"{SVG}svg")
    widths = [float(one.get("width")) for one in operators.iter(f"{SVG}rect")][2:]
    assert widths == pytest.approx([420, 420 * 26.876 / 58.781, 119.4, 112.25], abs=0.02)
    assert len(list(subgraphs.iter(f"{SVG}g"))) == 2
    assert any("total_num is 121" in (one.text or "") for one in made.iter(f"{XHTML}li"))
    head, row = [[one.get("class") for one in found] for found in made.findall(f".//{XHTML}tr")[:2]]
    assert head == row == ["n"] * 4 + [None] * 4
    tags = {one.tag for one in made.iter()}
    assert not tags & {f"{XHTML}{name}" for name in ("script", "link", "img", "iframe")}
    assert not [one for one in made.iter() if one.get("src") or one.get("href")]


def test_whatever_a_name_is_the_page_is_well_formed_and_says_it(call, work):
    strange = task(operator(STRANGE, 3.0, 1.0, STRANGE, STRANGE, STRANGE), failed=[STRANGE])
    strange[0]["basic"]["tuning_name"] = STRANGE
    (work / STRANGE[:3]).write_bytes(content((f"report_{STRANGE}", strange)))
    assert call("aoe", "report", STRANGE[:3], "--html", "page.html").code == 0
    text = (work / "page.html").read_text(encoding="utf-8")
    made = page(work / "page.html")
    assert "<script" not in text
    (title,) = [one.text for one in made.iter(f"{SVG}title") if "alert" in (one.text or "")]
    assert title == STRANGE.replace("\x01", "\ufffd").replace("\ud800", "\ufffd")
    assert "调优" in unescape(text)


def test_a_page_is_never_replaced_without_force(call, work):
    (work / "page.html").write_text("mine")
    called = call("aoe", "report", "--html", "page.html")
    assert (called.code, called.out) == (1, "")
    assert called.err == (
        "ascend-session: error: page.html already exists.\n  hint: Give --force to replace it.\n"
    )
    assert (work / "page.html").read_text() == "mine"
    assert call("aoe", "report", "--html", "page.html", "--force").code == 0
    assert page(work / "page.html") is not None
    assert sorted(os.listdir(str(work))) == sorted([OPAT, SGAT, "page.html"])


@pytest.fixture
def drawn(on_terminal, tmp_path):
    """What the report of operators is on a terminal of that many columns."""

    def drawn(columns, *operators):
        path = tmp_path / OPAT
        path.write_bytes(content(task(*operators)))
        called = on_terminal("aoe", "report", str(path), columns=columns, PYTHONIOENCODING="utf-8")
        return re.sub(r"\x1b\[[0-9;]*m", "", called.out).splitlines()

    return drawn


def test_bars_are_as_long_as_the_times_also_of_what_became_slower(drawn):
    wrong = operator("unknown", 2.0, 1.0)
    wrong["tune_performance"]["Schedule"]["performance_before_tune(us)"] = "x"
    said = drawn(100, operator("a", 4.0, 2.0), operator("slow", 4.0, 8.0), wrong)
    bars = [line.count("█") for line in said if "█" in line]
    assert bars == [30, 15, 30, 60]
    assert any("Before is above, after is below" in line for line in said)


def test_no_number_is_folded_on_a_narrow_terminal(drawn):
    said = drawn(60, operator("net/" * 20, 123456.789, 12345.678))
    assert any("111,111.111  123,456.789  12,345.678" in line for line in said)


def test_the_end_of_a_name_of_wide_letters_is_beside_its_bars(drawn):
    said = drawn(80, operator("调优" * 30 + "end", 2.0, 1.0))
    (label,) = [line for line in said if "...优" in line or "...调" in line]
    assert "优end " in label
    assert "█" in label


def test_ten_thousand_operators_are_shown_quickly(call, tmp_path):
    path = tmp_path / OPAT
    path.write_bytes(content(many(10_000), indent=None))
    begin = process_time()
    called = call("aoe", "report", str(path), "--html", str(tmp_path / "page.html"))
    assert process_time() - begin < 4.0  # under a second, where nothing else runs
    assert called.code == 0
    assert "10,000 operators: " in called.out
    assert len(list(page(tmp_path / "page.html").iter(f"{XHTML}tr"))) == 1003
    assert len(json.loads(call("aoe", "report", str(path), "--json").out)["operators"]) == 10_000
