"""Stands for the Python that a launch starts its ranks with: they are forked.

A rank that is started anew imports TensorFlow, for seconds of a processor's time; a fork of a
process that has done so is there at once. It is a process of its own all the same.

What is started is a small program, which has a process forked that becomes the rank, hands on
signals, and ends as that does.
"""

import array
import atexit
import contextlib
import ctypes
import json
import multiprocessing.process
import os
import runpy
import select
import signal
import socket
import stat
import sys
import threading
from pathlib import Path
from typing import Any, List

from ascend_session.rank_folder import RANK_PID
from ascend_session.witness import STARTUP
from ascend_session.witness import start as start_witness

__all__ = ["RankNursery"]

_STAND_IN = """#!{python} -SE
import array, json, os, signal, socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect({name!r})
words = {{"words": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd(), "pid": os.getpid()}}
request = json.dumps(words).encode()
own = array.array("i", [0, 1, 2])
link.sendmsg([len(request).to_bytes(8, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, own)])
link.sendall(request)
news = link.makefile()
rank = int(news.readline())
def hand_on(number, frame):
    try:
        os.kill(rank, number)
    except ProcessLookupError:
        pass  # it has ended, and its code is coming
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, hand_on)
code = int(news.readline() or 1)
if code < 0:
    if code != -signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


_OUTERMOST = getattr(sys.modules["__main__"], "__file__", None)


class RankNursery:
    """A copy of this process, made before it has opened anything, which becomes ranks.

    Args:
        folder: Where the small program is written.

    Attributes:
        python: Its path.
    """

    def __init__(self, folder: Path) -> None:
        name = f"\0ranks/{os.getpid()}"
        self.python = str(folder / "python")
        Path(self.python).write_text(_STAND_IN.format(python=sys.executable, name=name))
        os.chmod(self.python, stat.S_IRWXU)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(name)
        listener.listen(64)
        self._pid = os.fork()
        if not self._pid:
            _serve(listener)
        listener.close()

    def close(self) -> None:
        """Ends the copy."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def _serve(listener: socket.socket) -> None:
    """Forks a minder for each request; in a rank it returns, to end as any program does.

    It ends with its parent, which may be killed.
    """
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG; a fork does not inherit it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        link = listener.accept()[0]
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            _mind(link)
            return
        link.close()


def _mind(link: socket.socket) -> None:
    """Forks the rank, tells how it ended, and ends it when nobody wants to know any more.

    The stand-in may be killed at any moment: a rank that went on then would keep its pipes open,
    and whoever reads them would wait for ever.
    """
    head, rights, _, _ = link.recvmsg(8, socket.CMSG_SPACE(12))
    length, request = int.from_bytes(head, "big"), b""
    while rights and len(request) < length:
        part = link.recv(length - len(request))
        if not part:
            break
        request += part
    if not rights or len(request) < length:
        os._exit(0)
    descriptors = list(array.array("i", rights[0][2][:12]))
    child = os.fork()
    if not child:
        link.close()
        _become(json.loads(request), descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    with contextlib.suppress(OSError):  # the end of the link says below that the stand-in has ended
        link.sendall(b"%d\n" % child)
    ended, status = os.waitpid(child, os.WNOHANG)
    while not ended:
        if select.select([link], [], [], 0.01)[0]:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os._exit(0)
        ended, status = os.waitpid(child, os.WNOHANG)
    code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    with contextlib.suppress(OSError):
        link.sendall(b"%d\n" % code)
    os._exit(0)


def _become(request: Any, descriptors: List[int]) -> None:
    """Runs what was asked for as this process's main program, and ends as that does."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["env"])
    if os.environ.get(RANK_PID) == str(request["pid"]):
        os.environ[RANK_PID] = str(os.getpid())
    os.chdir(request["cwd"])
    multiprocessing.process.ORIGINAL_DIR = os.getcwd()  # as found when Python starts
    words = request["words"]
    module = words[1] if words[0] == "-m" else None
    sys.argv = words[1:] if module else words
    if hasattr(sys, "orig_argv"):  # from Python 3.10 on
        sys.orig_argv = [sys.executable, *words]
    added = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [*(place for place in added if place != STARTUP), *sys.path]
    if STARTUP in added:
        start_witness()
    sys.path.insert(0, os.getcwd() if module else os.path.dirname(os.path.abspath(words[0])))
    code: Any = None
    try:
        if module:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        else:
            # From Python 3.9 on a script knows its own path.
            path = os.path.abspath(words[0]) if sys.version_info >= (3, 9) else words[0]
            runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        code = end.code
    except BaseException:
        _show_from_the_program_on()
        raise
    if not isinstance(code, (int, type(None))):
        sys.exit(code)
    _end(code or 0)


def _show_from_the_program_on() -> None:
    """Has the exception shown as if nothing of this file were below the program."""
    hook = sys.excepthook

    def show(kind: Any, error: BaseException, trace: Any) -> None:
        sys.excepthook = hook
        below = (__file__, runpy.__file__, _OUTERMOST)
        while trace is not None and trace.tb_frame.f_code.co_filename in below:
            trace = trace.tb_next
        error.__traceback__ = sys.last_traceback = trace
        hook(kind, error, trace)

    sys.excepthook = show


def _end(code: int) -> None:
    """Ends as Python does, but for taking apart what is shared with others, and so copied first."""
    wait_for_threads: Any = getattr(threading, "_shutdown")  # noqa: B009  (is not in its types)
    wait_for_threads()
    run_handlers: Any = getattr(atexit, "_run_exitfuncs")  # noqa: B009
    run_handlers()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code & 0xFF)
