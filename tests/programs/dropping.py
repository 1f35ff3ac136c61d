"""Gets a signal where code in C has called back into Python, and would drop the exception.

Arguments: the name of a function below, and that of a signal.
"""

import contextlib
import ctypes
import signal
import sys
import time
from typing import Any, Callable, Iterator

from common import say

from ascend_session import ascend_system
from tests.signals import signal_this_thread

COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
PAIR = (ctypes.c_int * 2)()
HANDLING_S = 1.0


class Deleted:
    """Calls a function while it is deleted; Python drops what the function raises."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function

    def __del__(self) -> None:
        self.function()


def call_in_del(function: Callable[[], Any]) -> None:
    """Call a function where Python itself drops what is raised."""
    deleted = Deleted(function)
    del deleted
    say("went on")


def call_in_c(function: Callable[[], Any]) -> None:
    """Call a function where ctypes drops what is raised; in Python 3.7 SystemExit is obeyed."""
    ctypes.CDLL(None).qsort(PAIR, 2, ctypes.sizeof(ctypes.c_int), COMPARE(lambda *_: function()))
    say("went on")


def send() -> int:
    """Send the signal once."""
    global is_sent
    if not is_sent:
        is_sent = True
        signal_this_thread(signal.Signals[sys.argv[2]])
    return 0


def handle_long() -> None:
    """Do what takes long, with much that looks like what happens after a lost exception."""
    end_s = time.monotonic() + HANDLING_S
    while time.monotonic() < end_s:
        Deleted(len)  # which fails there
        with contextlib.suppress(ZeroDivisionError):
            1 / 0  # noqa: B018
        sorted(range(100), key=lambda number: -number)
    say(f"handled, traced: {sys.gettrace() is not None}")


@contextlib.contextmanager
def cleaning_up(clean_up: Callable[[], None]) -> Iterator[None]:
    """Do something when the block is left."""
    try:
        yield
    finally:
        clean_up()


class CleaningUp:
    """Takes long to leave its block."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        handle_long()


def in_del() -> None:
    call_in_del(send)


def in_c() -> None:
    call_in_c(send)


def in_del_and_clean_up() -> None:
    with CleaningUp():
        try:
            call_in_del(send)
        finally:
            handle_long()


def in_del_after_cleaning_up() -> None:
    def clean_up() -> None:
        with cleaning_up(lambda: say("cleaned up")):
            send()

    call_in_del(clean_up)


def in_del_of_a_generator() -> None:
    def generate() -> Iterator[int]:
        yield 1
        yield send()

    call_in_del(lambda: list(generate()))


def in_del_which_makes_another_error() -> None:
    def fail() -> None:
        try:
            send()
        except BaseException as error:
            raise ValueError("interrupted") from error

    call_in_del(fail)


def caught_in_del() -> None:
    def catch() -> None:
        with contextlib.suppress(BaseException):
            send()

    call_in_del(catch)


def caught_in_c_by_a_function_that_returns() -> None:
    def catch() -> int:
        try:
            return send()
        except BaseException:
            return 0

    call_in_c(catch)


def caught_and_kept() -> None:
    errors = []
    for _ in range(3):
        try:
            send()
        except BaseException as error:
            errors.append(error)
            handle_long()
    say(str(len(errors)))


def caught_by_a_generator_that_goes_on() -> None:
    def generate() -> Iterator[int]:
        try:
            send()
        except BaseException:
            yield 1
        yield 2

    say(str(list(generate())))


def raised_as_another_error() -> None:
    try:
        try:
            send()
        except BaseException:
            raise ValueError("interrupted") from None
    except ValueError as error:
        say(str(error))


def left_with_suppress() -> None:
    with contextlib.suppress(BaseException), cleaning_up(handle_long), CleaningUp():
        send()


is_sent = False
with ascend_system():
    globals()[sys.argv[1]]()
    for number in range(1000):  # in which a second exception would come
        str(number)
    say(f"ended, traced: {sys.gettrace() is not None}")
