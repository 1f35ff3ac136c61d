"""Every command as it is typed, and all that it says: see README.md in this folder."""

import difflib
from pathlib import Path

import pytest

from tests.golden.bench import open_bench
from tests.golden.transcript import Step, format_step, read_case, write_case

_CASES = Path(__file__).resolve().parent / "cases"


def _find_cases(with_tensorflow):
    """Find the cases that start a Python with TensorFlow, or the others, by their commands."""
    paths = sorted(_CASES.rglob("*.txt"))
    found = [path for path in paths if ("$PYTHON" in path.read_text()) is with_tensorflow]
    return [pytest.param(path, id=str(path.relative_to(_CASES))[:-4]) for path in found]


@pytest.fixture
def check(call, request):
    """Run a case and compare what it comes to, or write it down."""

    def check(path, python=""):
        case = read_case(path)
        with open_bench(case, call, python) as bench:
            steps = [Step(step.command, bench.run(step.command)) for step in case.steps]
        if request.config.getoption("--update-golden", False):
            write_case(path, case._replace(steps=steps))
        else:
            _compare(case.steps, steps, path.name)

    return check


@pytest.mark.parametrize("path", _find_cases(with_tensorflow=False))
def test_what_a_command_says_is_what_is_written_down(check, path):
    check(path)


@pytest.mark.parametrize("path", _find_cases(with_tensorflow=True))
def test_what_happens_with_tensorflow_is_what_is_written_down(check, path, forking_python):
    check(path, forking_python)


def _compare(written, now, name):
    texts = ["".join(map(format_step, steps)).split("\n") for steps in (written, now)]
    diff = difflib.unified_diff(*texts, f"{name}, as written", f"{name}, now", lineterm="")
    assert texts[0] == texts[1], "\n".join(diff)
