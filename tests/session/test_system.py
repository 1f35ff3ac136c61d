"""What an open system says of itself."""

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest

from ascend_session import (
    AscendConfig,
    AscendError,
    ConfigError,
    DeviceError,
    ExperimentalConfig,
    InitializationError,
    ascend_session,
    ascend_system,
)
from ascend_session.option_files import OpPrecision
from hardware_tests.backend_contract import open_and_close, steps


def test_a_process_alone_is_rank_0_of_1(system: Any) -> None:
    numbers = (system.rank, system.size, system.local_rank, system.local_size, system.device_id)
    assert numbers == system.job[:5] == (0, 1, 0, 1, 0)


def test_the_own_device_is_read_from_the_environment(
    tf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASCEND_DEVICE_ID", "3")
    with ascend_system() as system, system.session():
        assert system.device_id == 3
    assert ("session open", "device 3") in [(e.name, e.detail) for e in system.events]


def test_a_device_that_is_not_there_is_refused_before_anything_starts(
    tf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASCEND_DEVICE_ID", "8")
    with pytest.raises(DeviceError, match="ASCEND_DEVICE_ID=8"), ascend_system():
        pass


@pytest.mark.parametrize("name", ["ASCEND_DEVICE_ID", "DEVICE_ID"])
@pytest.mark.parametrize("value", ["two", "-1", "1.5"])
def test_a_device_that_the_adapter_aborts_on_is_refused(
    tf: Any, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(AscendError, match=f"{name}='?{value}"), ascend_system():
        pass


def test_a_job_whose_other_ranks_nobody_starts_says_so_and_gives_up(
    tf: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ascend_session.backends.stub_job.CONNECT_SECONDS_MORE", 0)
    monkeypatch.setattr("ascend_session.backends.exchange.group.ALONE_S", 0.2)
    for name, value in {"RANK_SIZE": "8", "RANK_ID": "1", "HCCL_CONNECT_TIMEOUT": "2"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InitializationError, match="rank 0 of 8 did not join within 2 s") as refused:
        with ascend_system():
            pass
    assert "to train alone, unset RANK_SIZE" in str(refused.value)
    assert "RANK_SIZE=8: rank 1 is waiting up to 2 s for 7 other ranks." in caplog.text


def test_it_says_what_it_was_opened_with(tf: Any) -> None:
    config = AscendConfig(deterministic=1)
    with ascend_system(config, backend="stub") as system:
        assert system.config is config
        assert system.parameters == {"deterministic": 1}
        assert system.pid == os.getpid()
        assert system.backend_reason == 'backend="stub" is set'


def test_what_it_hands_out_may_be_changed_without_harm(system: Any) -> None:
    system.parameters["deterministic"] = 0
    system.capabilities["offload"] = True
    assert system.parameters == {}
    assert system.capabilities["offload"] is not True


def test_options_without_a_config_are_the_adapters(system: Any) -> None:
    assert system.config == AscendConfig()
    assert system.parameters == {}


def test_a_device_is_never_waited_for(tf: Any) -> None:
    with ascend_system(wait_for_device=3600) as system:
        assert system.events[0].seconds < 60


class TestAProtoForOthers:
    def test_options_of_another_kind_are_refused(self, system: Any) -> None:
        with pytest.raises(ConfigError, match="must be an AscendConfig, this is dict"):
            system.session_config({"deterministic": 1})

    def test_a_device_that_is_not_there_is_refused(self, system: Any) -> None:
        with pytest.raises(DeviceError, match="session_device_id=99"):
            system.session_config(AscendConfig(session_device_id=99))

    def test_what_the_host_lacks_is_refused(self, system: Any, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="nowhere"):
            system.session_config(caching_in(tmp_path / "nowhere"))


class TestTheHostIsChecked:
    def test_for_the_options_of_a_session(self, system: Any, tmp_path: Path) -> None:
        config = caching_in(tmp_path / "nowhere")
        with pytest.raises(ConfigError, match="nowhere"):
            open_and_close(ascend_session(config))
        assert steps(system) == ["initialize"]

    @pytest.mark.parametrize("inside", [False, True])
    def test_for_the_options_of_a_base_proto(self, tf: Any, tmp_path: Path, inside: bool) -> None:
        base = caching_in(tmp_path / "nowhere").to_config_proto()
        with contextlib.ExitStack() as stack:
            if inside:
                stack.enter_context(ascend_system())
            with pytest.raises(ConfigError, match="nowhere"):
                open_and_close(ascend_session(session_config=base))


def caching_in(path: Path) -> AscendConfig:
    """A config that works on hosts with that folder only."""
    return AscendConfig(experimental_config=ExperimentalConfig(graph_compiler_cache_dir=str(path)))


def test_an_option_file_is_checked_on_the_stub_and_only_its_path_is_told(
    tf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    modes = {"Relu": "keep_fp16", "Exp": "high_precision"}
    config = AscendConfig(op_precision_mode=OpPrecision(modes))
    with ascend_system(config) as system:
        path = system.parameters["op_precision_mode"]
        monkeypatch.chdir("/")
        turned = dict(reversed(list(modes.items())))
        same = AscendConfig(op_precision_mode=OpPrecision(turned))
        with ascend_session(same) as session:
            assert session.run(tf.constant(7)) == 7
        with pytest.raises(ConfigError, match="op_precision_mode"):
            ascend_session(AscendConfig(op_precision_mode=OpPrecision())).__enter__()
    assert os.path.dirname(path) == str(tmp_path / "ascend_option_files")
    assert not os.listdir(str(tmp_path))


def test_a_file_that_the_vendor_would_refuse_is_refused_before_anything_starts(
    tf: Any, tmp_path: Path
) -> None:
    (tmp_path / "d.cfg").write_text("# by name\nA::InputDtype:int8\n")
    with pytest.raises(
        ConfigError, match=r"d\.cfg:1:1: GE refuses the whole file for this comment"
    ):
        ascend_system(AscendConfig(customize_dtypes=tmp_path / "d.cfg")).__enter__()
