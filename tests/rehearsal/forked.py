"""Stands for ``subprocess.Popen`` where the hardware tests start programs: forks instead.

A program that is started anew imports TensorFlow, for seconds; a fork of a process that has done so
is there at once. It is a process of its own all the same, with its own number, signals and end.
"""

import array
import json
import os
import signal
import socket
import subprocess
import sys
from typing import Any, Dict, List, Optional

from tests.rehearsal.stripping import run_program

__all__ = ["Nursery"]


class Nursery:
    """A copy of this process, made before it has opened anything, which is copied again."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair()
        self._pid = os.fork()
        if not self._pid:
            self._socket.close()
            _serve(other)
            os._exit(0)
        other.close()

    def popen(self, command: List[str], **settings: Any) -> "Forked":
        """What ``subprocess.Popen`` does for the programs of hardware_tests."""
        return Forked(self._socket, command[1:], settings)

    def close(self) -> None:
        """Ends the copy."""
        self._socket.close()
        os.waitpid(self._pid, 0)


class Forked:
    """A running program, with what the hardware tests use of ``subprocess.Popen``."""

    def __init__(self, nursery: socket.socket, words: List[str], settings: Dict[str, Any]) -> None:
        stdin, write = os.pipe()
        read, stdout = os.pipe()
        self._news, told = socket.socketpair()
        request = json.dumps(
            {"words": words, **{name: settings[name] for name in ("env", "cwd")}}
        ).encode()
        descriptors = array.array("i", [stdin, stdout, settings["stderr"].fileno(), told.fileno()])
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)]
        nursery.sendmsg([len(request).to_bytes(8, "big")], rights)
        nursery.sendall(request)
        os.close(stdin)
        os.close(stdout)
        told.close()
        self.stdin = os.fdopen(write, "w")
        self.stdout = os.fdopen(read)
        self.pid = self._number()
        self.returncode: Optional[int] = None

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: Optional[float] = None) -> int:
        if self.returncode is None:
            self._news.settimeout(timeout)
            try:
                self.returncode = self._number()
            except socket.timeout:
                raise subprocess.TimeoutExpired("a program", timeout or 0.0) from None
            self._news.close()
        return self.returncode

    def _number(self) -> int:
        """The next line that the minder sends."""
        line = b""
        while not line.endswith(b"\n"):
            byte = self._news.recv(1)
            if not byte:
                raise RuntimeError("the minder of a program has gone")
            line += byte
        return int(line)


def _serve(requests: socket.socket) -> None:
    """Forks a minder for each request, until nobody can send one any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the minders
    while True:
        descriptors = array.array("i", [0] * 4)
        size, rights, _, _ = requests.recvmsg(8, socket.CMSG_SPACE(16))
        if not size:
            return
        descriptors = array.array("i", rights[0][2][:16])
        request = b""
        length = int.from_bytes(size, "big")
        while len(request) < length:
            request += requests.recv(length - len(request))
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            requests.close()
            _mind(json.loads(request), list(descriptors))
        for descriptor in descriptors:
            os.close(descriptor)


def _mind(request: Dict[str, Any], descriptors: List[int]) -> None:
    """Forks the program, and tells its number and how it ended."""
    news = descriptors.pop()
    child = os.fork()
    if not child:
        os.close(news)
        _become(request, descriptors)
        return
    for descriptor in descriptors:
        os.close(descriptor)
    os.write(news, b"%d\n" % child)
    _, status = os.waitpid(child, 0)
    code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    os.write(news, b"%d\n" % code)
    os._exit(0)


def _become(request: Dict[str, Any], descriptors: List[int]) -> None:
    """Runs the program as this process's main program, and ends as it does."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.argv = request["words"]
    program = sys.argv[0]
    added = request["env"]["PYTHONPATH"].split(os.pathsep)
    sys.path[:] = [os.path.dirname(program), *added, *sys.path]
    run_program(program)
    sys.exit()
