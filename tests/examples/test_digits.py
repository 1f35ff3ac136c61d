"""The example as its users run it, and the parts they copy."""

from pathlib import Path
from typing import Any, Tuple

import pytest

from ascend_session.examples import digits
from ascend_session.requirements import tensorflow_hint
from tests.examples.running import Outcome, run

PROGRAM = ("-m", "ascend_session.examples.digits")


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


@pytest.fixture(scope="module")
def again(tmp_path_factory: Any, forking_python: str) -> Tuple[Outcome, Path]:
    """A shorter run with the stub asked for, and the directory it was started in."""
    here = tmp_path_factory.mktemp("again")
    asked = {"python": forking_python, "ASCEND_SESSION_BACKEND": "stub"}
    return run(*PROGRAM, "--epochs", "3", "--output", "a/b", cwd=here, **asked), here


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


def test_it_says_which_backend_ran_and_why(
    trained: Tuple[Outcome, Path], again: Tuple[Outcome, Path]
) -> None:
    assert again[0].stdout.splitlines()[-1] == (
        "Backend: stub, because ASCEND_SESSION_BACKEND=stub is set"
    )
    assert trained[0].stdout.splitlines()[-1].startswith("Backend: stub, because no Ascend")


def test_neither_tensorflow_nor_an_option_disturbs_with_messages(
    trained: Tuple[Outcome, Path],
) -> None:
    lines = [line.lower() for line in trained[0].stderr.splitlines()]
    assert lines.pop(0).startswith("this program runs on the cpu: no ascend processor is present")
    assert not [line for line in lines if "tensorflow" in line or "warning" in line]


def test_two_runs_have_the_same_result(
    trained: Tuple[Outcome, Path], again: Tuple[Outcome, Path]
) -> None:
    outcome, here = again
    assert outcome.table() == trained[0].table()[:3]
    assert (here / "a" / "b" / "curve.png").is_file()


def test_it_goes_on_where_the_latest_checkpoint_was_made(
    trained: Tuple[Outcome, Path], tmp_path: Path, forking_python: str
) -> None:
    def train(epochs: str) -> Outcome:
        asked = ("--checkpoint-dir", "checkpoints", "--checkpoint-steps", "7")
        return run(*PROGRAM, "--epochs", epochs, *asked, cwd=tmp_path, python=forking_python)

    first, second = train("1"), train("2")
    assert [*first.table(), *second.table()] == trained[0].table()[:2]
    third = train("2")
    assert (third.code, third.table()) == (0, []), third.stderr
    assert "checkpoints has all epochs." in third.stdout
    assert "Training curve" not in third.stdout


@pytest.mark.parametrize("number", ["0", "-1", "many"])
@pytest.mark.parametrize("argument", ["--epochs", "--batch"])
def test_a_wrong_number_is_refused(argument: str, number: str, tmp_path: Path) -> None:
    outcome = run(*PROGRAM, argument, number, cwd=tmp_path)
    assert outcome.code == 2
    assert outcome.stderr.splitlines()[-1].endswith(
        f"argument {argument}: {number!r} is not a whole number of 1 or more."
    )
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_cannot_be_is_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    outcome = run(*PROGRAM, "--output", "file", cwd=tmp_path)
    assert outcome.code == 2
    assert outcome.stderr.splitlines()[-1].endswith(
        "argument --output: the folder 'file' cannot be created: File exists."
    )


def test_a_batch_of_more_images_than_there_are_is_refused() -> None:
    digits.check_share(digits.Share(0, 1, 1437), 1437)
    with pytest.raises(SystemExit, match=r"^--batch 1438 makes 1438 images, but there are 1437\."):
        digits.check_share(digits.Share(0, 1, 1438), 1437)
    with pytest.raises(SystemExit, match="--batch 200 on each of 8 ranks makes 1600 images"):
        digits.check_share(digits.Share(0, 8, 200), 1437)


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
    assert sentence.endswith("pip install scikit-learn matplotlib")


def test_a_missing_tensorflow_is_said_without_a_traceback(tmp_path: Path) -> None:
    outcome = without("tensorflow", tmp_path)
    assert outcome.code == 1
    assert "Traceback" not in outcome.stderr
    assert tensorflow_hint() in outcome.stderr


def test_an_impossible_backend_is_said_without_a_traceback(tmp_path: Path) -> None:
    outcome = run(*PROGRAM, cwd=tmp_path, ASCEND_SESSION_BACKEND="gpu")
    assert outcome.code == 1
    assert outcome.stderr.splitlines()[0] == "ASCEND_SESSION_BACKEND='gpu' is not a backend."


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


@pytest.mark.parametrize("size", [2, 3, 8])
def test_the_shares_of_all_ranks_are_the_steps_of_one_with_as_large_a_batch(size: int) -> None:
    training, _ = digits.load_digits()
    shares = [
        list(digits.batches(training, 3, digits.Share(rank, size, 40))) for rank in range(size)
    ]
    whole = list(digits.batches(training, 3, digits.Share(batch=40 * size)))
    assert {len(share) for share in shares} == {len(whole)} == {1437 // (40 * size)}
    for number, batch in enumerate(whole):
        parts = [share[number] for share in shares]
        assert {part.images.shape for part in parts} == {(40, 64)}
        for rank, part in enumerate(parts):
            assert part.images.tolist() == batch.images[rank::size].tolist()
            assert part.labels.tolist() == batch.labels[rank::size].tolist()


def test_a_dataset_that_is_sharded_as_its_words_say_gives_the_same_share(tf: Any) -> None:
    training, _ = digits.load_digits()
    rank, size, batch = 2, 3, 40
    order = digits.Share(batch=len(training.labels))
    ((images, labels),) = digits.batches(training, 4, order)
    steps = len(labels) // (batch * size)
    dataset = tf.data.Dataset.from_tensor_slices((images, labels))
    dataset = dataset.take(steps * batch * size).shard(size, rank).batch(batch)
    element = tf.data.make_one_shot_iterator(dataset).get_next()
    share = list(digits.batches(training, 4, digits.Share(rank, size, batch)))
    assert len(share) == steps
    with tf.Session() as sess:
        for images, labels in share:
            found = sess.run(element)
            assert found[0].tolist() == images.tolist()
            assert found[1].tolist() == labels.tolist()
        with pytest.raises(tf.errors.OutOfRangeError):
            sess.run(element)
