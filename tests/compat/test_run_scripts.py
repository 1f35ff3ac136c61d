"""Scripts that know nothing of this package, as ``run`` runs them without a device."""

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, List, Optional

import pytest

from tests.compat.run_scripts import PREFACE, environment, run_script

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
    head, ignored, *lines = report_of(ended)
    assert head == "ascend-session: this ran on the stub: no device is here."
    assert ignored == "Ignored:"
    assert lines[0].startswith("Session 1: The adapter has no key 'no_such'")
    assert lines[1] == (
        "Session 2: precision_mode='force_fp16' comes too late: session 1 (train.py:18) has "
        "initialised the device with precision_mode='force_fp32'. Set it on that session, which is "
        "the first."
    )
    assert lines[2:4] == [
        "Correct; in effect only on a device:",
        "precision_mode=force_fp32 (session 1): checked here",
    ]
    assert lines[4].startswith("Sessions 1-2 with an NpuOptimizer entry: train.py:")


def test_iterations_per_loop_says_of_each_session_whether_the_loop_was_in_force(
    run: Any, tmp_path: Path
) -> None:
    script = NPU + (
        "w = tf.Variable(1.0, use_resource=True)\n"
        "step = tf.train.GradientDescentOptimizer(0.1).minimize(w)\n"
        "def train(is_made, is_run):\n"
        "    with tf.Session(config=options(iterations_per_loop=5)) as s:\n"
        "        s.run(tf.global_variables_initializer())\n"
        "        loop = util.set_iteration_per_loop(s, step, 5) if is_made else step\n"
        "        s.run(loop if is_run else step)\n"
        "        s.run(loop if is_run else step)\n"
        "train(True, True); train(True, False); train(False, False)\n"
    )
    file = tmp_path / "report.json"
    ended = run(script, asked=f"backend=stub\njson={file}")
    assert ended.returncode == 0, ended.stderr
    report = json.loads(file.read_text())
    assert [row["why"].split(". ")[0].rstrip(".") for row in report["options"]] == [
        "iterations_per_loop=5 was in force: 2 runs made 5 steps each",
        "iterations_per_loop=5 was not in force: the loop that was made was never run",
        "iterations_per_loop=5 was not in force: each run made one step, for no loop was made",
    ]
    assert [row["effect"] for row in report["options"]] == ["device", "silent", "silent"]
    assert [session["loops"] for session in report["sessions"]] == [{"5": 2}, {"5": 0}, {}]


_LOOP = """
x = tf.placeholder(tf.float32, [4, 3])
rate = tf.placeholder_with_default(0.1, [])
dataset = tf.data.Dataset.from_tensors(tf.ones([4, 3])).repeat()
batches = tf.data.make_initializable_iterator(dataset)
data = x if is_fed else batches.get_next()
w = tf.get_variable("w", [3, 1], use_resource=True)
step = tf.train.GradientDescentOptimizer(rate).minimize(tf.reduce_mean(tf.square(data @ w)))
with tf.Session(config=options(enable_data_pre_proc=True, iterations_per_loop=10)) as sess:
    sess.run([tf.global_variables_initializer(), batches.initializer])
    loop = util.set_iteration_per_loop(sess, step, steps)
    for _ in range(2):
        sess.run(loop, {x: [[1, 1, 1]] * 4, rate: 0.2} if is_fed else {rate: 0.2})
"""


@pytest.mark.parametrize(
    ("steps", "is_fed", "sentence"),
    [
        (5, False, "iterations_per_loop=10 is not the number of the loop, 5: 2 runs made 5 steps "),
        (10, True, "iterations_per_loop=10 with 'Placeholder' fed: all 10 steps of a run train on"),
        (5, True, "iterations_per_loop=10 is not the number of the loop, 5: 2 runs made 5 steps "),
        (10, False, None),
    ],
)
def test_a_loop_that_trains_otherwise_than_the_script_suggests_is_reported_first(
    run: Any, steps: int, is_fed: bool, sentence: Optional[str]
) -> None:
    ended = run(f"{NPU}steps, is_fed = {steps}, {is_fed}{_LOOP}")
    assert ended.returncode == 0, ended.stderr
    _, *lines = report_of(ended)
    if sentence is None:
        assert "Trains otherwise than the script suggests:" not in lines
        assert any("in force: 2 runs made 10 steps each" in line for line in lines)
    else:
        assert lines[0] == "Trains otherwise than the script suggests:"
        assert lines[1].startswith(sentence)
        assert sum("iterations_per_loop=" in line for line in lines) == 1
    assert ended.stderr.count("AscendConfigWarning") == (1 if steps == 5 else 0)


