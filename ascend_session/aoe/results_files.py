"""Where AOE leaves its result files.

Source: the manual of AOE, "ASCEND_WORK_PATH > default path (tuning working directory)"; the manual
of that variable, which puts them into its folder ``aoe_data``.
"""

import os
import re
from typing import List, Mapping, Optional

from ascend_session.errors import ResultError
from ascend_session.option_files.base import PathLike

__all__ = ["FILE_NAMES", "WRITTEN", "files_in", "find_results", "is_folder", "result_folders"]

FILE_NAMES = "aoe_result_opat_*.json or aoe_result_sgat_*.json"
# Where to look, as a hint.
WRITTEN = (
    "AOE writes it where ASCEND_WORK_PATH says, else into the directory in which it tunes: "
    "work_path, WORK_PATH of aoe.ini, or where the training runs."
)
_NAME = re.compile(r"aoe_result_(?:opat|sgat)_(.+)\.json")
_BELOW = "aoe_data"


def result_folders(environ: Mapping[str, str], folder: PathLike = ".") -> List[str]:
    """The folders in which AOE may have left its results, by priority.

    Args:
        environ: The environment of the training; of it ASCEND_WORK_PATH counts.
        folder: The working directory of the training.
    """
    asked = environ.get("ASCEND_WORK_PATH", "")
    return [*([asked] if asked else []), os.fspath(folder)]


def find_results(environ: Optional[Mapping[str, str]] = None, folder: PathLike = ".") -> List[str]:
    """The result files of the first folder that has any, the oldest name first.

    Args:
        environ: As of `result_folders`; that of this process if None.
        folder: As of `result_folders`.

    Returns:
        Their paths; empty if there are none.

    Raises:
        ResultError: As of `files_in`; results of another folder are not shown instead.
    """
    for one in result_folders(os.environ if environ is None else environ, folder):
        found = files_in(one)
        if found:
            return found
    return []


def files_in(folder: str) -> List[str]:
    """The result files in a folder and its ``aoe_data``, by the time and process in their names.

    Raises:
        ResultError: If there is such a folder, and it cannot be looked into.
    """
    found = []
    for place in (folder, os.path.join(folder, _BELOW)):
        try:
            names = os.listdir(place)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            continue
        except OSError as error:
            raise ResultError(
                f"{place}: this folder cannot be read: {error.strerror}.",
                hint="Whoever asks for the report must be able to read it.",
            ) from error
        known = [(_NAME.fullmatch(name), name) for name in names]
        inside = "" if place == os.curdir else place
        found += [(match[1], os.path.join(inside, name)) for match, name in known if match]
    return [path for _, path in sorted(found)]


def is_folder(path: str) -> bool:
    """Whether there is a folder of this name; also for names that no file can have."""
    try:
        return os.path.isdir(path)
    except ValueError:  # Python 3.7 raises for a null character
        return False
