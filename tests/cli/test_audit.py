"""``ascend-session audit``: what it prints, and its exit codes."""

import json

import pytest

RIGHT = """\
def build(op):  # npu_bridge
    op.parameter_map["use_off_line"].b = True
"""
WARNS = RIGHT + '    op.parameter_map["min_group_size"].b = True\n'
WRONG = RIGHT + '    op.parameter_map["precison_mode"].s = b"origin"\n'


@pytest.mark.parametrize(
    ("text", "fail_on", "code"),
    [
        (RIGHT, "info", 0),
        (WARNS, "error", 0),
        (WARNS, "warning", 1),
        (WARNS, "info", 1),
        (WARNS, "note", 1),
        (WRONG, "error", 1),
    ],
)
def test_the_exit_code_goes_by_the_severity_that_is_asked_for(call, write, text, fail_on, code):
    assert call("audit", write(text, "a.py"), "--fail-on", fail_on).code == code


def test_a_file_that_cannot_be_read_is_one(call, write, tmp_path):
    assert call("audit", write("import npu_bridge\n) (\n", "a.py")).code == 1
    large = tmp_path / "large.py"
    large.write_bytes(RIGHT.encode() + b"#" * (3 << 20))
    called = call("audit", str(large))
    assert (called.code, f"{large}: not read." in called.out) == (1, True)


def test_a_finding_is_a_line_with_its_place_and_rule_and_one_with_what_to_write(call, write):
    file = write(WRONG, "a.py")
    called = call("audit", file)
    assert called.out.split("\n") == [
        f"{file}:3:5: error: The adapter has no key 'precison_mode' and silently ignores it.  "
        "[unknown-key]",
        "  hint: Did you mean 'precision_mode'?",
        "1 file read, 1 with options for Ascend: 1 error, 0 warnings, 0 notes.",
        "",
    ]
    assert called.err == ""


def test_json_has_every_finding(call, write):
    report = json.loads(call("audit", write(WRONG, "a.py"), "--json").out)
    assert report["counts"] == {"error": 1, "warning": 0, "info": 0}
    (finding,) = report["findings"]
    assert (finding["rule"], finding["line"], finding["certain"]) == ("unknown-key", 3, True)


def test_only_what_is_certain_is_left_on_request(call, write):
    maybe = (
        "import npu_bridge\n"
        "op = config.graph_options.rewrite_options.custom_optimizers.add()\n"
        'op.name = "NpuOptimizer"\n'
    )
    file = write(maybe, "a.py")
    assert "possible warning:" in call("audit", file).out
    assert "warning:" not in call("audit", file, "--certain").out


def test_a_summary_has_the_worst_kinds_first_and_one_example_of_each(call, write, tmp_path):
    misspelt = WRONG.splitlines(keepends=True)[-1]
    text = WRONG + misspelt.replace("precison", "precisoin") + WARNS.splitlines(keepends=True)[-1]
    for name in ("a.py", "b.py"):
        write(text, name)
    called = call("audit", str(tmp_path), "--summary")
    lines = called.out.splitlines()
    assert called.code == 1
    assert [line.partition(":")[0] for line in lines if line[0] != " "][:2] == [
        "unknown-key, 4 in 2 files",
        "unread-option, 2 in 2 files",
    ]
    assert called.out.count("'precison_mode'") == 1
    assert "precisoin" not in called.out
    found = json.loads(call("audit", str(tmp_path), "--summary", "--json").out)
    assert [(kind["rule"], kind["count"]) for kind in found["summary"]] == [
        ("unknown-key", 4),
        ("unread-option", 2),
    ]
    assert found["summary"][0]["first"]["file"].endswith("a.py")
    assert "findings" not in found


def test_a_summary_of_what_is_right_has_totals_only(call, write):
    called = call("audit", "--summary", write(RIGHT, "a.py"))
    assert (called.code, called.out.count("\n")) == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such-path"], "there is no file or folder no-such-path."),
        (["--fail-on", "never", "."], "never is not error, warning or note."),
        ([], "Missing argument"),
    ],
)
def test_a_wrong_call_is_two(call, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    called = call("audit", *arguments)
    assert called.code == 2
    assert said in " ".join(called.err.split())


def test_fix_shows_the_diff_and_writes_it(call, write):
    text = WRONG.replace("precison_mode", "hcom_paralel").replace('s = b"origin"', "b = 1")
    renamed = write(text, "a.py")
    shown = call("audit", renamed, "--diff")
    assert shown.code == 1
    with open(renamed) as opened:
        assert opened.read() == text
    called = call("audit", renamed, "--fix")
    assert called.code == 0
    assert called.err.startswith(shown.err)
    assert called.err.startswith(f"{renamed}:3: The adapter has no key 'hcom_paralel'")
    assert '-    op.parameter_map["hcom_paralel"].b = 1\n' in called.err
    assert '+    op.parameter_map["hcom_parallel"].b = 1\n' in called.err
    assert called.err.endswith("1 change written to 1 file.\n")
    with open(renamed) as opened:
        assert '["hcom_parallel"]' in opened.read()
    assert "There are no certain fixes." in call("audit", renamed, "--fix").err
