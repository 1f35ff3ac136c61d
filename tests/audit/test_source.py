"""Files that are not plain Python 3: old syntax, old encodings, notebooks, and what is none."""

import ast
import json
import sys
from time import process_time

import pytest

from ascend_session.audit.scripts import audit_bytes, audit_file

BLOCK = """\
import tensorflow as tf
from npu_bridge.npu_init import *
config = tf.ConfigProto()
op = config.graph_options.rewrite_options.custom_optimizers.add()
op.name = "NpuOptimizer"
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
op.parameter_map["no_such_key"].i = 1
sess = tf.Session(config=config)
"""


def rules(audited):
    return [(one.rule, one.place.line) for one in audited.findings]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "gb18030", "latin-1"])
def test_a_script_in_an_old_encoding_is_read(encoding):
    text = BLOCK + ("# 关闭\n" if encoding == "gb18030" else "# fermé\n")
    assert rules(audit_bytes("a.py", text.encode(encoding))) == [("unknown-key", 7)]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
@pytest.mark.parametrize("name", ["a.py", "a.sh", "a.ipynb"])
def test_a_file_with_nul_bytes_is_an_error_and_never_passed_over(encoding, name):
    (finding,) = audit_bytes(name, BLOCK.encode(encoding)).findings
    assert (finding.rule, finding.severity) == ("not-read", "error")
    assert finding.message.endswith("Save it as UTF-8.")


def test_an_encoding_that_python_does_not_know_is_no_obstacle():
    text = "# -*- coding: no-such -*-\n" + BLOCK
    assert rules(audit_bytes("a.py", text.encode())) == [("unknown-key", 8)]


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_other_ends_of_lines_are_counted_alike(end):
    data = BLOCK.replace("\n", end).encode()
    assert rules(audit_bytes("a.py", data)) == [("unknown-key", 7)]


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="this Python has no lib2to3 any more")
@pytest.mark.filterwarnings("error")
def test_python_2_is_read_and_text_is_bytes_there():
    more = 'op.parameter_map["precision_mode"].s = "force_fp16"\nprint "x"\n'
    more += "try:\n    pass\nexcept Exception, error:\n    print `error`, 0777\n"
    assert rules(audit_bytes("a.py", (BLOCK + more).encode())) == [("unknown-key", 7)]


def test_tabs_among_spaces_are_read_as_python_2_did():
    more = "if config:\n        a = 1\n\tb = 2\n"
    assert rules(audit_bytes("a.py", (BLOCK + more).encode())) == [("unknown-key", 7)]


@pytest.mark.parametrize("text", ["import npu_bridge\n) (\n", "import npu_bridge\n\0\n"])
def test_what_is_no_python_is_said_and_not_raised(text):
    (finding,) = audit_bytes("a.py", text.encode()).findings
    assert (finding.rule, finding.severity) == ("not-read", "error")
    assert "could not be read" in finding.message


def test_a_text_of_thousands_of_parts_does_not_hide_the_rest():
    more = "import npu_bridge\nx = " + " + ".join(["'a'"] * 700) + "\n"
    assert rules(audit_bytes("a.py", (more + BLOCK).encode())) == [("unknown-key", 9)]


def test_a_file_without_a_mark_is_not_parsed():
    assert audit_bytes("a.py", b") (") == ("a.py", False, (), None)


def notebook(*cells):
    kinds = [{"cell_type": "markdown", "source": ["npu_bridge"]}]
    kinds += [{"cell_type": "code", "source": cell} for cell in cells]
    return json.dumps({"cells": kinds, "nbformat": 4}).encode()


def test_a_notebook_is_one_script_and_its_cells_are_named():
    first, second = BLOCK.split("config =", 1)
    data = notebook("%matplotlib inline\n!ls\n" + first, [f"config ={second}"])
    (finding,) = audit_bytes("a.ipynb", data).findings
    assert (finding.rule, finding.place[:3]) == ("unknown-key", (5, 1, 3))
    assert finding.place.text == 'op.parameter_map["no_such_key"].i = 1'


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="this Python has no lib2to3 any more")
def test_in_a_notebook_of_python_2_text_is_bytes_too():
    more = 'op.parameter_map["precision_mode"].s = "force_fp16"\nprint "x"\n'
    found = audit_bytes("a.ipynb", notebook(BLOCK, more)).findings
    assert [one.rule for one in found] == ["unknown-key"]


def test_columns_are_counted_in_characters():
    line = '精度 = 1; op.parameter_map["no_such_key"].i = 精度\n'
    findings = audit_bytes("a.py", (BLOCK + line).encode()).findings
    assert [one.place[:3] for one in findings if one.place.line == 9] == [(9, 9, None)]


def test_what_nobody_thought_of_is_said_of_its_file(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text(BLOCK)
    with monkeypatch.context() as patch:  # pytest parses, too
        patch.setattr(ast, "parse", lambda text: 1 // 0)
        audited = audit_file(str(tmp_path / "a.py"))
    assert (audited.looked_at, audited.findings) == (True, ())
    assert str(audited.skipped).startswith("It could not be followed: ZeroDivisionError, ")


def test_a_notebook_of_very_many_cells_takes_no_time():
    begin = process_time()
    audit_bytes("a.ipynb", notebook(*["print 1  # some words"] * 9000, BLOCK))
    assert process_time() - begin < 60  # two seconds, where nothing else runs


def test_a_cell_that_is_no_python_is_left_out_and_named():
    audited = audit_bytes("a.ipynb", notebook("%%bash\nfor x in y; do", BLOCK))
    assert [(one.rule, one.place.cell) for one in audited.findings] == [
        ("unknown-key", 3),
        ("not-read", 2),
    ]


def test_a_notebook_that_is_none_is_said():
    (finding,) = audit_bytes("a.ipynb", b'{"npu_bridge": 1}').findings
    assert finding.message == "This notebook cannot be read."


def test_a_huge_file_is_skipped_by_name(tmp_path):
    path = tmp_path / "generated.py"
    path.write_bytes(BLOCK.encode() + b"#" * (2 << 20))
    audited = audit_file(str(path))
    assert audited.findings == ()
    assert audited.skipped is not None
    assert audited.skipped.startswith("It has 2 MiB, and at most 2 MiB of a script")


def test_a_file_that_is_gone_is_skipped_by_name(tmp_path):
    skipped = audit_file(str(tmp_path / "gone.py")).skipped
    assert skipped == "It does not exist."
