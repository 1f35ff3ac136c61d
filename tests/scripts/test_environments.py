"""Where environments lie, and when one counts as complete."""

import os
from pathlib import Path

import pytest

from environments import Environment, locate, make_current, oldest_dependencies
from interpreters import Interpreter

PYTHON = Interpreter("/usr/bin/python3.11", "CPython", (3, 11, 7), "linux-x86_64", "")
WANTED = ["--editable", "/top[test]"]


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A checkout that holds only its pyproject.toml."""
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    return tmp_path


def made(top: Path, prefix: str = "") -> Environment:
    environment = locate(str(top), prefix, PYTHON, WANTED)
    os.makedirs(os.path.dirname(environment.python))
    os.symlink("/bin/sh", environment.python)
    environment.mark_complete()
    return environment


def test_an_environment_is_named_after_interpreter_and_tensorflow(top: Path) -> None:
    assert locate(str(top), "", PYTHON, WANTED).name == "py311"
    pinned = locate(str(top), "", PYTHON, [*WANTED, "tensorflow-cpu==2.15.*"])
    assert pinned.name == "py311-tensorflow-cpu-2.15"
    assert locate(str(top), "check-", PYTHON, WANTED).name == "check-py311"


def test_an_environment_is_complete_once_marked(top: Path) -> None:
    assert not locate(str(top), "", PYTHON, WANTED).is_complete()
    made(top)
    assert locate(str(top), "", PYTHON, WANTED).is_complete()


def test_a_changed_project_is_not_complete(top: Path) -> None:
    made(top)
    (top / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    assert not locate(str(top), "", PYTHON, WANTED).is_complete()


def test_another_release_of_the_interpreter_is_not_complete(top: Path) -> None:
    made(top)
    newer = PYTHON._replace(version=(3, 11, 8))
    assert not locate(str(top), "", newer, WANTED).is_complete()


def test_a_moved_checkout_is_not_complete(top: Path, tmp_path: Path) -> None:
    made(top)
    moved = tmp_path.with_name("moved")
    top.rename(moved)
    assert not locate(str(moved), "", PYTHON, WANTED).is_complete()


def test_an_environment_whose_interpreter_is_gone_is_not_complete(top: Path) -> None:
    environment = made(top)
    os.remove(environment.python)
    os.symlink("/nonexistent", environment.python)
    assert not environment.is_complete()


def test_the_venv_folder_leads_to_the_environment_made_last(top: Path) -> None:
    make_current(made(top))
    last = made(top, "other-")
    make_current(last)
    assert os.path.realpath(str(top / ".venv" / "bin")) == os.path.dirname(last.python)


def test_an_environment_that_the_user_keeps_in_the_venv_folder_stays(top: Path) -> None:
    own = top / ".venv" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    make_current(made(top))
    assert own.read_text() == "mine"


def test_the_oldest_packages_are_those_at_the_lower_bounds(top: Path) -> None:
    project = '[project]\ndependencies = [\n    "attrs>=22.2", # a reason\n    "rich>=12.3",\n]\n'
    (top / "pyproject.toml").write_text(project + 'other = [\n    "numpy>=1",\n]\n')
    assert oldest_dependencies(str(top)) == ["attrs==22.2", "rich==12.3"]
