"""``ascend-session config``: check and show."""

import json

import pytest


def test_a_right_file_is_ok(call, write):
    name = write("deterministic: 1\n")
    assert call("config", "check", name) == (0, f"{name}: ok\n", "")


def test_warnings_are_printed_and_the_file_is_ok(call, write):
    name = write("deterministic: 1\nhccl_timeout: 600\n")
    assert call("config", "check", name) == (
        0,
        f"{name}: ok, 1 warning\n"
        f"  {name}:2: warning: hccl_timeout: 600 becomes 544 s on Atlas training products, which "
        "take multiples of 68 up to 17340.\n",
        "",
    )


def test_all_files_are_checked_and_one_wrong_file_is_one(call, write):
    wrong = write("hccl_timout: 3\ndeterministic: 7\n", "wrong.yaml")
    right = write('{"deterministic": 1}', "right.json")
    assert call("config", "check", wrong, right) == (
        1,
        f"{wrong}: 2 errors\n"
        f"  {wrong}:1: error: AscendConfig has no option 'hccl_timout'; the adapter would ignore "
        "it.\n"
        "    hint: Did you mean hccl_timeout?\n"
        f"  {wrong}:2: error: deterministic: 7 is not one of 0, 1.\n"
        f"{right}: ok\n",
        "",
    )


@pytest.mark.parametrize("command", ["check", "show"])
def test_a_file_that_cannot_be_read_is_one_and_a_sentence(call, tmp_path, command):
    missing, folder = tmp_path / "missing.yaml", tmp_path
    for name, reason in (
        (missing, "does not exist"),
        (folder, "is a folder, not a file"),
    ):
        called = call("config", command, str(name))
        assert called.code == 1
        assert f"{name}: error: {reason}." in called.out + called.err


def test_the_machine_is_checked_only_when_asked(call, write, tmp_path):
    folder = tmp_path / "dump"
    name = write(f"dump_config:\n  enable_dump: true\n  dump_path: {folder}\n")
    assert call("config", "check", name).code == 0
    called = call("config", "check", "--host", name)
    assert called.code == 1
    assert f"  {name}:3: error: dump_path: '{folder}' does not exist;" in called.out
    assert f"    hint: mkdir -p {folder}\n" in called.out
    folder.mkdir()
    assert call("config", "check", "--host", name).code == 0


def test_the_environment_of_the_process_is_checked(program, write):
    called = program("config", "check", "--host", write("deterministic: 1\n"), AOE_MODE="9")
    assert called.code == 1
    assert "AOE_MODE='9' is not 1, 2 or 4" in called.out


def test_check_as_json_says_ok_for_each_file(call, write):
    right, wrong = write("deterministic: 1\n", "r.yaml"), write("deterministic: 7\n", "w.yaml")
    called = call("config", "check", "--json", right, wrong)
    assert called.code == 1
    assert called.err == ""
    assert json.loads(called.out) == {
        "ok": False,
        "files": [
            {"file": right, "ok": True, "problems": [], "warnings": []},
            {
                "file": wrong,
                "ok": False,
                "problems": [
                    {
                        "line": 1,
                        "option": "deterministic",
                        "message": "deterministic=7 is not one of 0, 1.",
                        "hint": None,
                        "source": None,
                    }
                ],
                "warnings": [],
            },
        ],
    }


def test_show_prints_the_entry_and_what_is_not_in_it(call, write):
    name = write("model_dir: out\nprecision_mode: force_fp32\nexternal_weight: true\n")
    assert call("config", "show", name) == (
        0,
        """\
KEY              VALUE         FIELD  SCOPE
external_weight  True          b      session
precision_mode   'force_fp32'  s      init

Read by NPURunConfig and its helpers only, so not in the entry:
OPTION     VALUE
model_dir  'out'
""",
        "",
    )


def test_structured_values_are_shown_as_the_adapter_gets_them(call, write):
    text = "dump_config:\n  enable_dump: true\n  dump_path: .\n  dump_step: [0, [3, 5]]\n"
    assert "\ndump_step    '0|3-5'  s      session\n" in call("config", "show", write(text)).out


def test_an_empty_entry_is_a_sentence(call, write):
    called = call("config", "show", write("model_dir: out\n"))
    assert called.out.startswith(
        "The NpuOptimizer entry is empty: the adapter uses its defaults.\n"
    )


def test_show_prints_warnings_beside_the_table(call, write):
    name = write("hccl_timeout: 600\n")
    called = call("config", "show", name)
    assert called.code == 0
    assert called.out == ("KEY           VALUE  FIELD  SCOPE\nhccl_timeout  600    i      init\n")
    assert called.err.startswith(f"{name}:1: warning: hccl_timeout: 600 becomes")


def test_show_of_a_wrong_file_is_one_and_prints_no_table(call, write):
    name = write("deterministic: 7\nhccl_timout: 1\n")
    code, out, err = call("config", "show", name)
    assert (code, out) == (1, "")
    assert err == (
        f"{name}:1: error: deterministic: 7 is not one of 0, 1.\n"
        f"{name}:2: error: AscendConfig has no option 'hccl_timout'; the adapter "
        "would ignore it.\n  hint: Did you mean hccl_timeout?\n"
    )


def test_show_as_json_has_the_same_names_for_right_and_wrong_files(call, write):
    right = call("config", "show", "--json", write("deterministic: 1\nmodel_dir: out\n"))
    wrong = call("config", "show", "--json", write("deterministic: 7\n"))
    assert (right.code, wrong.code) == (0, 1)
    found = json.loads(right.out)
    entry = {"key": "deterministic", "value": 1, "field": "i", "scope": "init"}
    assert found["entry"] == [entry]
    assert found["not_in_entry"] == {"model_dir": "out"}
    assert set(json.loads(wrong.out)) == set(found)
    assert json.loads(wrong.out)["problems"][0]["line"] == 1
