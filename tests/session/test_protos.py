"""The protos of one system: its own, and those of sessions that share it."""

import contextlib
import warnings
from pathlib import Path
from typing import Any

import pytest

from ascend_session import AscendConfig, ConfigError, ascend_session, ascend_system
from ascend_session.option_files import OpPrecision
from hardware_tests.backend_contract import entry, open_and_close


def read(proto: Any) -> Any:
    return AscendConfig.from_config_proto(proto).parameter_map()


def test_the_systems_own_is_what_its_config_says(tf: Any) -> None:
    with ascend_system(AscendConfig(deterministic=1)) as system:
        assert read(system.session_config()) == system.parameters == {"deterministic": 1}


def test_a_session_that_asks_for_nothing_gets_the_systems(tf: Any) -> None:
    with ascend_system(AscendConfig(deterministic=1)) as system, system.session() as sess:
        assert sess._config == system.session_config()


def test_a_session_carries_the_init_options_of_the_system(tf: Any) -> None:
    with ascend_system(AscendConfig(deterministic=1, hcom_parallel=True)):
        with ascend_session(AscendConfig(hcom_parallel=False)) as sess:
            assert entry(sess) == {"deterministic": 1, "hcom_parallel": False}


def test_the_rules_hold_for_what_system_and_session_say_together(tf: Any) -> None:
    with ascend_system(AscendConfig(precision_mode="allow_mix_precision")):
        with pytest.raises(ConfigError, match="precision_mode"):
            open_and_close(ascend_session(AscendConfig(precision_mode_v2="origin")))


def test_a_device_is_added_to_the_systems_options(tf: Any) -> None:
    with ascend_system(AscendConfig(deterministic=1)) as system:
        with system.session(device_id=3) as sess:
            assert entry(sess) == {"deterministic": 1, "session_device_id": 3}
        assert read(system.session_config()) == {"deterministic": 1}


def test_a_base_is_built_on_and_not_changed(tf: Any) -> None:
    base = tf.ConfigProto(operation_timeout_in_ms=60000)
    before = base.SerializeToString()
    with ascend_system(AscendConfig(deterministic=1)) as system:
        for proto in (system.session_config(base=base), config_of(system, base)):
            assert proto.operation_timeout_in_ms == 60000
            assert read(proto) == {"deterministic": 1}
    assert base.SerializeToString() == before


def config_of(system: Any, base: Any) -> Any:
    """The proto of a session on this base."""
    with system.session(session_config=base) as sess:
        return sess._config


def test_a_base_that_contradicts_the_system_is_refused(tf: Any) -> None:
    base = AscendConfig(deterministic=0).to_config_proto()
    with ascend_system(AscendConfig(deterministic=1)) as system:
        for config in (None, AscendConfig()):
            with pytest.raises(ConfigError, match="deterministic"):
                system.session_config(config, base)
            with pytest.raises(ConfigError, match="deterministic"):
                open_and_close(ascend_session(config, session_config=base))


def test_a_warning_is_given_once_not_for_each_session(tf: Any) -> None:
    with contextlib.ExitStack() as stack:
        with pytest.warns(UserWarning, match="deprecated"):
            stack.enter_context(ascend_system(AscendConfig(op_debug_level=3)))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("error")
        with ascend_session(AscendConfig(hcom_parallel=False)) as sess:
            pass
    with pytest.warns(UserWarning, match="deprecated"):  # when it is read as a config
        assert entry(sess) == {"op_debug_level": 3, "hcom_parallel": False}


@pytest.mark.parametrize("as_base", [False, True])
def test_others_may_change_the_proto_they_are_given(system: Any, as_base: bool) -> None:
    mine = system.session_config()
    mine.operation_timeout_in_ms = 1
    mine.graph_options.rewrite_options.Clear()
    again = system.session_config(base=mine if as_base else None)
    assert again.graph_options.rewrite_options.custom_optimizers[0].name == "NpuOptimizer"
    assert (again.operation_timeout_in_ms == 1) is as_base


MODES = OpPrecision({"Relu": "keep_fp16"})


def test_a_file_that_is_given_as_an_object_has_one_path_in_all_sessions(
    tf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASCEND_WORK_PATH", str(tmp_path))
    with ascend_system(AscendConfig(op_precision_mode=MODES)) as system:
        path = system.parameters["op_precision_mode"]
        assert Path(path).parent == tmp_path / "ascend_option_files"
        assert not Path(path).exists()  # nobody reads it on the stub
        same = AscendConfig(op_precision_mode=MODES, hcom_parallel=True)
        with ascend_session(same, device_id=1) as sess:
            assert entry(sess)["op_precision_mode"] == path
        with pytest.raises(ConfigError, match="comes too late"):
            open_and_close(ascend_session(AscendConfig(op_precision_mode=OpPrecision())))


def test_a_proto_that_is_made_without_a_system_names_a_file_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    proto = AscendConfig(op_precision_mode=MODES).to_config_proto()
    assert OpPrecision.read(read(proto)["op_precision_mode"]) == MODES
