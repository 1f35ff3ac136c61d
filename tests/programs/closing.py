"""Gets signals in the midst of closing; arguments: what closes, which signal, and how often.

An optional argument is the number of seconds between two of them.
"""

import signal
import sys
import time
from typing import Any

from common import say

from ascend_session import ascend_session, ascend_system
from ascend_session.backends.stub import StubBackend
from tests.signals import signal_this_thread

HOW, NAME, TIMES = sys.argv[1:4]
BETWEEN_S = float(sys.argv[4]) if sys.argv[4:] else 0.0
shut_down = StubBackend.shutdown


def get_signals_and_shut_down(stub: Any) -> None:
    for number in range(int(TIMES)):
        time.sleep(BETWEEN_S if number else 0)
        signal_this_thread(signal.Signals[NAME])
    time.sleep(2 * BETWEEN_S)  # a shutdown that takes its time, in which the last one can end it
    shut_down(stub)
    say("shut down")


StubBackend.shutdown = get_signals_and_shut_down
try:
    if HOW == "block":
        with ascend_session():
            pass
    elif HOW == "close()":
        session = ascend_session()
        session.open()
        session.close()
    elif HOW == "close() of the system":
        system = ascend_system().open()
        system.session().open()
        system.close()
    else:
        ascend_session().open()
except BaseException as error:
    say(type(error).__name__)
    raise
