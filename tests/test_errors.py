"""The tree of errors: as drawn, catchable as builtins, and readable."""

import builtins
import copy
import pickle
import re
import subprocess
import sys
from typing import Any, Dict, List, Type

import pytest

from ascend_session import errors
from ascend_session.errors import AscendError, ConfigError
from ascend_session.findings import ERROR, Finding

# A name in the drawing, and the builtin in brackets behind it.
_DRAWN = re.compile(r"[├└]── (\w+) +\[(\w+)\]")


def classes() -> List[Type[Any]]:
    """Every class that the module defines and that is an exception."""
    found = [value for value in vars(errors).values() if isinstance(value, type)]
    return [c for c in found if issubclass(c, BaseException) and c.__module__ == errors.__name__]


def leaves() -> Dict[str, Type[Any]]:
    return {c.__name__: c for c in classes() if issubclass(c, AscendError) and c is not AscendError}


def test_the_tree_is_as_drawn() -> None:
    drawn = dict(_DRAWN.findall(str(errors.__doc__)))
    assert drawn == {name: leaf.__mro__[2].__name__ for name, leaf in leaves().items()}
    assert len(drawn) == str(errors.__doc__).count("── ")


@pytest.mark.parametrize("name", sorted(leaves()))
def test_a_leaf_is_the_fitting_builtin(name: str) -> None:
    leaf = leaves()[name]
    builtin = dict(_DRAWN.findall(str(errors.__doc__)))[name]
    assert leaf.__bases__ == (AscendError, getattr(builtins, builtin))
    with pytest.raises(getattr(builtins, builtin), match="what happened"):
        raise leaf("what happened")


def test_the_warning_is_a_user_warning() -> None:
    assert errors.AscendConfigWarning.__bases__ == (UserWarning,)
    assert "AscendConfigWarning        [UserWarning]" in str(errors.__doc__)


@pytest.mark.parametrize("name", ["AscendError", *sorted(leaves())])
def test_message_and_hint_are_kept_and_shown_and_survive_pickles_and_copies(name: str) -> None:
    error = getattr(errors, name)("It is not there.", hint="mkdir it")
    assert (error.message, error.hint) == ("It is not there.", "mkdir it")
    assert error.args == ("It is not there.",)
    assert str(error) == "It is not there.\n  hint: mkdir it"
    assert str(getattr(errors, name)("It is not there.")) == "It is not there."
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def test_the_problems_of_a_config_survive_as_well() -> None:
    error = ConfigError.from_problems(
        [Finding(ERROR, "A is wrong.", "Write 1.", option="a", source="npu_attrs.cc")]
    )
    again = pickle.loads(pickle.dumps(error))
    assert again.problems == error.problems
    assert isinstance(again.problems[0], Finding)


def test_a_warning_is_shown_although_the_process_aborts() -> None:
    program = "import os; from ascend_session.errors import warn; warn('No effect.'); os._exit(3)"
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60)
    assert "AscendConfigWarning: No effect." in ended.stderr
    assert ended.returncode == 3


class TestConfigError:
    def test_a_single_problem_is_the_message(self) -> None:
        error = ConfigError.from_problems([Finding(ERROR, "A is wrong.", "Write 1.", option="a")])
        assert str(error) == "A is wrong.\n  hint: Write 1."

    def test_several_problems_are_numbered(self) -> None:
        problems = [
            Finding(ERROR, "A is wrong.", "Write 1.", option="a"),
            Finding(ERROR, "B is wrong.", option="b"),
        ]
        error = ConfigError.from_problems(problems, "train.yaml")
        assert str(error) == (
            "2 problems in train.yaml:\n  1. A is wrong. Write 1.\n  2. B is wrong."
        )
        assert error.problems == tuple(problems)
        assert error.hint is None

    def test_it_has_no_problems_unless_told(self) -> None:
        assert ConfigError("It is no config.").problems == ()
