"""The list of supported operators, looked for as the adapter looks for it."""

import json
from pathlib import Path
from typing import Any

import pytest

from ascend_session.hardware.installation import (
    find_impl_mode_folder,
    find_ops_info_files,
    read_operator_list,
)

NEWER = "built-in/framework/tensorflow/npu_supported_ops.json"
OLDER = "framework/built-in/tensorflow/npu_supported_ops.json"
CUSTOM = "framework/custom/tensorflow/npu_supported_ops.json"
OF_VENDOR = "framework/tensorflow/npu_supported_ops.json"


def write(folder: Path, path: str, *names: str) -> None:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({name: {"isGray": False} for name in names}))


@pytest.mark.parametrize("layout", [NEWER, OLDER])
def test_both_layouts_of_the_package_are_known(tmp_path: Path, layout: str) -> None:
    write(tmp_path, layout, "MatMul", "Add")
    found = read_operator_list({"ASCEND_OPP_PATH": str(tmp_path)})
    assert found.operators == 2
    assert found.files[0] == str(tmp_path / layout)


def test_the_newer_layout_hides_a_list_in_the_older_place(tmp_path: Path) -> None:
    write(tmp_path, OLDER, "MatMul")
    (tmp_path / "built-in").mkdir()
    assert read_operator_list({"ASCEND_OPP_PATH": str(tmp_path)}).operators == 0


def test_custom_operators_count_as_well_each_name_once(tmp_path: Path) -> None:
    write(tmp_path, NEWER, "MatMul")
    write(tmp_path, "vendors/mine/" + OF_VENDOR, "MatMul", "Mine")
    write(tmp_path, "vendors/other/" + OF_VENDOR, "Other")
    (tmp_path / "vendors/config.ini").write_text("load_priority=mine, other\n")
    write(tmp_path / "extra", OF_VENDOR, "Extra")
    environ = {
        "ASCEND_OPP_PATH": str(tmp_path),
        "ASCEND_CUSTOM_OPP_PATH": f"{tmp_path / 'absent'}:{tmp_path / 'extra'}",
    }
    assert read_operator_list(environ).operators == 4


@pytest.mark.parametrize("ini", ["", "mine", "a=b=c", "\xff"])
def test_without_usable_vendors_the_older_custom_place_counts(tmp_path: Path, ini: str) -> None:
    write(tmp_path, NEWER, "MatMul")
    write(tmp_path, CUSTOM, "Mine")
    (tmp_path / "vendors").mkdir()
    (tmp_path / "vendors/config.ini").write_bytes(ini.encode("latin-1"))
    assert read_operator_list({"ASCEND_OPP_PATH": str(tmp_path)}).operators == 2


@pytest.mark.parametrize("text", ["", "[]", "{", '{"MatMul": 1}', "null", "\xff", "[" * 100000])
def test_a_list_that_names_no_operator_is_none(tmp_path: Path, text: str) -> None:
    write(tmp_path, NEWER)
    (tmp_path / NEWER).write_bytes(text.encode("latin-1"))
    assert read_operator_list({"ASCEND_OPP_PATH": str(tmp_path)}).operators == 0


def test_a_mark_of_byte_order_is_no_harm(tmp_path: Path) -> None:
    write(tmp_path, NEWER, "MatMul")
    (tmp_path / NEWER).write_bytes(b"\xef\xbb\xbf" + (tmp_path / NEWER).read_bytes())
    assert read_operator_list({"ASCEND_OPP_PATH": str(tmp_path)}).operators == 1


def test_a_host_below_another_root_is_looked_at_when_the_path_itself_has_none(
    tmp_path: Path,
) -> None:
    write(tmp_path / "usr/local/Ascend/opp", NEWER, "MatMul")
    assert read_operator_list({}, str(tmp_path)).operators == 1
    environ = {"ASCEND_OPP_PATH": "/usr/local/Ascend/opp"}
    assert read_operator_list(environ, str(tmp_path)).operators == 1
    assert read_operator_list({"ASCEND_OPP_PATH": "/opt/opp"}, str(tmp_path)).operators == 0


def test_an_empty_path_is_not_the_default(tmp_path: Path, monkeypatch: Any) -> None:
    write(tmp_path, NEWER, "MatMul")
    monkeypatch.chdir(tmp_path)
    found = read_operator_list({"ASCEND_OPP_PATH": ""})
    assert found.operators == 0
    assert all(file.startswith("/") for file in found.files)


LISTS = "opp/built-in/op_impl/ai_core/tbe/impl_mode"


def test_no_toolkit_has_no_lists(tmp_path: Path) -> None:
    assert find_impl_mode_folder({}, str(tmp_path)) is None
    assert find_impl_mode_folder({}, str(tmp_path), str(tmp_path)) is None


def test_the_environment_is_asked_before_the_usual_places(tmp_path: Path) -> None:
    usual = tmp_path / "usr/local/Ascend/ascend-toolkit/latest" / LISTS
    own = tmp_path / "home/me/Ascend/ascend-toolkit/latest" / LISTS
    named, opp = tmp_path / "opt/cann" / LISTS, tmp_path / "opt/other" / LISTS
    for folder in (usual, own, named, opp):
        folder.mkdir(parents=True)
    root, environ = str(tmp_path), {"HOME": "/home/me"}
    assert find_impl_mode_folder(environ, root) == str(usual)
    usual.rmdir()
    assert find_impl_mode_folder(environ, root) == str(own)
    environ["ASCEND_TOOLKIT_HOME"] = "/opt/cann"
    assert find_impl_mode_folder(environ, root) == str(named)
    environ["ASCEND_OPP_PATH"] = "/opt/other/opp"
    assert find_impl_mode_folder(environ, root) == str(opp)


def test_a_toolkit_is_named_by_any_of_its_folders(tmp_path: Path) -> None:
    folder = tmp_path / LISTS
    folder.mkdir(parents=True)
    for named in (tmp_path, tmp_path / "opp", folder):
        assert find_impl_mode_folder({}, "/", str(named)) == str(folder)


def test_files_that_describe_operators_belong_to_a_kind_of_processor(tmp_path: Path) -> None:
    config = tmp_path / "opp/built-in/op_impl/ai_core/tbe/config"
    for soc, names in (("ascend910b", ["aic-ascend910b-ops-info.json"]), ("ascend310p", [])):
        (config / soc).mkdir(parents=True)
        for name in [*names, "other.json"]:
            (config / soc / name).write_text("{}")
    expected = str(config / "ascend910b/aic-ascend910b-ops-info.json")
    assert find_ops_info_files({}, "/", str(tmp_path)) == {"ascend910b": (expected,)}
    assert find_ops_info_files({}, str(tmp_path)) == {}
