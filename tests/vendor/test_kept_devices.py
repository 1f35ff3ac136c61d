"""A device that GE keeps although it was finalised: no other process gets it."""

import pytest

from tests.fake_host import FakeHost
from tests.fake_host.vendor import run_on

pytestmark = pytest.mark.nightly

PROGRAM = """
import subprocess
import sys

import tensorflow.compat.v1 as tf
from npu_bridge.estimator import npu_ops

tf.disable_eager_execution()
start, end = npu_ops.initialize_system(), npu_ops.shutdown_system()
with tf.Session() as sess:
    sess.run(start)
    sess.run(end)
    if sys.argv[1] == "ask":
        sys.exit(subprocess.run([sys.executable, "-c", sys.argv[2], "answer"]).returncode)
"""


@pytest.mark.parametrize(("faults", "code"), [("", 0), ("keeps-device", -6)])
def test_another_process_gets_the_device_unless_it_is_kept(
    host: FakeHost, faults: str, code: int
) -> None:
    ended = run_on(host, PROGRAM, "ask", PROGRAM, faults=faults)
    assert ended.returncode == code % 256, ended.stderr
    assert ("EL0005" in ended.stderr) == bool(code)
