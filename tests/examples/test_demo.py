"""What the demo says of two trainings."""

import os
import sys
from pathlib import Path
from typing import Any, List

import pytest

from ascend_session.examples import demo
from ascend_session.examples._report import Epoch, load
from tests.examples.running import TOP, run

PROGRAM = """
import functools, sys
from ascend_session.examples import demo
demo.LaunchConfig = functools.partial(demo.LaunchConfig, python={!r})
sys.exit(demo.main({!r}, ranks=2))
"""


def epochs(*losses: float) -> List[Epoch]:
    return [Epoch(n, loss, 0.5, 0.9, f"weights{n}") for n, loss in enumerate(losses, 1)]


def test_it_runs_one_process_and_a_job_and_compares_them(
    tmp_path: Path, forking_python: str
) -> None:
    arguments = ["--epochs", "2", "--batch", "100", "--output", "out"]
    program = tmp_path / "two_ranks.py"
    program.write_text(PROGRAM.format(forking_python, arguments))
    outcome = run(str(program), cwd=tmp_path, python=forking_python)
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    unfolded = outcome.stdout.replace(" \\\n   ", "")
    commands = [line for line in unfolded.splitlines() if line.startswith("$ ")]
    assert "--batch 200" in commands[0]
    assert commands[1].startswith("$ ascend-session launch -n 2 -m ascend_session.examples.digits")
    assert "--batch 100" in commands[1]

    alone, together = load(tmp_path / "out" / "one_process"), load(tmp_path / "out" / "job")
    shown = [[row[1], row[2]] for row in outcome.table()]
    losses = [[a.training_loss, b.training_loss] for a, b in zip(alone, together)]
    assert shown == [[round(loss, 6) for loss in row] for row in losses]
    words = " ".join(outcome.stdout.split())
    assert demo.verdict(alone, together, 2) in words
    assert "on the CPU (stub): no Ascend processor is present" in words
    lines = [line for line in outcome.stdout.splitlines() if "/" not in line]
    assert max(map(len, lines)) <= 80
    picture = tmp_path / outcome.after("Picture:")
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    rest = outcome.stdout.partition("Try next:\n")[2].splitlines()
    assert [line[:4].strip() == "#" for line in rest] == [True, False] * 3


def test_one_process_learns_the_digits_with_the_images_of_eight_ranks(
    tmp_path: Path, forking_python: str
) -> None:
    arguments = ["-m", "ascend_session.examples.digits", "--epochs", str(demo.EPOCHS)]
    arguments += ["--batch", str(demo.RANKS * 64)]
    outcome = run(*arguments, cwd=tmp_path, python=forking_python)
    assert outcome.table()[-1][3] >= 0.95, outcome.stdout + outcome.stderr


@pytest.mark.parametrize(
    ("devices", "backends"), [(8, ["npu", "npu"]), (7, ["npu", "stub"]), (1, ["npu", "stub"])]
)
def test_a_job_that_has_not_a_device_for_each_rank_runs_on_the_cpu(
    devices: int, backends: List[str], monkeypatch: Any
) -> None:
    monkeypatch.setenv("ASCEND_SESSION_BACKEND", "npu")
    choices = demo.choose_backends(8, devices)
    assert [choice.name for choice in choices] == backends
    assert backends[1] == "npu" or choices[1].reason.startswith("8 ranks need 8 devices, and this")


def test_a_job_that_fails_is_said_with_its_exit_code(tmp_path: Path, forking_python: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os\nif os.environ.get('RANK_ID') == '1': os._exit(7)\n"
    )
    program = tmp_path / "two_ranks.py"
    program.write_text(PROGRAM.format(sys.executable, ["--epochs", "1", "--output", "out"]))
    path = os.pathsep.join([str(tmp_path), str(TOP)])
    outcome = run(str(program), cwd=tmp_path, python=forking_python, PYTHONPATH=path)
    assert outcome.code == 7, outcome.stdout + outcome.stderr
    assert outcome.stderr.startswith("The job failed. Rank 1 ")
    assert outcome.stderr.split()[-1].endswith("attempt_1")
    assert "trained as one" not in outcome.stdout


def test_equal_curves_are_one_training() -> None:
    said = demo.verdict(epochs(2.0, 1.0), epochs(2.0, 1.00000001), 8)
    assert said.startswith("8 ranks have trained as one: the loss curves differ by 1.0e-08 at most")
    assert "weights2 at the end" in said


def test_devices_make_no_promise_about_rounding() -> None:
    said = demo.verdict(epochs(2.0, 1.0), epochs(2.0, 1.01), 8, is_exact=False)
    assert said.startswith("8 ranks have trained together: the loss curves differ by 1.0e-02 at")


def test_other_curves_are_not() -> None:
    said = demo.verdict(epochs(2.0, 1.0), epochs(2.0, 1.01), 8)
    assert said.startswith("The 8 ranks have not trained as one: the loss curves differ by up to")


def test_eight_ranks_are_the_demo() -> None:
    assert demo.RANKS == 8
