"""Whatever a file is, ``--json`` prints JSON, and the exit code says that something is wrong."""

import json
import os

import pytest

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
        "config check FILE",
        "config show FILE",
        "ranktable check --no-host FILE",
        "ranktable show FILE",
    ],
)
def test_json_is_printed_whatever_a_file_is(call, command, kind, odd):
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


def test_a_wrong_mode_of_tuning_is_an_error_as_json(call, host):
    called = call("aoe", "run", "--dry-run", "--json", "--mode", "everything")
    assert called.code == 2
    report = json.loads(called.out)
    assert report["ok"] is False
    assert "everything" in report["error"]


def test_findings_in_a_script_whose_name_is_no_utf8_are_in_the_json(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"bad\xff.py")
    (tmp_path / name).write_text("import npu_bridge\nop.parameter_map['precison_mode'].s = b'x'\n")
    called = call("audit", "--json", name)
    assert called.code == 1
    assert json.loads(called.out)["findings"][0]["file"] == name
