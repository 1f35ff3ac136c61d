"""Ctrl-C and SIGTERM, wherever the main thread is; in real programs where they could kill."""

import re
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Iterator, List

import pytest

from ascend_session import ascend_system
from hardware_tests.backend_contract import steps
from tests.running import Ended, Host
from tests.signals import signal_this_thread

TERMINATED = -signal.SIGTERM
# From Python 3.8 on, an unhandled KeyboardInterrupt ends the process by the signal.
INTERRUPTED = -signal.SIGINT if sys.version_info >= (3, 8) else 1
LATER_S = 1.2  # after which a SIGTERM is another one
AT_ONCE_S = 30.0  # what the programs wait for would end after a minute, or never
OTHERS = ["in_a_session_of_others", "in_a_monitored_session", "in_a_session_on_the_host"]
SIGNALS = pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, TERMINATED), (signal.SIGINT, INTERRUPTED)],
    ids=["SIGTERM", "SIGINT"],
)


def handlers() -> List[Any]:
    """What the process does on signals: both handlers, and the wakeup descriptor."""
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    return [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), wakeup]


@pytest.fixture
def receive() -> Iterator[List[int]]:
    """The numbers of the SIGTERMs that a handler of the user's own has received."""
    received: List[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    yield received
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@pytest.fixture
def interrupted(programs: Host) -> Callable[..., Ended]:
    """Sends a signal to a program that is blocked, and says how it ended."""

    def run(where: str, number: int, patience: float = 60.0) -> Ended:
        with programs.start("blocked", where, patience=patience) as program:
            program.expect("ready")
            program.send(number)
            return program.end()

    return run


class TestTheMainThread:
    @SIGNALS
    def test_blocked_in_tensorflow(self, interrupted: Any, number: int, code: int) -> None:
        ended = interrupted("in_tensorflow", number)
        assert (ended.code, ended.lines) == (code, ["outer finally"]), ended.log
        assert ended.events[-3:] == ["signal", "session close", "shutdown"]

    @SIGNALS
    def test_running_python(self, interrupted: Any, number: int, code: int) -> None:
        ended = interrupted("in_python", number)
        assert (ended.code, ended.lines) == (code, ["outer finally"]), ended.log
        assert ended.events[-3:] == ["session open", "session close", "shutdown"]

    @SIGNALS
    def test_initialising(self, interrupted: Any, number: int, code: int) -> None:
        ended = interrupted("while_initialising", number)
        assert (ended.code, ended.lines) == (code, ["outer finally"]), ended.log
        assert "InitializationError" not in ended.log

    def test_going_on_after_an_interrupted_initialisation(self, interrupted: Any) -> None:
        ended = interrupted("while_initialising_and_go_on", signal.SIGINT)
        assert (ended.code, ended.lines) == (0, ["KeyboardInterrupt", "still there"]), ended.log

    @pytest.mark.parametrize("where", OTHERS)
    @SIGNALS
    def test_blocked_in_a_session_of_others(
        self, interrupted: Any, where: str, number: int, code: int
    ) -> None:
        ended = interrupted(where, number)
        assert (ended.code, ended.lines) == (code, ["outer finally"]), ended.log
        assert ended.events[-3:] == ["signal", "session close", "shutdown"]
        assert "still open" not in ended.log

    def test_blocked_in_a_session_of_others_in_a_run_that_does_not_react(
        self, interrupted: Any
    ) -> None:
        ended = interrupted("in_a_monitored_run_that_does_not_react", signal.SIGTERM)
        assert (ended.code, ended.lines) == (TERMINATED, []), ended.log
        assert re.search(
            r"exiting now, because the call in \S*blocked\.py:[0-9]+ has not", ended.log
        )
        assert "The device was not finalised." in ended.log
        assert "shutdown" not in ended.events

    def test_blocked_where_nothing_frees_it(self, interrupted: Any) -> None:
        ended = interrupted("in_c", signal.SIGTERM)
        assert (ended.code, ended.lines) == (TERMINATED, []), ended.log
        assert ended.events[-3:] == ["signal", "session close", "shutdown"]
        assert 2 <= ended.seconds < AT_ONCE_S

    @SIGNALS
    def test_blocked_in_a_run_that_does_not_react(
        self, interrupted: Any, number: int, code: int
    ) -> None:
        ended = interrupted("in_a_run_that_does_not_react", number)
        assert (ended.code, ended.lines) == (-number, []), ended.log
        assert 2 <= ended.seconds < AT_ONCE_S
        line = r"the call in \S*programs/blocked\.py:[0-9]+"
        waiting = f"closing the sessions, and waiting up to 2 s for {line} to return. A second"
        ending = f"exiting now, because {line} has not returned. The device was not finalised."
        assert re.search(f"{signal.Signals(number).name}: {waiting}", ended.log)
        assert re.search(f"{signal.Signals(number).name}: {ending}", ended.log)
        assert "shutdown" not in ended.events

    def test_blocked_in_such_a_run_where_a_launcher_gives_little_grace(
        self, interrupted: Any
    ) -> None:
        ended = interrupted("in_a_run_that_does_not_react_and_little_grace", signal.SIGTERM)
        assert "waiting up to 0.1 s" in ended.log
        assert ended.code == TERMINATED

    def test_blocked_in_such_a_run_a_second_signal_ends_the_process_at_once(
        self, programs: Host
    ) -> None:
        with programs.start("blocked", "in_a_run_that_does_not_react_and_say_so") as program:
            program.expect("ready")
            program.send(signal.SIGINT)
            program.expect("WARNING")
            program.send(signal.SIGINT)
            ended = program.end()
        assert ended.code == -signal.SIGINT
        assert "Second signal (SIGINT): exiting at once." in ended.log

    def test_blocked_in_such_a_run_while_nobody_reads_what_the_process_writes(
        self, interrupted: Any
    ) -> None:
        where = "in_a_run_that_does_not_react_and_nobody_reads"
        ended = interrupted(where, signal.SIGTERM)
        assert ended.code == TERMINATED
        assert ended.seconds < AT_ONCE_S

    def test_running_python_while_nobody_reads_the_log(self, interrupted: Any) -> None:
        ended = interrupted("in_python_and_nobody_reads_the_log", signal.SIGTERM)
        assert (ended.code, ended.lines) == (TERMINATED, ["outer finally"])

    @pytest.mark.parametrize("what", ["", "_its_output"])
    def test_writing_what_nobody_reads_ends_within_the_grace(
        self, interrupted: Any, what: str
    ) -> None:
        ended = interrupted(f"in_python_and_nobody_reads{what}", signal.SIGTERM)
        assert (ended.code, ended.lines) == (TERMINATED, [])
        assert ended.seconds < AT_ONCE_S

    @SIGNALS
    def test_returning_while_the_signal_shuts_the_system_down(
        self, interrupted: Any, number: int, code: int
    ) -> None:
        ended = interrupted("in_c_until_the_shutdown_has_begun", number)
        lines = ["shutting down", "shut down", "outer finally"]
        assert (ended.code, ended.lines) == (code, lines), ended.log
        assert "left open" not in ended.log

    def test_a_body_that_cleans_up_for_long_after_its_run_was_ended(self, interrupted: Any) -> None:
        ended = interrupted("in_tensorflow_and_clean_up_long", signal.SIGINT)
        assert ended.lines == ["cleaned up", "outer finally"], ended.log
        assert "has not returned" not in ended.log

    def test_two_signals_at_once_end_the_process_at_once(self, programs: Host) -> None:
        with programs.start("blocked", "in_a_run_that_does_not_react") as program:
            program.expect("ready")
            program.send(signal.SIGINT)
            program.send(signal.SIGTERM)
            ended = program.end()
        assert ended.code in (-signal.SIGINT, -signal.SIGTERM)
        assert ended.seconds < AT_ONCE_S
        assert "Second signal" in ended.log

    def test_releasing_a_lock_of_tensorflow(self, programs: Host) -> None:
        ended = programs.run("blocked", "in_the_lock_of_a_graph")
        assert (ended.code, ended.lines) == (0, ["8", "outer finally"]), ended.log

    def test_blocked_in_a_shutdown_that_never_ends(self, interrupted: Any) -> None:
        ended = interrupted("while_shutting_down", signal.SIGTERM)
        assert ended.code == TERMINATED, ended.log
        assert ended.seconds < AT_ONCE_S

    def test_waiting_for_a_thread_that_is_blocked_in_tensorflow(self, interrupted: Any) -> None:
        ended = interrupted("in_another_thread", signal.SIGTERM)
        assert ended.code == TERMINATED, ended.log
        assert "shutdown" in ended.events

    def test_an_interrupt_belongs_to_the_main_thread(self, interrupted: Any) -> None:
        ended = interrupted("in_tensorflow_beside_another_thread", signal.SIGINT)
        assert (ended.code, ended.lines) == (INTERRUPTED, ["outer finally"]), ended.log
        assert ended.log.rstrip().endswith("KeyboardInterrupt")

    def test_a_body_that_swallows_errors_does_not_swallow_the_signal(
        self, interrupted: Any
    ) -> None:
        ended = interrupted("in_tensorflow_and_swallow", signal.SIGTERM)
        assert (ended.code, ended.lines) == (TERMINATED, ["outer finally"]), ended.log

    def test_a_wakeup_descriptor_that_nobody_reads_any_more(self, interrupted: Any) -> None:
        ended = interrupted("in_tensorflow_with_a_broken_wakeup", signal.SIGTERM)
        assert (ended.code, ended.lines) == (TERMINATED, ["outer finally"]), ended.log

    def test_saving_a_checkpoint_on_ctrl_c(self, programs: Host, tmp_path: Path) -> None:
        with programs.start("saving", str(tmp_path / "model")) as program:
            program.expect("ready")
            program.send(signal.SIGINT)
            ended = program.end()
        assert (ended.code, ended.lines) == (0, ["restored True"]), ended.log

    @pytest.mark.parametrize(
        ("first", "sentence"),
        [
            (signal.SIGTERM, "Second signal (SIGTERM): exiting at once."),
            (signal.SIGINT, "SIGTERM: closing the sessions, and waiting up to 2 s"),
        ],
        ids=["SIGTERM", "SIGINT"],
    )
    def test_a_second_signal_while_unwinding_takes_long_ends_the_process(
        self, programs: Host, first: int, sentence: str
    ) -> None:
        with programs.start("blocked", "while_unwinding") as program:
            program.expect("ready")
            program.send(first)
            program.expect("unwinding")
            time.sleep(LATER_S)
            program.send(signal.SIGTERM)
            ended = program.end()
        assert (ended.code, ended.lines) == (TERMINATED, []), ended.log
        assert sentence in ended.log
        assert ended.seconds < AT_ONCE_S

    def test_a_signal_that_the_body_has_dealt_with_does_not_count(self, programs: Host) -> None:
        with programs.start("blocked", "after_another_signal") as program:
            program.expect("ready")
            program.send(signal.SIGINT)
            program.expect("dealt with")
            program.send(signal.SIGTERM)
            ended = program.end()
        assert (ended.code, ended.lines) == (TERMINATED, ["outer finally"]), ended.log
        assert ended.events[-2:] == ["session close", "shutdown"]


class TestHandlers:
    def test_default_handlers_are_taken_over_and_given_back(self, tf: Any) -> None:
        before = handlers()
        for _ in range(2):
            with ascend_system():
                assert all(now != then for now, then in zip(handlers(), before))
            assert handlers() == before

    def test_an_own_handler_is_left_alone(self, tf: Any, receive: List[int]) -> None:
        with ascend_system() as system:
            signal_this_thread(signal.SIGTERM)
            assert receive == [signal.SIGTERM]
            assert system.is_open
        assert steps(system) == ["initialize", "shutdown"]

    def test_own_handlers_for_both_leave_nothing_to_take_over(
        self, tf: Any, receive: List[int]
    ) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        before = handlers()
        with ascend_system():
            assert handlers() == before
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def test_a_handler_of_the_body_stays(self, tf: Any) -> None:
        def mine(number: int, frame: Any) -> None:
            raise AssertionError

        with ascend_system():
            signal.signal(signal.SIGTERM, mine)
        assert signal.signal(signal.SIGTERM, signal.SIG_DFL) is mine

    def test_a_handler_of_the_body_is_in_charge(self, programs: Host) -> None:
        with programs.start("own_handler") as program:
            program.expect("ready")
            program.send(signal.SIGTERM)
            ended = program.end()
        assert (ended.code, ended.lines) == (0, ["finished 7"]), ended.log

    def test_nothing_is_taken_over_outside_the_main_thread(self, tf: Any) -> None:
        before = handlers()
        with ThreadPoolExecutor(1) as pool:
            block = ascend_system()
            pool.submit(block.__enter__).result(30)
            during = handlers()
            pool.submit(block.__exit__, None, None, None).result(30)
        assert during == before

    def test_another_thread_may_shut_down(self, programs: Host) -> None:
        with programs.start("left_by_thread") as program:
            program.expect("open False")
            program.expect("a stranger's pipe got nothing")
            program.expect("ready")
            program.send(signal.SIGTERM)
            ended = program.end()
        assert ended.code == TERMINATED, ended.log
        assert "Exception ignored" not in ended.log


class TestTheWakeupDescriptor:
    @pytest.fixture
    def others(self) -> Iterator[socket.socket]:
        """The reading end of a wakeup descriptor that somebody else has installed."""
        reader, writer = socket.socketpair()
        with reader, writer:
            reader.settimeout(30)
            writer.setblocking(False)
            signal.set_wakeup_fd(writer.fileno())
            yield reader
            assert signal.set_wakeup_fd(-1) == writer.fileno()

    def test_the_previous_one_still_hears_of_signals(self, tf: Any, others: Any) -> None:
        with pytest.raises(KeyboardInterrupt), ascend_system() as system:
            signal_this_thread(signal.SIGINT)
        assert others.recv(8) == bytes([signal.SIGINT])
        assert steps(system)[-1] == "shutdown"

    def test_one_that_the_body_installs_stays(self, tf: Any) -> None:
        reader, writer = socket.socketpair()
        with reader, writer:
            writer.setblocking(False)
            with ascend_system():
                signal.set_wakeup_fd(writer.fileno())
            assert signal.set_wakeup_fd(-1) == writer.fileno()


class TestClosing:
    @pytest.mark.parametrize("how", ["block", "close()", "close() of the system"])
    @SIGNALS
    def test_a_signal_waits_until_all_is_closed(
        self, programs: Host, how: str, number: int, code: int
    ) -> None:
        name = signal.Signals(number).name
        ended = programs.run("closing", how, name, "1")
        raised = {"SIGTERM": "Terminated", "SIGINT": "KeyboardInterrupt"}[name]
        assert (ended.code, ended.lines) == (code, ["shut down", raised]), ended.log
        assert ended.events[-2:] == ["session close", "shutdown"]

    def test_so_it_does_at_exit(self, programs: Host) -> None:
        ended = programs.run("closing", "exit", "SIGTERM", "1")
        assert (ended.code, ended.lines) == (TERMINATED, ["shut down"]), ended.log

    def test_ctrl_c_at_exit_is_shown_when_all_is_closed(self, programs: Host) -> None:
        ended = programs.run("closing", "exit", "SIGINT", "1")
        assert ended.lines == ["shut down"]
        assert "KeyboardInterrupt" in ended.log
        assert " failed" not in ended.log

    @pytest.mark.parametrize("how", ["block", "close()", "close() of the system", "exit"])
    @SIGNALS
    def test_a_second_signal_ends_the_process_at_once_and_says_so(
        self, programs: Host, how: str, number: int, code: int
    ) -> None:
        name = signal.Signals(number).name
        ended = programs.run("closing", how, name, "2", str(LATER_S))
        assert (ended.code, ended.lines) == (-number, []), ended.log
        assert f"Second signal ({name}): exiting at once." in ended.log

    def test_a_second_ctrl_c_does_so_however_soon_it_comes(self, programs: Host) -> None:
        ended = programs.run("closing", "block", "SIGINT", "2")
        assert (ended.code, ended.lines) == (-signal.SIGINT, []), ended.log

    @pytest.mark.parametrize("how", ["block", "close()", "close() of the system", "exit"])
    def test_sigterms_within_a_second_are_one(self, programs: Host, how: str) -> None:
        ended = programs.run("closing", how, "SIGTERM", "3", "0.1")
        assert ended.code == TERMINATED, ended.log
        assert "shut down" in ended.lines
        assert "Second signal" not in ended.log


class TestASystemLeftOpen:
    @pytest.mark.parametrize(("how", "code"), [("in order", 0), ("by an error", 1)])
    def test_it_is_shut_down_at_exit(self, programs: Host, how: str, code: int) -> None:
        ended = programs.run("left_open", how)
        assert (ended.code, ended.lines) == (code, ["7"]), ended.log
        assert "WARNING An Ascend system was left open; it is shut down at exit." in ended.log
        assert " failed" not in ended.log
        assert ended.events[-3:] == ["session close", "session close", "shutdown"]

    def test_it_is_shut_down_when_a_signal_ends_the_process(self, programs: Host) -> None:
        with programs.start("left_open", "by a signal") as program:
            program.expect("7")
            program.send(signal.SIGTERM)
            ended = program.end()
        assert (ended.code, ended.lines) == (TERMINATED, []), ended.log
        assert ended.events[-2:] == ["session close", "shutdown"]
