"""A failed initialisation ends its process; a probe tells that beforehand, in another one."""

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, List

import psutil
import pytest
import tenacity

from ascend_session import InitializationError, RetryPolicy, ascend_system, current_system
from ascend_session.backends.npu_probe import environment_of
from ascend_session.failures.failure import FailureClass
from ascend_session.failures.scanner import failure_of
from tests.fake_host.vendor import environment, live_host, loaded, recorded
from tests.running import Host


@pytest.fixture
def host(tmp_path: Path) -> Any:
    host = live_host(tmp_path, chips=2)
    yield host
    host.close()


def of(host: Any, call: str) -> List[Any]:
    return [entry for entry in recorded(host) if entry["call"] == call]


@contextmanager
def held(host: Any) -> Iterator[None]:
    """Let another process hold the device meanwhile."""
    with open(str(host.root / "dev/davinci0")) as device:
        holder = subprocess.Popen(["sleep", "600"], stdin=device)
    try:
        yield
    finally:
        holder.kill()
        holder.wait()


class TestWithoutAProbe:
    def test_the_process_ends_with_what_the_adapter_says(self, host: Any, programs: Host) -> None:
        variables = environment(host, faults="init=EJ0001")
        ended = programs.run("on_npu", json.dumps(variables))
        assert ended.code == -signal.SIGABRT
        assert ended.lines == ["opening"]
        assert "EJ0001" in ended.log


class TestWithAProbe:
    def test_what_passes_is_tried_again_and_then_opened_here(
        self, tf: Any, host: Any, caplog: Any
    ) -> None:
        with loaded(host, faults="init=EJ0001*1") as ge:
            with ascend_system(probe=RetryPolicy(attempts=3, wait_seconds=0)) as system:
                assert [event.name for event in system.events] == ["probe", "initialize"]
            assert ge.calls.count("GEInitialize") == 1  # in this process
        # One that failed, one that went well, and this one.
        assert [entry["failed"] for entry in of(host, "GEInitialize")] == [True, False, False]
        assert len({entry["pid"] for entry in of(host, "GEInitialize")}) == 3
        (said,) = [text for text in caplog.messages if text.startswith("Attempt 1: ")]
        assert "EJ0001" in said
        assert said.endswith(". Next attempt in 0 s.")

    def test_what_does_not_pass_is_said_at_once_and_this_process_goes_on(
        self, tf: Any, host: Any
    ) -> None:
        with loaded(host, faults="init=EI0004") as ge:
            with pytest.raises(InitializationError) as failed:
                ascend_system(probe=RetryPolicy(attempts=5, wait_seconds=0)).__enter__()
            assert ge.calls == []
        assert len(of(host, "GEInitialize")) == 1
        failure = failure_of(failed.value)
        assert failure is not None
        assert failure.failure_class is FailureClass.PERMANENT
        assert "in a separate process, which exited with SIGABRT" in failed.value.message
        assert failed.value.hint == failure.advice
        assert current_system() is None

    def test_the_attempts_end(self, tf: Any, host: Any) -> None:
        with loaded(host, faults="init=EJ0001"):
            with pytest.raises(InitializationError, match="EJ0001"):
                ascend_system(probe=RetryPolicy(attempts=2, wait_seconds=0)).__enter__()
        assert len(of(host, "GEInitialize")) == 2

    def test_a_lack_of_memory_passes_if_another_process_holds_the_device(
        self, tf: Any, host: Any
    ) -> None:
        with held(host), loaded(host, faults="init=EL0004*1"):
            with ascend_system(probe=RetryPolicy(attempts=2, wait_seconds=0)) as system:
                assert [event.name for event in system.events] == ["probe", "initialize"]

    @pytest.mark.parametrize("code", ["EI0004", "EI0015"])
    def test_what_the_device_did_not_run_out_of_does_not_pass_when_another_process_ends(
        self, tf: Any, host: Any, code: str
    ) -> None:
        with held(host), loaded(host, faults=f"init={code}"):
            with pytest.raises(InitializationError, match=code):
                ascend_system(probe=RetryPolicy(attempts=2, wait_seconds=0)).__enter__()
        assert len(of(host, "GEInitialize")) == 1

    def test_one_that_does_not_end_is_ended(self, tf: Any, host: Any) -> None:
        with loaded(host, faults="hang=3600"):
            with pytest.raises(InitializationError, match="did not finish within 1 s"):
                ascend_system(probe=RetryPolicy(attempt_seconds=1)).__enter__()

    def test_on_the_stub_there_is_nothing_to_try(self, tf: Any) -> None:
        with ascend_system(backend="stub", probe=RetryPolicy()) as system:
            assert [event.name for event in system.events] == ["probe", "initialize"]
            assert system.events[0].seconds < 60


TABLE = {"RANK_TABLE_FILE": "t.json", "RANK_ID": "1", "RANK_SIZE": "2", "HOME": "/home/me"}


class TestASignalMeanwhile:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
    def test_the_probe_ends_with_its_parent(
        self, host: Any, programs: Host, number: signal.Signals
    ) -> None:
        variables = environment(host, faults="hang=3600")
        with programs.start("on_npu", json.dumps(variables), "probe") as program:
            program.expect("opening")
            probe = psutil.Process(hanging(host))
            program.send(number)
            ended = program.end()
        by_exception = {1} if number == signal.SIGINT else set()  # of Python 3.7
        assert ended.code in {-number, *by_exception}, ended.log
        assert ended.lines == []
        probe.wait(60)  # and TimeoutExpired if it lives on


@tenacity.retry(stop=tenacity.stop_after_delay(60), wait=tenacity.wait_fixed(0.05))
def hanging(host: Any) -> int:
    """The process that hangs in its initialisation, as soon as there is one."""
    (entry,) = of(host, "hang")
    return int(entry["pid"])


class TestTheEnvironmentOfAProbe:
    def test_a_rank_of_several_tries_its_device_alone(self) -> None:
        chief = {"CM_CHIEF_IP": "10.0.0.1", "CM_WORKER_SIZE": "2", "ASCEND_DEVICE_ID": "1"}
        workers = {"TF_CONFIG": '{"cluster": {"worker": ["h:1", "h:2"]}}'}
        for environ in (
            {**TABLE, **chief, **workers},
            {**TABLE, "ASCEND_DEVICE_ID": "1", "RANK_SIZE": ""},
        ):
            assert sorted(environment_of(environ)) == ["ASCEND_DEVICE_ID", "HOME"]

    def test_a_job_of_one_keeps_its_variables(self) -> None:
        environ = {**TABLE, "RANK_SIZE": "1", "RANK_ID": "0"}
        assert environment_of(environ) == environ


def test_a_module_in_the_working_directory_is_not_taken_for_one_of_pythons(
    tf: Any, host: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('not this one')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    with loaded(host), ascend_system(probe=RetryPolicy(attempts=1)) as system:
        assert system.events[0].name == "probe"
