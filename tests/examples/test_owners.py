"""The examples of sessions that others open: both ways of each, as functions and as programs."""

import importlib
import re
import sys
from pathlib import Path
from typing import Any, Dict

import pytest

from ascend_session import ascend_session
from ascend_session.examples import _plane
from ascend_session.examples._side_by_side import difference, hand_made_proto
from tests.backend_contract import entry
from tests.examples.running import Outcome, launch, run

HOME = "ascend_session.examples"
TRAINING = ["monitored", "supervisor", "keras_fit", "estimator"]
NAMES = [*TRAINING, "frozen_graph"]
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


def shown(outcome: Outcome, rank: str = "") -> Dict[str, Dict[str, float]]:
    """What a program has printed of each way, of the rank whose lines begin so."""
    line = f"^{re.escape(rank)}((?:slope|answer) \\d+) +(\\S+) +(\\S+)$"
    rows = re.findall(line, outcome.stdout, re.MULTILINE)
    return {
        "without": {name: float(one) for name, one, _ in rows},
        "with": {name: float(other) for name, _, other in rows},
    }


def rounded(numbers: Dict[str, float]) -> Any:
    """The numbers as a program prints them."""
    return pytest.approx(numbers, abs=ROUNDING)


@pytest.fixture(params=NAMES)
def name(request: Any) -> str:
    """Each of the examples."""
    return str(request.param)


@pytest.fixture
def available(tf: Any, name: str) -> str:
    """Each of those for which this TensorFlow has all that is needed."""
    if missing(tf, name):
        pytest.skip(missing(tf, name))
    return name


@pytest.fixture
def keras_left_alone(tf: Any) -> Any:
    """Keras keeps no session that the test has closed."""
    yield
    if not missing(tf, "keras_fit"):
        tf.keras.backend.set_session(None)


@pytest.mark.smoke
@pytest.mark.usefixtures("keras_left_alone")
def test_both_ways_come_to_the_same(tf: Any, available: str, tmp_path: Path) -> None:
    usual = example(available).without(tmp_path / "without")
    ours = example(available).with_ascend_session(tmp_path / "with")
    assert len(ours) == (3 if available in TRAINING else 8)
    assert ours.keys() == usual.keys()
    assert difference(usual, ours) <= ROUNDING
    if available in TRAINING:
        assert list(ours.values()) == pytest.approx(list(_plane.SLOPES), abs=0.2)
    else:
        _, goals = _plane.points()
        assert list(ours.values()) == pytest.approx(goals[:8].ravel().tolist(), abs=3)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("name", "require"),
    [("keras_fit", "require_sessions"), ("estimator", "require_estimators")],
)
def test_what_tensorflow_has_no_longer_is_said_in_a_sentence(
    tf: Any, name: str, require: str
) -> None:
    said = missing(tf, name)
    if not said:
        assert getattr(example(name), require)() is None
        return
    with pytest.raises(SystemExit, match=f"^{re.escape(said)}.*TensorFlow 2.15 is the last"):
        getattr(example(name), require)()


def test_the_lines_made_by_hand_are_those_of_the_configuration(tf: Any, name: str) -> None:
    config = example(name).CONFIG
    mode = config.parameter_map()["graph_run_mode"]
    assert mode == (1 if name in TRAINING else 0)
    assert hand_made_proto(mode) == config.to_config_proto()


def test_the_configuration_reaches_the_session(tf: Any, name: str) -> None:
    config = example(name).CONFIG
    with ascend_session(config) as sess:
        assert entry(sess) == config.parameter_map()


def test_the_program_shows_both_ways(available: str, tmp_path: Path, forking_python: str) -> None:
    outcome = run(example(available).__file__, cwd=tmp_path, python=forking_python)
    assert outcome.code == 0, outcome.stderr
    title, *rows, last = outcome.stdout.splitlines()
    assert title.split() == ["without", "with", "ascend_session"]
    assert len(rows) == (3 if available in TRAINING else 8)
    assert shown(outcome)["with"] == rounded(shown(outcome)["without"])
    assert float(last.replace("Largest difference: ", "")) <= ROUNDING
    assert not re.search("tensorflow|warning", outcome.stderr, re.IGNORECASE), outcome.stderr
    assert list(tmp_path.iterdir()) == []


# The job of "monitored" is run by test_owners_in_readme.py, next to what is shown of it.
@pytest.mark.parametrize("name", [name for name in NAMES if name != "monitored"], indirect=True)
def test_two_ranks_share_the_work(available: str, tmp_path: Path, forking_python: str) -> None:
    module = f"{HOME}.{available}"
    outcome = launch(2, "--log-dir", "logs", "-m", module, cwd=tmp_path, python=forking_python)
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    ranks = [shown(outcome, f"[{rank}] ") for rank in range(2)]
    for found in ranks:
        assert found["with"] == rounded(found["without"])
    if available == "frozen_graph":
        assert [list(found["with"])[:2] for found in ranks] == [
            ["answer 0", "answer 2"],
            ["answer 1", "answer 3"],
        ]
        return
    alone = example("monitored").without(tmp_path / "alone")
    told = [found["with"] for found in ranks if found["with"]]
    # Where the result is a checkpoint that one rank writes for all, that rank alone tells it.
    assert len(told) == (1 if available == "supervisor" else 2)
    for slopes in told:
        assert slopes == rounded(alone)


def test_a_rank_that_learned_from_its_share_alone_would_come_to_something_else() -> None:
    import numpy

    halves = [numpy.linalg.lstsq(*_plane.points(rank, 2), rcond=None)[0] for rank in range(2)]
    assert abs(halves[0] - halves[1]).max() > 1000 * ROUNDING


def test_the_shares_of_all_ranks_are_all_points_once() -> None:
    whole = {tuple(point) for point in _plane.points()[0]}
    shares = [{tuple(point) for point in _plane.points(rank, 3)[0]} for rank in range(3)]
    assert len(whole) == _plane.POINTS == sum(map(len, shares))
    assert whole == set().union(*shares)
    assert [_plane.share_of_batch(size) for size in (1, 2, 8)] == [48, 24, 6]
    with pytest.raises(SystemExit, match="divides 48 points among the ranks, not among 5"):
        _plane.share_of_batch(5)


def test_a_missing_tensorflow_is_said_without_a_traceback(tmp_path: Path) -> None:
    code = (
        "import runpy, sys; sys.modules['tensorflow'] = None; "
        f"runpy.run_module('{HOME}.monitored', run_name='__main__')"
    )
    outcome = run("-c", code, cwd=tmp_path)
    assert (outcome.code, outcome.stdout) == (1, "")
    assert "Traceback" not in outcome.stderr
    assert "pip install 'ascend_session[tensorflow]'" in outcome.stderr


def test_an_impossible_backend_is_said_without_a_traceback(
    tmp_path: Path, forking_python: str
) -> None:
    variables = {"ASCEND_SESSION_BACKEND": "gpu"}
    program = example("monitored").__file__
    outcome = run(program, cwd=tmp_path, python=forking_python, **variables)
    assert (outcome.code, outcome.stdout) == (1, "")
    assert outcome.stderr.splitlines()[0] == "ASCEND_SESSION_BACKEND='gpu' is no backend."


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