@pytest.mark.parametrize(("draws_on_device", "section"), [(False, "Trains"), (True, "Correct")])
def test_a_batch_that_all_steps_of_a_loop_share_is_never_correct(
    run: Any, draws_on_device: bool, section: str
) -> None:
    script = NPU + (
        "data = tf.data.Dataset.range(30).repeat()\n"
        "batches = tf.data.make_initializable_iterator(data)\n"
        "w = tf.Variable(tf.constant(0, tf.int64), use_resource=True)\n"
        "step = tf.assign_add(w, batches.get_next()).op\n"
        f"proto = options(iterations_per_loop=5, enable_data_pre_proc={draws_on_device})\n"
        "with tf.Session(config=proto) as s:\n"
        "    s.run(tf.global_variables_initializer())\n"
        "    s.run(batches.initializer)\n"
        "    s.run(util.set_iteration_per_loop(s, step, 5))\n"
        "    s.run(w)\n"
    )
    lines = report_of(run(script))
    assert lines[1].startswith(section)
    shared = [
        line for line in lines if "train on the same batch, that of 'IteratorGetNext'" in line
    ]
    assert len(shared) == (not draws_on_device)


def test_a_loop_that_fails_counts_as_the_steps_that_were_made(run: Any, tmp_path: Path) -> None:
    script = NPU + (
        "w = tf.Variable(1, use_resource=True)\n"
        "left = tf.placeholder(tf.int32, [])\n"
        "with tf.control_dependencies([tf.debugging.assert_less(w.read_value(), left)]):\n"
        "    step = w.assign_add(1).op\n"
        "def train(limit):\n"
        "    with tf.Session(config=options(iterations_per_loop=3)) as s:\n"
        "        s.run(tf.global_variables_initializer())\n"
        "        loop = util.set_iteration_per_loop(s, step, 3)\n"
        "        try:\n"
        "            s.run(loop, {left: limit})\n"
        "        except tf.errors.InvalidArgumentError:\n"
        "            pass\n"
        "train(1); train(3); train(9)\n"
    )
    file = tmp_path / "report.json"
    ended = run(script, asked=f"backend=stub\njson={file}")
    assert ended.returncode == 0, ended.stderr
    report = json.loads(file.read_text())
    assert sorted(
        row["why"].split(": ")[1].split(". ")[0].rstrip(".") for row in report["options"]
    ) == [
        "1 run made 2 steps",
        "1 run made 3 steps",
        "1 run stopped in the first step",
    ]
    loops = [session["loops"] for session in report["sessions"]]
    assert loops == [{"3": 0, "0": 1}, {"3": 0, "2": 1}, {"3": 1}]


def test_an_option_that_is_only_deprecated_is_honoured_and_a_missing_file_is_not_ignored(
    run: Any,
) -> None:
    script = NPU + (
        'tf.Session(config=options(enable_data_pre_proc=True, dump_step="1",'
        ' fusion_switch_file="/no/such.cfg")).close()\n'
    )
    lines = report_of(run(script))
    assert lines[1:7] == [
        "Errors on a device whose host has the files of this machine:",
        "fusion_switch_file='/no/such.cfg' does not exist; GE fails to initialise without it.",
        "Ignored:",
        "dump_step='1' has no effect: it is read with enable_dump=True.",
        "Accepted on a device, with a warning:",
        "enable_data_pre_proc is deprecated by the vendor's manual.",
    ]


