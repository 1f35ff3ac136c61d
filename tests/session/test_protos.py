"""The protos of one system: its own, and those of sessions that share it."""

import warnings
from pathlib import Path
from typing import Any

import pytest

from ascend_session import AscendConfig, ConfigError
from ascend_session.config import FileStore
from ascend_session.option_files import OpPrecision
from ascend_session.session.conditions import Protos


def read(proto: Any) -> Any:
    return AscendConfig.from_config_proto(proto).parameter_map()


def protos_of(config: AscendConfig) -> Protos:
    return Protos(config, None, FileStore())


def test_the_systems_own_is_what_its_config_says() -> None:
    protos = protos_of(AscendConfig(deterministic=1))
    assert read(protos.of_system.proto) == protos.of_system.parameters == {"deterministic": 1}


def test_a_session_that_asks_for_nothing_gets_the_systems() -> None:
    protos = protos_of(AscendConfig(deterministic=1))
    assert protos.for_session(None, None, None) is protos.of_system


def test_a_session_carries_the_init_options_of_the_system() -> None:
    protos = protos_of(AscendConfig(deterministic=1, hcom_parallel=True))
    wanted = protos.for_session(AscendConfig(hcom_parallel=False), None, None)
    assert wanted.parameters == {"deterministic": 1, "hcom_parallel": False}
    assert read(wanted.proto) == wanted.parameters


def test_the_rules_hold_for_what_system_and_session_say_together() -> None:
    protos = protos_of(AscendConfig(precision_mode="allow_mix_precision"))
    with pytest.raises(ConfigError, match="precision_mode"):
        protos.for_session(AscendConfig(precision_mode_v2="origin"), None, None)


def test_a_device_is_added_to_the_systems_options() -> None:
    protos = protos_of(AscendConfig(deterministic=1))
    wanted = protos.for_session(None, None, 3)
    assert read(wanted.proto) == {"deterministic": 1, "session_device_id": 3}
    assert read(protos.of_system.proto) == {"deterministic": 1}


def test_a_base_is_built_on_and_not_changed(tf: Any) -> None:
    base = tf.ConfigProto(operation_timeout_in_ms=60000)
    before = base.SerializeToString()
    wanted = protos_of(AscendConfig(deterministic=1)).for_session(None, base, None)
    assert wanted.proto.operation_timeout_in_ms == 60000
    assert read(wanted.proto) == {"deterministic": 1}
    assert base.SerializeToString() == before


def test_a_base_that_contradicts_the_system_is_refused() -> None:
    base = AscendConfig(deterministic=0).to_config_proto()
    protos = protos_of(AscendConfig(deterministic=1))
    for config in (None, AscendConfig()):
        with pytest.raises(ConfigError, match="deterministic"):
            protos.for_session(config, base, None)


def test_a_warning_is_given_once_not_for_each_session() -> None:
    with pytest.warns(UserWarning, match="deprecated"):
        protos = protos_of(AscendConfig(op_debug_level=3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert protos.for_session(AscendConfig(hcom_parallel=False), None, None).parameters == {
            "op_debug_level": 3,
            "hcom_parallel": False,
        }


@pytest.mark.parametrize("as_base", [False, True])
def test_others_may_change_the_proto_they_are_given(system: Any, as_base: bool) -> None:
    mine = system.session_config()
    mine.operation_timeout_in_ms = 1
    mine.graph_options.rewrite_options.Clear()
    again = system.session_config(base=mine if as_base else None)
    assert again.graph_options.rewrite_options.custom_optimizers[0].name == "NpuOptimizer"
    assert (again.operation_timeout_in_ms == 1) is as_base


MODES = OpPrecision({"Relu": "keep_fp16"})


@pytest.mark.parametrize("writes", [True, False])
def test_a_file_that_is_given_as_an_object_is_written_and_its_path_is_told(
    tmp_path: Path, writes: bool
) -> None:
    store = FileStore({"ASCEND_WORK_PATH": str(tmp_path)}, writes)
    protos = Protos(AscendConfig(op_precision_mode=MODES), None, store)
    path = read(protos.of_system.proto)["op_precision_mode"]
    assert Path(path).parent == tmp_path / "ascend_option_files"
    assert Path(path).exists() is writes
    assert not writes or OpPrecision.read(path) == MODES
    again = protos.for_session(AscendConfig(op_precision_mode=MODES, hcom_parallel=True), None, 1)
    assert again.parameters["op_precision_mode"] == path
    with pytest.raises(ConfigError, match="comes too late"):
        protos.for_session(AscendConfig(op_precision_mode=OpPrecision()), None, None)


def test_a_proto_that_is_made_without_a_system_names_a_file_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    proto = AscendConfig(op_precision_mode=MODES).to_config_proto()
    assert OpPrecision.read(read(proto)["op_precision_mode"]) == MODES
