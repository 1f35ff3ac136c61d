"""``ascend-session config check-file``: files that options point to."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ascend_session.option_files import CustomDtypes, Dtypes, MixList

MIX = '{ // all\n "black-list": {"to-add": ["Relu"]},}'
DTYPES = "# By operator name\n\nA::InputDtype:int8\n"


def test_a_file_that_the_vendor_takes_is_ok(call: Any, write: Any) -> None:
    name = write("A::InputDtype:int8\n", "d.cfg")
    assert call("config", "check-file", "customize_dtypes", name) == (0, f"{name}: ok\n", "")
    report = json.loads(call("config", "check-file", "customize_dtypes", name, "--json").out)
    assert report == {
        "option": "customize_dtypes", "file": name, "ok": True, "refused": [], "remarks": [],
        "fixed": None, "fixed_ok": False, "fix_remarks": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("option", "text", "made"),
    [
        ("modify_mixlist", MIX, MixList(black_add=("Relu",))),
        ("customize_dtypes", DTYPES, CustomDtypes({"A": Dtypes(["int8"])})),
    ],
)
def test_the_samples_of_the_manuals_are_refused_and_fixed(
    call: Any, write: Any, option: str, text: str, made: Any
) -> None:
    name = write(text, "sample.cfg")
    copy = name.replace("sample.cfg", "sample.fixed.cfg")
    refused = call("config", "check-file", option, name)
    assert refused.code == 1
    assert "comment" in refused.out
    assert re.search("hint: (Take|Remove)", refused.out)
    assert "as fixed() and `config check-file --fix` do." in refused.out
    fixed = call("config", "check-file", option, name, "--fix")
    assert fixed.code == 0
    assert f"\n{copy}: ok\n" in fixed.out
    assert type(made).read(copy) == made
    assert Path(name).read_text() == text


def test_nothing_is_overwritten_without_force(call: Any, write: Any) -> None:
    name, words = write(MIX, "mix.json"), ("config", "check-file", "modify_mixlist")
    refused = call(*words, name, "--fix", "-o", name)
    assert refused.code == 1
    assert refused.err.endswith("already exists.\n  hint: Give --force to replace it.\n")
    assert Path(name).read_text() == MIX
    mended = json.loads(call(*words, name, "--fix", "-o", name, "--force", "--json").out)
    assert (mended["fixed"], mended["fixed_ok"], mended["ok"]) == (name, True, False)
    assert MixList.read(name) == MixList(black_add=("Relu",))


def test_remarks_are_findings_too(call: Any, write: Any) -> None:
    name = write("op_debug_config=\n", "debug.cfg")
    called = call("config", "check-file", "op_debug_config", name)
    assert called.code == 1
    assert f"{name}:1:1: warning: GE reports an error for this line" in called.out


def test_a_file_that_cannot_be_read_is_said(call: Any, tmp_path: Path) -> None:
    words = ("config", "check-file", "modify_mixlist", str(tmp_path / "none"))
    called = call(*words)
    assert (called.code, called.out) == (1, "")
    assert "none: does not exist." in called.err
    report = json.loads(call(*words, "--json").out)
    assert report["ok"] is False
    assert report["error"].endswith("none: does not exist.")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["work_path", "a"], "work_path is not one of op_prec"),
        (["modify_mixlist", "a", "--force"], "needs --fix."),
        (["modify_mixlist", "a", "-o", "b"], "needs --fix."),
        (["op_debug_config", "a", "--soc", "b"], "only modify_mixlist takes it."),
    ],
)
def test_a_wrong_call_is_two(call: Any, more: Any, said: str) -> None:
    called = call("config", "check-file", *more)
    assert (called.code, called.out) == (2, "")
    assert said in " ".join(called.err.split())


def test_of_many_remarks_a_hundred_are_shown(call: Any, write: Any) -> None:
    name = write("nonsense\n" * 150, "op.ini")
    called = call("config", "check-file", "op_precision_mode", name)
    assert called.out.splitlines()[0] == f"{name}: 150 warnings"
    assert called.out.endswith("  50 more; --json has them.\n")


def test_a_mix_list_is_compared_with_the_lists_of_the_toolkit(
    call: Any, host: Any, write: Any, tmp_path: Path
) -> None:
    config = tmp_path / "cann/opp/built-in/op_impl/ai_core/tbe/config"
    facts = {"Relu": {"precision_reduce": {"flag": "true"}}, "Add": {}}
    for soc in ("ascend910b", "ascend310p"):
        (config / soc).mkdir(parents=True)
        (config / soc / f"aic-{soc}-ops-info.json").write_text(json.dumps(facts))
    name = write('{"white-list": {"to-add": ["Relu", "Nope"]}}', "mix.json")
    words = ("config", "check-file", "modify_mixlist", name, "--toolkit", str(tmp_path / "cann"))
    called = call(*words, "--soc", "ascend910b")
    assert called.code == 1
    assert called.out == (
        f"{name}: 2 entries without effect with this toolkit\n"
        "  Relu: is to be added to white-list, where it is already.\n"
        "  Nope: this toolkit has no such operator.\n"
    )
    unnamed = call(*words)
    assert unnamed.code == 0
    assert "not checked: The toolkit has ascend310p, ascend910b; --soc names one." in unnamed.out
    (config / "ascend310p/aic-ascend310p-ops-info.json").unlink()
    assert json.loads(call(*words, "--json").out)["toolkit"][0].startswith("Relu: is to be added")
    nowhere = json.loads(call("config", "check-file", "modify_mixlist", name, "--json").out)
    assert (nowhere["ok"], nowhere["toolkit"]) == (True, None)


def test_what_a_copy_does_not_have_is_told(call: Any, write: Any) -> None:
    text = '{ // all\n "white-list": {"to-add": ["A"]},\n "white-list": {"to-add": ["B"]} }'
    name = write(text, "mix.json")
    words = ("config", "check-file", "modify_mixlist", name, "--fix")
    called = call(*words)
    assert "mix.fixed.json: ok\n" in called.out
    assert f"  {name}:3:2: note: The key 'white-list' is also in line 2; only" in called.out
    (told,) = json.loads(call(*words, "--force", "--json").out)["fix_remarks"]
    assert told["line"] == 3


@pytest.mark.parametrize(
    ("option", "content", "said"),
    [
        ("op_precision_mode", b"\x1f\x8b\x08\x00", "This is compressed, not UTF-8 text"),
        ("op_precision_mode", b"\xff\xfeA", "This is UTF-16, not UTF-8 text"),
        ("op_precision_mode", b"A: fast\n", "has nothing that GE can use, so no copy"),
        (
            "aoe_config_file",
            b'{"tune_ops_name": ["a"], // x\n"new": 1}',
            "its effect is unknown. No copy was",
        ),
    ],
)
def test_a_file_whose_content_would_be_lost_is_not_copied(
    call: Any, tmp_path: Path, option: str, content: bytes, said: str
) -> None:
    path = tmp_path / "a.cfg"
    path.write_bytes(content)
    words = ("config", "check-file", option, str(path), "--fix", "-o", str(path), "--force")
    called = call(*words)
    assert called.code == 1
    assert said in called.err
    assert path.read_bytes() == content
    assert [one.name for one in tmp_path.iterdir()] == ["a.cfg"]


def test_swapped_arguments_are_answered_with_the_right_call(call: Any, write: Any) -> None:
    name = write("{}", "mix.json")
    called = call("config", "check-file", name, "modify_mixlist")
    assert called.code == 2
    assert f"write `config check-file modify_mixlist {name}`." in " ".join(called.err.split())
