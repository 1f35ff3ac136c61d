"""Which line is the user's, when a thread is deep inside of libraries."""

import sys
import threading
from functools import partial
from typing import Any, List

import pytest

from ascend_session.user_code import UserLine, user_line

SITE = "/opt/python/lib/python3.7/site-packages"
OUR_OWN = user_line.__code__.co_filename.replace("user_code.py", "fanout.py")

DEFINE = "def call(function):\n    return function()\n"


def frames(*files: str) -> List[Any]:
    """Makes functions that call what they are given, in these files; the first is the outermost."""
    functions = []
    for file in files:
        name, _, module = file.partition(" of ")
        names = {"__name__": module or "__main__"}
        exec(compile(DEFINE, name, "exec"), names)
        functions.append(names["call"])
    return functions


def line_within(*files: str) -> Any:
    """What `user_line` finds in a thread with these files, and this test's own in none of them."""
    found: List[Any] = []
    work = eval(
        compile("lambda: found.append(user_line(sys._getframe()))", f"{SITE}/look.py", "eval"),
        {"found": found, "user_line": user_line, "sys": sys, "__name__": "look"},
    )
    for function in reversed(frames(*files)):
        work = partial(function, work)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["/home/me/train.py", f"{SITE}/tensorflow/session.py of tensorflow"], "/home/me/train.py"),
        (["/home/me/train.py", "/home/me/model.py of model"], "/home/me/model.py"),
        ([f"{SITE}/pkg/train.py", f"{SITE}/pkg/model.py of pkg.model"], f"{SITE}/pkg/train.py"),
        (["<ipython-input-1-ab>", f"{SITE}/tensorflow/session.py of x"], "<ipython-input-1-ab>"),
        ([OUR_OWN, f"{SITE}/pkg/train.py"], f"{SITE}/pkg/train.py"),
    ],
    ids=["a library", "the innermost", "an installed script", "a notebook", "below this package"],
)
def test_the_line_is(files: List[str], expected: str) -> None:
    assert line_within(*files) == UserLine(expected, 2)


def test_there_is_none_in_a_thread_of_a_library() -> None:
    assert line_within(f"{SITE}/pkg/train.py of pkg.train") is None
    assert user_line(None) is None


def test_its_file_is_relative_to_the_working_directory_if_it_is_below_it(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert str(UserLine(str(tmp_path / "sub" / "train.py"), 7)) == "sub/train.py:7"
    assert str(UserLine("/elsewhere/train.py", 7)) == "/elsewhere/train.py:7"


def test_a_script_that_has_removed_its_working_directory_has_a_line(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    assert (
        str(line_within("train.py", f"{SITE}/tensorflow/session.py of tensorflow")) == "train.py:2"
    )