def test_the_memory_optimization_note_is_one_line_that_says_what_to_write(run: Any) -> None:
    script = NPU + (
        "for _ in range(3):\n"
        "    proto = options()\n"
        "    proto.graph_options.rewrite_options.memory_optimization = 0\n"
        "    tf.Session(config=proto).close()\n"
    )
    notes = [line for line in report_of(run(script)) if "memory_optimization" in line]
    assert notes == [
        "Sessions 1-3: rewrite_options.memory_optimization is not turned off, so TensorFlow "
        "changes the graph before the adapter gets it. Write "
        "config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF."
    ]


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


def test_the_report_comes_although_the_script_has_removed_the_folder_of_its_logs(
    run: Any, tmp_path: Path
) -> None:
    folder = str(tmp_path / "gone/attempt_1/rank_0")
    script = NPU + CONSTANT + "with tf.Session(config=options(job='ps')) as s: s.run(x)\n"
    ended = run(script, variables={"ASCEND_SESSION_RANK_FOLDER": folder})
    assert ended.returncode == 0
    assert report_of(ended)
    assert "Traceback" not in ended.stderr


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


SIGNALLED = {
    "before any session": "signal_me(); signal.pause()",
    "after all sessions": "tf.Session(config=options()).close(); signal_me(); signal.pause()",
    "in a run on the host": (
        "threading.Timer(1, signal_me).start()\n"
        "tf.Session().run(tf.queue.FIFOQueue(1, tf.float32).dequeue())"
    ),
    "in a run of the first offloaded session": (
        "s = tf.Session(config=options())\n"
        "threading.Timer(1, signal_me).start()\n"
        "s.run(tf.queue.FIFOQueue(1, tf.float32).dequeue())"
    ),
}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda each: each.name)
@pytest.mark.parametrize("when", SIGNALLED)
def test_a_signal_at_any_time_leaves_the_blocks_and_the_report(
    run: Any, when: str, number: int
) -> None:
    script = (
        NPU
        + "import signal, threading\n"
        + f"def signal_me(): os.kill(os.getpid(), {int(number)})\n"
        + "try:\n"
        + textwrap.indent(SIGNALLED[when], "    ")
        + "\nfinally: print('saved')\n"
    )
    ended = run(script)
    assert ended.returncode in (-number, 1), ended.stderr
    assert (ended.returncode == 1) <= (number == signal.SIGINT)
    assert ended.stdout.split() == ["saved"]
    assert len(report_of(ended)) > 1
    assert ("KeyboardInterrupt" in ended.stderr) == (number == signal.SIGINT)


def test_a_worker_that_is_terminated_ends_at_once_and_reports_nothing(run: Any) -> None:
    script = (
        NPU
        + "import multiprocessing, signal\n"
        + "worker = multiprocessing.get_context('fork').Process(target=signal.pause)\n"
        + "worker.start(); worker.terminate(); worker.join(); print(worker.exitcode)\n"
    )
    ended = run(script)
    assert ended.stdout.split() == ["-15"], ended.stderr
    assert ended.stderr.count("this ran on the stub") == 1


