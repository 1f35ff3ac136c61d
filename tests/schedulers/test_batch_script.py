"""The batch script of the guide on clusters under real Slurm: stopped, queued again, resumed."""

import re
import sys
from pathlib import Path
from typing import Callable, List

from tests.schedulers.running import PATIENCE, ROOT, Slurm
from tests.waiting import wait_until

_GUIDE = ROOT / "ascend_session" / "guides" / "clusters.md"
# It trains until it is stopped, and writes down at which step each start began.
_TRAIN = """
import time
import tensorflow.compat.v1 as tf
from ascend_session import ascend_system, training

tf.disable_eager_execution()
with ascend_system() as system, tf.Graph().as_default():
    step = tf.train.get_or_create_global_step()
    weight = tf.get_variable("weight", [], initializer=tf.zeros_initializer())
    optimizer = training.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.1))
    train_op = optimizer.minimize(tf.square(weight - 1.0), step)
    hooks = [training.SaveOnPreemptionHook("checkpoints")]
    with training.monitored_session(system, checkpoint_dir="checkpoints", hooks=hooks) as sess:
        first = sess.run(step)
        for _ in range(5):
            sess.run(train_op)
        with open(f"began.{system.rank}", "a") as file:
            print(first, file=file)
        while True:
            sess.run(train_op)
            time.sleep(0.05)
"""


def batch_script() -> str:
    """The script as the guide has it, but for its table, which needs devices."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", _GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    [script] = [block for block in blocks if "# job.sbatch" in block]
    script = re.sub(r"^tables=.*?hccl\.json\"$", "", script, count=1, flags=re.M | re.S)
    launch = f'"{sys.executable}" -m ascend_session.cli launch -n 1'
    script = script.replace('--rank-table "$tables/hccl.json" ', "")
    assert "ascend-session launch" in script
    assert "tables" not in script
    return script.replace("ascend-session launch", launch)


def test_the_batch_script_saves_is_queued_again_and_resumes(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_TRAIN)
    (tmp_path / "job.sbatch").write_text(batch_script())
    sent = slurm.run("sbatch", "--parsable", f"--chdir={tmp_path}", str(tmp_path / "job.sbatch"))
    assert sent.returncode == 0, sent.stderr
    job = sent.stdout.strip()

    def log() -> str:
        return "".join(file.read_text() for file in tmp_path.glob("train-*.log"))

    def wait_for(happened: Callable[[], bool]) -> None:
        try:
            wait_until(happened, PATIENCE)
        except AssertionError:
            shown = slurm.run("scontrol", "show", "job", job).stdout
            raise AssertionError(f"{shown}\n{log()}") from None

    def begun(start: int) -> List[int]:
        files = sorted(tmp_path.glob("began.*"))
        steps = [file.read_text().split() for file in files]
        return [int(each[start]) for each in steps if len(each) > start]

    def is_queued_again() -> bool:
        shown = slurm.run("scontrol", "show", "job", job).stdout
        return "Restarts=1" in shown and "JobState=PENDING" in shown

    try:
        wait_for(lambda: len(begun(0)) == 2)
        assert begun(0) == [0, 0]
        slurm.run("scancel", "--signal=USR1", "--batch", job)
        wait_for(is_queued_again)
        saved = re.search(r"SIGTERM: saved step (\d+) in checkpoints", log())
        assert saved, log()
        # Not in two minutes, but not at once: a node refuses what was granted in the second in
        # which it revoked the job's earlier credential (slurm_cred.c), and Slurm gives the job up.
        soon = slurm.run("scontrol", "update", f"JobId={job}", "StartTime=now+3")
        assert soon.returncode == 0, soon.stderr
        wait_for(lambda: len(begun(1)) == 2)
        assert begun(1) == [int(saved[1])] * 2
    finally:
        slurm.run("scancel", job)
