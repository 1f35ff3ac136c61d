"""The adapter's list of supported operators: without it every graph stays on the CPU.

The adapter looks for it below ``ASCEND_OPP_PATH`` once in a process, and says nothing if it finds
none. Source: adapter_behaviour.md, "When options are looked at"; npu_ops_identifier.cc.
"""

import json
import os
from typing import Any, List, Mapping, NamedTuple, Tuple

__all__ = ["OPP_VARIABLE", "OperatorList", "operator_list"]

OPP_VARIABLE = "ASCEND_OPP_PATH"

_CUSTOM_VARIABLE = "ASCEND_CUSTOM_OPP_PATH"
_DEFAULT = "/usr/local/Ascend/opp"
_FILE = "npu_supported_ops.json"
_LONGEST_PATH = 1024 * 1024


class OperatorList(NamedTuple):
    """What the adapter finds.

    Attributes:
        folder: The operator package that it looks in.
        files: The files that it looks for, the vendor's own first.
        operators: How many operators they name together; with 0 nothing is ever offloaded.
    """

    folder: str
    files: Tuple[str, ...]
    operators: int


def operator_list(environ: Mapping[str, str], root: str = "/") -> OperatorList:
    """Reads the list as the adapter does; never raises.

    Args:
        environ: Its ``ASCEND_OPP_PATH`` and ``ASCEND_CUSTOM_OPP_PATH`` say where to look.
        root: Root of the host; what is not found where the text says is looked for below it.
    """
    folder = _folder(environ)
    found = _read(folder, environ, root)
    return found if found.operators or root == "/" else _read(_below(root, folder), environ, root)


def _read(folder: str, environ: Mapping[str, str], root: str) -> OperatorList:
    files = _files(folder, environ, root)
    names = {name for path in files for name in _names(path)}
    return OperatorList(folder, tuple(files), len(names))


def _folder(environ: Mapping[str, str]) -> str:
    text = environ.get(OPP_VARIABLE)
    return _DEFAULT if text is None or len(text) >= _LONGEST_PATH else text


def _below(root: str, path: str) -> str:
    return os.path.join(root, path.lstrip("/"))


def _files(folder: str, environ: Mapping[str, str], root: str) -> List[str]:
    # Put together as the adapter does it, which makes an empty folder the root.
    older = f"{folder}/framework/custom/tensorflow/{_FILE}"
    if not os.path.isdir(f"{folder}/built-in"):
        return [f"{folder}/framework/built-in/tensorflow/{_FILE}", older]
    custom = [path for path in environ.get(_CUSTOM_VARIABLE, "").split(":") if path]
    custom += [_below(root, path) for path in custom] if root != "/" else []
    vendors = [f"{folder}/vendors/{name}" for name in _vendors(folder)]
    places = [*(path for path in custom if os.path.isdir(path)), *vendors]
    found = [os.path.join(place, "framework/tensorflow", _FILE) for place in places]
    own = f"{folder}/built-in/framework/tensorflow/{_FILE}"
    return [own, *found, *([] if vendors else [older])]


def _vendors(folder: str) -> List[str]:
    """The names in the first line of ``vendors/config.ini``: ``load_priority=a,b``."""
    try:
        with open(f"{folder}/vendors/config.ini", encoding="utf-8") as file:
            parts = file.readline().strip().split("=")
    except (OSError, UnicodeDecodeError):
        return []
    return [name.strip() for name in parts[1].split(",") if name.strip()] if len(parts) == 2 else []


def _names(path: str) -> List[str]:
    try:
        with open(path, encoding="utf-8-sig") as file:
            known: Any = json.load(file)
    except (OSError, ValueError, RecursionError):
        return []
    if not isinstance(known, dict):
        return []
    # The adapter counts an operator as supported if its entry is an object.
    return [name for name, entry in known.items() if isinstance(entry, dict)]
