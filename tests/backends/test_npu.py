"""The npu backend on the fake host: what it needs, what it refuses, in which order it works."""

import json
import os
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest

from ascend_session import (
    AscendConfig,
    AscendConfigWarning,
    BackendError,
    ConfigError,
    DeviceError,
    InitializationError,
    JobError,
    ShutdownError,
    ascend_session,
    ascend_system,
    current_system,
)
from ascend_session.failures.failure import FailureClass
from ascend_session.failures.scanner import failure_of
from ascend_session.option_files import OpPrecision
from hardware_tests.backend_contract import open_and_close
from tests.fake_host.vendor import live_host, loaded
from tests.hccl.ranks import variables_of


@pytest.fixture
def host(tmp_path: Path) -> Any:
    """A host with two devices and the vendor's packages."""
    host = live_host(tmp_path, chips=2)
    yield host
    host.close()


@pytest.fixture
def ge(tf: Any, host: Any) -> Iterator[Any]:
    """The graph engine behind the vendor's packages, in this process."""
    with loaded(host) as ge:
        yield ge


def product(tf: Any) -> Any:
    """An operator that the device supports."""
    return tf.matmul(tf.random.uniform([2, 2]), tf.ones([2, 2]))


def divide(value: Any, by: int) -> Any:
    """Raises ZeroDivisionError for a divisor of 0."""
    return value[0][0].item() / by


def life(calls: List[str]) -> List[str]:
    """The calls that make and end the engine and its sessions."""
    wanted = ("GEInitialize", "GEFinalize", "GESession", "GESessionDestroy", "NPUShutdown")
    return [call for call in calls if call in wanted]


class TestFilesGivenAsObjects:
    def test_a_file_is_there_when_the_device_is_initialised_and_stays(
        self, ge: Any, tf: Any, tmp_path: Path, monkeypatch: Any
    ) -> None:
        monkeypatch.setenv("ASCEND_WORK_PATH", str(tmp_path / "work"))
        modes = OpPrecision({"MatMul": "high_precision"})
        with ascend_session(AscendConfig(op_precision_mode=modes)) as sess:
            sess.run(product(tf))
        (started,) = ge.of("GEInitialize")
        path = started["options"]["op_precision_mode"]
        assert OpPrecision.read(path) == modes
        assert Path(path).parent == tmp_path / "work" / "ascend_option_files"

    def test_a_folder_that_cannot_be_made_is_told_before_anything_starts(
        self, ge: Any, tmp_path: Path, monkeypatch: Any
    ) -> None:
        (tmp_path / "work").write_text("")
        monkeypatch.setenv("ASCEND_WORK_PATH", str(tmp_path / "work"))
        with pytest.raises(ConfigError, match="cannot be written"):
            open_and_close(ascend_system(AscendConfig(op_precision_mode=OpPrecision())))
        assert ge.of("GEInitialize") == []


class TestWhatItNeeds:
    def test_auto_is_the_npu_where_a_processor_is(self, ge: Any) -> None:
        with ascend_system() as system:
            assert system.backend == "npu"
            assert "2 Ascend device(s) are present" in system.backend_reason

    @pytest.mark.parametrize("package", ["npu_bridge", "hccl"])
    def test_a_missing_package_is_named(self, ge: Any, package: str, monkeypatch: Any) -> None:
        monkeypatch.delitem(sys.modules, package, raising=False)
        monkeypatch.setattr(sys, "path", [p for p in sys.path if "fake_host/packages" not in p])
        with pytest.raises(BackendError, match=f"{package}.* cannot be found by this Python"):
            open_and_close(ascend_system())
        assert current_system() is None

    def test_an_adapter_that_does_not_load_is_refused_with_what_it_said(
        self, tf: Any, host: Any
    ) -> None:
        with loaded(host, faults="library"):
            said = r"libge_runner\.so: .*; ImportError: .*would stay on the CPU"
            with pytest.raises(BackendError, match=said) as no:
                open_and_close(ascend_system())
        assert "set_env.sh" in str(no.value.hint)

    def test_a_missing_operator_list_is_refused(self, ge: Any, host: Any) -> None:
        shutil.rmtree(str(host.root / "usr/local/Ascend/opp"))
        with pytest.raises(BackendError, match="would silently run every graph on the CPU"):
            open_and_close(ascend_system())
        assert life(ge.calls) == []

    def test_half_of_hccl_is_found_out_before_the_device_is_touched(
        self, ge: Any, monkeypatch: Any
    ) -> None:
        monkeypatch.setitem(sys.modules, "hccl.manage", None)
        with pytest.raises(BackendError, match=r"hccl\.manage.* Without the adapter"):
            open_and_close(ascend_system())
        assert "NPUInit" not in ge.calls

    def test_a_refusal_leaves_the_way_to_the_stub_open(
        self, tf: Any, ge: Any, host: Any, monkeypatch: Any
    ) -> None:
        monkeypatch.setenv("ASCEND_OPP_PATH", "")
        with pytest.raises(BackendError, match="ASCEND_OPP_PATH=''"):
            open_and_close(ascend_system())
        open_and_close(ascend_system(backend="stub"))
        assert "npu_bridge" not in sys.modules

    def test_the_package_that_patches_every_session_is_not_imported(self, tf: Any, ge: Any) -> None:
        with ascend_session(backend="npu") as sess:
            sess.run(product(tf))
        assert "npu_bridge.estimator.npu_ops" in sys.modules
        assert "npu_bridge.npu_init" not in sys.modules


