"""Folders, several processes, baselines and SARIF."""

import ast
import json
import os
import signal
from time import process_time

import pytest

from ascend_session.audit import (
    AUDIT_RULES,
    as_sarif,
    audit_bytes,
    audit_paths,
    files_below,
    read_baseline,
    without_known,
    write_baseline,
)
from ascend_session.errors import AuditError

WRONG = """\
def build(op):  # npu_bridge
    op.parameter_map["no_such_key"].i = 1
    op.parameter_map["op_debug_level"].i = 0
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "inner" / "__pycache__").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    for name in ("a.py", "inner/b.py", "inner/__pycache__/c.py", ".git/d.py"):
        (tmp_path / name).write_text(WRONG)
    (tmp_path / "notes.txt").write_text(WRONG)
    (tmp_path / "clean.py").write_text("print(1)\n")
    return tmp_path


def names(files, folder):
    return [file[len(str(folder)) + 1 :] for file in files]


def test_scripts_below_a_folder_are_found_once(folder):
    found = files_below([str(folder), str(folder / "a.py")])
    assert names(found, folder) == ["a.py", "clean.py", "inner/b.py"]


def test_a_file_that_is_named_is_read_whatever_it_is_called(folder):
    assert audit_paths([str(folder / "notes.txt")]).count("error") == 1


def test_a_path_that_is_not_there_is_refused(folder):
    with pytest.raises(FileNotFoundError):
        files_below([str(folder / "nope")])


def test_several_processes_find_the_same(folder):
    alone = audit_paths([str(folder)], processes=1)
    assert audit_paths([str(folder)], processes=2) == alone
    assert (alone.files, alone.looked_at) == (3, 2)
    assert (alone.count("error"), alone.count("info")) == (2, 2)


def test_a_file_that_kills_its_process_is_named_and_the_others_are_read(folder, monkeypatch):
    parse = ast.parse

    def deadly(text, *rest, **more):
        if "deadly" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        return parse(text, *rest, **more)

    (folder / "a.py").write_text(f"{WRONG}# deadly\n")
    with monkeypatch.context() as patch:  # pytest parses, too
        patch.setattr(ast, "parse", deadly)
        report = audit_paths([str(folder)], processes=2)
    assert report.skipped == ((str(folder / "a.py"), "The process that read it was killed."),)
    assert (report.files, report.count("error")) == (3, 1)


def test_a_pipe_is_skipped_and_never_waited_for(folder):
    os.mkfifo(str(folder / "pipe.py"))
    report = audit_paths([str(folder)])
    assert report.skipped == ((str(folder / "pipe.py"), "It is a pipe or a device, not a file."),)
    assert report.count("error") == 2


def test_every_file_is_told(folder):
    told = []
    audit_paths([str(folder)], told.append)
    assert told == [3, 3, 3]


def test_a_baseline_knows_findings_by_their_lines_wherever_these_are(folder):
    file = str(folder / "known.json")
    write_baseline(file, audit_paths([str(folder)]))
    (folder / "a.py").write_text("\n\n" + WRONG)
    (folder / "inner" / "b.py").write_text(WRONG.replace("no_such_key", "another_key"))
    report = without_known(audit_paths([str(folder)]), file, read_baseline(file))
    assert report.known == 3
    assert [one.place.text for one in report.findings] == ['op.parameter_map["another_key"].i = 1']


def test_a_line_that_is_there_once_more_is_new(folder):
    file = str(folder / "known.json")
    write_baseline(file, audit_paths([str(folder)]))
    (folder / "a.py").write_text(WRONG + WRONG)
    report = without_known(audit_paths([str(folder)]), file, read_baseline(file))
    assert [one.place.line for one in report.findings] == [5, 6]


def test_a_baseline_that_cannot_be_written_leaves_the_one_that_was_there(folder, monkeypatch):
    file = folder / "known.json"
    file.write_text("before")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space")))
    with pytest.raises(AuditError, match=r"cannot be written: No space\."):
        write_baseline(str(file), audit_paths([str(folder / "a.py")]))
    assert file.read_text() == "before"
    assert not list(folder.glob("*.part")) + list(folder.glob(".ascend*"))


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", '{"known": [{"file": 1}]}', '{"known": []} more', "[" * 100_000),
        f'{{"known": [{{"file": "a", "rule": "b", "text": "c", "count": {"9" * 400}}}]}}',
    ],
    ids=range(6),
)
def test_what_is_no_baseline_is_refused(folder, text):
    (folder / "known.json").write_text(text)
    with pytest.raises(AuditError, match="is not a baseline"):
        read_baseline(str(folder / "known.json"))


def test_sarif_has_rules_levels_and_places(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (run,) = json.loads(json.dumps(as_sarif(audit_paths(["a.py"]), "1.0")))["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == list(AUDIT_RULES)
    results = [(one["ruleId"], one["level"]) for one in run["results"]]
    assert results == [("unknown-key", "error"), ("deprecated-option", "note")]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "a.py"
    assert place["region"] == {"startLine": 2, "startColumn": 5}


@pytest.mark.parametrize(
    "lines",
    [
        "a \\\n" * 100_000,
        "if x\nexport RANK_SIZE=8\n" * 5000,
        "if x\nexport RANK_SIZE=8\nelse\nunset RANK_SIZE\nfi\n" * 3000,
        "python a.py &\n" + "wait $!\n" * 10_000,
    ],
    ids=["continued", "nested", "branches", "waits"],
)
def test_no_shell_script_takes_long(lines):
    begin = process_time()
    audit_bytes("a.sh", f"export RANK_ID=0\n{lines}".encode())
    assert process_time() - begin < 10.0  # two seconds, where nothing else runs
