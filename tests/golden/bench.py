"""Run the commands of a case where nothing of the machine is seen but its Python."""

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest

from tests.golden.hosts import HOSTS
from tests.golden.transcript import Case, Result
from tests.golden.varying import FOLDER, normalize

__all__ = ["Bench", "open_bench"]

_ROOT = Path(__file__).resolve().parents[2]
_INPUTS = Path(__file__).resolve().parent / "inputs"
_OWN = {
    "COLUMNS": "80",
    "HOME": FOLDER,
    "LC_ALL": "C.UTF-8",
    "PYTHONPATH": str(_ROOT),
    "TERM": "dumb",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_NUM_INTEROP_THREADS": "8",  # which the launcher sets where there are few CPUs
}
_NOT_READ = ("FORCE_COLOR", "NO_COLOR", "PYTHONWARNINGS", "TMPDIR", "XDG_CACHE_HOME")
_ROOMY = os.statvfs_result((4096, 4096, 2**28, 2**27, 2**27, 2**20, 2**19, 2**19, 0, 255))
# These start processes, or become one; the others run in this process.
_STARTING = {"launch", "run"}
_STARTING_NOTHING = {"--help", "--dry-run"}


class Bench:
    """Where a case runs.

    Args:
        folder: An empty folder, which is the working directory of the commands.
        call: Runs ``ascend-session`` in this process.
        python: What runs programs with TensorFlow; empty if no command of the case does.
    """

    def __init__(self, folder: Path, call: Callable[..., Any], python: str) -> None:
        self._folder = folder
        self._call = call
        self._python = python or sys.executable

    def run(self, command: str) -> Result:
        """Run a command; what varies in its output is replaced."""
        command, _, pipe = command.replace("$PYTHON", self._python).partition(" | ")
        words = shlex.split(command)
        with pytest.MonkeyPatch.context() as patch:
            while "=" in words[0]:
                name, _, value = words.pop(0).partition("=")
                patch.setenv(name, value)
            code, out, err = self._run(words)
        if pipe:
            assert pipe == "shape", f"there is no {pipe!r} here"
            out = _format_shape(out)
        return Result(code, self._normalize(out), self._normalize(err))

    def _run(self, words: List[str]) -> Any:
        program, *arguments = words
        if program == "ascend-session":
            if _STARTING & set(arguments[:2]) and not _STARTING_NOTHING & set(arguments):
                return _run_program(sys.executable, "-m", "ascend_session.cli", *arguments)
            return self._call(*arguments)
        if program in _SHOWN:
            (name,) = arguments
            if not os.path.exists(name):
                return Result(1, err=f"{name} is not there\n")
            return Result(0, _SHOWN[program](Path(name)))
        return _run_program(program, *arguments)

    def _normalize(self, text: str) -> str:
        base_port = int(os.environ.get("HCCL_IF_BASE_PORT", "0"))
        return normalize(text, str(self._folder), self._python, base_port)


@contextlib.contextmanager
def open_bench(case: Case, call: Callable[..., Any], python: str) -> Iterator[Bench]:
    """Make host and inputs of a case, and take them away in the end."""
    # Of a fixed length, so that what stands in columns can be compared.
    folder = Path(tempfile.mkdtemp(prefix="golden-", dir="/tmp"))
    settings = dict(case.settings)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, str(folder))
        host = HOSTS[settings.pop("host")](folder, *filter(None, [settings.pop("fault", "")]))
        stack.callback(host.close)
        for name in settings.pop("inputs", "").split():
            for path in (_INPUTS / name).iterdir():
                copy = shutil.copytree if path.is_dir() else shutil.copy
                copy(str(path), str(folder / path.name))
        assert not settings, f"there is no setting {sorted(settings)}"
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for variable in _NOT_READ:
            patch.delenv(variable, raising=False)
        for variable, value in {**_OWN, **host.environ, "HOME": str(folder)}.items():
            patch.setenv(variable, value)
        patch.setattr(os, "statvfs", lambda path: _ROOMY)  # what a container has may be little
        patch.chdir(folder)
        yield Bench(folder, call, python)


def _run_program(*words: str) -> Result:
    ended = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return Result(ended.returncode, ended.stdout.decode(), ended.stderr.decode())


def _show_file(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _show_tree(folder: Path) -> str:
    """List all that is below a folder, a line for each; folders end with a slash."""
    found = sorted(folder.rglob("*"))
    return "".join(f"{path}{'/' if path.is_dir() else ''}\n" for path in found)


def _show_shape(path: Path) -> str:
    return _format_shape(_show_file(path))


def _format_shape(text: str) -> str:
    """Show the keys and types of JSON, or of lines of JSON, each kind of line once."""
    try:
        shapes = [json.dumps(_shape(json.loads(text)), indent=1)]
    except ValueError:
        shapes = [json.dumps(_shape(json.loads(line)), indent=1) for line in text.splitlines()]
    return "".join(f"{shape}\n" for shape in dict.fromkeys(shapes))


def _shape(value: Any) -> Any:
    """Replace values by their types; of a list, what all its members have in common is one."""
    if isinstance(value, dict):
        return {key: found if key == "event" else _shape(found) for key, found in value.items()}
    if isinstance(value, list):
        return [_merge([_shape(one) for one in value])] if value else []
    return type(value).__name__


def _merge(shapes: List[Any]) -> Any:
    if all(isinstance(shape, dict) for shape in shapes):
        names = dict.fromkeys(name for shape in shapes for name in shape)
        return {name: _merge([one[name] for one in shapes if name in one]) for name in names}
    texts = {shape if isinstance(shape, str) else json.dumps(shape) for shape in shapes}
    return shapes[0] if len(texts) == 1 else " or ".join(sorted(texts))


_SHOWN: Dict[str, Callable[[Path], str]] = {
    "cat": _show_file,
    "tree": _show_tree,
    "shape": _show_shape,
}