class TestTheOrderOfCalls:
    def test_one_session(self, tf: Any, ge: Any) -> None:
        answer = product(tf)
        with ascend_session() as sess:
            sess.run(answer)
        assert life(ge.calls) == [
            "GEInitialize",
            "GESession",
            "GESessionDestroy",
            "GEFinalize",
            "NPUShutdown",
        ]
        assert ge.calls.count("NPUInit") == 2  # at the opening, and before the session

    def test_the_initialisation_is_synchronous_and_has_the_systems_options(
        self, tf: Any, ge: Any
    ) -> None:
        with ascend_session(AscendConfig(precision_mode="allow_mix_precision")) as sess:
            sess.run(product(tf))
        (initialise,) = [entry for entry in ge.record if entry["call"] == "GEInitialize"]
        assert initialise["sync"] is True
        assert initialise["options"]["precision_mode"] == "allow_mix_precision"

    def test_the_device_comes_up_again_with_the_same_options_for_a_later_session(
        self, tf: Any, ge: Any
    ) -> None:
        answer = product(tf)
        with ascend_system(AscendConfig(deterministic=1)) as system:
            for _ in range(2):
                with system.session() as sess:
                    sess.run(answer)
        started = [entry for entry in ge.record if entry["call"] == "GEInitialize"]
        assert [entry["sync"] for entry in started] == [True, True]
        assert [entry["options"]["deterministic"] for entry in started] == [1, 1]
        assert life(ge.calls)[-1] == "NPUShutdown"

    def test_a_variable_that_outlives_its_block_does_not_take_the_device_down(
        self, tf: Any, host: Any
    ) -> None:
        answer = product(tf)
        with loaded(host) as ge:
            with ascend_system() as system:
                for _ in range(2):
                    with system.session() as sess:
                        sess.run(answer)
            assert sess is not None
            one = ["GEInitialize", "GESession", "GESessionDestroy", "GEFinalize"]
            assert life(ge.calls) == [*one, *one, "NPUShutdown"]
            assert [entry["sync"] for entry in ge.of("GEInitialize")] == [True, True]

    def test_two_systems_in_sequence(self, tf: Any, ge: Any) -> None:
        answer = product(tf)
        for _ in range(2):
            with ascend_session() as sess:
                sess.run(answer)
        one = ["GEInitialize", "GESession", "GESessionDestroy", "GEFinalize", "NPUShutdown"]
        assert life(ge.calls) == one * 2

    def test_a_raising_body_leaves_the_device_down(self, tf: Any, ge: Any) -> None:
        answer = product(tf)
        with pytest.raises(ZeroDivisionError):
            with ascend_session() as sess:
                divide(sess.run(answer), 0)
        assert life(ge.calls)[-3:] == ["GESessionDestroy", "GEFinalize", "NPUShutdown"]

    def test_each_session_is_on_the_device_it_asks_for(self, tf: Any, ge: Any) -> None:
        answer = product(tf)
        with ascend_system() as system:
            for device in (0, 1):
                with system.session(device_id=device) as sess:
                    sess.run(answer)
        made = [entry for entry in ge.record if entry["call"] == "GESession"]
        assert [entry["device"] for entry in made] == [0, 1]