def test_a_handler_of_the_script_is_in_charge(run: Any) -> None:
    script = (
        NPU
        + "import signal\n"
        + "signal.signal(signal.SIGTERM, lambda *_: print('mine'))\n"
        + "with tf.Session(config=options()): os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    ended = run(script)
    assert (ended.returncode, ended.stdout.split()) == (0, ["mine"]), ended.stderr


def test_what_ends_the_run_on_a_device_ends_it_here(run: Any) -> None:
    ended = run(NPU + 'tf.Session(config=options(precision_mode="fp16"))')
    assert ended.returncode == 1
    assert "ConfigError: precision_mode='fp16'" in ended.stderr
    said = report_of(ended)
    assert said[1] == "Errors that abort the run on a device:"
    assert said[2].startswith("precision_mode='fp16'")
    assert said[3].startswith("Session 1 was refused for its options: train.py:")


def test_strict_refuses_an_unknown_key(run: Any) -> None:
    script = NPU + "tf.Session(config=options(no_such=1)).close()"
    assert run(script).returncode == 0
    ended = run(script, variables={"ASCEND_SESSION_STRICT": "1"})
    assert ended.returncode == 1
    assert "has no key 'no_such'" in ended.stderr


def test_a_single_run_has_the_environment_of_a_plain_one(run: Any) -> None:
    script = (
        "import os, npu_bridge\n"
        "new = [n for n in os.environ if n.startswith(('ASCEND', 'RANK', 'DEVICE', 'JOB'))]\n"
        "print(new, npu_bridge.__name__)"
    )
    assert run(script).stdout == "[] ascend_session.compat.npu_bridge\n"


def test_a_script_that_never_asks_for_the_vendor_is_told_so(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    script = "import sys; print(sorted(m for m in sys.modules if 'compat.npu' in m))"
    ended = run(script, asked=f"backend=stub\njson={file}")
    assert ended.stdout == "[]\n"
    assert "imported neither npu_bridge nor hccl" in ended.stderr
    report = json.loads(file.read_text())
    assert (report["options"], report["sessions"]) == ([], [])
    assert "imported neither npu_bridge nor hccl" in report["sentences"][0]


def test_the_report_is_written_to_a_file_although_no_session_is_opened(
    run: Any, tmp_path: Path
) -> None:
    file = tmp_path / "report.json"
    run("import npu_bridge", asked=f"backend=stub\njson={file}")
    assert json.loads(file.read_text())["sentences"] == ["The script did not open a session."]


def test_an_entry_that_nobody_reads_for_want_of_the_import_is_named_with_its_line(
    tmp_path: Path,
) -> None:
    file = tmp_path / "report.json"
    script = PREFACE + "tf.Session(config=options()).close()\ntf.Session().close()\n"
    ended = run_script(tmp_path, script, asked=f"backend=stub\njson={file}")
    [sentence] = json.loads(file.read_text())["sentences"][1:]
    assert sentence in " ".join(ended.stderr.split())
    assert sentence.startswith(
        "The NpuOptimizer entry (train.py:9) of the session that is opened at train.py:16 has no "
        "effect, because npu_bridge was not imported before"
    )
    assert "Write `from npu_bridge.npu_init import *` at the top" in sentence


def test_an_entry_is_read_by_nobody_before_the_import_either(tmp_path: Path) -> None:
    script = PREFACE + (
        "tf.Session(config=options()).close()\n"
        "from npu_bridge.npu_init import *\n"
        "tf.Session(config=options()).close()\n"
    )
    lines = report_of(run_script(tmp_path, script))
    assert lines[1] == "Trains otherwise than the script suggests:"
    assert lines[2].startswith("The NpuOptimizer entry (train.py:9)")
    assert lines[3].startswith("Session 1 with an NpuOptimizer entry: train.py:18")


@pytest.mark.parametrize(
    ("script", "place"),
    [
        ("import os\nsize = int(os.getenv('RANK_SIZE'))\n", "train.py:2 reads RANK_SIZE"),
        (
            "import os\nos.environ['A'] = os.environ['DEVICE_INDEX']\n",
            "train.py:2 reads DEVICE_INDEX",
        ),
        (
            "import os\nos.environ['DEVICE_INDEX'] = os.getenv('RANK_ID')\n",
            "train.py:2 reads RANK_ID",
        ),
        (
            "import os\nrank = os.getenv('RANK_ID')\n\nprint(rank.split('-'))\n",
            "train.py:2 reads RANK_ID",
        ),
        (
            "import os\nKEY = 'RANK_SIZE'\n\nsize = int(os.environ[KEY])\n",
            "train.py:4 reads RANK_SIZE",
        ),
    ],
)
def test_who_sets_a_ranks_variable_is_told_where_the_script_needs_it(
    run: Any, script: str, place: str
) -> None:
    ended = run(script)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        f"ascend-session: {place}, which is not set here. Start it with `ascend-session launch "
        "-n 1`, which sets it, as all variables of a rank."
    )


def test_an_installed_script_is_told_as_well(tmp_path: Path, forking_python: str) -> None:
    installed = tmp_path / "site-packages"
    installed.mkdir()
    ended = run_script(installed, "import os\nos.environ['RANK_ID']\n", python=forking_python)
    assert "ascend-session: train.py:2 reads RANK_ID" in ended.stderr


@pytest.mark.parametrize(
    "script",
    [
        "import os; {}['RANK_ID']",
        "import os; int(os.getenv('RANK_SIZE', 'x'))",
        "import os; os.environ['TABLE']",
        "import os; dict(os.environ)['RANK_ID']",
        "import os; rank = os.getenv('RANK_ID')\nint(None)",
    ],
)
def test_other_errors_get_no_advice_on_variables(run: Any, script: str) -> None:
    assert "ascend-session launch" not in run(script).stderr


def test_the_adapter_of_tensorflow_2_is_named_as_another_product(run: Any) -> None:
    ended = run("import npu_device")
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.startswith(
        "ascend-session: The package npu_device is the adapter for TensorFlow 2, "
    )


def test_the_vendors_packages_that_are_missing_are_asked_for(run: Any) -> None:
    request = 'replaces_vendor=no\nreason=backend="npu" is set'
    ended = run("import npu_bridge", asked=request)
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.startswith(
        'ascend-session: The npu backend was chosen because backend="npu" is set, but '
        "npu_bridge cannot be found by this Python"
    )
    assert "set_env.sh" in last
    assert "--backend stub" in last


def test_tracebacks_are_those_of_plain_python(tmp_path: Path) -> None:
    script = (
        "import tensorflow.compat.v1 as tf\n"
        "tf.disable_eager_execution()\n"
        "def build():\n"
        "    return tf.check_numerics(tf.log(tf.constant([-1.0])), 'bad')\n"
        "bad = build()\n"
        "with tf.Session() as session:\n"
        "    session.run(bad)\n"
    )
    ended = run_script(tmp_path, script)
    plain = subprocess.run(
        [sys.executable, "train.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    trace, plain_trace = (each.stderr.partition("Traceback")[2] for each in (ended, plain))
    assert "Original stack trace" in trace
    assert trace == plain_trace


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


def test_a_forked_child_reports_gradients_that_it_applied_before_its_first_session(
    run: Any,
) -> None:
    script = (
        PREFACE
        + "from npu_bridge.estimator.npu.npu_optimizer import NPUDistributedOptimizer\n"
        + "def apply():\n"
        + "    w = tf.get_variable('w', [])\n"
        + "    optimizer = NPUDistributedOptimizer(tf.train.GradientDescentOptimizer(0.1))\n"
        + "    optimizer.apply_gradients([(tf.gradients(w * w, w)[0], w)])\n"
        + "child = os.fork()\n"
        + "if not child:\n"
        + "    apply()\n"
        + "    tf.Session().close()\n"
        + "    sys.exit()\n"
        + "os.waitpid(child, 0)\n"
    )
    ended = run(script, variables={"RANK_ID": "0", "RANK_SIZE": "2", "JOB_ID": "1"})
    own, parents = ended.stderr.split("ascend-session: this ran on the stub")[1:]
    assert "never averaged" in own
    assert "Session 1 without" in own
    assert "never averaged" not in parents


def test_an_environment_that_contradicts_itself_is_named_instead_of_a_report(run: Any) -> None:
    script = (
        PREFACE
        + "import npu_bridge\n"
        + "tf.Session().close()\n"
        + "os.environ['ASCEND_SESSION_SCHEDULER'] = 'none of ours'\n"
    )
    ended = run(script)
    assert "ASCEND_SESSION_SCHEDULER='none of ours' names no scheduler." in ended.stderr
    assert "this ran on the stub" not in ended.stderr


@pytest.mark.parametrize(
    "sessions",
    ["s = tf.Session(config=options()); s.run(x)", "s = tf.Session(); s.run(x)"],
    ids=["offloaded", "on the host"],
)
def test_a_child_of_a_process_that_had_a_session_refuses_to_open_and_to_run_one(
    run: Any, sessions: str
) -> None:
    script = (
        NPU
        + CONSTANT
        + f"import signal\n{sessions}\n"
        + (
            "if not os.fork():\n"
            "    signal.alarm(60)\n"
            "    for each in (lambda: tf.Session(config=options()), lambda: s.run(x)):\n"
            "        try: each()\n"
            "        except Exception as e: print(type(e).__name__, 'spawn' in str(e))\n"
            "    sys.stdout.flush(); os._exit(0)\n"
            "os.waitpid(-1, 0); print(s.run(x))\n"
        )
    )
    ended = run(script)
    assert ended.stdout.split("\n")[:2] == ["LifecycleError True"] * 2, ended.stderr


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
    ended = run(script)
    assert ended.stdout == "[3.]\n0\n", ended.stderr
    assert "precision_mode=force_fp32: checked" in " ".join(ended.stderr.split())
    assert "The script did not open a session." in ended.stderr


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
def test_the_script_is_named_for_what_needs_a_graph_inside_the_vendors_packages(run: Any) -> None:
    script = "import tensorflow\nfrom npu_bridge.estimator import npu_ops\nnpu_ops.NPUInit()\n"
    ended = run(script, variables={"TF2_BEHAVIOR": "1"})
    assert "\nascend-session: train.py:3 builds a graph, but eager" in ended.stderr, ended.stderr


@NEW
def test_a_module_that_begins_with_tensorflows_name_is_the_scripts(
    run: Any, tmp_path: Path
) -> None:
    (tmp_path / "tensorflow_model.py").write_text("import tensorflow as tf\ntf.placeholder")
    assert "\nascend-session: tensorflow_model.py:2 needs" in run("import tensorflow_model").stderr


@NEW
def test_other_errors_get_no_such_advice(run: Any) -> None:
    ended = run("import tensorflow as tf\nNone.Session()\n")
    assert "TensorFlow 1" not in ended.stderr


EAGER = """from npu_bridge.npu_init import *
import tensorflow.compat.v1 as tf
tf.enable_eager_execution()
proto = tf.ConfigProto()
entry = proto.graph_options.rewrite_options.custom_optimizers.add()
entry.name = "NpuOptimizer"
entry.parameter_map["precision_mode"].s = b"allow_mix_precision"
proto.graph_options.rewrite_options.remapping = 2
proto.graph_options.rewrite_options.memory_optimization = 2
session = tf.Session(config=proto, graph=tf.Graph())
w = tf.Variable(1.0, use_resource=True)
def train():
    with tf.GradientTape() as tape:
        loss = w * w
    w.assign_sub(0.1 * tape.gradient(loss, w))  # train
"""


@pytest.mark.parametrize("call", ["train()", "tf.function(train)()"])
def test_eager_training_comes_first_and_its_session_has_no_correct_options(
    run: Any, call: str
) -> None:
    lines = report_of(run(EAGER + call))
    assert lines[1] == "Trains otherwise than the script suggests:"
    place = "train.py:15" if call == "train()" else "train.py:"
    assert lines[2].startswith(f"The training at {place}")
    assert "stays on the host, on a device as well" in lines[2]
    assert lines[3:5] == [
        "Not used:",
        "precision_mode=allow_mix_precision: the session never ran anything",
    ]


def test_a_tape_in_the_graph_of_a_session_is_no_eager_training(run: Any) -> None:
    script = NPU + (
        "w = tf.Variable(1.0, use_resource=True)\n"
        "with tf.GradientTape() as tape:\n"
        "    loss = w * w\n"
        "step = w.assign_sub(0.1 * tape.gradient(loss, w))\n"
        "with tf.Session(config=options(precision_mode='force_fp32')) as s:\n"
        "    s.run(tf.global_variables_initializer())\n"
        "    s.run(step)\n"
    )
    assert report_of(run(script))[1] == "Correct; in effect only on a device:"


def test_a_graph_that_is_built_while_eager_execution_is_on_is_no_eager_training(run: Any) -> None:
    script = EAGER + (
        "with session.graph.as_default():\n"
        "    w = tf.Variable(1.0, use_resource=True)\n"
        "    step = tf.train.GradientDescentOptimizer(0.1).minimize(lambda: w * w)\n"
        "    session.run(tf.global_variables_initializer())\n"
        "    session.run(step)\n"
    )
    assert report_of(run(script))[1] == "Correct; in effect only on a device:"


TABLE = """
table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [0, 1]), -1)
"""
IN_MAP = """
data = tf.data.Dataset.from_tensor_slices(["a", "b"]).map({})
batches = tf.data.make_initializable_iterator(data)
x = batches.get_next()
"""
LOOKUP = """
with tf.Session(config=options({})) as s:
    s.run([tf.tables_initializer(), tf.global_variables_initializer()])
    for operation in tf.get_default_graph().get_operations():
        if operation.name == "MakeIterator":
            s.run(operation)
    s.run(x)
"""
VARIABLE = "w = tf.get_variable('w', [3], use_resource=True)\n"
OLD = "w = tf.get_variable('w', [3], use_resource=False)\n"
CASE = "x = tf.cond(tf.reduce_sum(w) > 0, lambda: w * 2, lambda: w * 3)\n"
TRAINING = "x = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(w))\n"


@pytest.mark.parametrize(
    ("script", "section", "text"),
    [
        (
            TABLE + IN_MAP.format("table.lookup") + LOOKUP.format(""),
            "Errors that abort the run on a device:",
            "(Table not initialized). Set mix_compile_mode=True",
        ),
        (
            VARIABLE + IN_MAP.format("lambda k: tf.gather(w, [0])") + LOOKUP.format(""),
            "Errors that abort the run on a device:",
            "uses the variable 'w': the device initialises it",
        ),
        (
            VARIABLE + "x = w * 2\n" + LOOKUP.format("graph_compiler_cache_dir='.'"),
            "Accepted on a device, with a warning:",
            "does not support models with resource operators, such as 'w' (VarHandleOp)",
        ),
        (
            OLD + CASE + LOOKUP.format("dynamic_input=True"),
            "Accepted on a device, with a warning:",
            "Dynamic shapes need control flow version 2",
        ),
        (
            OLD + TRAINING + LOOKUP.format("graph_max_parallel_model_num=4"),
            "Accepted on a device, with a warning:",
            "graph_max_parallel_model_num=4 is for online inference, and this graph trains",
        ),
    ],
)
def test_operators_that_a_device_does_not_run_with_these_options_are_reported(
    run: Any, script: str, section: str, text: str
) -> None:
    lines = report_of(run(NPU + "tf.disable_control_flow_v2()\n" + script))
    heads = [n for n, line in enumerate(lines) if line.endswith(":")]
    [found] = [n for n, line in enumerate(lines) if text in line]
    assert lines[max(head for head in heads if head < found)] == section


@pytest.mark.parametrize(
    "script",
    [
        TABLE + IN_MAP.format("table.lookup") + LOOKUP.format("mix_compile_mode=True"),
        VARIABLE + IN_MAP.format("tf.strings.length") + LOOKUP.format(""),
        TABLE + "x = table.lookup(tf.constant(['a']))\n" + LOOKUP.format(""),
        OLD + IN_MAP.format("tf.strings.length") + LOOKUP.format("graph_compiler_cache_dir='.'"),
        OLD + CASE + LOOKUP.format(""),
        OLD
        + CASE
        + LOOKUP.format("dynamic_input=True, dynamic_graph_execute_mode='lazy_recompile'"),
        "tf.enable_control_flow_v2()\n" + VARIABLE + CASE + LOOKUP.format("dynamic_input=True"),
        OLD + "x = w * 2\n" + LOOKUP.format("graph_max_parallel_model_num=4"),
        OLD + TRAINING + LOOKUP.format("quant_dumpable='1'"),  # which is ignored without a dump
    ],
)
def test_nothing_is_said_of_operators_that_a_device_runs(run: Any, script: str) -> None:
    ended = run(NPU + "tf.disable_control_flow_v2()\n" + script)
    assert ended.returncode == 0, ended.stderr
    text = " ".join(report_of(ended))
    assert "the device initialises it" not in text
    assert "resource operators, such as" not in text
    assert "control flow version 2" not in text
    assert "is for online inference" not in text
