"""Real jobs on the stub: two and three processes that train together."""

import json
import os
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

from ascend_session import LaunchConfig, launch
from ascend_session.training import DistributedOptimizer
from tests.training.programs.models import BATCH, STEPS, batches, embedding_model

_PROGRAM = Path(__file__).parent / "programs" / "rank.py"
_REPOSITORY = Path(__file__).resolve().parents[2]


class Job:
    """What a job found."""

    def __init__(self, folder: Path, size: int) -> None:
        self.size = size
        self._ranks = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(size)]

    def of(self, scenario: str, what: str) -> List[Any]:
        """What each rank found, by rank."""
        return [rank[scenario][what] for rank in self._ranks]

    def agreed(self, scenario: str, what: str) -> Any:
        """What all ranks found in the same way."""
        found = self.of(scenario, what)
        assert found == [found[0]] * self.size
        return found[0]


@pytest.fixture(scope="module", params=[2, 3])
def job(request: Any, tmp_path_factory: Any, forking_python: str) -> Job:
    """A job of so many ranks that has run all scenarios."""
    folder = tmp_path_factory.mktemp("job")
    null = os.open(os.devnull, os.O_WRONLY)
    variables: Dict[str, str] = {"PYTHONPATH": str(_REPOSITORY), "TF_CPP_MIN_LOG_LEVEL": "2"}
    try:
        result = launch(
            LaunchConfig(
                python=forking_python,
                script=str(_PROGRAM),
                args=[str(folder)],
                processes=request.param,
                backend="stub",
                env=variables,
                log_dir=str(folder / "logs"),
                stall_timeout=120,
            ),
            output=null,
        )
    finally:
        os.close(null)
    said = [Path(rank.stderr).read_text()[-3000:] for rank in result.ranks]
    assert result.ok, "\n".join(said)
    return Job(folder, request.param)


def test_weights_are_bit_identical_on_all_ranks_after_each_step(job: Job) -> None:
    digests = job.agreed("trained", "weights")
    assert len(set(digests)) == STEPS + 1
    assert job.agreed("trained", "everything")  # with the slots
    assert job.agreed("trained", "collectives") > 0


def test_the_loss_curve_is_that_of_one_process_with_the_whole_batch(tf: Any, job: Job) -> None:
    model = embedding_model(tf, seed=1)
    train = DistributedOptimizer(tf.train.AdamOptimizer(0.1)).minimize(model.loss)
    alone = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for ids, goals in batches(job.size):
            assert len(ids) == job.size * BATCH
            feeds = {model.ids: ids, model.goals: goals}
            alone.append(sess.run([model.loss, train], feeds)[0])
    together = np.mean(job.of("trained", "losses"), axis=0)
    np.testing.assert_allclose(together, alone, rtol=1e-4)
    assert alone[-1] < alone[0]


def test_the_mean_of_each_kind_of_gradient(job: Job) -> None:
    ranks = range(job.size)
    dense, half, values, indices = job.agreed("averaged", "values")
    mean = sum(ranks) / job.size
    np.testing.assert_allclose(dense, [mean, 2 * mean], rtol=1e-6)
    np.testing.assert_allclose(half, [mean + 1], rtol=1e-3)
    np.testing.assert_allclose(values, [[rank / job.size] for rank in ranks for _ in "12"])
    assert indices == [index for rank in ranks for index in (rank, 0)]
    assert job.agreed("averaged", "none") is True


def test_an_overflow_on_one_rank_is_left_out_on_all(job: Job) -> None:
    assert job.agreed("overflown", "steps") == [
        [[0.75, 1.75], 1, 64.0],
        [[0.75, 1.75], 1, 32.0],
        [[0.5, 1.5], 2, 32.0],
    ]


def test_what_only_rank_0_restores_is_on_all_ranks(job: Job) -> None:
    own = [values.pop() for values in job.of("broadcast", "values")]
    assert own == list(range(job.size))
    assert job.agreed("broadcast", "values") == [42.0, True, 0.0, 0, 1234567890123]


def test_plain_sessions_begin_with_what_rank_0_has_or_restores(job: Job) -> None:
    assert job.agreed("initialized", "begins") == [[0, 1.0], [3, 11.0]]


def test_monitored_sessions_begin_with_what_rank_0_has_or_restores(job: Job) -> None:
    mean = sum(range(1, job.size + 1)) / job.size
    begins = [[0.0, 0.0], [pytest.approx(2 * mean), 2.0]]
    seen = job.of("monitored", "seen")
    # Each rank has the hook, and rank 0 once more as the chief's.
    assert seen[0] == [begins[0], begins[0], begins[1], begins[1]]
    assert seen[1:] == [begins] * (job.size - 1)


def test_monitored_sessions_write_checkpoints_on_rank_0_only(job: Job) -> None:
    files = job.of("monitored", "files")
    assert files[0] == [f"model.ckpt-{step}.index" for step in (0, 2, 4)]
    assert files[1:] == [[]] * (job.size - 1)


def test_estimators_begin_with_what_rank_0_has_or_restores(tf: Any, job: Job) -> None:
    if not hasattr(tf, "estimator"):
        assert job.agreed("estimated", "steps") is None
        return
    mean = sum(range(1, job.size + 1)) / job.size
    begins = [[0.0, 0.0], [pytest.approx(2 * mean), 2.0]]
    seen = job.of("estimated", "seen")
    assert seen[0] == [begins[0], begins[0], begins[1], begins[1]]  # also the chief's
    assert seen[1:] == [begins] * (job.size - 1)
    assert "model.ckpt-4.index" in job.of("estimated", "files")[0]


def test_a_variable_that_only_one_rank_has_is_said_on_all(job: Job) -> None:
    said = job.agreed("different", "said")
    assert said.startswith("The ranks have different global variables: rank 0 has 2, rank 1 has 1")


def test_ranks_that_begin_with_different_steps_are_told_what_is_missing(job: Job) -> None:
    others = ", ".join(f"rank {rank} at 0" for rank in range(1, job.size))
    assert job.agreed("unequal", "said") == (
        f"The ranks start with different global steps: rank 0 at 40, {others}."
    )


def test_loops_make_their_steps_together(job: Job) -> None:
    # The weight is the sum of the means of what the ranks have read, once for the steps of a run.
    first = [sum(range(1 + n * job.size, 1 + (n + 1) * job.size)) / job.size for n in range(2)]
    runs = job.agreed("looped", "runs")
    assert [steps for steps, _ in runs] == [3, 6]
    np.testing.assert_allclose([weight for _, weight in runs], [3 * first[0], 3 * sum(first)])


def test_a_model_of_keras_is_bit_identical_on_all_ranks(job: Job) -> None:
    assert "weights" in job._ranks[0]["keras"]
    job.agreed("keras", "weights")
