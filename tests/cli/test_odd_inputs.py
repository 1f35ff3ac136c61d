"""Whatever a file is, ``--json`` prints JSON, and the exit code says that something is wrong."""

import json
import os

import pytest

from tests.aoe.samples import content, many

# Files that no command can use, by what they are; None for those that a fixture makes.
ODD = {
    "missing": None,
    "empty": b"",
    "binary": bytes(range(256)) * 40,
    "a folder": None,
    "a list": b"[1, 2]",
    "deep": b"[" * 100_000,
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "not a number": b'{"version": NaN}',
    "a file below a file": None,
    "too long": None,
}


@pytest.fixture
def odd(kind, tmp_path, monkeypatch):
    """The name of a file of that kind."""
    monkeypatch.chdir(tmp_path)
    if kind == "a folder":
        (tmp_path / "odd").mkdir()
    elif kind == "a file below a file":
        (tmp_path / "odd").write_text("")
        return "odd/odd"
    elif kind == "too long":
        return "x" * 300
    elif ODD[kind] is not None:
        (tmp_path / "odd").write_bytes(ODD[kind])
    return "odd"


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize(
    "command",
    [
        "aoe report FILE",
        "aoe report --against FILE",
        "config check FILE",
        "config show FILE",
        "ranktable check --no-host FILE",
        "ranktable show FILE",
    ],
)
def test_json_is_printed_whatever_a_file_is(call, command, kind, odd, tmp_path):
    (tmp_path / "aoe_result_opat_20240315_101530123_4711.json").write_bytes(content(many(1)))
    called = call(*[odd if word == "FILE" else word for word in command.split()], "--json")
    assert called.code == 1
    assert isinstance(json.loads(called.out), dict)


@pytest.mark.parametrize("name", ["nowhere.json", "\x1b[31m.json", "调优.json"])
def test_a_table_that_cannot_be_shown_is_reported_as_check_does(call, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    shown = call("ranktable", "show", "--json", name)
    assert shown == call("ranktable", "check", "--no-host", "--json", name)
    assert (shown.code, shown.err) == (1, "")
    (finding,) = json.loads(shown.out)["findings"]
    assert (finding["severity"], finding["said"]) == ("error", "does not exist.")


def test_a_report_of_nothing_that_can_be_read_has_the_keys_of_every_other(call, tmp_path):
    broken = tmp_path / "broken.json"
    broken.write_text("null")
    report = json.loads(call("aoe", "report", "--json", str(broken)).out)
    assert (report["ok"], report["files"], report["operators"]) == (False, [], [])
    (unread,) = report["unread"]
    assert unread["message"].startswith(f"{broken}:1:")
    called = call("aoe", "report", "--json", "--against", str(tmp_path / "no"), str(broken))
    assert called.code == 1
    assert len(json.loads(called.out)["against"]["unread"]) == 1


def test_a_page_that_cannot_be_written_is_an_error_as_json(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.json").write_bytes(content(many(1)))
    (tmp_path / "page.html").write_text("mine")
    called = call("aoe", "report", "--json", "--html", "page.html", "a.json")
    assert called.code == 1
    assert json.loads(called.out)["error"] == "page.html already exists."


def test_no_page_is_written_of_what_cannot_be_read(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("aoe", "report", "--json", "--html", "page.html", "nowhere.json").code == 1
    assert os.listdir(str(tmp_path)) == []


def test_a_wrong_mode_of_tuning_is_an_error_as_json(call, host):
    called = call("aoe", "preflight", "--json", "--mode", "everything")
    assert called.code == 2
    report = json.loads(called.out)
    assert report["ok"] is False
    assert "everything" in report["error"]


@pytest.mark.parametrize("name", ["nowhere/findings.sarif", "a\0b", ""])
def test_findings_that_cannot_be_written_are_an_error_as_json(call, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    called = call("audit", "--json", "--sarif", name, "train.py")
    assert called.code == 2
    assert json.loads(called.out)["error"].startswith(f"{name} could not be written: ")


def test_findings_in_a_script_whose_name_is_no_utf8_are_written(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"bad\xff.py")
    (tmp_path / name).write_text("import npu_bridge\nop.parameter_map['precison_mode'].s = b'x'\n")
    assert call("audit", "--json", "--sarif", "findings.sarif", name).code == 1
    (run,) = json.loads((tmp_path / "findings.sarif").read_text())["runs"]
    (location,) = run["results"][0]["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "bad%FF.py"


def test_only_what_the_file_causes_is_put_down_to_it(call, tmp_path, monkeypatch):
    def fail(*_):
        raise ValueError("a mistake of ours")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ascend_session.audit.as_sarif", fail)
    (tmp_path / "train.py").write_text("")
    with pytest.raises(ValueError, match="a mistake of ours"):
        call("audit", "--sarif", "findings.sarif", "train.py")
    assert not (tmp_path / "findings.sarif").exists()
