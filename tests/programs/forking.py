"""Forks while a system is open or being opened; the child says what it may do, and ends."""

import importlib.abc
import importlib.util
import os
import signal
import socket
import sys
import threading
from importlib.machinery import ModuleSpec
from typing import Optional

import tensorflow.compat.v1 as tf
from common import blocking_op, say

from ascend_session import LifecycleError, ascend_session, ascend_system, backends, current_system
from ascend_session.backends.stub import StubBackend
from ascend_session.backends.stub_job import find_open_job


def refused(what: str) -> None:
    try:
        {
            "ascend_system": lambda: ascend_system().__enter__(),
            "ascend_session": lambda: ascend_session().__enter__(),
            "system.session": lambda: system.session(),
            "system.session_config": lambda: system.session_config(),
            "sess.run": lambda: sess.run(tf.constant(7)),
            "callable": callable_before,
        }[what]()
    except LifecycleError as refusal:
        say(f"{what}: {refusal.message.split(';')[0]} | {refusal.hint}".replace(str(parent), "P"))


def status() -> int:
    """The exit code of the child, negative for a signal."""
    code = os.waitpid(child, 0)[1]
    return -os.WTERMSIG(code) if os.WIFSIGNALED(code) else os.WEXITSTATUS(code)


def in_child() -> None:
    if sys.argv[1] == "leave":
        say(f"current system: {current_system()}, open: {system.is_open}")
        for what in (
            "ascend_system",
            "ascend_session",
            "system.session",
            "system.session_config",
            "sess.run",
            "callable",
        ):
            refused(what)
        say(f"handlers: {signal.getsignal(signal.SIGTERM) == signal.SIG_DFL}")
        say(f"wakeup: {signal.set_wakeup_fd(-1)}")
        say(f"job: {find_open_job()}")
    elif sys.argv[1] == "signal":
        os.kill(os.getpid(), signal.SIGTERM)
        say("not killed")
    elif sys.argv[1] == "raise":
        raise ZeroDivisionError


def fork_while_opening() -> None:
    """Fork while another thread opens the system."""
    begun = threading.Event()
    StubBackend.system_ops = lambda stub: (blocking_op(begun.set), tf.no_op())
    fork_after(begun, "stub")


def fork_while_importing() -> None:
    """Fork while another thread that opens the system still imports the backend's module."""
    begun = threading.Event()

    class Slow(importlib.abc.MetaPathFinder, importlib.abc.Loader):
        def find_spec(self, name: str, *more: object) -> Optional[ModuleSpec]:
            is_slow = name == "ascend_session.backends.slow"
            return importlib.util.spec_from_loader(name, self) if is_slow else None

        def create_module(self, spec: ModuleSpec) -> None:
            return None

        def exec_module(self, module: object) -> None:
            begun.set()
            threading.Event().wait()

    sys.meta_path.insert(0, Slow())
    backends._REGISTRY["slow"] = "slow:Slow"
    fork_after(begun, "slow")


def fork_after_closing() -> None:
    """Fork when all is closed; the child tries every way to a run."""
    with ascend_session() as first:
        of_others = tf.Session()
        answer = tf.constant(7)
        say(f"parent runs {first.run(answer)} {of_others.run(answer)}")
        made_before = of_others.make_callable(answer)
    child = os.fork()
    if not child:
        signal.alarm(60)  # instead of waiting for ever
        for what in (
            lambda: ascend_session(backend="stub").__enter__(),
            lambda: ascend_system().__enter__(),
            tf.Session,
            lambda: of_others.run(answer),
            made_before,
        ):
            try:
                what()
            except LifecycleError as refusal:
                say(f"{refusal.message} | {refusal.hint}".replace(str(parent), "P"))
        sys.exit(0)
    say(f"child ended {os.waitpid(child, 0)[1]}")
    with ascend_session(graph=answer.graph) as second:
        say(f"parent runs {second.run(answer)} {of_others.run(answer)}")
    sys.exit(0)


def fork_while_taking_signals_over() -> None:
    """Have another thread fork just when the main thread has replaced a handler."""
    replace, replaced, forked = signal.signal, threading.Event(), threading.Event()

    def replace_and_wait(number: int, handler: object) -> object:
        previous = replace(number, handler)
        if previous == signal.SIG_DFL and not replaced.is_set():
            replaced.set()
            forked.wait()
        return previous

    def fork() -> None:
        replaced.wait()
        child = os.fork()
        if not child:
            signal.alarm(60)  # instead of waiting for ever
            say(f"handlers: {signal.getsignal(signal.SIGTERM) == signal.SIG_DFL}")
            say(f"wakeup: {signal.set_wakeup_fd(-1)}")
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(1)
        say(f"child ended {os.waitpid(child, 0)[1]}")
        forked.set()

    threading.Thread(target=fork).start()
    signal.signal = replace_and_wait
    with ascend_system() as system, system.session() as sess:
        threading.Event().wait(1)  # in which a signal that was the child's would arrive
        say(f"parent runs {sess.run(tf.constant(7))}")
    sys.exit(0)


def fork_after(begun: threading.Event, backend: str) -> None:
    threading.Thread(target=ascend_system(backend=backend).__enter__, daemon=True).start()
    begun.wait()
    child = os.fork()
    if not child:
        signal.alarm(60)  # instead of waiting for ever
        try:
            ascend_session(backend=backend).__enter__()
        except LifecycleError as refusal:
            say(refusal.message.replace(str(parent), "P"))
        sys.exit(0)
    say(f"child ended {os.waitpid(child, 0)[1]}")
    os._exit(0)


parent = os.getpid()
if sys.argv[1] == "while_opening":
    fork_while_opening()
if sys.argv[1] == "while_importing":
    fork_while_importing()
if sys.argv[1] == "while_taking_signals_over":
    fork_while_taking_signals_over()
if sys.argv[1] == "after_closing":
    fork_after_closing()
ends = socket.socketpair()  # as an event loop of the user's has them, in the parent only
ends[1].setblocking(False)
signal.set_wakeup_fd(ends[1].fileno())
with ascend_system() as system, system.session() as sess:
    callable_before = sess.make_callable(tf.constant(7))
    child = os.fork()
    if child:
        say(f"child ended {status()}")
        say(f"parent runs {sess.run(tf.constant(7))}")
    else:
        in_child()
if not child:
    say("child left the block")
    if sys.argv[1] == "leave":
        sys.exit(0)
say(f"events: {[event.name for event in system.events]}")