class TestRefusals:
    @pytest.mark.parametrize(
        ("environ", "said"),
        [
            ({"RANK_SIZE": "8", "RANK_ID": "1"}, "neither RANK_TABLE_FILE nor CM_CHIEF_IP is set"),
            ({"CM_WORKER_SIZE": "2"}, "CM_WORKER_SIZE=2, but neither RANK_TABLE_FILE nor CM_CHIEF"),
            ({"RANK_TABLE_FILE": "absent.json", "RANK_ID": "0"}, "there is no such file"),
            ({"RANK_TABLE_FILE": __file__, "RANK_SIZE": "2"}, "neither RANK_ID nor POD_NAME says"),
            ({"RANK_TABLE_FILE": "t.json", "CM_CHIEF_IP": "10.0.0.1"}, "are both set"),
            ({"TF_CONFIG": '{"task": {"type": "ps"}}'}, 'this process is a "ps"'),
        ],
    )
    def test_what_would_train_alone_without_a_word_is_refused(
        self, ge: Any, environ: Dict[str, str], said: str, monkeypatch: Any
    ) -> None:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(JobError, match=said):
            open_and_close(ascend_system())
        assert "NPUInit" not in ge.calls

    def test_a_pod_whose_name_the_table_has_needs_no_rank(
        self, ge: Any, monkeypatch: Any, tmp_path: Path
    ) -> None:
        pods = [
            {
                "pod_name": name,
                "server_id": f"10.0.0.{place}",
                "devices": [{"device_id": "0", "device_ip": f"10.0.1.{place}"}],
            }
            for place, name in enumerate("ab")
        ]
        groups = [{"group_name": "hccl_world_group", "instance_list": pods}]
        table = tmp_path / "table.json"
        table.write_text(json.dumps({"status": "completed", "group_list": groups}))
        monkeypatch.setenv("RANK_TABLE_FILE", str(table))
        monkeypatch.setenv("POD_NAME", "b")
        with ascend_system() as system:
            assert (system.rank, system.size) == (1, 2)

    def test_a_device_that_is_not_there_is_refused(self, tf: Any, ge: Any) -> None:
        with pytest.raises(DeviceError, match="session_device_id=2: this process gets 2 device"):
            open_and_close(ascend_system(AscendConfig(session_device_id=2)))
        assert "NPUInit" not in ge.calls

    @pytest.mark.parametrize("options", [{"use_off_line": False}, {"job": "ps"}])
    def test_a_session_that_stays_on_the_cpu_is_warned_of(
        self, tf: Any, ge: Any, options: Dict[str, Any]
    ) -> None:
        proto = tf.ConfigProto()
        entry = proto.graph_options.rewrite_options.custom_optimizers.add()
        entry.name = "NpuOptimizer"
        for key, value in options.items():
            if isinstance(value, bool):
                entry.parameter_map[key].b = value
            else:
                entry.parameter_map[key].s = value.encode()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            open_and_close(ascend_session(session_config=proto))
        texts = [str(w.message) for w in said if w.category is AscendConfigWarning]
        assert any("this session runs on the host CPU, not on the npu" in text for text in texts)

    def test_the_stub_is_refused_once_the_adapter_is_loaded(self, tf: Any, ge: Any) -> None:
        open_and_close(ascend_system(backend="npu"))
        with pytest.raises(BackendError, match="npu_bridge is imported in this process"):
            open_and_close(ascend_system(backend="stub"))


