"""Ranks of the exchange as forked processes, without TensorFlow and without a launcher."""

import json
import os
import sys
import uuid
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any, Dict, List

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 120.0

_BEGIN = """
import json, os, signal, sys, time
import numpy as np
from ascend_session import AscendError
from ascend_session.backends.exchange import collectives
from ascend_session.backends.exchange.communicator import Collective
from ascend_session.backends.exchange.group import ProcessGroup, Rank
from ascend_session.backends.exchange.rendezvous import Endpoint
from ascend_session.backends.exchange.wire import Operation

def say(*words):
    os.write(said, (json.dumps(words) + "\\n").encode())

def all_reduce(key, count=4, ranks=None, fill=None, limit_s=None):
    ranks = tuple(ranks or range(size))
    x = np.full(count, rank + 1 if fill is None else fill, np.float32)
    operation = Operation(key, f"op/{key}", ranks, f"allreduce sum float32 [{count}]")
    work = lambda comm: collectives.all_reduce(comm, [x], "sum")
    return Collective(group, operation, work).run(limit_s)[0]

def open_group(**other):
    who = Rank(rank, size, "0", size, Endpoint.named(job), str(rank))
    group = ProcessGroup(who._replace(**other), timeout_s, 60)
    group.open()
    return group

job, size, timeout_s, body = json.loads(sys.argv[1])
said = 1
children = []
begin, hold = os.pipe()  # nobody says anything before the pids
for rank in range(size):
    child = os.fork()
    if not child:
        os.close(hold)
        os.read(begin, 1)
        os.close(begin)
        break
    children.append(child)
else:
    say("pids", children)
    os.close(hold)
    codes = [os.waitpid(child, 0)[1] for child in children]
    say("codes", codes)
    os._exit(0)
try:
    exec(body)
except AscendError as error:
    say(rank, type(error).__name__, str(error))
    os._exit(1)
"""


class Members:
    """A job of forked ranks; leaving the block ends it.

    Args:
        size: How many ranks.
        body: What each of them does, with ``rank``, ``size``, `say`, `open_group`, `all_reduce`.
        env: Further variables.
        timeout_s: How long they wait for each other.
    """

    def __init__(self, size: int, body: str, timeout_s: float = 60, **env: str) -> None:
        self.job = uuid.uuid4().hex
        asked = json.dumps([self.job, size, timeout_s, body])
        self._process = Popen(
            [sys.executable, "-c", _BEGIN, asked],
            env={**os.environ, "PYTHONPATH": str(ROOT), **env},
            stdin=DEVNULL,
            stdout=PIPE,
            universal_newlines=True,
        )
        self.pids: List[int] = self.next()[1]

    def __enter__(self) -> "Members":
        return self

    def __exit__(self, *failure: Any) -> None:
        for pid in self.pids if self._process.poll() is None else ():
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue
        self._process.communicate(timeout=PATIENCE_S)

    def next(self) -> List[Any]:
        """Wait for what a rank says next."""
        assert self._process.stdout is not None
        words: List[Any] = json.loads(self._process.stdout.readline())
        return words

    def rest(self) -> Dict[Any, List[Any]]:
        """Wait for their end; what each has said last, by rank, and ``codes``."""
        assert self._process.stdout is not None
        # Not by communicate, which loses what `next` has read ahead.
        words = [json.loads(line) for line in self._process.stdout]
        self._process.wait(timeout=PATIENCE_S)
        return {first: others for first, *others in words}


def run_members(size: int, body: str, **given: Any) -> Dict[Any, List[Any]]:
    """Run such a job to its end."""
    with Members(size, body, **given) as members:
        return members.rest()
