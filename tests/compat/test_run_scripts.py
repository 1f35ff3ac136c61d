"""Scripts that know nothing of this package, as ``run`` runs them without a device."""

import json
import signal
import sys
from pathlib import Path
from typing import Any, List

import pytest

from ascend_session.launcher.rank_main import RUNNER
from tests.compat.run_scripts import PREFACE, run_script

NPU = "from npu_bridge.npu_init import *\n" + PREFACE
CONSTANT = "x = tf.constant(3.0)\n"

NEW = pytest.mark.skipif(sys.version_info < (3, 8), reason="TensorFlow 1.15 has these names")


@pytest.fixture
def run(tmp_path: Path, forking_python: str) -> Any:
    def ran(text: str, *arguments: str, **settings: Any) -> Any:
        return run_script(tmp_path, text, *arguments, python=forking_python, **settings)

    return ran


def report_of(ended: Any) -> List[str]:
    """The report at the end of standard error."""
    lines = ended.stderr.splitlines()
    [start] = [n for n, line in enumerate(lines) if line.startswith("ascend-session: this ran")]
    return [" ".join(line.split()) for line in lines[start:]]


def test_the_report_says_what_became_of_the_options(run: Any) -> None:
    script = (
        NPU
        + CONSTANT
        + (
            'with tf.Session(config=options(precision_mode="force_fp32", no_such=1)) as s:\n'
            "    print(s.run(x))\n"
            '    with tf.Session(config=options(precision_mode="force_fp16")) as s: s.run(x)\n'
        )
    )
    ended = run(script, asked="backend=stub\nreason=no device is here")
    assert (ended.returncode, ended.stdout) == (0, "3.0\n"), ended.stderr
    head, titles, *rest = report_of(ended)
    assert head == "ascend-session: this ran on the stub: no device is here."
    assert titles == "OPTION VALUE SESSIONS WHAT BECOMES OF IT"
    assert rest[0].startswith("no_such 1 1 The adapter reads no key 'no_such'")
    assert rest[1] == "precision_mode force_fp32 1 checked; for the device only"
    assert rest[2].startswith("precision_mode force_fp16 2 precision_mode='force_fp16' cannot be")
    assert rest[3].startswith("Sessions 1-2 with an NpuOptimizer entry: train.py:")


