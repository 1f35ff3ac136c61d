"""The examples of sessions that others open: both ways of each, as functions and as programs."""

import importlib
import re
import runpy
import sys
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

import pytest

from ascend_session import ascend_session
from ascend_session.examples._plane import POINTS, SLOPES, hand_made_proto, points, share_of_batch
from ascend_session.requirements import tensorflow_hint
from hardware_tests.backend_contract import entry
from tests.examples.running import launch, run

HOME = "ascend_session.examples"
TRAINING = ["monitored", "supervisor", "keras_fit", "estimator"]
NAMES = [*TRAINING, "frozen_graph"]
ALL = Path(__file__).parent / "programs" / "one_after_the_other.py"
ROUNDING = 1e-5  # ranks add the same numbers in another order


def example(name: str) -> Any:
    """The module."""
    return importlib.import_module(f"{HOME}.{name}")


def missing(tf: Any, name: str) -> str:
    """What this TensorFlow has no longer, of which the example then speaks; else nothing."""
    if name == "estimator" and not hasattr(tf, "estimator"):
        return f"TensorFlow {tf.__version__} has no estimators"
    if name == "keras_fit" and not hasattr(tf.keras.backend, "set_session"):
        return f"TensorFlow {tf.__version__} has Keras {tf.keras.__version__}, which has no graph"
    return ""


class Shown(NamedTuple):
    """What a program has printed of each way, and the largest difference of the two."""

    without: Dict[str, float]
    ours: Dict[str, float]
    difference: Optional[float]


def shown(printed: str) -> Shown:
    """What stands in the lines of a program."""
    rows = re.findall(r"^((?:slope|answer) \d+) +(\S+) +(\S+)$", printed, re.MULTILINE)
    last = re.findall(r"^Largest difference: (\S+)$", printed, re.MULTILINE)
    return Shown(
        {name: float(one) for name, one, _ in rows},
        {name: float(other) for name, _, other in rows},
        float(last[0]) if last else None,
    )


def rounded(numbers: Dict[str, float]) -> Any:
    """The numbers as a program prints them."""
    return pytest.approx(numbers, abs=2 * ROUNDING)


@pytest.fixture(params=NAMES)
def name(request: Any) -> str:
    """Each of the examples."""
    return str(request.param)


@pytest.fixture
def keras_left_alone(tf: Any) -> Any:
    """Keras keeps no session that the test has closed."""
    yield
    if not missing(tf, "keras_fit"):
        tf.keras.backend.set_session(None)


