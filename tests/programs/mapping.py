"""Gets a signal in a map over two devices; or forks while the devices are open."""

import os
import signal
import sys
import threading
import time
from typing import Any

import tensorflow.compat.v1 as tf
from common import blocking_op, say

from ascend_session import LifecycleError
from ascend_session.fanout import fan_out

begun = threading.Semaphore(0)


def build(device_id: int) -> Any:
    return blocking_op(begun.release), tf.constant(device_id), device_id


def say_when_all_are_blocked() -> None:
    for _ in range(2):
        begun.acquire()
    say("ready")


def end_program(session: Any, built: Any) -> None:
    if built[2] == 1:
        os.kill(os.getpid(), signal.SIGTERM)
    try:
        session.run(built[0])
    finally:
        time.sleep(0.5)  # what a program does then may take its time


def fork(devices: Any) -> None:
    child = os.fork()
    if child:
        say(f"child ended {os.waitpid(child, 0)[1]}")
        say(f"parent runs {devices.map(lambda session, built: int(session.run(built[1])))}")
        return
    try:
        devices.map(lambda session, built: say("not refused"))
    except LifecycleError as refusal:
        say(f"child: {refusal.message.split('belongs')[0]}belongs to another process")


parent = os.getpid()
try:
    with fan_out(None, [0, 1], build) as devices:
        if sys.argv[1] == "fork":
            fork(devices)
        elif sys.argv[1] == "signal at once":
            sys.setswitchinterval(1)  # s: the main thread, which starts a thread, waits for it
            devices.map(end_program)
        else:
            threading.Thread(target=say_when_all_are_blocked, daemon=True).start()
            devices.map(lambda session, built: session.run(built[0]))
finally:
    if os.getpid() == parent:
        left = [thread.name for thread in threading.enumerate() if "fan-out" in thread.name]
        say(f"threads left: {left}")
