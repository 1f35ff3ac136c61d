"""A program that is watched behaves as one below plain Python, and leaves a record."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, Dict, Sequence, Tuple

import pytest

from ascend_session.failures.record import read_record, read_stacks
from tests.launcher.as_rank import as_rank

PATIENCE = 120

PROGRAMS = {
    "names.py": """
        '''A program.'''
        import sys
        loader = type(__loader__).__name__
        print(__name__, __doc__, __file__, __package__, loader, __builtins__, __annotations__)
        print(__spec__ and __spec__.name, __cached__, list(globals()))
        print(sys.argv, sys.path, getattr(sys, "orig_argv", None))
        print(sys.modules["__main__"].__dict__ is globals())
        """,
    "chained.py": """
        def fail():
            try:
                1 / 0
            except ZeroDivisionError as error:
                raise ValueError("schl\u00e4gt fehl") from error
        fail()
        """,
    "own_error.py": "class Wrong(Exception):\n    pass\nraise Wrong('x')",
    "unprintable.py": "class E(Exception):\n    def __str__(self): raise ValueError\nraise E",
    "syntax.py": "x = (\nprint(1)\n y",
    "undecodable.py": b"x = '\xe9'\n",
    "null_byte.py": b"x = 'a\0b'\n",
    "cookie.py": b"# -*- coding: latin-1 -*-\nprint(ascii('\xe9'))\n",
    "mark.py": b"\xef\xbb\xbfprint(1)\r\nprint(2)",
    "imports.py": "import no_such_module",
    "code_3.py": "import sys; sys.exit(3)",
    "code_none.py": "import sys; sys.exit()",
    "code_negative.py": "import sys; sys.exit(-1)",
    "code_text.py": "import sys; sys.exit('te\u00e4xt')",
    "code_now.py": "import os; os._exit(4)",
    "interrupt.py": "raise KeyboardInterrupt",
    "terminated.py": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "crash.py": "import ctypes; ctypes.string_at(0)",
    "abort.py": "import os; os.abort()",
    "hook.py": """
        import sys, traceback
        def hook(kind, error, trace):
            print(kind, error, traceback.format_tb(trace), sys.excepthook is hook)
            print(sys.last_traceback is trace, sys.last_value is error)
        sys.excepthook = hook
        raise ValueError("x")
        """,
    "hook_exits.py": "import sys\nsys.excepthook = lambda *failure: sys.exit(9)\nraise ValueError",
    "end.py": """
        import atexit, sys, threading
        atexit.register(print, "atexit")
        class Late:
            def __del__(self):
                print("deleted")
        late = Late()
        go = threading.Event()
        threading.Thread(target=lambda: (go.wait(), print("thread"))).start()
        threading.Timer(0.05, go.set).start()
        if len(sys.argv) == 1:
            raise ValueError
        """,
    "warned.py": """
        import warnings
        def warn():
            warnings.warn("in a function", DeprecationWarning, stacklevel=2)
        warn()
        warnings.warn("here")
        warnings.warn("below", stacklevel=2)
        """,
    "pickled.py": """
        import pickle
        class Thing:
            pass
        print(type(pickle.loads(pickle.dumps(Thing()))) is Thing, Thing.__module__)
        """,
    "processes.py": """
        import multiprocessing
        class Number:
            def __init__(self, value):
                self.value = value
        def more(number):
            return Number(number.value + 1)
        if __name__ == "__main__":
            for way in ("spawn", "fork"):
                with multiprocessing.get_context(way).Pool(1) as pool:
                    (number,) = pool.map(more, [Number(1)])
                    print(way, type(number) is Number, number.value)
                    pool.close()
                    pool.join()
        """,
    "json.py": "print('not yours')\nraise RuntimeError('x')",
    "w\u00f6rt lich.py": "print(__file__)\n1 / 0",
    "no_suffix": "print(__file__)",
    "package/__init__.py": "",
    "package/__main__.py": "import sys; print(sys.argv, __spec__.name); from . import other",
    "package/other.py": "1 / 0",
    "folder/__main__.py": "import sys, near; print(sys.argv, sys.path, __name__, __file__); 1 / 0",
    "folder/near.py": "import sys; print(sys.path[0])",
}

SCRIPTS = [name for name in sorted(PROGRAMS) if "/" not in name]


@pytest.fixture(scope="module")
def place(tmp_path_factory: Any) -> Path:
    """A folder with the programs."""
    folder = Path(str(tmp_path_factory.mktemp("programs")))
    for name, text in PROGRAMS.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else dedented(text).encode("utf-8"))
    (folder / "link.py").symlink_to("folder/near.py")
    (folder / "broken.pyc").write_bytes(b"no magic number")
    with zipfile.ZipFile(str(folder / "archive.zip"), "w") as archive:
        archive.writestr("__main__.py", "import sys; print(sys.argv, sys.path[0], __file__); 1 / 0")
    code = "import py_compile; py_compile.compile('chained.py', cfile='compiled.pyc')"
    subprocess.run([sys.executable, "-c", code], cwd=str(folder), check=True, timeout=PATIENCE)
    code = "import py_compile; py_compile.compile('names.py', cfile='compiled')"
    subprocess.run([sys.executable, "-c", code], cwd=str(folder), check=True, timeout=PATIENCE)
    return folder


def dedented(text: str) -> str:
    lines = text.strip("\n").split("\n")
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] for line in lines)


def plain(place: Path, words: Sequence[str], **added: str) -> Tuple[int, bytes, bytes]:
    """Exit code, standard output and standard error of a run that nothing watches."""
    return ended(place, [sys.executable, *words], added)


def run(place: Path, words: Sequence[str], folder: Path, **added: str) -> Tuple[int, bytes, bytes]:
    """The same as a rank."""
    command, variables = as_rank([sys.executable, *words], folder, added)
    return ended(place, command, variables)


def ended(place: Path, words: Sequence[str], added: Dict[str, str]) -> Tuple[int, bytes, bytes]:
    done = subprocess.run(
        words,
        cwd=str(place),
        env={**os.environ, **added},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_does_what_it_does_below_python(place: Path, tmp_path: Path, name: str) -> None:
    words = [name, "an argument", "-m"] if name != "end.py" else [name]
    assert run(place, words, tmp_path) == plain(place, words)


@pytest.mark.parametrize(
    "words",
    [
        ["-m", "package", "x"],
        ["-m", "package.other"],
        ["-m", "chained", "-m"],
        ["-m", "code_3"],
        ["-m", "interrupt"],
        ["-m", "syntax"],
        ["-m", "processes"],
        ["-m", "no_such_module"],
        ["folder", "x"],
        ["package"],
        ["archive.zip", "x"],
        ["folder/../names.py"],
        ["./names.py"],
        ["link.py"],
        ["end.py", "well"],
        ["compiled.pyc"],
        ["compiled"],
        ["broken.pyc"],
        ["no_such_script.py"],
    ],
    ids=" ".join,
)
def test_every_way_to_name_a_program_is_as_pythons(
    place: Path, tmp_path: Path, words: Sequence[str]
) -> None:
    assert run(place, words, tmp_path) == plain(place, words)


def test_an_absolute_path_and_a_folder_to_import_from_are_as_pythons(
    place: Path, tmp_path: Path
) -> None:
    words = [str(place / "names.py")]
    for added in ({"PYTHONPATH": "/nowhere"}, {"PYTHONSAFEPATH": "1"}, {"PYTHONINSPECT": "1"}):
        assert run(place, words, tmp_path, **added) == plain(place, words, **added)


def test_a_hook_that_fails_itself_hides_neither_failure(place: Path, tmp_path: Path) -> None:
    for hook, of_hook in (("None", b"TypeError"), ("lambda *failure: {}[1]", b"KeyError")):
        (tmp_path / "hook.py").write_text(f"import sys\nsys.excepthook = {hook}\nraise ValueError")
        code, _, stderr = run(place, [str(tmp_path / "hook.py")], tmp_path)
        assert code == 1
        assert of_hook in stderr.partition(b"Original exception was:")[0]
        assert stderr.endswith(b"ValueError\n")


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("chained.py", "ValueError", "schl\u00e4gt fehl"),
        ("own_error.py", "__main__.Wrong", "x"),
        ("unprintable.py", "__main__.E", "<exception str() failed>"),
        ("imports.py", "ModuleNotFoundError", "No module named 'no_such_module'"),
        ("json.py", "RuntimeError", "x"),
        ("interrupt.py", "KeyboardInterrupt", ""),
    ],
)
def test_an_exception_is_recorded_as_it_is_printed(
    place: Path, tmp_path: Path, name: str, kind: str, said: str
) -> None:
    code, _, stderr = run(place, [name], tmp_path)
    found = read_record(str(tmp_path))
    assert found is not None
    assert (found.type, found.message, found.traceback) == (kind, said, stderr.decode("utf-8"))
    assert found.exit_code == (code if code >= 0 else 128 - code)


@pytest.mark.parametrize(
    ("name", "kind", "code"),
    [
        ("syntax.py", "SyntaxError", 1),
        ("undecodable.py", "SyntaxError", 1),
        ("broken.pyc", "RuntimeError", 1),
    ],
)
def test_programs_that_never_ran_are_recorded(
    place: Path, tmp_path: Path, name: str, kind: str, code: int
) -> None:
    assert run(place, [name], tmp_path)[0] == code
    found = read_record(str(tmp_path))
    assert found is not None
    assert (found.type, found.exit_code) == (kind, code)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("code_none.py", 0),
        ("code_now.py", 4),
        ("code_3.py", 3),
        ("code_negative.py", 255),
        ("code_text.py", 1),
        ("no_such_script.py", 2),
        ("terminated.py", -15),
        ("names.py", 0),
        ("compiled", 0),
    ],
)
def test_other_ends_leave_only_their_code(
    place: Path, tmp_path: Path, name: str, code: int
) -> None:
    assert run(place, [name], tmp_path)[0] == code
    assert os.listdir(str(tmp_path)) == ["stacks.log"]
    assert read_stacks(str(tmp_path)) == ""