@pytest.mark.smoke
@pytest.mark.usefixtures("keras_left_alone")
def test_the_program_shows_that_both_ways_come_to_the_same(
    tf: Any, name: str, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    said = missing(tf, name)
    if said:
        with pytest.raises(SystemExit, match=f"^{re.escape(said)}.*TensorFlow 2.15 is the last"):
            runpy.run_path(example(name).__file__, run_name="__main__")
        return
    runpy.run_path(example(name).__file__, run_name="__main__")
    printed, complaints = capsys.readouterr()
    found = shown(printed)
    assert len(found.ours) == (3 if name in TRAINING else 8)
    assert found.ours == rounded(found.without)
    assert found.difference is not None
    assert found.difference <= ROUNDING
    if name in TRAINING:
        assert list(found.ours.values()) == pytest.approx(list(SLOPES), abs=0.2)
    else:
        answers = points()[0][:8].dot(SLOPES)
        assert list(found.ours.values()) == pytest.approx(answers.tolist(), abs=2 * ROUNDING)
    assert not re.search("tensorflow|warning", complaints, re.IGNORECASE), complaints
    assert list(tmp_path.iterdir()) == []


def test_the_lines_made_by_hand_are_those_of_the_configuration(tf: Any, name: str) -> None:
    config = example(name).CONFIG
    mode = config.parameter_map()["graph_run_mode"]
    assert mode == (1 if name in TRAINING else 0)
    assert hand_made_proto(mode) == config.to_config_proto()


def test_the_configuration_reaches_the_session(tf: Any, name: str) -> None:
    config = example(name).CONFIG
    with ascend_session(config) as sess:
        assert entry(sess) == config.parameter_map()


@pytest.fixture(scope="module")
def job(tmp_path_factory: Any, forking_python: str) -> Dict[str, List[str]]:
    """What two ranks print who run one example after the other, of each example and rank.

    The job of "monitored" is run by test_owners_in_readme.py, next to what is shown of it.
    """
    here = tmp_path_factory.mktemp("job")
    paths = {str(example(name).__file__): name for name in NAMES if name != "monitored"}
    outcome = launch(2, "--log-dir", "logs", str(ALL), *paths, cwd=here, python=forking_python)
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    assert {path.name for path in here.iterdir()} == {"logs"}
    found: Dict[str, List[str]] = {name: [] for name in paths.values()}
    for rank in range(2):
        lines = re.findall(f"^\\[{rank}\\] (.*)$", outcome.stdout, re.MULTILINE)
        for text in "\n".join(lines).split("program ")[1:]:
            path, _, printed = text.partition("\n")
            found[paths[path]].append(printed)
    return found


@pytest.mark.parametrize("name", ["supervisor", "keras_fit", "estimator"])
def test_two_ranks_learn_as_one(
    tf: Any, job: Dict[str, List[str]], name: str, tmp_path: Path
) -> None:
    said = missing(tf, name)
    if said:
        assert [printed.startswith(said) for printed in job[name]] == [True, True]
        return
    alone = example("monitored").without(tmp_path / "alone")
    told = [shown(printed).ours for printed in job[name] if printed]
    # Where the result is a checkpoint that one rank writes for all, that rank alone tells it.
    assert len(told) == (1 if name == "supervisor" else 2)
    for slopes in told:
        assert slopes == rounded(alone)


def test_two_ranks_answer_every_second_question(job: Dict[str, List[str]]) -> None:
    answers = points()[0][:8].dot(SLOPES).tolist()
    for rank in range(2):
        expected = {f"answer {n}": answers[n] for n in range(rank, 8, 2)}
        assert shown(job["frozen_graph"][rank]).ours == rounded(expected)


def test_a_rank_that_learned_from_its_share_alone_would_come_to_something_else() -> None:
    import numpy

    halves = [numpy.linalg.lstsq(*points(rank, 2), rcond=None)[0] for rank in range(2)]
    assert abs(halves[0] - halves[1]).max() > 1000 * ROUNDING


def test_the_shares_of_all_ranks_are_all_points_once() -> None:
    whole = {tuple(point) for point in points()[0]}
    shares = [{tuple(point) for point in points(rank, 3)[0]} for rank in range(3)]
    assert len(whole) == POINTS == sum(map(len, shares))
    assert whole == set().union(*shares)
    assert [share_of_batch(size) for size in (1, 2, 8)] == [48, 24, 6]
    with pytest.raises(SystemExit, match="divides 48 points among the ranks, not among 5"):
        share_of_batch(5)


def test_a_missing_tensorflow_is_said_without_a_traceback(tmp_path: Path) -> None:
    code = (
        "import runpy, sys; sys.modules['tensorflow'] = None; "
        f"runpy.run_module('{HOME}.monitored', run_name='__main__')"
    )
    outcome = run("-c", code, cwd=tmp_path)
    assert (outcome.code, outcome.stdout) == (1, "")
    assert "Traceback" not in outcome.stderr
    assert tensorflow_hint() in outcome.stderr


def test_an_impossible_backend_is_said_in_a_sentence(tf: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("ASCEND_SESSION_BACKEND", "gpu")
    with pytest.raises(SystemExit, match=r"^ASCEND_SESSION_BACKEND='gpu' is not a backend"):
        runpy.run_path(example("frozen_graph").__file__, run_name="__main__")


def test_importing_them_imports_nothing_slow(tmp_path: Path) -> None:
    code = (
        f"import sys, {', '.join(f'{HOME}.{name}' for name in NAMES)}; "
        "print([name for name in ('tensorflow', 'numpy') if name in sys.modules])"
    )
    assert run("-c", code, cwd=tmp_path).stdout == "[]\n"


def test_a_script_of_the_same_name_as_a_package_of_tensorflow_is_not_among_them() -> None:
    # The folder is on sys.path of who runs a file in it by its path.
    folder = Path(example("monitored").__file__).parent
    found = {path.stem for path in folder.glob("*.py")}
    assert set(NAMES) <= found
    assert not found & {"keras", "tensorflow", "tensorflow_estimator", *sys.builtin_module_names}
