"""``ascend-session precision``: the modes of operators, a file for each network."""

import json
from pathlib import Path
from typing import Any

import pytest

from ascend_session.option_files import OpPrecision

LISTS = {
    "all_ops_impl_mode.ini": "Pooling=high_precision,high_performance\n"
    "SoftmaxV2=high_performance,high_precision\nLRN=high_precision\n",
    "high_performance_for_all.ini": "# all\n[ByOpType]\nPooling=high_performance\n"
    "SoftmaxV2=high_performance\n",
    "high_precision.ini": "Pooling=high_precision\n",
}


@pytest.fixture
def toolkit(host: Any) -> Path:
    """A toolkit with its lists, where toolkits usually are."""
    home = Path(host.environ["ASCEND_SESSION_HOST_ROOT"]) / "usr/local/Ascend/cann"
    folder = home / "opp/built-in/op_impl/ai_core/tbe/impl_mode"
    folder.mkdir(parents=True)
    for name, text in LISTS.items():
        (folder / name).write_text(text)
    return home


@pytest.fixture
def net(tmp_path: Path) -> Path:
    return tmp_path / "net.ini"


def test_the_whole_procedure_of_the_manual(call: Any, toolkit: Path, net: Path) -> None:
    made = call("precision", "new", str(net), "--from", "high_performance_for_all.ini")
    assert made.code == 0
    assert made.out.startswith(f"{net}: 2 operators, from {toolkit}/opp/built-in/")
    assert call("precision", "set", str(net), "SoftmaxV2=high_precision") == (
        0,
        f"{net}: SoftmaxV2=high_precision\n",
        "",
    )
    assert call("precision", "check", str(net)) == (0, f"{net}: ok\n", "")
    expected = {"Pooling": "high_performance", "SoftmaxV2": "high_precision"}
    assert OpPrecision.read(net) == OpPrecision(expected)


def test_a_name_without_a_suffix_is_an_ini_file(call: Any, toolkit: Path, net: Path) -> None:
    short = str(net)[:-4]
    assert call("precision", "new", short, "--from", "high_precision").code == 0
    assert call("precision", "set", short, "LRN=high_precision").code == 0
    assert json.loads(call("precision", "check", short, "--json").out) == {
        "file": str(net), "ok": True, "refused": [], "remarks": [], "toolkit": [],
        "not_checked": None,
    }  # fmt: skip


def test_nothing_is_overwritten_without_force(call: Any, toolkit: Path, net: Path) -> None:
    net.write_text("mine")
    arguments = ("precision", "new", str(net), "--from", "high_precision")
    refused = call(*arguments)
    assert refused == (
        1,
        "",
        f"ascend-session: error: {net} already exists.\n  hint: Give --force to replace it.\n",
    )
    assert net.read_text() == "mine"
    assert json.loads(call(*arguments, "--json").out)["ok"] is False
    assert json.loads(call(*arguments, "--json", "--force").out)["operators"] == 1


def test_a_list_may_be_any_file_and_what_ge_skips_is_not_copied(
    call: Any, host: Any, net: Path, write: Any
) -> None:
    source = write("A=keep_fp16\nB=fast\n", "old.ini")
    made = call("precision", "new", str(net), "--from", source)
    assert made.out.startswith(f"{net}: 1 operator, from {source}\n")
    assert f"{source}:2:3: warning: GE skips this line" in made.err
    assert f"warning: 1 line of {source} not copied." in made.err
    again = call("precision", "new", str(net), "--from", source, "--force", "--json")
    (left,) = json.loads(again.out)["left"]
    assert sorted(left) == ["column", "hint", "line", "message"]


def test_of_a_list_without_a_usable_line_nothing_is_written(
    call: Any, host: Any, net: Path, write: Any
) -> None:
    source = write("A fast\n", "bad.ini")
    made = call("precision", "new", str(net), "--from", source)
    assert (made.code, made.out) == (1, "")
    assert f"error: {source} has no line that GE can use, so nothing was written." in made.err
    assert not net.exists()


