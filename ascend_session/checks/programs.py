"""Whether what the ranks are to run can be found and read.

Paths of scripts and programs are looked at where the command is put together, for without them
there is no command; here is what Python itself would find out only in the ranks.
"""

import importlib.machinery
import os
import sys
from typing import Any, Iterator, List, Mapping, Optional, Sequence

from ascend_session.checks.finding import ERROR, OK, WARNING, Finding

__all__ = ["PROGRAM", "check_module", "check_script"]

PROGRAM = "program"
"""The name of these checks."""


def check_script(path: str) -> Iterator[Finding]:
    """Looks whether a script can be read; a folder has to have a ``__main__.py``.

    Args:
        path: Its path, absolute. One that is not there yields nothing.
    """
    main = os.path.join(path, "__main__.py") if os.path.isdir(path) else path
    if not os.path.exists(path):
        return
    if not os.path.exists(main):
        said = f"The script {path} is a folder without a __main__.py, which Python cannot run."
        yield Finding(PROGRAM, ERROR, said, "Give the path of a file.")
    elif not os.access(main, os.R_OK, effective_ids=True):
        said = f"This user may not read the script {main}."
        yield Finding(PROGRAM, ERROR, said, f"Look at its rights: ls -l {main}")
    else:
        yield Finding(PROGRAM, OK, f"The script {main} can be read.")


def check_module(name: str, folder: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Looks for a module as this interpreter would in the ranks; imports nothing.

    Args:
        name: The module, as after ``python -m``.
        folder: Working directory of the ranks, which comes first.
        environ: The environment of the ranks, for ``PYTHONPATH``.
    """
    given = [path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    places = [folder, *(os.path.join(folder, path) for path in given), *sys.path]
    missing = _missing(name.split("."), places)
    if missing is None:
        yield Finding(PROGRAM, OK, f"The module {name} is found.")
    elif "." not in missing:
        said = f"There is no module {missing} in {folder}, in PYTHONPATH or in this Python."
        yield Finding(PROGRAM, ERROR, said, "Give cwd, or add its folder to PYTHONPATH.")
    else:
        # Some packages, such as TensorFlow 1.15, find their parts in their own way.
        said = f"The module {missing} is not found where its package is."
        yield Finding(PROGRAM, WARNING, said, "Compare its name, unless the package makes it.")


def _missing(parts: Sequence[str], places: List[str]) -> Optional[str]:
    """The first of a package, its package in turn, ... that is not found; None if all are."""
    within: Any = places
    for number in range(1, len(parts) + 1):
        spec = None if within is None else _spec(".".join(parts[:number]), within, number == 1)
        if spec is None:
            return ".".join(parts[:number])
        within = spec.submodule_search_locations
    return None


def _spec(name: str, places: Any, at_the_top: bool) -> Any:
    """What a finder says of a name, the ordinary one first."""
    spec = importlib.machinery.PathFinder.find_spec(name, places)
    if spec is not None or not at_the_top:
        return spec
    # Such as those of packages that are installed to be edited.
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
    found = (finder.find_spec(name, None) for finder in finders)
    return next((spec for spec in found if spec is not None), None)
