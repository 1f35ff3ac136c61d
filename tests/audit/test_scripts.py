"""Folders of scripts."""

import os
from time import process_time

import pytest

from ascend_session.audit.scripts import audit_bytes, audit_paths, files_below

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


def test_files_and_findings_are_counted(folder):
    report = audit_paths([str(folder)])
    assert (report.files, report.looked_at) == (3, 2)
    assert (report.count("error"), report.count("info")) == (2, 2)


def test_a_pipe_is_skipped_and_never_waited_for(folder):
    os.mkfifo(str(folder / "pipe.py"))
    report = audit_paths([str(folder)])
    assert report.skipped == ((str(folder / "pipe.py"), "It is a pipe or a device, not a file."),)
    assert report.count("error") == 2


def test_every_file_is_told(folder):
    told = []
    audit_paths([str(folder)], told.append)
    assert told == [3, 3, 3]


def test_the_same_job_id_in_many_scripts_is_one_note(folder):
    for name in ("one.sh", "two.sh", "three.sh"):
        (folder / name).write_text("export RANK_ID=0\nexport JOB_ID=10087\n")
    (finding,) = [
        each for each in audit_paths([str(folder)]).findings if each.rule == "fixed-job-id"
    ]
    assert (finding.severity, os.path.basename(finding.place.file)) == ("info", "one.sh")
    assert finding.message.endswith("Also in 2 other places.")


def test_a_relative_rank_table_is_judged_only_where_it_is(folder):
    text = "export RANK_ID=0\n{}export RANK_TABLE_FILE=table.json\n"
    script = folder / "a.sh"
    script.write_text(text.format(""))
    assert audit_paths([str(script)]).findings == ()
    (folder / "table.json").write_text("no table")
    script.write_text(text.format("cd device0\n"))
    assert [each.certain for each in audit_paths([str(script)]).findings] == [False]
    script.write_text(text.format("") + text.format("") + "export RANK_TABLE_FILE=$1\n")
    assert audit_paths([str(script)]).findings == ()


def test_a_script_of_one_rank_is_advised_as_one(folder):
    script = folder / "a.sh"
    script.write_text("export RANK_SIZE=1\nexport RANK_ID=0\npython3 a.py &\nwait\n")
    found = audit_paths([str(script)]).findings
    assert {each.severity for each in found} == {"warning"}
    assert not any("collective" in each.message or "launch -n" in each.hint for each in found)


def test_the_advice_names_the_number_of_ranks(folder):
    script = folder / "a.sh"
    script.write_text("RANK_SIZE=4\nfor d in 0 1 2 3; do bash one.sh $d & done; wait\n")
    hints = [each.hint for each in audit_paths([str(script)]).findings if each.severity == "error"]
    assert ["launch -n 4 train.py" in hint for hint in hints] == [True]


@pytest.mark.parametrize(
    "lines",
    [
        "a \\\n" * 100_000,
        "if x\nexport RANK_SIZE=8\n" * 5000,
        "if x\nexport RANK_SIZE=8\nelse\nunset RANK_SIZE\nfi\n" * 3000,
        "python a.py &\n" + "wait $!\n" * 10_000,
        "A=1;" * 100_000,
    ],
    ids=["continued", "nested", "branches", "waits", "assignments"],
)
def test_no_shell_script_takes_long(lines):
    begin = process_time()
    audit_bytes("a.sh", f"export RANK_ID=0\n{lines}".encode())
    assert process_time() - begin < 60  # two seconds, where nothing else runs
