"""Is held, or ended by a signal, in the last moment of its system."""

import contextlib
import json
import logging
import os
import signal
import socket
import sys
import threading
from typing import Any, Callable

import tensorflow.compat.v1 as tf
from common import say

from ascend_session import ascend_session, ascend_system
from ascend_session.rank_folder import CHANNEL, RANK_FOLDER


class AtShutdown(logging.Filter):
    """Calls a function when the device was shut down, in the thread that does so."""

    def __init__(self, function: Callable[[], object]) -> None:
        super().__init__()
        self._function = function

    def filter(self, record: logging.LogRecord) -> bool:
        event: Any = record.args[0] if isinstance(record.args, tuple) and record.args else None
        if getattr(event, "name", "") == "shutdown":
            self._function()
        return True


def at_shutdown(function: Callable[[], object]) -> None:
    logging.getLogger("ascend_session.session.system").addFilter(AtShutdown(function))


def note() -> None:
    """Say what the launcher has been told when the device was shut down, and when all is over."""
    os.environ.update({RANK_FOLDER: sys.argv[2], CHANNEL: sys.argv[2]})
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as launcher:
        launcher.bind(f"\0{sys.argv[2]}")
        launcher.listen(1)

        def say_state() -> None:
            state = ""
            with contextlib.suppress(BlockingIOError):
                while True:
                    state = json.loads(connection.recv(1 << 16).decode()).get("state", state)
            say(state)

        at_shutdown(say_state)
        with ascend_session() as sess:
            connection, _ = launcher.accept()
            connection.setblocking(False)
            sess.run(tf.constant(7))
        say_state()


def fork() -> None:
    """Fork while another thread closes the system."""
    closing, forked = threading.Event(), threading.Event()

    def hold() -> None:
        closing.set()
        forked.wait()

    at_shutdown(hold)
    system = ascend_system().__enter__()
    thread = threading.Thread(target=system.close)
    thread.start()
    closing.wait()
    child = os.fork()
    if not child:
        signal.alarm(30)  # instead of waiting for ever
        system.close()
        os._exit(0)
    say(f"child ended {os.waitpid(child, 0)[1]}")
    forked.set()
    thread.join()


def write() -> None:
    """Get a second signal when something is written and not flushed."""

    def end() -> None:
        print("not flushed")
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)

    at_shutdown(end)
    with ascend_system():
        pass


{"note": note, "fork": fork, "write": write}[sys.argv[1]]()