class TestTheJob:
    def test_a_single_process_does_not_ask_hccl(self, ge: Any) -> None:
        with ascend_system() as system:
            assert (system.rank, system.size, system.device_id) == (0, 1, 0)
        assert not [call for call in ge.calls if call.startswith("get_")]

    def test_rank_and_size_are_hccls_once_the_device_is_up(
        self, ge: Any, host: Any, monkeypatch: Any
    ) -> None:
        for name, value in variables_of(host, 2, 1).items():
            monkeypatch.setenv(name, value)
        with ascend_system() as system:
            assert (system.rank, system.size, system.local_rank, system.local_size) == (1, 2, 1, 2)
        assert ge.calls.index("get_rank_id") > ge.calls.index("GEInitialize")

    def test_a_rank_that_mpirun_started_is_told_to_the_adapter_while_the_system_is_open(
        self, ge: Any, host: Any, monkeypatch: Any
    ) -> None:
        monkeypatch.setenv("RANK_TABLE_FILE", variables_of(host, 2, 1)["RANK_TABLE_FILE"])
        for name in ("RANK", "LOCAL_RANK"):
            monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", "1")
        for name in ("SIZE", "LOCAL_SIZE"):
            monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", "2")
        monkeypatch.setenv("PMIX_NAMESPACE", "77")
        told = ("RANK_ID", "RANK_SIZE", "ASCEND_DEVICE_ID", "JOB_ID")
        with ascend_system() as system:
            assert (system.rank, system.size, system.device_id) == (1, 2, 1)
            assert [os.environ.get(name) for name in told] == ["1", "2", "1", "ompi_77"]
            assert system.events[0].name == "job"
            assert system.events[0].detail.startswith("Open MPI, job 77: OMPI_COMM_WORLD_RANK=1")
            assert system.events[0].detail.endswith("; device 1 by the rank on the node")
        assert not set(told) & set(os.environ)

    def test_ranks_of_mpirun_without_a_table_are_refused_by_mpiruns_words(
        self, ge: Any, monkeypatch: Any
    ) -> None:
        monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
        monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
        with pytest.raises(JobError, match=r"^OMPI_COMM_WORLD_SIZE=2, but neither RANK") as refused:
            open_and_close(ascend_system())
        assert "ASCEND_SESSION_SCHEDULER=none to train alone" in str(refused.value.hint)
        assert "RANK_ID" not in os.environ

    def test_a_physical_device_variable_becomes_a_logical_id(
        self, ge: Any, host: Any, monkeypatch: Any
    ) -> None:
        monkeypatch.setenv("DEVICE_ID", "1")
        monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "1")
        with ascend_system() as system:
            assert system.device_id == 0


class TestFailures:
    def test_what_the_initialise_op_raises_is_translated(self, tf: Any, host: Any) -> None:
        with loaded(host, faults="init-raises"):
            with pytest.raises(InitializationError) as failed:
                open_and_close(ascend_system())
        assert isinstance(failed.value.__cause__, tf.errors.InternalError)
        assert current_system() is None

    def test_a_session_that_fails_in_the_hands_of_others_is_closed_before_the_shutdown(
        self, tf: Any, host: Any
    ) -> None:
        def make_session(system: Any) -> None:
            sess = tf.Session(system.target, config=system.session_config())
            sess.run(product(tf))

        with loaded(host, faults="run=EI0002") as ge:
            with pytest.raises(tf.errors.InternalError) as failed:
                with ascend_system() as system:
                    make_session(system)
            assert failed.value.__traceback__ is not None  # it keeps the session
            assert life(ge.calls)[-3:] == ["GESessionDestroy", "GEFinalize", "NPUShutdown"]

    def test_so_is_one_that_others_have_closed_and_still_refer_to(self, tf: Any, host: Any) -> None:
        with loaded(host) as ge:
            with ascend_system() as system:
                with tf.Session(system.target, config=system.session_config()) as session:
                    session.run(product(tf))
            assert session._closed
            assert life(ge.calls)[-3:] == ["GESessionDestroy", "GEFinalize", "NPUShutdown"]

    def test_a_failing_shutdown_is_said_with_everything_closed(self, tf: Any, host: Any) -> None:
        with loaded(host, faults="shutdown") as ge:
            with pytest.raises(ShutdownError, match="shutdown_system"):
                with ascend_session() as sess:
                    sess.run(product(tf))
            assert "GESessionDestroy" in ge.calls
        assert current_system() is None

    def test_a_run_that_fails_keeps_its_type_and_gets_the_advice(
        self, tf: Any, host: Any, caplog: Any
    ) -> None:
        with loaded(host, faults="run=EI0002"):
            with pytest.raises(tf.errors.InternalError) as failed:
                with ascend_session() as sess:
                    sess.run(product(tf))
        failure = failure_of(failed.value)
        assert failure is not None
        assert failure.failure_class is FailureClass.SECONDARY
        assert any("EI0002 is a known failure (secondary)" in text for text in caplog.messages)

    def test_the_bodys_error_comes_before_that_of_the_shutdown(self, tf: Any, host: Any) -> None:
        with loaded(host, faults="shutdown"):
            with pytest.raises(ZeroDivisionError) as failed:
                with ascend_session():
                    raise ZeroDivisionError
        assert len(failed.value.closing_errors) == 1  # type: ignore[attr-defined]
