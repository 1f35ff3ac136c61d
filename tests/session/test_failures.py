"""What fails while a system opens, runs or closes: nothing stays open, nothing is lost."""

import atexit
import logging
import signal
import traceback
import warnings
from typing import Any, Callable, Iterator

import pytest

from ascend_session import (
    AscendConfig,
    AscendConfigWarning,
    ConfigError,
    ExperimentalConfig,
    InitializationError,
    JobError,
    ShutdownError,
    ascend_session,
    ascend_system,
    current_system,
)
from ascend_session.backends import backend_class
from hardware_tests.backend_contract import open_and_close, steps
from tests.running import Host
from tests.session.backends import (
    WORDS,
    FailingClose,
    FailingSession,
    FailingStart,
    FailingStop,
)
from tests.signals import signal_this_thread

StubBackend: Any = backend_class("stub")


class InterruptAt(logging.Handler):
    """Presses Ctrl-C at the moment when an event is recorded."""

    event = ""

    def emit(self, record: logging.LogRecord) -> None:
        if self.event and self.event in record.getMessage():
            self.event = ""
            raise KeyboardInterrupt


@pytest.fixture
def interrupt_at() -> Iterator[Callable[[str], None]]:
    """Lets Ctrl-C arrive at a chosen event."""
    log = logging.getLogger("ascend_session.session.system")
    handler = InterruptAt()
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    yield lambda event: setattr(handler, "event", event)
    log.setLevel(logging.NOTSET)
    log.removeHandler(handler)


class InterruptedStop(FailingStop):
    """Is interrupted while it shuts down, which fails."""

    def shutdown(self) -> None:
        signal_this_thread(signal.SIGINT)
        super().shutdown()


