"""Sessions that others open on the device: closed before it, and reported if left open."""

import contextlib
import gc
import json
import logging
import re
import signal
import threading
from pathlib import Path
from typing import Any, Iterator, List

import pytest

from ascend_session import ascend_system
from ascend_session.session import others
from tests.fake_host.vendor import environment, live_host, recorded
from tests.running import Host

STILL_OPEN = "is still open although its Ascend system closes"


def warnings_of(caplog: Any) -> List[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


def open_other(tf: Any, system: Any) -> Any:
    return tf.Session(system.target, config=system.session_config())


class TestOneThatIsLeftOpen:
    def test_a_warning_names_its_line(self, tf: Any, caplog: Any) -> None:
        with ascend_system(backend="stub") as system:
            session = open_other(tf, system)
        [warning] = warnings_of(caplog)
        assert re.search(r"that was opened at \S*test_others\.py:[0-9]+ " + STILL_OPEN, warning)
        session.close()

    def test_an_error_that_ends_the_block_is_not_covered_by_it(self, tf: Any, caplog: Any) -> None:
        def fail() -> None:
            with ascend_system(backend="stub") as system:
                session = open_other(tf, system)
                session.run(tf.Assert(False, ["x"]))

        with pytest.raises(tf.errors.InvalidArgumentError):
            fail()
        assert warnings_of(caplog) == []


class TestHonestOnes:
    def test_one_that_is_closed(self, tf: Any, caplog: Any) -> None:
        with ascend_system(backend="stub") as system:
            with open_other(tf, system) as session:
                assert session.run(tf.constant(7)) == 7
            open_other(tf, system).close()
        assert warnings_of(caplog) == []

    def test_one_that_nothing_refers_to(self, tf: Any, caplog: Any) -> None:
        with ascend_system(backend="stub") as system:
            assert open_other(tf, system).run(tf.constant(7)) == 7
            gc.collect()
        assert warnings_of(caplog) == []

    def test_a_monitored_training_session(self, tf: Any, caplog: Any, tmp_path: Path) -> None:
        step = tf.train.get_or_create_global_step().assign_add(1)
        with ascend_system(backend="stub") as system:
            with tf.train.MonitoredTrainingSession(
                system.target, config=system.session_config(), checkpoint_dir=str(tmp_path)
            ) as session:
                assert session.run(step) == 1
        assert warnings_of(caplog) == []

    def test_the_one_that_keras_keeps(self, tf: Any, caplog: Any) -> None:
        backend = tf.keras.backend
        if not hasattr(backend, "set_session"):
            assert int(tf.keras.__version__.split(".")[0]) >= 3
            return
        with ascend_system(backend="stub") as system:
            backend.set_session(open_other(tf, system))
            assert backend.get_session().run(tf.constant(7)) == 7
        assert warnings_of(caplog) == []
        backend.set_session(None)

    def test_one_on_the_host(self, tf: Any, caplog: Any) -> None:
        with ascend_system(backend="stub") as system:
            session = tf.Session(system.target)
        assert warnings_of(caplog) == []
        assert session.run(tf.constant(7)) == 7
        session.close()

    def test_one_of_the_system_in_another_block(self, tf: Any, caplog: Any) -> None:
        with ascend_system(backend="stub") as system, system.session() as session:
            assert session.run(tf.constant(7)) == 7
        assert warnings_of(caplog) == []


class TestARunInAnotherThread:
    @pytest.fixture
    def running(self, tf: Any, monkeypatch: Any) -> Iterator[Any]:
        """Starts a thread with a run that ends once a warning says that it is waited for."""
        monkeypatch.setattr(others, "_WAIT_S", 0.2)
        begun, told, threads = threading.Event(), threading.Event(), []

        class Handler(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                if "waits for its run" in record.getMessage():
                    told.set()

        def wait() -> float:
            begun.set()
            return float(told.wait(60))

        def start(session: Any, operation: Any) -> None:
            thread = threading.Thread(target=run, args=[session, operation], name="trainer")
            thread.start()
            threads.append(thread)
            assert begun.wait(60)

        def run(session: Any, operation: Any) -> None:
            with contextlib.suppress(tf.errors.CancelledError):  # by the end of the session
                session.run(operation)

        handler = Handler()
        logging.getLogger().addHandler(handler)  # after the one of caplog
        operation = tf.py_func(wait, [], tf.double)
        yield lambda session: start(session, operation)
        logging.getLogger().removeHandler(handler)
        for thread in threads:
            thread.join(60)
        assert told.is_set()

    def test_leaving_the_system_says_what_it_waits_for(
        self, tf: Any, running: Any, caplog: Any
    ) -> None:
        with ascend_system(backend="stub") as system:
            session = open_other(tf, system)
            running(session)
        still_open, waits = warnings_of(caplog)
        assert STILL_OPEN in still_open
        line = r"thread 'trainer' \(\S*test_others\.py:[0-9]+\)"
        assert re.search(f"waits for its run in {line} to return", waits)
        with pytest.raises(RuntimeError, match="closed"):
            session.run(tf.constant(7))

    def test_so_does_leaving_a_session_of_the_system(
        self, tf: Any, running: Any, caplog: Any
    ) -> None:
        with ascend_system(backend="stub") as system, system.session() as session:
            running(session)
        [waits] = warnings_of(caplog)
        assert "waits for its run in thread 'trainer'" in waits

    def test_a_short_wait_is_not_worth_a_word(self, tf: Any, caplog: Any) -> None:
        def run(session: Any, operation: Any) -> None:
            with contextlib.suppress(tf.errors.CancelledError):
                session.run(operation)

        begun, go_on = threading.Event(), threading.Event()
        operation = tf.py_func(lambda: begun.set() or go_on.wait(60), [], tf.bool)
        with ascend_system(backend="stub") as system, system.session() as session:
            thread = threading.Thread(target=run, args=[session, operation])
            thread.start()
            assert begun.wait(60)
            threading.Timer(0.1, go_on.set).start()
        thread.join()
        assert warnings_of(caplog) == []


class TestOnADevice:
    @pytest.fixture
    def host(self, tmp_path: Path) -> Iterator[Any]:
        host = live_host(tmp_path, chips=1)
        yield host
        host.close()

    def test_one_that_is_left_open_is_closed_before_the_device(
        self, host: Any, programs: Host
    ) -> None:
        ended = programs.run("others_on_npu", json.dumps(environment(host)), "left_open")
        assert (ended.code, ended.lines) == (0, ["6.0", "closed"]), ended.log
        assert re.search(r"opened at \S*others_on_npu\.py:[0-9]+ " + STILL_OPEN, ended.log)
        calls = [entry["call"] for entry in recorded(host)]
        assert "GESessionDestroy" in calls[: calls.index("GEFinalize")]

    def test_a_signal_ends_the_run_before_the_device(self, host: Any, programs: Host) -> None:
        given = json.dumps(environment(host))
        with programs.start("others_on_npu", given, "monitored") as program:
            program.expect("ready")
            program.send(signal.SIGTERM)
            ended = program.end()
        assert (ended.code, ended.lines) == (-signal.SIGTERM, ["finally"]), ended.log
        calls = [entry["call"] for entry in recorded(host)]
        assert "GESessionDestroy" in calls[: calls.index("GEFinalize")]
        assert STILL_OPEN not in ended.log

    def test_a_signal_does_not_finalise_it_below_a_run_that_does_not_react(
        self, host: Any, programs: Host
    ) -> None:
        given = json.dumps({**environment(host), "ASCEND_SESSION_GRACE": "6"})
        with programs.start("others_on_npu", given, "hanging") as program:
            program.expect("ready")
            program.send(signal.SIGTERM)
            ended = program.end()
        assert (ended.code, ended.lines) == (-signal.SIGTERM, []), ended.log
        assert "has not returned. The device was not finalised." in ended.log
        assert "GEFinalize" not in [entry["call"] for entry in recorded(host)]