@pytest.mark.parametrize("name", ["high_precision_for_all", "nothing.ini"])
def test_a_list_that_is_not_there_is_named(call: Any, toolkit: Path, net: Path, name: str) -> None:
    called = call("precision", "new", str(net), "--from", name)
    assert (called.code, called.out) == (1, "")
    assert f"impl_mode has no {name}." in called.err
    assert "hint: It has all_ops_impl_mode.ini, " in called.err
    assert not net.exists()


def test_without_a_toolkit_its_lists_are_asked_for(call: Any, host: Any, net: Path) -> None:
    called = call("precision", "new", str(net), "--from", "high_precision")
    assert called.code == 1
    assert "This machine has no toolkit with lists of implementation modes" in called.err
    net.write_text("A=keep_fp16\n")
    checked = call("precision", "check", str(net))
    assert checked.code == 0
    assert "  not checked: This machine has no toolkit" in checked.out
    assert json.loads(call("precision", "check", str(net), "--json").out)["toolkit"] is None


def test_set_keeps_comments_and_warns_of_modes_that_do_nothing(
    call: Any, toolkit: Path, net: Path
) -> None:
    net.write_text("# mine\nPooling=high_precision # why\n")
    called = call("precision", "set", str(net), "Pooling=high_performance", "LRN=keep_fp16")
    assert called.code == 0
    assert "note: LRN has no mode keep_fp16 and keeps its default" in called.err
    # The line with a comment behind its mode never counted, and stays.
    assert net.read_text() == (
        "# mine\nPooling=high_precision # why\nPooling=high_performance\nLRN=keep_fp16\n"
    )
    assert OpPrecision.read(net).by_type == {"Pooling": "high_performance", "LRN": "keep_fp16"}
    assert call("precision", "set", str(net), "n/a=keep_fp16", "--node").code == 0
    assert OpPrecision.read(net).by_node == {"n/a": "keep_fp16"}


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("Relu", "Relu is not of the form OP=MODE."),
        ("Relu=keep_fp", "GE has no mode 'keep_fp'. Write keep_fp16."),
        ("a/b=keep_fp16", "a/b is the name of a node; add --node."),
    ],
)
def test_a_wrong_word_is_a_wrong_call(call: Any, net: Path, word: str, said: str) -> None:
    net.write_text("")
    called = call("precision", "set", str(net), word)
    assert (called.code, called.out) == (2, "")
    assert said in called.err
    assert net.read_text() == ""


def test_check_finds_what_ge_skips_and_what_the_toolkit_lacks(
    call: Any, toolkit: Path, net: Path
) -> None:
    net.write_text("LRN=high_performance\nRelu=keep_fp16\nPooling=fast\n")
    called = call("precision", "check", str(net), "--toolkit", str(toolkit))
    assert called.code == 1
    assert called.out.startswith(f"{net}: 1 warning, 2 entries without effect with this toolkit\n")
    assert f"  {net}:3:9: warning: GE skips this line: it has no mode 'fast'." in called.out
    assert "  LRN has no mode high_performance and keeps its default" in called.out
    assert "  Relu has one implementation only" in called.out


def test_a_toolkit_without_lists_is_a_wrong_call(call: Any, net: Path, tmp_path: Path) -> None:
    net.write_text("")
    called = call("precision", "check", str(net), "--toolkit", str(tmp_path))
    assert called.code == 2
    assert "has no lists of modes" in called.err


def test_modes_that_are_set_at_the_same_time_are_all_there_afterwards(
    start: Any, tmp_path: Path
) -> None:
    path = str(tmp_path / "net.ini")
    OpPrecision({"Exp": "high_precision"}).write(path)
    wanted = {f"Op{number}": "keep_fp16" for number in range(8)}
    running = [start("precision", "set", path, f"{name}={wanted[name]}") for name in wanted]
    assert [(process.communicate()[1], process.returncode) for process in running] == [(b"", 0)] * 8
    assert OpPrecision.read(path) == OpPrecision({"Exp": "high_precision", **wanted})
