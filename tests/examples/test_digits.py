"""The example as its users run it, and the parts they copy."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, List, NamedTuple, Tuple

import pytest

from ascend_session.examples import digits

TOP = Path(__file__).resolve().parents[2]
PROGRAM = ("-m", "ascend_session.examples.digits")


class Outcome(NamedTuple):
    code: int
    stdout: str
    stderr: str

    def table(self) -> List[List[float]]:
        """The numbers of each line of the table that has one for an epoch."""
        lines = [line.split() for line in self.stdout.splitlines()]
        return [[float(n) for n in line] for line in lines if re.match(r"\d+$", "".join(line[:1]))]

    def after(self, label: str) -> str:
        """What the one line that begins with ``label`` says after it."""
        (text,) = re.findall(f"^{label}(.*)$", self.stdout, re.MULTILINE)
        return str(text).strip()


def run(*arguments: str, cwd: Path, **environ: str) -> Outcome:
    base = {k: v for k, v in os.environ.items() if not k.startswith(("ASCEND", "RANK", "TF_"))}
    ended = subprocess.run(
        [sys.executable, *arguments],
        cwd=str(cwd),
        env={**base, "PYTHONPATH": str(TOP), **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return Outcome(ended.returncode, ended.stdout, ended.stderr)


def without(package: str, cwd: Path) -> Outcome:
    """Runs the example as on a machine that does not have ``package``."""
    code = (
        f"import runpy, sys; sys.modules[{package!r}] = None; sys.argv[1:] = ['--epochs', '1']; "
        f"runpy.run_module({PROGRAM[1]!r}, run_name='__main__')"
    )
    return run("-c", code, cwd=cwd)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: Any) -> Tuple[Outcome, Path]:
    """One run as a newcomer starts it, and the directory it was started in."""
    here = tmp_path_factory.mktemp("here")
    return run(*PROGRAM, cwd=here), here


@pytest.mark.smoke
def test_it_learns_the_digits(trained: Tuple[Outcome, Path]) -> None:
    outcome, _ = trained
    assert (outcome.code, outcome.stderr.count("Traceback")) == (0, 0), outcome.stderr
    table = outcome.table()
    assert [line[0] for line in table] == list(range(1, 16))
    losses = [line[1] for line in table]
    assert losses[-1] < losses[0] / 10
    assert table[-1][3] >= 0.95


def test_a_second_session_restores_what_was_trained(trained: Tuple[Outcome, Path]) -> None:
    outcome, _ = trained
    restored = outcome.after("Restored in a second session: held-out accuracy")
    assert float(restored) == outcome.table()[-1][3]
    assert Path(outcome.after("Checkpoint:") + ".index").is_file()


def test_the_curve_is_a_picture_where_it_says(trained: Tuple[Outcome, Path]) -> None:
    curve = Path(trained[0].after("Training curve:"))
    assert curve.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_everything_it_writes_is_in_one_directory(trained: Tuple[Outcome, Path]) -> None:
    outcome, here = trained
    assert [path.name for path in here.iterdir()] == ["digits-output"]
    assert Path(outcome.after("Training curve:")).parent == here.resolve() / "digits-output"


def test_it_says_which_backend_ran_and_why(trained: Tuple[Outcome, Path], tmp_path: Path) -> None:
    asked = run(*PROGRAM, "--epochs", "1", cwd=tmp_path, ASCEND_SESSION_BACKEND="stub")
    assert asked.stdout.splitlines()[-1] == (
        "Backend: stub, because ASCEND_SESSION_BACKEND=stub is set"
    )
    assert trained[0].stdout.splitlines()[-1].startswith("Backend: stub, because no Ascend")


def test_neither_tensorflow_nor_an_option_disturbs_with_messages(
    trained: Tuple[Outcome, Path],
) -> None:
    said = trained[0].stderr.lower()
    assert "tensorflow" not in said
    assert "warning" not in said


def test_two_runs_have_the_same_result(trained: Tuple[Outcome, Path], tmp_path: Path) -> None:
    again = run(*PROGRAM, "--epochs", "3", "--output", "a/b", cwd=tmp_path)
    assert again.table() == trained[0].table()[:3]
    assert (tmp_path / "a" / "b" / "curve.png").is_file()


@pytest.mark.parametrize("epochs", ["0", "-1", "many"])
def test_a_wrong_number_of_epochs_is_refused(epochs: str, tmp_path: Path) -> None:
    outcome = run(*PROGRAM, "--epochs", epochs, cwd=tmp_path)
    assert outcome.code == 2
    assert outcome.stderr.splitlines()[-1].endswith(
        f"argument --epochs: {epochs!r} is not a whole number of 1 or more."
    )
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_cannot_be_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    outcome = run(*PROGRAM, "--output", "file", cwd=tmp_path)
    assert outcome.code == 2
    assert outcome.stderr.splitlines()[-1].endswith(
        "argument --output: the directory 'file' cannot be made: File exists."
    )


def test_help_writes_nothing(tmp_path: Path) -> None:
    outcome = run(*PROGRAM, "--help", cwd=tmp_path)
    assert outcome.code == 0
    assert "--epochs N" in outcome.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["sklearn", "matplotlib"])
def test_a_missing_package_is_one_sentence(package: str, tmp_path: Path) -> None:
    outcome = without(package, tmp_path)
    assert outcome.code == 1
    assert outcome.stdout == ""
    (sentence,) = outcome.stderr.splitlines()
    assert package in sentence
    assert sentence.endswith("pip install 'ascend_session[demo]'")


def test_a_missing_tensorflow_is_said_without_a_traceback(tmp_path: Path) -> None:
    outcome = without("tensorflow", tmp_path)
    assert outcome.code == 1
    assert "Traceback" not in outcome.stderr
    assert "pip install 'ascend_session[tensorflow]'" in outcome.stderr


def test_an_impossible_backend_is_said_without_a_traceback(tmp_path: Path) -> None:
    outcome = run(*PROGRAM, cwd=tmp_path, ASCEND_SESSION_BACKEND="gpu")
    assert outcome.code == 1
    assert outcome.stderr.splitlines()[0] == "ASCEND_SESSION_BACKEND='gpu' is no backend."


def test_importing_it_imports_nothing_slow(tmp_path: Path) -> None:
    code = (
        "import sys, ascend_session.examples.digits; "
        "print([m for m in ('tensorflow', 'sklearn', 'matplotlib', 'rich') if m in sys.modules])"
    )
    assert run("-c", code, cwd=tmp_path).stdout == "[]\n"


def test_its_configuration_says_a_dozen_options() -> None:
    assert len(digits.CONFIG.parameter_map()) >= 12


def test_the_data_are_all_digits_once_in_two_parts() -> None:
    training, held_out = digits.load_digits()
    assert (training.images.shape, held_out.images.shape) == ((1437, 64), (360, 64))
    assert (training.labels.shape, held_out.labels.shape) == ((1437,), (360,))
    both = [tuple(image) for part in (training, held_out) for image in part.images]
    assert len(set(both)) == 1797
    assert (min(map(min, both)), max(map(max, both))) == (0, 1)
    assert set(held_out.labels) == set(range(10))


def test_the_batches_of_an_epoch_are_full_and_have_no_example_twice() -> None:
    training, _ = digits.load_digits()
    found = list(digits.batches(training, epoch=1))
    assert {batch.images.shape for batch in found} == {(64, 64)}
    assert len(found) == 1437 // 64
    images = [tuple(image) for batch in found for image in batch.images]
    assert len(set(images)) == len(images)


def test_images_keep_their_labels() -> None:
    training, _ = digits.load_digits()
    label_of = {tuple(image): label for image, label in zip(*training)}
    for batch in digits.batches(training, epoch=2):
        assert [label_of[tuple(image)] for image in batch.images] == list(batch.labels)


def test_each_epoch_has_an_order_of_its_own() -> None:
    training, _ = digits.load_digits()
    first, same, second = (next(digits.batches(training, epoch)) for epoch in (1, 1, 2))
    assert first.labels.tolist() == same.labels.tolist()
    assert first.labels.tolist() != second.labels.tolist()
