"""Brings a system into a state, has an event happen there, and says what came of it.

Arguments: the backend, the event, the state, and the environment as JSON.
"""

import json
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, TimeoutError
from typing import Any, Callable

os.environ.update(json.loads(sys.argv[4]))
sys.path[:0] = os.environ.get("PYTHONPATH", "").split(os.pathsep)

from common import say, works  # noqa: E402  (the environment comes first)

from ascend_session import AscendError, LifecycleError, ascend_system, current_system  # noqa: E402
from ascend_session.backends import backend_class  # noqa: E402
from ascend_session.rank_folder import ONE_STOP_S  # noqa: E402
from tests.signals import signal_this_thread  # noqa: E402

NAME, EVENT, STATE = sys.argv[1:4]
BACKEND: Any = backend_class(NAME)
POOL = ThreadPoolExecutor(1)
begun, go_on = threading.Event(), threading.Event()


def do_first(method: str, action: Callable[[], None]) -> None:
    """Have the backend do something, in its thread, before it does what a method of it does."""
    original = getattr(BACKEND, method)

    def act_then_go_on(self: Any, *arguments: Any) -> None:
        setattr(BACKEND, method, original)
        action()
        original(self, *arguments)

    setattr(BACKEND, method, act_then_go_on)


def wait_for_main_thread() -> None:
    begun.set()
    go_on.wait(60)


def in_background(function: Callable[[], Any]) -> threading.Thread:
    """Begin in another thread, up to where the backend waits for the main thread."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    assert begun.wait(60)
    return thread


def say_whether_it_waits(function: Callable[[], Any]) -> None:
    future = POOL.submit(function)
    try:
        future.result(0.3)
    except TimeoutError:
        say("waits")
    go_on.set()
    future.result(60)


def begin() -> None:
    """Enter another block, and leave it."""
    another = ascend_system(backend=NAME)
    try:
        say_whether_it_waits(another.__enter__)
    except LifecycleError as refusal:
        say(refusal.message.partition(";")[0].replace(str(parent), "P"))
    else:
        POOL.submit(another.__exit__, None, None, None).result(60)


def end() -> None:
    """Leave the only block."""
    say_whether_it_waits(lambda: block.__exit__(None, None, None))
    say(f"current {current_system()}")


def fail_to_open() -> None:
    def fail() -> None:
        raise RuntimeError("the device is on fire")

    do_first("initialize", fail)
    try:
        block.__enter__()
    except AscendError as failure:
        say(type(failure).__name__)
    say(f"works {works()}")


def leave_process() -> None:
    """Exit with what is open."""
    if STATE == "closing":
        timer = threading.Timer(0.3, go_on.set)
        timer.daemon = True
        timer.start()
    sys.exit(0)


def fork() -> None:
    """Fork; the child tries to open a system, then exits."""
    child = os.fork()
    if child:
        say(f"child {child} ended {os.waitpid(child, 0)[1]}")
        go_on.set()
        if STATE != "abandoned":
            say(f"works {POOL.submit(works).result(60)}")
        return
    signal.alarm(60)  # instead of waiting for ever
    say(f"current {current_system()}")
    try:
        ascend_system(backend=NAME).__enter__()
    except LifecycleError as refusal:
        say(refusal.message.partition(";")[0].replace(str(parent), "P"))
    block.__exit__(None, None, None)
    sys.exit(3)


def get_signal() -> None:
    say("signal")
    signal_this_thread(signal.SIGTERM)


def get_two_signals() -> None:
    try:
        get_signal()
    finally:
        time.sleep(1.2 * ONE_STOP_S)  # SIGTERMs within that time are one
        get_signal()
        threading.Event().wait(60)  # for the end


def run_event(event: Callable[[], None]) -> None:
    """Bring the system into the state, and have the event happen in the main thread."""
    is_signal = event in (get_signal, get_two_signals)
    if STATE == "opening":
        do_first("initialize", event if is_signal else wait_for_main_thread)
        if is_signal:
            block.__enter__()
        thread = in_background(block.__enter__)
        event()
        thread.join(60)
        block.__exit__(None, None, None)
    elif STATE == "open" and event is leave_process:
        block.__enter__()
        event()
    elif STATE == "open":
        with block:
            event()
    elif STATE == "closing" and is_signal:
        do_first("shutdown", event)
        with block:
            pass
    elif STATE == "closing":
        do_first("shutdown", wait_for_main_thread)
        thread = in_background(block.__enter__().close)
        event()
        thread.join(60)
    elif STATE == "closed":
        with block:
            pass
        event()
    elif STATE == "abandoned":
        with block:
            if os.fork():
                status = os.wait()[1]
                say(f"works {works()}")
            else:
                event()
                os._exit(0)
        if os.WIFSIGNALED(status):
            os.kill(os.getpid(), os.WTERMSIG(status))
        sys.exit(os.WEXITSTATUS(status))


EVENTS = {
    "a block begins": begin,
    "last block ends": end,
    "close() or exit": leave_process,
    "signal": get_signal,
    "second SIGTERM": get_two_signals,
    "fork, in a child": fork,
}
parent = os.getpid()
block = ascend_system(backend=NAME)
try:
    if (EVENT, STATE) == ("last block ends", "opening"):
        fail_to_open()
    else:
        run_event(EVENTS[EVENT])
finally:
    say("unwound")
