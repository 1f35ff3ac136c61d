"""Which interpreter the scripts take, and what they say when there is none."""

import os
import sys
from pathlib import Path
from typing import Any, Dict

import pytest

from interpreters import Need, SetupError, best, probe, requested

NEED = Need((7, 11, 10), "Python 3.7, or 3.10 or newer", tensorflow=True)


@pytest.fixture
def environ(checkout: Any) -> Dict[str, str]:
    """A PATH that holds only what the test puts there."""
    (checkout.bin / "python3").unlink()
    return {"PATH": str(checkout.bin), "HOME": str(checkout.top)}


def chosen(environ: Dict[str, str]) -> str:
    return os.path.basename(best(NEED, environ).executable)


def refusal(asked: object, environ: Dict[str, str]) -> str:
    with pytest.raises(SetupError) as caught:
        requested(str(asked), NEED, environ)
    return str(caught.value)


def test_an_interpreter_inside_an_environment_answers_with_the_one_it_was_made_from(
    tmp_path: Path,
) -> None:
    found = probe(sys.executable, os.environ)
    assert found is not None
    assert found.version == sys.version_info[:3]
    assert not os.path.exists(os.path.join(os.path.dirname(found.executable), "..", "pyvenv.cfg"))


def test_python_3_7_comes_before_newer_ones(checkout: Any, environ: Dict[str, str]) -> None:
    checkout.stand_in("python3.11", (3, 11, 7))
    checkout.stand_in("python3.7", (3, 7, 16))
    assert chosen(environ) == "python3.7"


def test_a_plain_python3_is_asked_for_its_version(checkout: Any, environ: Dict[str, str]) -> None:
    checkout.stand_in("python3.10", (3, 10, 1))
    checkout.stand_in("python3", (3, 11, 7))
    assert chosen(environ) == "python3"


def test_python_3_7_is_passed_over_where_tensorflow_1_15_cannot_be_installed(
    checkout: Any, environ: Dict[str, str]
) -> None:
    checkout.stand_in("python3.7", (3, 7, 16), platform="linux-aarch64")
    checkout.stand_in("python3.11", (3, 11, 7), platform="linux-aarch64")
    assert chosen(environ) == "python3.11"


def test_python_3_7_will_do_anywhere_when_tensorflow_is_not_needed(
    checkout: Any, environ: Dict[str, str]
) -> None:
    checkout.stand_in("python3.7", (3, 7, 16), platform="linux-aarch64")
    found = best(NEED._replace(tensorflow=False), environ)
    assert found.version == (3, 7, 16)


def test_one_that_cannot_make_environments_is_passed_over(
    checkout: Any, environ: Dict[str, str]
) -> None:
    checkout.stand_in("python3.7", (3, 7, 16), missing="No module named 'ensurepip'")
    checkout.stand_in("python3.10", (3, 10, 1))
    assert chosen(environ) == "python3.10"


def test_a_program_that_is_no_python_is_passed_over(checkout: Any, environ: Dict[str, str]) -> None:
    (checkout.bin / "python3.7").symlink_to("/bin/true")
    checkout.stand_in("python3.10", (3, 10, 1))
    assert chosen(environ) == "python3.10"


def test_the_newest_release_under_pyenv_is_found(checkout: Any, environ: Dict[str, str]) -> None:
    for name, patch in (("3.7.9", 9), ("3.7.16", 16)):
        place = checkout.top / "pyenv" / "versions" / name / "bin"
        place.mkdir(parents=True)
        checkout.stand_in("x", (3, 7, patch)).rename(place / "python")
    environ["PYENV_ROOT"] = str(checkout.top / "pyenv")
    assert best(NEED, environ).release == "3.7.16"


def test_without_any_the_sentence_lists_what_was_found(
    checkout: Any, environ: Dict[str, str]
) -> None:
    path = checkout.stand_in("python3", (3, 8, 18))
    with pytest.raises(SetupError) as caught:
        best(NEED, environ)
    assert str(caught.value) == (
        "This needs Python 3.7, or 3.10 or newer, and there is none on PATH or under pyenv "
        f"(found: {path} is Python 3.8.18): install one, or set PYTHON to its path."
    )


def test_the_sentence_says_so_when_there_is_no_python_at_all(environ: Dict[str, str]) -> None:
    with pytest.raises(SetupError, match=r"\(found: no Python at all\)"):
        best(NEED, environ)


def test_what_python_names_may_be_a_bare_name(checkout: Any, environ: Dict[str, str]) -> None:
    path = checkout.stand_in("my-python", (3, 11, 7))
    assert requested("my-python", NEED, environ).executable == str(path)


def test_a_missing_interpreter_is_refused_by_name(environ: Dict[str, str]) -> None:
    assert refusal("/nonexistent/python", environ) == (
        'PYTHON asks for "/nonexistent/python", but there is no such program: '
        "set PYTHON to Python 3.7, or 3.10 or newer, or unset it to let the script choose."
    )


def test_a_program_that_is_no_python_is_refused(environ: Dict[str, str]) -> None:
    assert '"/bin/true", which is not a working Python:' in refusal("/bin/true", environ)


@pytest.mark.parametrize(
    ("description", "words"),
    [
        ({"version": (3, 6, 15)}, "which is Python 3.6.15:"),
        ({"version": (3, 8, 18)}, "which is Python 3.8.18:"),
        ({"version": (2, 7, 18)}, "which is Python 2.7.18:"),
        (
            {"platform": "linux-aarch64"},
            "which is Python 3.7.16 on linux-aarch64, which TensorFlow 1.15 is not built for:",
        ),
        ({"implementation": "PyPy"}, "which is PyPy, for which there is no TensorFlow:"),
        (
            {"missing": "No module named 'ensurepip'"},
            "which is Python 3.7.16 without parts that this needs (No module named 'ensurepip'):",
        ),
    ],
)
def test_an_interpreter_that_does_not_do_is_refused_with_what_it_is(
    checkout: Any, environ: Dict[str, str], description: Dict[str, Any], words: str
) -> None:
    assert words in refusal(checkout.stand_in(**description), environ)
