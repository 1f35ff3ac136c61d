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
    assert "iterations_per_loop=0: the smallest value is 1. The adapter aborts" in refused.message
    assert refused.hint == 'Write parameter_map["iterations_per_loop"].i = 1'
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
    assert "Errors that abort the run on a device: Session 1: precision_mode='fp16'" in said
    unused = "Not used: deterministic=1 (session 1): the session was refused for other options"
    assert unused in said
    assert "Correct" not in said
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


@TF1  # later ones compute it on some CPUs
def test_a_convolution_in_nchw_is_told_apart_from_what_a_device_does(run: Any) -> None:
    script = NPU + (
        "x = tf.ones([1, 3, 8, 8])\n"
        "pooled = tf.nn.max_pool(x, [1, 1, 2, 2], [1, 1, 2, 2], 'SAME', data_format='NCHW')\n"
        "with tf.Session(config=options()) as s: s.run(pooled)\n"
    )
    ended = run(script)
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert "is in NCHW, which TensorFlow cannot compute on this CPU" in last
    assert "data_format='NHWC'" in last


LOSS_SCALE = (
    "model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=[1])])\n"
    "scales = ExponentialUpdateLossScaleManager(2.0**8, 10)\n"
    "inner = tf.train.GradientDescentOptimizer(0.1)\n"
    "model.compile(NPUOptimizer(inner, scales, is_loss_scale=True), 'mse')\n"
)
FIT = "import numpy; x = numpy.ones([4, 1]); model.fit(x, x, verbose=0); print('fitted')\n"


@TF1
def test_a_loss_scale_that_keras_does_not_initialise_gets_the_line_that_does(run: Any) -> None:
    ended = run(NPU + LOSS_SCALE + FIT)
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert "on a device, too" in last
    line = last.split("`")[1]
    ended = run(f"{NPU}{LOSS_SCALE}{line}\n{FIT}")
    assert (ended.returncode, ended.stdout) == (0, "fitted\n"), ended.stderr


@TF1
def test_the_loss_scale_of_this_packages_optimizer_is_initialised_by_keras(run: Any) -> None:
    script = NPU + (
        "from ascend_session import training\n"
        "model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=[1])])\n"
        "scales = training.ExponentialUpdateLossScaleManager(2.0**8, 10)\n"
        "inner = tf.train.GradientDescentOptimizer(0.1)\n"
        "model.compile(training.DistributedOptimizer(inner, scales), 'mse')\n"
    )
    ended = run(script + FIT, variables={"RANK_SIZE": "1"})
    assert (ended.returncode, ended.stdout) == (0, "fitted\n"), ended.stderr


OWN = (
    "from ascend_session import ascend_session\n"
    "with ascend_session() as s: print(s.run(tf.constant(3)))\n"
)


def test_sessions_of_this_package_count_as_sessions(run: Any) -> None:
    ended = run(NPU + OWN)
    assert ended.stdout == "3\n", ended.stderr
    assert "no session" not in ended.stderr
    assert "The sessions of ascend_session are not listed" in ended.stderr
    assert "npu_bridge is installed" not in ended.stderr


def test_a_script_of_this_package_alone_is_told_nothing_of_npu_bridge(run: Any) -> None:
    ended = run(PREFACE + OWN)
    assert ended.stdout == "3\n", ended.stderr
    assert "npu_bridge" not in ended.stderr
