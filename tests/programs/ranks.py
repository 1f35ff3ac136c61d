"""Imports TensorFlow once, then runs programs of ``ranks_programs`` as the ranks of jobs.

A line on stdin names a program, its arguments and the variables of each rank; each rank is a forked
copy, which becomes the program. Lines on stdout are ``pid RANK PID`` and ``ended RANK CODE``; those
of the programs begin with ``say RANK``. What a rank writes to stderr goes to a file.
"""

import gc
import json
import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any, Dict

import numpy  # noqa: F401
import tensorflow.compat.v1 as tf

import ascend_session.backends.exchange.group
import ascend_session.backends.stub
import ascend_session.session.api
import ascend_session.training  # noqa: F401

PROGRAMS = Path(__file__).resolve().parent.parent / "ranks_programs"
tf.logging.set_verbosity(tf.logging.ERROR)
signal.signal(signal.SIGINT, signal.default_int_handler)
gc.freeze()  # a collection in a copy would copy all that it shares with the others


def say(line: str) -> None:
    """One line in one piece."""
    os.write(1, f"{line}\n".encode())


def becomes(rank: int, asked: Dict[str, Any]) -> None:
    """This copy is the rank from now on."""
    log = os.open(asked["logs"][rank], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 2)
    os.close(log)
    os.environ.clear()
    os.environ.update(asked["environments"][rank])
    sys.path[0] = str(PROGRAMS)
    sys.argv = [asked["program"], *asked["arguments"]]
    runpy.run_path(str(PROGRAMS / f"{asked['program']}.py"), run_name="__main__")


def run(asked: Dict[str, Any]) -> bool:
    """Starts the ranks and waits for all of them; False in the copies."""
    ranks = {}
    for rank in range(len(asked["environments"])):
        child = os.fork()
        if not child:
            becomes(rank, asked)
            return False
        ranks[child] = rank
        say(f"pid {rank} {child}")
    while ranks:
        child, status = os.wait()
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        say(f"ended {ranks.pop(child)} {code}")
    return True


for line in iter(sys.stdin.readline, ""):
    if not run(json.loads(line)):
        break
