"""An interactive Python in a terminal: Ctrl-C does not cost anybody's variables."""

import codecs
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator, List

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120.0
PROMPT = ">>> "
START = """
import time
import tensorflow.compat.v1 as tf
from ascend_session import ascend_session, ascend_system, current_system

tf.disable_eager_execution()
answer = tf.constant(7)
keep = 35


def stay(seconds):
    print("in the run", flush=True)
    time.sleep(seconds)
    return 0.0


short = tf.py_func(lambda: stay(3), [], tf.double)
endless = tf.py_func(lambda: stay(600), [], tf.double)
with tf.control_dependencies([tf.py_func(lambda: stay(0), [], tf.double)]):
    reacting = tf.FIFOQueue(1, tf.float32).dequeue()
"""


class Terminal:
    """A Python with ``-i`` in a terminal of its own."""

    def __init__(self, script: Path) -> None:
        self._fd, slave = pty.openpty()
        variables = {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", "TERM": "dumb"}
        self._process = subprocess.Popen(
            [sys.executable, "-i", str(script)],
            env={**os.environ, **variables, "ASCEND_SESSION_BACKEND": "stub"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self._unread = ""
        # What is read may end within a character.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def expect(self, text: str) -> str:
        """Waits until something is written, and returns what came before it."""
        end = time.monotonic() + PATIENCE_S
        while text not in self._unread:
            remaining_s = max(end - time.monotonic(), 0)
            assert select.select([self._fd], [], [], remaining_s)[0], (text, self._unread)
            try:
                self._unread += self._decoder.decode(os.read(self._fd, 4096))
            except OSError as error:  # the process has ended
                raise AssertionError((text, self._unread)) from error
        before, _, self._unread = self._unread.partition(text)
        return before

    def type(self, line: str) -> None:
        os.write(self._fd, f"{line}\n".encode())

    def run(self, line: str) -> str:
        """Types a line, and returns what it writes."""
        self.type(line)
        return self.expect(PROMPT)

    def press_ctrl_c(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def wait(self) -> int:
        """Waits for the end; the exit code, negative for a signal."""
        return self._process.wait(PATIENCE_S)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._fd)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    script = tmp_path / "start.py"
    script.write_text(START)
    python = Terminal(script)
    try:
        python.expect(PROMPT)
        python.run("session = ascend_session(); sess = session.open()")
        yield python
    finally:
        python.close()


def values(text: str) -> List[str]:
    """The lines without what was typed."""
    return text.replace("\r", "").split("\n")[1:]


def test_the_first_ctrl_c_waits_for_the_run_and_the_session_stays_open(terminal: Terminal) -> None:
    terminal.type("sess.run(short)")
    terminal.expect("in the run")
    terminal.press_ctrl_c()
    terminal.expect("SIGINT: waiting for the call in <stdin>:1 to return; KeyboardInterrupt will")
    assert "A second Ctrl-C closes the sessions" in terminal.expect("KeyboardInterrupt\r\n")
    terminal.expect(PROMPT)
    assert "42" in values(terminal.run("int(sess.run(answer)) + keep"))


def test_a_second_ctrl_c_ends_a_run_that_reacts_and_python_goes_on(terminal: Terminal) -> None:
    terminal.type("sess.run(reacting)")
    terminal.expect("in the run")
    terminal.press_ctrl_c()
    terminal.expect("A second Ctrl-C closes the sessions")
    terminal.press_ctrl_c()
    terminal.expect("SIGINT: closing the sessions")
    assert values(terminal.expect(PROMPT))[-2] == "KeyboardInterrupt"
    terminal.run("session.close()")
    terminal.run("session = ascend_session(); sess = session.open()")
    assert "42" in values(terminal.run("int(sess.run(answer)) + keep"))


def test_a_second_ctrl_c_ends_python_if_the_run_does_not_return(terminal: Terminal) -> None:
    terminal.type("sess.run(endless)")
    terminal.expect("in the run")
    terminal.press_ctrl_c()
    terminal.expect("and kills this Python with all its variables")
    terminal.press_ctrl_c()
    terminal.expect("SIGINT: closing the sessions, and waiting up to 2 s")
    terminal.expect("The device was not finalised.")
    assert terminal.wait() == -signal.SIGINT


def test_ctrl_c_in_python_code_is_an_ordinary_interrupt(terminal: Terminal) -> None:
    terminal.type("stay(600)")
    terminal.expect("in the run")
    terminal.press_ctrl_c()
    assert "SIGINT" not in terminal.expect("KeyboardInterrupt\r\n")
    terminal.expect(PROMPT)
    assert "42" in values(terminal.run("int(sess.run(answer)) + keep"))


def test_the_first_ctrl_c_ends_no_python_that_computes_elsewhere(terminal: Terminal) -> None:
    terminal.run("import hashlib, threading")
    # A library does not say that it computes: the thread speaks when it surely does.
    computing = "hashlib.pbkdf2_hmac('sha256', b'', b'', 10**7)[:0]"
    terminal.type(f"threading.Timer(1, stay, [0]).start(); {computing}")
    terminal.expect("in the run")
    terminal.press_ctrl_c()
    assert "KeyboardInterrupt will be raised then" in terminal.expect("KeyboardInterrupt\r\n")
    terminal.expect(PROMPT)
    assert "42" in values(terminal.run("int(sess.run(answer)) + keep"))


def test_what_is_left_open_is_shut_down_when_python_ends(terminal: Terminal) -> None:
    terminal.type("exit()")
    terminal.expect("An Ascend system was left open; it is shut down at exit.")
    assert terminal.wait() == 0
