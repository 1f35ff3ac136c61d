"""Options that take what stands in a file as an object, and where that file goes."""

import copy
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest

from ascend_session import AscendConfig, ConfigError
from ascend_session.config.entry import FileStore
from ascend_session.config.types import TYPE_NAMES
from ascend_session.option_files import (
    AoeConfigFile,
    CustomDtypes,
    Dtypes,
    FusionSwitch,
    MixList,
    OpDebugConfig,
    OpPrecision,
)

OBJECTS: Dict[str, Any] = {
    "op_precision_mode": OpPrecision({"Relu": "keep_fp16"}, {"n/a": "high_precision"}),
    "modify_mixlist": MixList(white_add=("Relu",)),
    "customize_dtypes": CustomDtypes({"a/b": Dtypes(["int8", None, "bool"])}, {"Relu": Dtypes()}),
    "fusion_switch_file": FusionSwitch({"ALL": False}, graph_priority={"A": 5}, keep_at_o1=["B"]),
    "op_debug_config": OpDebugConfig(("oom",), ("a",), ("Relu",)),
    "aoe_config_file": AoeConfigFile(("a",), tune_optimization_level="O1"),
}
NEEDED: Dict[str, Any] = {"precision_mode": "allow_mix_precision", "aoe_mode": "2"}


def config(**more: Any) -> AscendConfig:
    return AscendConfig(**NEEDED, **{**OBJECTS, **more})


def test_every_option_with_a_type_takes_its_object() -> None:
    assert set(OBJECTS) == set(TYPE_NAMES)
    made = config()
    assert {name: getattr(made, name) for name in OBJECTS} == OBJECTS
    assert made == config()
    assert hash(made) == hash(config())
    assert made != config(op_debug_config=OpDebugConfig())
    assert "OpDebugConfig(items=('oom',), names=('a',), types=('Relu',))" in repr(made)
    assert repr(MixList()) == "MixList()"
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made
    with pytest.raises(AttributeError, match="does not change"):
        made.op_debug_config = OpDebugConfig()
    assert made.replace(modify_mixlist=None).modify_mixlist is None


@pytest.mark.parametrize("option", TYPE_NAMES)
def test_an_object_is_given_in_a_file_as_a_mapping_of_its_fields(
    option: str, tmp_path: Path
) -> None:
    fields = OBJECTS[option].to_dict()
    path = tmp_path / "config.json"
    path.write_text(json.dumps({option: fields, **NEEDED}))
    assert getattr(AscendConfig.from_file(path), option) == OBJECTS[option]
    assert getattr(config(**{option: fields}), option) == OBJECTS[option]
    assert type(OBJECTS[option]).from_fields(fields) == OBJECTS[option]


def test_yaml_words_for_true_and_false_are_switches(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("fusion_switch_file:\n  graph: {ALL: off, A: on}\n")
    made = AscendConfig.from_file(tmp_path / "c.yaml").fusion_switch_file
    assert made == FusionSwitch({"ALL": False, "A": True})


def test_wrong_fields_are_refused_with_option_and_line(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("jit_compile: auto\nop_precision_mode:\n  types: {A: fast}\n")
    with pytest.raises(ConfigError) as caught:
        AscendConfig.from_file(tmp_path / "c.yaml")
    said = str(caught.value)
    assert "c.yaml:2: op_precision_mode: OpPrecision has no field 'types'" in said
    assert "hint: Its fields are by_type, by_node." in said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (3, "a path or OpPrecision is needed, this is int."),
        (MixList(), "a path or OpPrecision is needed, this is MixList."),
        (b"a.ini", "it is bytes"),
        ({"by_type": {"A": "fast"}}, "'fast' is not a mode of GE."),
        ({"by_type": 3}, "by_type is a mapping of modes, not 3."),
        ({1: 2}, "has no field '1'."),
        ({"by_node": {"": "keep_fp16"}}, "cannot stand in op_precision.ini"),
    ],
)
def test_what_is_no_such_file_is_refused(given: Any, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        AscendConfig(op_precision_mode=given)
    assert said in str(caught.value)
    assert [problem.option for problem in caught.value.problems] == ["op_precision_mode"]


def test_aipp_is_a_path_only(tmp_path: Path) -> None:
    (tmp_path / "aipp.cfg").write_text("aipp_op { whatever GE takes")
    path = str(tmp_path / "aipp.cfg")
    assert AscendConfig(insert_op_file=path).parameter_map() == {"insert_op_file": path}
    AscendConfig(insert_op_file=tmp_path / "aipp.cfg").check_host({})
    with pytest.raises(ConfigError, match="a value of type dict is not among the accepted forms"):
        AscendConfig(insert_op_file={"ops": []})


def test_rules_between_options_see_objects_too() -> None:
    with pytest.raises(ConfigError, match=r"modify_mixlist=MixList.* edits the lists of mixed"):
        AscendConfig(modify_mixlist=MixList())


def test_the_parameter_map_has_the_path_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = config().parameter_map()
    for option in TYPE_NAMES:
        assert os.path.dirname(made[option]) == str(tmp_path / "ascend_option_files")
    assert not list(tmp_path.iterdir())
    assert AscendConfig.from_parameter_map(made).parameter_map() == made
    monkeypatch.setenv("ASCEND_WORK_PATH", str(tmp_path / "work"))
    assert config().parameter_map()["modify_mixlist"].startswith(str(tmp_path / "work"))


def test_arguments_for_the_vendor_are_paths_of_files_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = config().to_run_config_kwargs()
    for option in TYPE_NAMES:
        assert type(OBJECTS[option]).read(arguments[option]) == OBJECTS[option]
    assert config().to_run_config_kwargs() == arguments


def test_a_store_stays_where_it_is_and_gives_the_objects_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = FileStore({})
    monkeypatch.chdir("/")
    stored = store.store(config())
    assert OpPrecision.read(stored.op_precision_mode) == OBJECTS["op_precision_mode"]
    assert len(list((tmp_path / "ascend_option_files").iterdir())) == len(OBJECTS)
    assert store.restore(stored.values()) == config().values()
    plain = AscendConfig(jit_compile="auto")
    assert store.store(plain) is plain


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "ascend_option_files").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        FileStore({"ASCEND_WORK_PATH": str(tmp_path)}).store(config())


def test_a_configuration_without_such_files_loads_none_of_their_types() -> None:
    code = (
        "import sys; from ascend_session import AscendConfig; AscendConfig(jit_compile='auto');"
        "print(*sorted(m for m in sys.modules if 'option_files.' in m))"
    )
    out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout
    assert out.decode().split() == []


def test_files_that_are_equal_have_one_path_in_a_store(tmp_path: Path) -> None:
    modes = {"A": "keep_fp16", "B": "high_precision"}
    store = FileStore({"ASCEND_WORK_PATH": str(tmp_path)})
    first = store.path(OpPrecision(modes))
    assert store.path(OpPrecision(dict(reversed(list(modes.items()))))) == first
    assert store.path(OpPrecision({"A": "keep_fp16"})) != first
    os.unlink(first)
    assert OpPrecision.read(store.path(OpPrecision(modes))) == OpPrecision(modes)
