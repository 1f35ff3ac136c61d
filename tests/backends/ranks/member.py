"""One rank that does what is written to its stdin, line by line, and says what became of it.

Usage: ``python member.py RANK SIZE ADDRESS JOB SECONDS``. ``MEMBER_MACHINE`` in its environment is
the machine that it takes itself to be on; ``MEMBER_KEEPALIVE`` are milliseconds.
"""

import functools
import json
import os
import sys
import threading
import time
from typing import Any, List, Tuple

from ascend_session import AscendError
from ascend_session.backends.ranks import meeting as meeting_module
from ascend_session.backends.ranks import messages, watch
from ascend_session.backends.ranks.meeting import Meeting
from ascend_session.backends.ranks.operation import Operation

_lock = threading.Lock()


_machine = os.environ.get("MEMBER_MACHINE")
if _machine:
    meeting_module.this_machine = watch.this_machine = lambda: str(_machine)
if "MEMBER_KEEPALIVE" in os.environ:
    factor = int(os.environ["MEMBER_KEEPALIVE"]) / 10000  # of the ten seconds of a job
    messages.KEEPALIVE[:] = [
        (option, int(value * factor) if option.endswith("_ms") else value)
        for option, value in messages.KEEPALIVE
    ]


def say(*words: Any) -> None:
    with _lock:
        print(json.dumps(words), flush=True)


def main(rank: str, size: str, address: str, job: str, seconds: str) -> None:
    def ended(sentence: str) -> None:
        say("end", sentence)

    print(os.getpid(), flush=True)
    meeting = Meeting(int(rank), int(size), address, job, float(seconds), ended)
    for line in iter(sys.stdin.readline, ""):
        what, *words = json.loads(line)
        if what == "join":
            _answer(what, meeting.join)
        elif what == "agree":
            threading.Thread(target=_agree, args=[meeting, *words], daemon=True).start()
        elif what == "waiting":
            meeting.waiting(*_exchange(*words))
        elif what == "done":
            meeting.done(*_exchange(*words))
        elif what == "fail":
            meeting.fail(words[0])
        elif what == "leave":
            _answer(what, functools.partial(meeting.leave, words[0]))
        elif what == "again":
            meeting = Meeting(int(rank), int(size), address, job, float(seconds), ended)
        elif what == "fork":  # a child that outlives this process and keeps its connections open
            say("child", _fork())
        elif what == "compute":
            threading.Thread(target=_compute, daemon=True).start()
    # The end of stdin: this process ends as a script does that has run through.


def _answer(what: str, call: Any) -> None:
    begun = time.monotonic()
    try:
        call()
    except AscendError as error:
        say("failed", what, str(error), type(error).__name__)
    else:
        say(what, round(time.monotonic() - begun, 3))


def _agree(meeting: Meeting, key: str, name: str, ranks: List[int], sign: str, wait: float) -> None:
    try:
        agreed = meeting.agree(Operation(key, name, tuple(ranks), sign), wait)
    except AscendError as error:
        say("failed", key, str(error), type(error).__name__)
    else:
        say("agreed", key, *agreed)


def _exchange(
    key: str, name: str, ranks: List[int], times: int, signature: str = "allreduce sum float32 [4]"
) -> Tuple[Operation, int]:
    return Operation(key, name, tuple(ranks), signature), times


def _fork() -> int:
    child = os.fork()
    if child == 0:
        os.close(1)
        while True:
            time.sleep(60)
    return child


def _compute() -> None:
    while True:
        sum(range(1000))


if __name__ == "__main__":
    main(*sys.argv[1:])
