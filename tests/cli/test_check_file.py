"""``ascend-session config check-file``: files that options point to."""

import json
from pathlib import Path
from typing import Any

import pytest

MIX = '{ // all\n "black-list": {"to-add": ["Relu"]},}'
DTYPES = "# By operator name\n\nA::InputDtype:int8\n"


def test_a_file_that_the_vendor_takes_is_ok(call: Any, write: Any) -> None:
    name = write("A::InputDtype:int8\n", "d.cfg")
    assert call("config", "check-file", "customize_dtypes", name) == (0, f"{name}: ok\n", "")
    report = json.loads(call("config", "check-file", "customize_dtypes", name, "--json").out)
    assert report == {
        "option": "customize_dtypes", "file": name, "ok": True, "refused": [], "remarks": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("option", "text", "hint"),
    [("modify_mixlist", MIX, "the comments."), ("customize_dtypes", DTYPES, "the line.")],
)
def test_the_samples_of_the_manuals_are_refused_with_what_to_do(
    call: Any, write: Any, option: str, text: str, hint: str
) -> None:
    name = write(text, "sample.cfg")
    refused = call("config", "check-file", option, name)
    assert refused.code == 1
    assert "comment" in refused.out
    assert f"    hint: Remove {hint}\n" in refused.out


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


def test_swapped_arguments_are_answered_with_the_right_call(call: Any, write: Any) -> None:
    name = write("{}", "mix.json")
    called = call("config", "check-file", name, "modify_mixlist")
    assert called.code == 2
    assert f"write `config check-file modify_mixlist {name}`." in " ".join(called.err.split())
