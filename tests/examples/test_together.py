"""The example as a job of three ranks, next to one process with the threefold batch."""

import re
from pathlib import Path
from typing import Any, List, Tuple

import pytest

from ascend_session.examples._report import Epoch, load
from ascend_session.examples.digits import NAME
from tests.examples.running import Outcome, launch, run

EPOCHS = 5
FEW = ("-m", NAME, "--epochs", str(EPOCHS), "--output", "out")


@pytest.fixture(scope="module")
def job(tmp_path_factory: Any, forking_python: str) -> Tuple[Outcome, Path]:
    """A job of three ranks, and the folder it was started in."""
    here = tmp_path_factory.mktemp("job")
    outcome = launch(3, "--log-dir", "logs", *FEW, "--batch", "32", cwd=here, python=forking_python)
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    return outcome, here


@pytest.fixture(scope="module")
def alone(tmp_path_factory: Any) -> List[Epoch]:
    """What one process came to that sees in each step what the three see."""
    here = tmp_path_factory.mktemp("alone")
    outcome = run(*FEW, "--batch", "96", cwd=here, ASCEND_SESSION_BACKEND="stub")
    assert outcome.code == 0, outcome.stderr
    return load(here / "out")


def test_all_ranks_say_the_same_weights(job: Tuple[Outcome, Path]) -> None:
    outcome, here = job
    said = re.findall(
        r"^\[(\d)\] Rank (\d) of 3: weights ([0-9a-f]{16}), the same on all ranks in "
        f"{EPOCHS} epochs$",
        outcome.stdout,
        re.MULTILINE,
    )
    last = load(here / "out")[-1].weights
    assert sorted(said) == [(str(rank), str(rank), last) for rank in range(3)]


def test_the_losses_are_those_of_one_process_with_the_threefold_batch(
    job: Tuple[Outcome, Path], alone: List[Epoch]
) -> None:
    together = load(job[1] / "out")
    assert [epoch.number for epoch in together] == list(range(1, EPOCHS + 1))
    for ours, theirs in zip(together, alone):
        assert ours.training_loss == pytest.approx(theirs.training_loss, abs=1e-5)
        assert ours.held_out_loss == pytest.approx(theirs.held_out_loss, abs=1e-5)
    assert together[-1].training_loss < together[0].training_loss / 5


def test_the_first_rank_alone_reports_and_saves(job: Tuple[Outcome, Path]) -> None:
    outcome, here = job
    assert {path.name for path in here.iterdir()} == {"out", "logs"}
    saved = {path.name for path in (here / "out").iterdir()}
    assert {"model.index", "curve.png", "history.json"} < saved
    assert not [name for name in saved if "rank" in name]
    assert Path(outcome.after("[0] Checkpoint:")) == here.resolve() / "out" / "model"
    others = [line for line in outcome.stdout.splitlines() if line[:3] != "[0]"]
    assert len(others) == 2, others


def test_what_the_first_rank_has_saved_is_restored_on_all(job: Tuple[Outcome, Path]) -> None:
    outcome, here = job
    restored = outcome.after("[0] Restored in a second session: held-out accuracy")
    assert float(restored) == pytest.approx(load(here / "out")[-1].held_out_accuracy, abs=5e-4)


def test_tensorflow_does_not_disturb_with_messages(job: Tuple[Outcome, Path]) -> None:
    said = job[0].stdout.replace(str(job[1]), "") + job[0].stderr
    assert not re.search("tensorflow|warning|grpc|onednn", said, re.IGNORECASE), said
