"""The stub: what it refuses, what it says that it cannot do, and what it does instead."""

import re
import socket
from typing import Any, Dict

import pytest

from ascend_session import (
    AscendConfig,
    AscendConfigWarning,
    BackendError,
    DeviceError,
    DumpConfig,
    JobError,
    ProfilingConfig,
    ascend_session,
    ascend_system,
)
from ascend_session.backends import backend_class
from ascend_session.cluster.job import Job

StubBackend: Any = backend_class("stub")
ALONE = Job(0, 1, 0, 1, 0)


class TestRefusals:
    def test_a_job_whose_first_rank_is_on_another_machine_names_both(self) -> None:
        of_slurm = {
            **{"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"},
            **{"SLURM_PROCID": "1", "SLURM_LOCALID": "0", "SLURM_NODEID": "1"},
            **{"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"},
            "SLURM_STEP_NODELIST": "192.0.2.1,192.0.2.2",
        }
        with pytest.raises(JobError, match=r"Rank 0 of this job is on 192\.0\.2\.1 ") as refused:
            StubBackend(of_slurm).require(Job.detect(of_slurm), {})
        assert f"but this machine is {socket.gethostname()};" in refused.value.message
        assert "start all ranks on one machine" in str(refused.value.hint)
        here = {**of_slurm, "SLURM_STEP_NODELIST": "localhost,192.0.2.2"}
        StubBackend(here).require(Job.detect(here), {})

    @pytest.mark.parametrize("variable", ["COORDINATOR", "SECRET", "TLS_CA"])
    def test_a_variable_about_connections_between_machines(self, variable: str) -> None:
        name = f"ASCEND_SESSION_{variable}"
        with pytest.raises(JobError, match=f"^{name} has no effect any more: ") as refused:
            StubBackend({name: "127.0.0.1:1"}).require(Job(1, 2, 1, 2, 1), {})
        assert str(refused.value.hint).startswith("Unset it. Without devices, start all ranks on")

    def test_all_variables_about_connections_between_machines_are_named_at_once(self) -> None:
        names = ["ASCEND_SESSION_TLS_CA", "ASCEND_SESSION_TLS_CERT", "ASCEND_SESSION_TLS_KEY"]
        with pytest.raises(JobError) as refused:
            StubBackend(dict.fromkeys(names, "f.pem")).require(Job(1, 2, 1, 2, 1), {})
        expected = f"{names[0]}, {names[1]} and {names[2]} have no effect any more: "
        assert refused.value.message.startswith(expected)
        assert str(refused.value.hint).startswith("Unset them. ")

    def test_a_job_of_which_nobody_says_that_it_has_nodes_is_on_one(self) -> None:
        StubBackend({}).require(Job(1, 8, 1, 8, 1), {})

    def test_a_device_that_the_stub_does_not_have_is_refused(self) -> None:
        stub = StubBackend({})
        stub.require(ALONE, {"session_device_id": 7})
        with pytest.raises(
            DeviceError, match="session_device_id=8: the stub has 8 devices, 0 to 7"
        ):
            stub.require(ALONE, {"session_device_id": 8})

    @pytest.mark.parametrize("variable", ["ASCEND_DEVICE_ID", "DEVICE_ID"])
    def test_the_variable_that_names_a_missing_device_is_named(self, variable: str) -> None:
        with pytest.raises(DeviceError, match=f"^{variable}=8: the stub has 8 devices"):
            StubBackend({variable: "8"}).require(ALONE._replace(device_id=8), {})

    def test_the_number_of_devices_is_the_environments(self) -> None:
        stub = StubBackend({"ASCEND_SESSION_STUB_DEVICES": "2"})
        stub.require(ALONE, {"session_device_id": 1})
        with pytest.raises(DeviceError, match="0 to 1") as refused:
            stub.require(ALONE, {"session_device_id": 2})
        assert refused.value.hint == "export ASCEND_SESSION_STUB_DEVICES=3"

    @pytest.mark.parametrize("text", ["0", "-1", "eight", "2.5", "\u0668"])
    def test_a_number_of_devices_that_is_none(self, text: str) -> None:
        with pytest.raises(BackendError, match="is not a number of devices"):
            StubBackend({"ASCEND_SESSION_STUB_DEVICES": text})


class TestIneffectiveOptions:
    @pytest.mark.parametrize("key", ["enable_dump", "enable_dump_debug", "profiling_mode"])
    def test_a_switch_that_does_nothing_here_is_named_with_the_reason(self, key: str) -> None:
        (said,) = StubBackend({}).remarks({key: True, "deterministic": 1})
        assert re.fullmatch(f"{key}=True has no effect on the stub: no .* written.", said)

    def test_what_is_off_or_effective_is_not_named(self) -> None:
        parameters: Dict[str, Any] = {"enable_dump": False, "deterministic": 1}
        assert StubBackend({}).remarks(parameters) == []

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"aoe_mode": "2"}, "aoe_mode='2' has no effect on the stub: nothing is tuned."),
            (
                {"profiling_config": ProfilingConfig(enable_profiling=True)},
                "profiling_mode=True has no effect on the stub: no profiling data is written.",
            ),
            (
                {"dump_config": DumpConfig(enable_dump=True, dump_path=".")},
                "enable_dump=True has no effect on the stub: no dump files are written.",
            ),
        ],
        ids=["aoe_mode", "profiling_mode", "enable_dump"],
    )
    def test_options_without_effect_warn(self, tf: Any, options: Any, said: str) -> None:
        with pytest.warns(AscendConfigWarning) as warned:
            with ascend_system(AscendConfig(**options), backend="stub"):
                pass
        assert said in [str(warning.message) for warning in warned]
        assert {warning.filename for warning in warned} == {__file__}

    def test_the_options_of_a_session_warn_as_well(self, tf: Any) -> None:
        config = AscendConfig(dump_config=DumpConfig(enable_dump=True, dump_path="."))
        with ascend_system(), pytest.warns(AscendConfigWarning, match="enable_dump=True has no"):
            with ascend_session(config):
                pass


class TestWhatItDoesInstead:
    def test_operators_run_on_the_cpu(self, tf: Any) -> None:
        traced = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        x = tf.placeholder(tf.float32, [])
        with ascend_session() as sess:
            assert sess.run(x + 1, {x: 41}, options, traced) == 42
        devices = [stats.device for stats in traced.step_stats.dev_stats]
        assert devices
        assert all("CPU" in device.upper() for device in devices), devices

    def test_precision_modes_leave_the_dtypes_of_the_graph(self, tf: Any) -> None:
        x = tf.placeholder(tf.float32, [])
        with ascend_session(AscendConfig(precision_mode="force_fp16")) as sess:
            total = sess.run(x + 1.0, {x: 2.0**-20})
        assert total.dtype == "float32"
        assert total > 1  # 2**-20 is lost next to 1 in half precision

    def test_all_devices_are_the_same_cpu(self, tf: Any) -> None:
        with ascend_system() as system:
            names = []
            for device in (0, 7):
                with system.session(device_id=device) as sess:
                    names.append([listed.name for listed in sess.list_devices()])
        assert names[0] == names[1]
        assert any(name.endswith("CPU:0") for name in names[0])

    def test_its_ops_have_the_vendors_names(self, tf: Any) -> None:
        assert [op.name for op in StubBackend({}).system_ops()] == ["NPUInit", "NPUShutdown"]
        assert {op.type for op in tf.get_default_graph().get_operations()} == {"NoOp"}
