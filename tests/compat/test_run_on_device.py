"""With a device the vendor's packages are left alone, and what is left open is closed in order."""

import sys
from pathlib import Path
from typing import Any, Iterator, List

import pytest

from tests.compat.run_scripts import run_script
from tests.fake_host.vendor import environment, live_host, recorded

SCRIPT = """
import os, signal, sys, threading
import tensorflow.compat.v1 as tf
from npu_bridge.npu_init import *
tf.disable_eager_execution()
print(npu_ops.__name__)
begin, end = npu_ops.initialize_system(), npu_ops.shutdown_system()
first = tf.Session()
first.run(begin)
product = tf.matmul(tf.constant([[2.0]]), tf.constant([[3.0]]))
second = tf.Session()
print(second.run(product), flush=True)
"""

CLOSING = """
def get_signal_and_close():
    del second.close
    os.kill(os.getpid(), signal.{})
    second.close()
second.close = get_signal_and_close
"""

ENDS = {
    "its end": ("", 0),
    "an exception": ("raise ValueError('x')", 1),
    "an exit": ("sys.exit(3)", 3),
    "SIGTERM": ("os.kill(os.getpid(), signal.SIGTERM); signal.pause()", -15),
    "SIGINT": ("os.kill(os.getpid(), signal.SIGINT); signal.pause()", 1),
    "SIGTERM while it closes": (CLOSING.format("SIGTERM"), -15),
    # What an exit handler raises is shown, but need not change the exit code.
    "SIGINT while it closes": (CLOSING.format("SIGINT"), None),
    "SIGTERM in a run": (
        "threading.Timer(1, os.kill, (os.getpid(), signal.SIGTERM)).start()\n"
        "second.run(tf.queue.FIFOQueue(1, tf.float32).dequeue())",
        -15,
    ),
    "SIGTERM in a run of the first session": (
        "threading.Timer(1, os.kill, (os.getpid(), signal.SIGTERM)).start()\n"
        "first.run(tf.queue.FIFOQueue(1, tf.float32).dequeue())",
        -15,
    ),
}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Any]:
    if sys.version_info >= (3, 8):
        pytest.skip("the vendor's adapter is built for TensorFlow 1.15, which Python 3.7 has")
    host = live_host(tmp_path)
    yield host
    host.close()


def calls(host: Any) -> List[str]:
    return [entry["call"] for entry in recorded(host)]


@pytest.mark.parametrize("how", ENDS)
def test_whatever_ends_the_script_the_sessions_end_before_the_device(
    host: Any, tmp_path: Path, forking_python: str, how: str
) -> None:
    last, code = ENDS[how]
    given = environment(host)
    ended = run_script(
        tmp_path, SCRIPT + last, python=forking_python, asked="replaces_vendor=no", variables=given
    )
    assert code in (None, ended.returncode), ended.stderr
    assert ended.stdout == "npu_bridge.estimator.npu_ops\n[[6.]]\n"
    said = calls(host)
    assert said.index("GESessionDestroy") < said.index("GEFinalize")
    assert said.count("GEFinalize") == 1
    # NPUShutdown runs in the session of NPUInit, whose end ends the device as well.
    assert ("NPUShutdown" in said) == ("first session" not in how)
    assert "ascend-session" not in ended.stderr
    assert " failed" not in ended.stderr
    assert ("KeyboardInterrupt" in ended.stderr) == how.startswith("SIGINT")


def test_a_signal_while_the_sessions_close_waits_where_another_system_was_open_before(
    host: Any, tmp_path: Path, forking_python: str
) -> None:
    before = "from ascend_session import ascend_system\nwith ascend_system():\n    pass\n"
    ended = run_script(
        tmp_path,
        before + SCRIPT + CLOSING.format("SIGTERM"),
        python=forking_python,
        asked="replaces_vendor=no",
        variables=environment(host),
    )
    assert ended.returncode == -15, ended.stderr
    assert calls(host).count("GEFinalize") == 2, ended.stderr


def test_without_run_the_device_ends_before_the_sessions_or_not_at_all(
    host: Any, tmp_path: Path, forking_python: str
) -> None:
    last = ENDS["SIGTERM"][0]
    given = environment(host)
    run_script(tmp_path, SCRIPT + last, python=forking_python, asked=None, variables=given)
    assert "GEFinalize" not in calls(host)


def test_a_forked_child_cannot_run_and_its_exit_does_not_finalise_the_device(
    host: Any, tmp_path: Path, forking_python: str
) -> None:
    last = """
child = os.fork()
if not child:
    try:
        second.run(product)
    except RuntimeError as error:
        print(type(error).__name__)
    sys.exit(0)
print(os.waitpid(child, 0)[1], second.run(product))
"""
    given = environment(host)
    ended = run_script(
        tmp_path, SCRIPT + last, python=forking_python, asked="replaces_vendor=no", variables=given
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-2:] == ["LifecycleError", "0 [[6.]]"]
    assert calls(host).count("GEFinalize") == 1


def test_what_the_script_has_shut_down_itself_is_left_as_it_is(
    host: Any, tmp_path: Path, forking_python: str
) -> None:
    last = "second.close(); first.run(end); first.close()"
    given = environment(host)
    ended = run_script(
        tmp_path, SCRIPT + last, python=forking_python, asked="replaces_vendor=no", variables=given
    )
    assert ended.returncode == 0, ended.stderr
    assert (calls(host).count("NPUShutdown"), calls(host).count("GEFinalize")) == (1, 1)
