"""Ranks of a launch on the stub find the vendor's names, too."""

from pathlib import Path

import pytest

from ascend_session import LaunchConfig, LaunchResult, launch
from ascend_session.launcher.job.reports import Models
from tests.compat.run_scripts import PREFACE
from tests.launched import launched

SCRIPT = (
    PREFACE
    + """
from npu_bridge.npu_init import *
rank = int(os.environ["RANK_ID"])
mode = "force_fp16" if rank == 2 else "allow_mix_precision"
total = hccl_ops.allreduce(tf.constant([float(rank)]), "sum")
variable = tf.get_variable("variable", initializer=float(rank % 2))
step = NPUDistributedOptimizer(tf.train.GradientDescentOptimizer(0.1)).minimize(variable)
with tf.Session(config=options(precision_mode=mode)) as session:
    session.run(tf.global_variables_initializer())
    for _ in range(2):
        session.run(step)
    print("rank", get_rank_id(), "of", get_rank_size(), "sum", session.run(total)[0])
if rank in map(int, sys.argv[1:]):
    raise ValueError("rank says so")
"""
)


def read_comparison(result: LaunchResult) -> Models:
    """What rank 0 has reported of the models of all ranks."""
    return result.attempts[-1].reports.models[0]


def test_ranks_reduce_and_one_report_says_how_they_differ(
    tmp_path: Path, forking_python: str
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    script = str(tmp_path / "train.py")
    result = launched(script, 3, tmp_path, python=forking_python)
    assert [rank.status for rank in result.ranks] == [0, 0, 0], result
    folders = sorted(tmp_path.glob("ascend-logs/job_*/attempt_1/rank_*"))
    out = [(folder / "stdout.log").read_text() for folder in folders]
    assert [text.splitlines()[-1] for text in out] == [
        f"rank {rank} of 3 sum 3.0" for rank in range(3)
    ]
    first, *others = [(folder / "stderr.log").read_text() for folder in folders]
    assert "ascend-session: this ran on the stub" in first
    assert "Rank 2 differs in session 1: precision_mode is force_fp16 there" in first
    assert "Rank 1 differs" not in first
    compared = read_comparison(result)
    error = "the 3 ranks hold 2 different models: `variable` differs first, by roughly "
    assert compared.error.startswith(error)
    [note] = compared.notes
    assert note.startswith("rank 1 started with other variables than rank 0: `variable`;")
    assert "NPUBroadcastGlobalVariablesHook(0)" in note
    assert "other variables" not in first  # the launcher says it, once for all ranks
    assert not any("this ran on" in other for other in others)


@pytest.mark.parametrize("averages", [False, True])
def test_ranks_that_exchange_nothing_are_reported(
    tmp_path: Path, forking_python: str, averages: bool
) -> None:
    optimizer = "tf.train.GradientDescentOptimizer(0.1)"
    wrapped = f"npu_tf_optimizer({optimizer})" if averages else optimizer
    text = SCRIPT.replace(f"NPUDistributedOptimizer({optimizer})", wrapped)
    text = text.replace("session.run(total)[0]", "0").replace("float(rank % 2)", "0.0")
    (tmp_path / "train.py").write_text(text)
    result = launched(str(tmp_path / "train.py"), 2, tmp_path, python=forking_python)
    assert result.code == 0, result
    compared = read_comparison(result)
    assert compared.error == ""
    assert compared.is_one_model is (True if averages else None)
    sentence = "the ranks exchanged nothing; if they train, they train 2 models."
    said = [note for note in compared.notes if note.startswith(sentence)]
    assert len(said) == (0 if averages else 1)
    assert all("npu_tf_optimizer(optimizer)" in note for note in said)


@pytest.mark.parametrize("wrapper", ["npu_tf_optimizer", "npu_distributed_optimizer_wrapper"])
def test_gradients_that_the_wrapper_never_averaged_are_reported(
    tmp_path: Path, forking_python: str, wrapper: str
) -> None:
    before, _, rest = SCRIPT.partition("step = ")
    script = f"""{before}
optimizer = {wrapper}(tf.train.GradientDescentOptimizer(0.1))
gradients = tf.gradients(variable * float(rank), [variable])
step = optimizer.apply_gradients(zip(tf.clip_by_global_norm(gradients, 1.0)[0], [variable]))
{rest.partition(chr(10))[2]}""".replace("session.run(total)[0]", "0")
    (tmp_path / "train.py").write_text(script)
    result = launched(str(tmp_path / "train.py"), 2, tmp_path, python=forking_python)
    assert result.code == 0, result
    [log] = tmp_path.glob("ascend-logs/job_*/attempt_1/rank_0/stderr.log")
    report = log.read_text()
    [sentence] = [line for line in report.splitlines() if "never averaged" in line]
    line = script.splitlines().index(
        "step = optimizer.apply_gradients(zip(tf.clip_by_global_norm(gradients, 1.0)[0], "
        "[variable]))"
    )
    assert f"Optimizer.apply_gradients (train.py:{line + 1}) got gradients that were" in sentence
    assert "of 'variable': 2 ranks would train 2 different models." in sentence
    assert "npu_allreduce(tf.gradients(...))" in sentence
    [note] = read_comparison(result).notes
    assert note.startswith("the ranks exchanged nothing; if they train, they train 2 models.")
    assert "npu_tf_optimizer(optimizer)" not in f"{note}{report}"  # which the script has


def test_a_script_with_a_wrapper_that_averages_nothing_is_not_told_to_use_one(
    tmp_path: Path, forking_python: str
) -> None:
    before, _, rest = SCRIPT.partition("step = ")
    script = f"""{before}
optimizer = npu_tf_optimizer(tf.train.GradientDescentOptimizer(0.1))
kept = tf.Variable(0.0, trainable=False)
step = tf.group(kept.assign(1.0), optimizer.apply_gradients([(kept.read_value(), variable)]))
{rest.partition(chr(10))[2]}""".replace("session.run(total)[0]", "0")
    (tmp_path / "train.py").write_text(script)
    result = launched(str(tmp_path / "train.py"), 2, tmp_path, python=forking_python)
    assert result.code == 0, result
    [log] = tmp_path.glob("ascend-logs/job_*/attempt_1/rank_0/stderr.log")
    report = log.read_text()
    [note] = read_comparison(result).notes
    assert "Average the gradients with NPUDistributedOptimizer, in whose compute_gradients" in note
    assert "npu_tf_optimizer(optimizer)" not in f"{note}{report}"
    assert "never averaged" not in report


@pytest.mark.parametrize("is_one_model", [True, False])
@pytest.mark.parametrize("end", ["npu_close()", "sys.exit(0)", "session.close(); session.close()"])
def test_sessions_that_are_open_at_the_end_are_compared(
    tmp_path: Path, forking_python: str, end: str, is_one_model: bool
) -> None:
    script = f"""{PREFACE}
from npu_bridge.npu_init import *
value = 0.0 if {is_one_model} else float(os.environ["RANK_ID"])
variable = tf.get_variable("variable", initializer=value)
step = npu_tf_optimizer(tf.train.GradientDescentOptimizer(0.1)).minimize(variable)
session = tf.Session(config=options(precision_mode="allow_mix_precision"))
session.run(tf.global_variables_initializer())
session.run(step)
{end}
"""
    (tmp_path / "train.py").write_text(script)
    result = launched(str(tmp_path / "train.py"), 2, tmp_path, python=forking_python)
    assert result.code == (0 if is_one_model else 1), result
    compared = read_comparison(result)
    assert compared.is_one_model is is_one_model
    assert ("`variable` differs first" in compared.error) is not is_one_model


def test_a_rank_that_fails_is_named(tmp_path: Path, forking_python: str) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    script = str(tmp_path / "train.py")
    result = launched(script, 2, tmp_path, python=forking_python, args=("1",))
    assert result.code == 1
    assert result.cause is not None
    assert result.cause.rank == 1
    assert "rank says so" in result.cause.said


def test_pythons_below_a_shell_script_find_the_names_too(
    tmp_path: Path, forking_python: str
) -> None:
    (tmp_path / "train.py").write_text("import npu_bridge\nprint(npu_bridge.__name__)")
    shell = tmp_path / "train.sh"
    shell.write_text(f"{forking_python} train.py")
    result = launch(
        LaunchConfig(
            program="sh",
            args=("train.sh",),
            processes=1,
            backend="stub",
            cwd=str(tmp_path),
            env={"PYTHONPATH": str(Path(__file__).parents[2])},
            show="none",
        )
    )
    assert result.code == 0
    [out] = tmp_path.glob("ascend-logs/job_*/attempt_1/rank_0/stdout.log")
    assert out.read_text() == "ascend_session.compat.npu_bridge\n"
