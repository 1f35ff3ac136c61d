"""Knows which Python interpreters this machine has and which of them the scripts can use."""

import json
import os
import re
import shutil
import subprocess
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

# Printed by the interpreter itself. One inside a virtual environment names the one it came from:
# an environment must not be built on another, which may be removed.
PROBE = """
import json, os, platform, sys, sysconfig
inside = sys.prefix != getattr(sys, "base_prefix", sys.prefix)
executable = os.path.realpath(sys.executable) if inside else sys.executable
try:
    import ensurepip, ssl, venv, zlib
    missing = ""
except ImportError as exc:
    missing = str(exc)
name = platform.python_implementation()
print(json.dumps([executable, name, list(sys.version_info[:3]), sysconfig.get_platform(), missing]))
"""
PROBE_SECONDS = 20

X86_64 = ("x86_64", "amd64")


class SetupError(Exception):
    """What the user reads when no environment can be made: one sentence."""


class Need(NamedTuple):
    """What an environment asks of its interpreter."""

    minors: Tuple[int, ...]
    words: str
    tensorflow: bool


class Interpreter(NamedTuple):
    """One Python that answered the probe."""

    executable: str
    implementation: str
    version: Tuple[int, ...]
    platform: str
    missing: str

    @property
    def release(self) -> str:
        """The version as people write it, such as ``3.7.16``."""
        return ".".join(map(str, self.version))

    def fault(self, need: Need) -> Optional[str]:
        """Say why it does not do, as the end of a sentence that says what it is, or None."""
        if self.implementation != "CPython":
            return f"{self.implementation}, for which there is no TensorFlow"
        if self.version[0] != 3 or self.version[1] not in need.minors:
            return f"Python {self.release}"
        if need.tensorflow and self.version[1] == 7 and not self.platform.endswith(X86_64):
            return (
                f"Python {self.release} on {self.platform}, which TensorFlow 1.15 is not built for"
            )
        if self.missing:
            return f"Python {self.release} without parts that this needs ({self.missing})"
        return None


class Candidate(NamedTuple):
    """A file that may be a Python; its name tells the minor version, or None."""

    path: str
    minor: Optional[int]


def probe(path: str, environ: Mapping[str, str]) -> Optional[Interpreter]:
    """Ask the program at ``path`` what it is; None if it is no working Python."""
    try:
        answer = subprocess.run(
            [path, "-E", "-s", "-c", PROBE],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PROBE_SECONDS,
        )
        fields = json.loads(answer.stdout.decode("utf-8"))
        executable, implementation, version, platform, missing = fields
    except (OSError, ValueError, TypeError, subprocess.TimeoutExpired):
        return None
    return Interpreter(executable, implementation, tuple(version), platform, missing)


def requested(asked: str, need: Need, environ: Mapping[str, str]) -> Interpreter:
    """Return the interpreter that ``PYTHON`` names.

    Raises:
        SetupError: it is missing, is no Python, or is one that does not do.
    """
    advice = f"set PYTHON to {need.words}, or unset it to let the script choose."
    path = shutil.which(asked, path=environ.get("PATH"))
    if path is None:
        raise SetupError(f'PYTHON asks for "{asked}", but there is no such program: {advice}')
    interpreter = probe(path, environ)
    if interpreter is None:
        raise SetupError(f'PYTHON asks for "{asked}", which is not a working Python: {advice}')
    fault = interpreter.fault(need)
    if fault is not None:
        raise SetupError(f'PYTHON asks for "{asked}", which is {fault}: {advice}')
    return interpreter


def best(need: Need, environ: Mapping[str, str]) -> Interpreter:
    """Return the first interpreter that does, in the order of ``need.minors``.

    Raises:
        SetupError: there is none; the sentence lists what was found instead.
    """
    probed: Dict[str, Optional[Interpreter]] = {}
    # Programs named after their version come first, so that most are never started.
    candidates = sorted(_candidates(environ), key=lambda each: each.minor is None)
    for minor in need.minors:
        for path in (each.path for each in candidates if each.minor in (minor, None)):
            if path not in probed:
                probed[path] = probe(path, environ)
            interpreter = probed[path]
            if (
                interpreter is not None
                and interpreter.fault(need._replace(minors=(minor,))) is None
            ):
                return interpreter
    raise SetupError(_nothing_found(need, [each.path for each in candidates], environ))


def _candidates(environ: Mapping[str, str]) -> Iterator[Candidate]:
    pyenv = environ.get("PYENV_ROOT") or os.path.join(environ.get("HOME", ""), ".pyenv")
    for directory in environ.get("PATH", "").split(os.pathsep):
        # The shims stand for the versions below and fail for those that are switched off.
        if directory != os.path.join(pyenv, "shims"):
            for name in _names(directory):
                match = re.match(r"python3?(?:\.([0-9]+))?$", name)
                if match:
                    yield Candidate(os.path.join(directory, name), _number(match.group(1)))
    versions = os.path.join(pyenv, "versions")
    for name in sorted(_names(versions), key=_natural, reverse=True):
        match = re.match(r"3\.([0-9]+)\.[0-9]+$", name)
        path = os.path.join(versions, name, "bin", "python")
        yield Candidate(path, _number(match.group(1)) if match else None)


def _names(directory: str) -> List[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _number(text: Optional[str]) -> Optional[int]:
    return None if text is None else int(text)


def _natural(name: str) -> List[Tuple[int, str]]:
    return [(int(part or 0), rest) for part, rest in re.findall(r"([0-9]*)([^0-9]*)", name)]


def _nothing_found(need: Need, paths: List[str], environ: Mapping[str, str]) -> str:
    pythons = [each for each in (probe(path, environ) for path in paths) if each is not None]
    found = "; ".join(sorted({f"{each.executable} is {each.fault(need)}" for each in pythons}))
    return (
        f"This needs {need.words}, and there is none on PATH or under pyenv "
        f"(found: {found or 'no Python at all'}): install one, or set PYTHON to its path."
    )