def test_the_report_is_written_to_a_file_too(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    ended = run(NPU + "tf.Session(config=options()).close()", asked=f"backend=stub\njson={file}")
    assert ended.returncode == 0, ended.stderr
    [session] = json.loads(file.read_text())["sessions"]
    assert (session["kind"], session["has_entry"]) == ("Session", True)


@pytest.mark.parametrize(
    ("last", "code"), [("raise ValueError('x')", 1), ("sys.exit(3)", 3), ("sys.exit()", 0)]
)
def test_the_end_is_the_scripts_and_the_report_comes_all_the_same(
    run: Any, last: str, code: int
) -> None:
    ended = run(NPU + CONSTANT + "s = tf.Session(config=options()); s.run(x)\n" + last)
    assert ended.returncode == code, ended.stderr
    said = report_of(ended)
    assert said[1].startswith("Session 1 with an NpuOptimizer entry")
    assert (said[-1] == "ValueError: x") == (code == 1)
    assert ('train.py", line' in ended.stderr) == (code == 1)


def test_a_signal_ends_it_after_the_system_was_closed(run: Any) -> None:
    script = (
        NPU
        + CONSTANT
        + (
            "s = tf.Session(config=options()); s.run(x)\n"
            "import signal; os.kill(os.getpid(), signal.SIGTERM); signal.pause()\n"
        )
    )
    ended = run(script)
    assert ended.returncode == -signal.SIGTERM, ended.stderr
    assert report_of(ended)


def test_what_ends_the_run_on_a_device_ends_it_here(run: Any) -> None:
    ended = run(NPU + 'tf.Session(config=options(precision_mode="fp16"))')
    assert ended.returncode == 1
    assert "ConfigError: precision_mode='fp16'" in ended.stderr
    said = report_of(ended)
    assert said[2].startswith("precision_mode fp16 1 precision_mode='fp16'")
    assert said[3] == "The script has opened no session."
    assert said[4].startswith("Session 1 was refused for its options: train.py:")


def test_strict_refuses_an_unknown_key(run: Any) -> None:
    script = NPU + "tf.Session(config=options(no_such=1)).close()"
    assert run(script).returncode == 0
    ended = run(script, variables={"ASCEND_SESSION_STRICT": "1"})
    assert ended.returncode == 1
    assert "reads no key 'no_such'" in ended.stderr


def test_a_single_run_has_the_environment_of_a_plain_one(run: Any) -> None:
    script = (
        "import os, npu_bridge\n"
        "new = [n for n in os.environ if n.startswith(('ASCEND', 'RANK', 'DEVICE', 'JOB'))]\n"
        "print(new, npu_bridge.__name__)"
    )
    assert run(script).stdout == "[] ascend_session.compat.npu_bridge\n"


def test_a_script_that_never_asks_for_the_vendor_is_told_so(run: Any) -> None:
    ended = run("import sys; print(sorted(m for m in sys.modules if 'compat.npu' in m))")
    assert ended.stdout == "[]\n"
    assert "imported neither npu_bridge nor hccl" in ended.stderr


def test_a_forked_child_neither_reports_nor_closes(run: Any) -> None:
    script = (
        NPU
        + CONSTANT
        + (
            "s = tf.Session(config=options()); s.run(x)\n"
            "if not os.fork(): sys.exit(7)\n"
            "print(os.waitpid(-1, 0)[1] >> 8, s.run(x))\n"
        )
    )
    ended = run(script)
    assert ended.stdout.endswith("7 3.0\n"), ended.stderr
    assert len(report_of(ended)) == len(["head", "sessions"])  # of two, none would be read


def test_a_worker_that_is_forked_before_anything_was_opened_is_a_process_of_its_own(
    run: Any,
) -> None:
    script = (
        NPU
        + "import multiprocessing\n"
        + "def train():\n"
        + '    with tf.Session(config=options(precision_mode="force_fp32")) as s:\n'
        + "        print(s.run(hccl_ops.allreduce(tf.constant([3.0]), 'sum')))\n"
        + "worker = multiprocessing.get_context('fork').Process(target=train)\n"
        + "worker.start(); worker.join(); print(worker.exitcode)\n"
    )
    ended = run(script, asked=None, variables={"ASCEND_SESSION_RUN": "backend=stub"})
    assert ended.stdout == "[3.]\n0\n", ended.stderr
    assert "force_fp32 1 checked" in " ".join(ended.stderr.split())
    assert "The script has opened no session." in ended.stderr


def test_pythons_that_the_script_starts_find_the_vendors_names(
    run: Any, tmp_path: Path, forking_python: str
) -> None:
    (tmp_path / "child.py").write_text(
        "import hccl, npu_bridge, sys; print(npu_bridge.__name__, hccl.__name__)"
    )
    script = (
        "import subprocess, sys\n"
        f"subprocess.run([{sys.executable!r}, '-c', 'import sys; print(len(sys.meta_path))'])\n"
        f"subprocess.run([{forking_python!r}, 'child.py'])\n"
    )
    plain = run(script, asked=None).stdout.split("\n")[0]
    ended = run(script)
    lines = ended.stdout.splitlines()
    assert lines[0] == plain  # nothing happens in one that does not ask
    assert lines[1] == "ascend_session.compat.npu_bridge ascend_session.compat.hccl", ended.stderr
    assert "this ran on the stub" not in ended.stderr


@NEW
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("tf.Session()", "train.py:2 needs tf.Session, which is TensorFlow 1's"),
        ("tf.contrib.layers", "tf.contrib, which is TensorFlow 1's"),
        ("import tensorflow.contrib.slim", "needs tensorflow.contrib"),
        ("tf.compat.v1.placeholder(tf.float32)", "eager execution is on"),
    ],
)
def test_a_script_for_tensorflow_1_is_told_what_to_do(run: Any, line: str, said: str) -> None:
    ended = run(f"import tensorflow as tf\n{line}\n", variables={"TF2_BEHAVIOR": "1"})
    assert ended.returncode == 1
    assert "Traceback" in ended.stderr
    last = ended.stderr.splitlines()
    assert any(said in text and "this is TensorFlow 2" in text for text in last), ended.stderr


@NEW
def test_other_errors_get_no_such_advice(run: Any) -> None:
    ended = run("import tensorflow as tf\nNone.Session()\n")
    assert "TensorFlow 1" not in ended.stderr


def test_the_runner_is_a_plain_program_without_being_asked(run: Any) -> None:
    ended = run("import sys; print([type(f).__name__ for f in sys.meta_path])", asked=None)
    assert "VendorFinder" not in ended.stdout
    assert Path(RUNNER).name == "runner.py"