class TestOpening:
    def test_nothing_is_open_after_a_failed_initialisation(self, tf: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ascend_session.backends.stub.StubBackend", FailingStart)
            with pytest.raises(InitializationError, match=WORDS) as failed:
                open_and_close(ascend_system())
        assert isinstance(failed.value.__cause__, tf.errors.InvalidArgumentError)
        assert current_system() is None
        with ascend_session() as sess:
            assert sess.run(tf.constant(7)) == 7

    def test_a_session_that_cannot_open_takes_its_system_down(self, tf: Any, stub: Any) -> None:
        stub(FailingSession)
        with pytest.raises(MemoryError, match=WORDS):
            open_and_close(ascend_session())
        assert current_system() is None
        assert tf.get_default_session() is None

    def test_a_session_that_cannot_open_leaves_a_shared_system_open(
        self, tf: Any, stub: Any
    ) -> None:
        stub(FailingSession)
        with ascend_system() as system:
            with pytest.raises(MemoryError, match=WORDS):
                open_and_close(ascend_session())
            assert system.is_open
        assert steps(system) == ["initialize", "bring up", "shutdown"]

    def test_ctrl_c_comes_with_what_fails_while_opening_which_is_no_failure_to_close(
        self, tf: Any, stub: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Interrupted(FailingSession):
            """Is interrupted while it opens a session, which fails."""

            def session(self, graph: Any, proto: Any) -> Any:
                signal_this_thread(signal.SIGINT)
                return super().session(graph, proto)

        stub(Interrupted)
        with pytest.raises(KeyboardInterrupt) as raised:
            open_and_close(ascend_session())
        assert isinstance(raised.value.__context__, MemoryError)
        assert "Closing failed" not in caplog.text

    def test_a_warning_that_is_an_error_opens_nothing(self, tf: Any) -> None:
        config = AscendConfig(
            experimental_config=ExperimentalConfig(accelerate_train_mode="fast|step")
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(AscendConfigWarning, match="TellMeStepOrLossHook"):
                open_and_close(ascend_session(config))
        assert current_system() is None

    def test_what_the_host_lacks_is_said_before_anything_starts(
        self, tf: Any, stub: Any, tmp_path: Any
    ) -> None:
        stub(FailingStart)
        config = AscendConfig(op_debug_config=str(tmp_path / "no_such_file"))
        with pytest.raises(ConfigError, match="no_such_file"):
            open_and_close(ascend_system(config))

    def test_an_impossible_job_is_said_before_anything_starts(
        self, tf: Any, stub: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stub(FailingStart)
        monkeypatch.setenv("RANK_ID", "7")
        with pytest.raises(JobError, match="RANK_ID=7"):
            open_and_close(ascend_system())

    def test_ctrl_c_right_after_the_initialisation_leaves_nothing_open(
        self, tf: Any, interrupt_at: Any
    ) -> None:
        interrupt_at("initialize")
        with pytest.raises(KeyboardInterrupt):
            open_and_close(ascend_system())
        assert current_system() is None

    def test_ctrl_c_right_after_the_opening_leaves_nothing_open(
        self, tf: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
    ) -> None:
        def press_ctrl_c(*arguments: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, caplog.at_level(logging.DEBUG):
            patch.setattr(atexit, "register", press_ctrl_c)  # what follows at once
            with pytest.raises(KeyboardInterrupt):
                open_and_close(ascend_system())
        assert current_system() is None
        assert "shutdown" in caplog.text

    def test_ctrl_c_while_a_session_opens_leaves_nothing_open(
        self, tf: Any, interrupt_at: Any
    ) -> None:
        interrupt_at("session open")
        with pytest.raises(KeyboardInterrupt):
            open_and_close(ascend_session())
        assert current_system() is None
        assert tf.get_default_session() is None


class TestClosing:
    @pytest.mark.parametrize("backend", [FailingStop, FailingClose])
    def test_a_failing_shutdown_is_an_error_with_its_cause(
        self, tf: Any, stub: Any, backend: Any
    ) -> None:
        stub(backend)
        with pytest.raises(ShutdownError, match=WORDS) as failed:
            with ascend_system() as system:
                pass
        assert failed.value.__cause__ is not None
        assert current_system() is None
        assert not system.is_open
        assert steps(system)[-2:] == ["shutdown", "failure"]
        assert WORDS in system.events[-1].detail

    def test_a_generator_that_is_not_read_to_its_end_has_not_failed(
        self, tf: Any, stub: Any
    ) -> None:
        reasons = []

        class Recording(StubBackend):
            """Notes what the other ranks are told."""

            def interrupt(self, reason: str, error: Any = None) -> None:
                reasons.append(reason)

        def read() -> Iterator[int]:
            with ascend_system():
                yield from range(3)

        stub(Recording)
        numbers = read()
        assert next(numbers) == 0
        numbers.close()  # type: ignore[attr-defined]
        assert current_system() is None
        assert reasons == []

    def test_the_next_system_opens_after_a_failing_shutdown(self, tf: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ascend_session.backends.stub.StubBackend", FailingStop)
            with pytest.raises(ShutdownError), ascend_session():
                pass
        with ascend_session() as sess:
            assert sess.run(tf.constant(7)) == 7

    def test_the_error_of_the_body_comes_before_that_of_closing(
        self, stub: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        stub(FailingStop)
        body = ZeroDivisionError("mine")
        with pytest.raises(ZeroDivisionError, match="mine") as raised:
            with ascend_system():
                raise body
        assert raised.value is body
        (closing,) = body.closing_errors  # type: ignore[attr-defined]
        assert isinstance(closing, ShutdownError)
        assert WORDS in str(closing)
        (record,) = caplog.records
        assert "Closing failed after ZeroDivisionError" in record.getMessage()
        assert WORDS in record.getMessage()

    def test_ctrl_c_comes_before_what_fails_while_closing(self, stub: Any) -> None:
        stub(InterruptedStop)
        with pytest.raises(KeyboardInterrupt) as raised, ascend_system():
            pass
        (closing,) = raised.value.closing_errors  # type: ignore[attr-defined]
        assert isinstance(closing, ShutdownError)

    def test_so_it_does_where_the_system_is_closed_by_hand(self, stub: Any) -> None:
        stub(InterruptedStop)
        system = ascend_system().open()
        with pytest.raises(KeyboardInterrupt) as raised:
            system.close()
        (closing,) = raised.value.closing_errors  # type: ignore[attr-defined]
        assert WORDS in str(closing)

    def test_ctrl_c_while_closing_leaves_the_error_of_the_body_in_the_traceback(
        self, stub: Any
    ) -> None:
        class Interrupted(StubBackend):
            """Is interrupted while it shuts down."""

            def shutdown(self) -> None:
                signal_this_thread(signal.SIGINT)
                super().shutdown()

        stub(Interrupted)
        with pytest.raises(KeyboardInterrupt) as raised, ascend_system():
            raise ZeroDivisionError("mine")
        shown = traceback.format_exception(raised.type, raised.value, raised.tb)
        assert "ZeroDivisionError: mine\n" in shown

    def test_the_error_of_opening_comes_before_that_of_closing(self, stub: Any) -> None:
        class Failing(FailingSession, FailingStop):
            """Neither opens a session nor shuts down."""

        stub(Failing)
        with pytest.raises(MemoryError) as raised:
            open_and_close(ascend_session())
        (closing,) = raised.value.closing_errors  # type: ignore[attr-defined]
        assert isinstance(closing, ShutdownError)

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
    def test_an_interrupted_body_shuts_down(self, tf: Any, error: Any) -> None:
        with pytest.raises(error):
            with ascend_system() as system, ascend_session():
                raise error
        assert steps(system)[-2:] == ["session close", "shutdown"]

    @pytest.mark.parametrize("event", ["session close", "shutdown"])
    def test_ctrl_c_while_closing_keeps_nothing_open(
        self, tf: Any, interrupt_at: Any, event: str
    ) -> None:
        with pytest.raises(KeyboardInterrupt):
            with ascend_system() as system, ascend_session() as sess:
                interrupt_at(event)
        assert {"session close", "shutdown"} <= set(steps(system))
        assert sess._closed
        assert current_system() is None
        assert tf.get_default_session() is None

    def test_ctrl_c_while_closing_does_not_spare_the_device_its_shutdown(
        self, tf: Any, stub: Any, interrupt_at: Any
    ) -> None:
        ran = []

        class Noting(StubBackend):
            """Notes that the shutdown op ran."""

            def shutdown(self) -> None:
                super().shutdown()
                ran.append("shutdown")

        stub(Noting)
        with pytest.raises(KeyboardInterrupt), ascend_system():
            interrupt_at("shutdown")
        assert ran == ["shutdown"]

    def test_ctrl_c_while_closing_comes_before_what_fails_there(
        self, stub: Any, interrupt_at: Any
    ) -> None:
        stub(FailingStop)
        with pytest.raises(KeyboardInterrupt) as raised, ascend_session():
            interrupt_at("session close")
        (closing,) = raised.value.closing_errors  # type: ignore[attr-defined]
        assert isinstance(closing, ShutdownError)

    def test_what_fails_at_exit_is_logged(self, programs: Host) -> None:
        ended = programs.run("left_open", "and fail to shut down")
        assert (ended.code, ended.lines) == (0, ["7"]), ended.log
        assert ended.log.count("ERROR shutdown_system failed: ") == 1
        assert WORDS in ended.log

    def test_a_graph_error_that_ends_the_block_is_still_the_users(self, tf: Any) -> None:
        x = tf.placeholder(tf.float32, [])
        with pytest.raises(tf.errors.InvalidArgumentError, match="must feed a value"):
            with ascend_session() as sess:
                sess.run(x)
        assert current_system() is None

    def test_a_session_closed_by_the_user_is_no_failure(self, tf: Any) -> None:
        with ascend_system() as system, ascend_session() as sess:
            sess.close()
        assert steps(system)[-2:] == ["session close", "shutdown"]
