"""What --fix rewrites runs under the stub, and what ran before does the same afterwards."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_session.audit.fixes import fix_script

ROOT = Path(__file__).resolve().parents[2]

# Runs each script that it is given, with sessions of the stub, and tells what came of it.
CHILD = """\
import json, runpy, sys
import tensorflow.compat.v1 as tf
from ascend_session import AscendConfig, AscendError, ascend_session

tf.disable_eager_execution()
plain = tf.Session


def opened(config):
    tf.Session = plain  # which the stub opens itself
    return ascend_session(session_config=config, backend="stub")


told = {}
for path in sys.argv[1:]:
    tf.Session = opened
    try:
        names = runpy.run_path(path, run_name="__main__")
        options = AscendConfig.from_config_proto(names["config"]).parameter_map()
        told[path] = [names["answer"], options]
    except AscendError as error:
        told[path] = type(error).__name__
print(json.dumps(told))
"""

HEAD = """\
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig


def made(fast):
    config = tf.ConfigProto(allow_soft_placement=True)
    op = config.graph_options.rewrite_options.custom_optimizers.add()
    op.name = "NpuOptimizer"
"""
TAIL = """\
    if fast:
        op.parameter_map["precision_mode_v2"].s = tf.compat.as_bytes("mixed_float16")
    return config


config = made(True)
with tf.Session(config=config) as sess:
    answer = int(sess.run(tf.constant(20) + 22))
"""
FAST = {"precision_mode_v2": "mixed_float16"}

# name -> what stands between, what becomes of it before, and the options afterwards
SAMPLES = {
    "nothing_else": ("", FAST, FAST),
    "key": (
        'op.parameter_map["hcom_paralel"].b = True\n',
        "ConfigError",
        {"hcom_parallel": True, **FAST},
    ),
    "field": (
        'op.parameter_map["deterministic"].b = True\n',
        "ConfigError",
        {"deterministic": 1, **FAST},
    ),
    "switch": (
        'op.parameter_map["mix_compile_mode"].i = 1\n',
        "ConfigError",
        {"mix_compile_mode": True, **FAST},
    ),
    "name": ('op.name = "NPUOptimizer"\n', "ConfigError", FAST),
    "all": (
        'op.parameter_map["use_of_line"].b = 1\nop.parameter_map["hcom_parallel"].i = 0\n',
        "ConfigError",
        {"use_off_line": True, "hcom_parallel": False, **FAST},
    ),
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the child tells of all scripts, by file name."""
    folder = tmp_path_factory.mktemp("fixed")
    paths = []
    for name, (between, _, _) in SAMPLES.items():
        lines = "".join(f"    {line}\n" for line in between.splitlines())
        text = HEAD + lines + TAIL
        after = fix_script(f"{name}.py", text.encode()).after
        assert fix_script(f"{name}.py", after.encode()) is None
        for kind, written in (("before", text), ("after", after)):
            path = folder / f"{name}_{kind}.py"
            path.write_text(written)
            paths.append(str(path))
    environ = {"PYTHONPATH": str(ROOT), "PATH": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, *paths],
        stdout=subprocess.PIPE,
        cwd=str(folder),
        env=environ,
        check=True,
        timeout=600,
    )
    found = json.loads(child.stdout.decode().splitlines()[-1])
    return {Path(path).stem: what for path, what in found.items()}


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_fixed_script_runs_with_the_options_that_were_meant(told, name):
    _, before, after = SAMPLES[name]
    was = told[f"{name}_before"]
    assert was == (before if isinstance(before, str) else [42, before])
    assert told[f"{name}_after"] == [42, after]
