"""Where the toolkit has its lists of operators."""

from pathlib import Path

from ascend_session.hardware.operator_lists import impl_mode_folder, ops_info_files

LISTS = "opp/built-in/op_impl/ai_core/tbe/impl_mode"


def test_no_toolkit_has_no_lists(tmp_path: Path) -> None:
    assert impl_mode_folder({}, str(tmp_path)) is None
    assert impl_mode_folder({}, str(tmp_path), str(tmp_path)) is None


def test_the_environment_is_asked_before_the_usual_places(tmp_path: Path) -> None:
    usual = tmp_path / "usr/local/Ascend/ascend-toolkit/latest" / LISTS
    own = tmp_path / "home/me/Ascend/ascend-toolkit/latest" / LISTS
    named, opp = tmp_path / "opt/cann" / LISTS, tmp_path / "opt/other" / LISTS
    for folder in (usual, own, named, opp):
        folder.mkdir(parents=True)
    root, environ = str(tmp_path), {"HOME": "/home/me"}
    assert impl_mode_folder(environ, root) == str(usual)
    usual.rmdir()
    assert impl_mode_folder(environ, root) == str(own)
    environ["ASCEND_TOOLKIT_HOME"] = "/opt/cann"
    assert impl_mode_folder(environ, root) == str(named)
    environ["ASCEND_OPP_PATH"] = "/opt/other/opp"
    assert impl_mode_folder(environ, root) == str(opp)


def test_a_toolkit_is_named_by_any_of_its_folders(tmp_path: Path) -> None:
    folder = tmp_path / LISTS
    folder.mkdir(parents=True)
    for named in (tmp_path, tmp_path / "opp", folder):
        assert impl_mode_folder({}, "/", str(named)) == str(folder)


def test_files_that_describe_operators_belong_to_a_kind_of_processor(tmp_path: Path) -> None:
    config = tmp_path / "opp/built-in/op_impl/ai_core/tbe/config"
    for soc, names in (("ascend910b", ["aic-ascend910b-ops-info.json"]), ("ascend310p", [])):
        (config / soc).mkdir(parents=True)
        for name in [*names, "other.json"]:
            (config / soc / name).write_text("{}")
    expected = str(config / "ascend910b/aic-ascend910b-ops-info.json")
    assert ops_info_files({}, "/", str(tmp_path)) == {"ascend910b": (expected,)}
    assert ops_info_files({}, str(tmp_path)) == {}
