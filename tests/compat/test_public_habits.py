"""What scripts that are publicly to be found do, and other tests here do not."""

import signal
import sys
from pathlib import Path
from typing import Any, List

import pytest

from ascend_session.compat.verdicts import judge_entry
from ascend_session.config.proto import add_to_entry
from tests.compat.run_scripts import PREFACE, run_script

NPU = "from npu_bridge.npu_init import *\n" + PREFACE

TF1 = pytest.mark.skipif(sys.version_info >= (3, 8), reason="TensorFlow 2 says no such thing")


@pytest.fixture
def run(tmp_path: Path, forking_python: str) -> Any:
    def ran(text: str, *arguments: str, **settings: Any) -> Any:
        return run_script(tmp_path, text, *arguments, python=forking_python, **settings)

    return ran


def notes_of(tf: Any, *listed: str) -> List[str]:
    proto = tf.ConfigProto()
    proto.graph_options.rewrite_options.optimizers.extend(listed)
    add_to_entry(proto, {})
    return judge_entry(proto, {}).notes


def test_a_list_of_optimizers_turns_off_those_that_it_leaves_out(tf: Any) -> None:
    assert notes_of(tf, "pruning", "constfold", "memory") == []


def test_a_list_of_optimizers_may_name_the_remapper(tf: Any) -> None:
    [note] = notes_of(tf, "constfold", "remap")
    assert note.startswith("rewrite_options.optimizers names 'remap'. TensorFlow then fuses")


def test_without_a_list_both_are_told(tf: Any) -> None:
    assert len(notes_of(tf)) == 2


@TF1
def test_a_list_of_optimizers_keeps_the_remapper_away(tf: Any) -> None:
    def convolutions(*listed: str) -> Any:
        with tf.Graph().as_default():
            images = tf.placeholder(tf.float32, [1, 8, 8, 3])
            sums = tf.nn.conv2d(images, tf.ones([3, 3, 3, 4]), [1, 1, 1, 1], "SAME")
            made = tf.nn.relu(tf.nn.bias_add(sums, tf.ones([4])))
            proto, seen = tf.ConfigProto(), tf.RunMetadata()
            rewriter = proto.graph_options.rewrite_options
            rewriter.min_graph_nodes = -1
            rewriter.optimizers.extend(listed)
            with tf.Session(config=proto) as session:
                asked = tf.RunOptions(output_partition_graphs=True)
                feeds = {images: [[[[0.0] * 3] * 8] * 8]}
                session.run(made, feeds, options=asked, run_metadata=seen)
        names = {node.op for graph in seen.partition_graphs for node in graph.node}
        return {name for name in names if "Conv" in name}

    assert convolutions() == convolutions("remap") == {"_FusedConv2D"}
    assert convolutions("constfold") == {"Conv2D"}


def test_a_zero_that_nobody_wrote_is_explained(tf: Any) -> None:
    proto = tf.ConfigProto()
    add_to_entry(proto, {})
    entry = proto.graph_options.rewrite_options.custom_optimizers[0]
    entry.parameter_map["iterations_per_loop"].b = True
    judged = judge_entry(proto, {})
    [refused] = judged.refused
    assert refused.message.startswith("iterations_per_loop is in the field 'b'")
    assert "iterations_per_loop=0: the smallest value is 1. The adapter ends" in refused.message
    assert refused.hint == 'Write parameter_map["iterations_per_loop"].i = ...'
    assert judged.ignored == []


def test_a_refused_session_is_in_the_report(run: Any) -> None:
    script = NPU + (
        "try:\n"
        '    tf.Session(config=options(precision_mode="fp16", deterministic=1))\n'
        "except Exception:\n"
        "    tf.Session(config=options()).close()\n"
    )
    ended = run(script)
    assert ended.returncode == 0, ended.stderr
    said = " ".join(ended.stderr.split())
    assert "Errors, which end the run on a device: precision_mode='fp16'" in said
    assert "Not used: deterministic=1: the session was refused for other options" in said
    assert "Honoured" not in said
    assert "Session 2 with an NpuOptimizer entry: train.py:" in said
    assert "Session 1 was refused for its options: train.py:" in said


def test_the_report_comes_although_tensorflow_never_returns(run: Any) -> None:
    script = NPU + (
        "import ctypes, signal, threading\n"
        "def wait(seconds):\n"
        "    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()\n"
        "    ctypes.CDLL(None).sleep(60)\n"
        "    return seconds\n"
        "with tf.Session(config=options()) as s:\n"
        "    s.run(tf.numpy_function(wait, [1.0], tf.float64))\n"
    )
    ended = run(script)
    assert ended.returncode == -signal.SIGTERM, ended.stderr
    assert "Session 1 with an NpuOptimizer entry: train.py:" in ended.stderr


@TF1
def test_nothing_of_this_package_is_called_deprecated(run: Any) -> None:
    script = NPU + (
        "w = tf.Variable(1.0)\n"
        "scales = ExponentialUpdateLossScaleManager(2.0**8, 10)\n"
        "step = NPULossScaleOptimizer(tf.train.GradientDescentOptimizer(0.1), scales).minimize(w)\n"
        "up, down = npu_ops.initialize_system(), npu_ops.shutdown_system()\n"
        "with tf.Session(config=options(iterations_per_loop=2)) as s:\n"
        "    s.run(up)\n"
        "    s.run(tf.global_variables_initializer())\n"
        "    s.run(util.set_iteration_per_loop(s, step, 2))\n"
        "    print(round(float(s.run(w)), 3))\n"
        "    s.run(down)\n"
    )
    ended = run(script)
    assert ended.stdout == "0.8\n", ended.stderr
    told = [line for line in ended.stderr.splitlines() if "deprecated" in line]
    assert [line for line in told if "ascend_session" in line] == []
