"""The lists of operators that an installed toolkit has.

Without the list of supported operators every graph stays on the CPU. The adapter looks for it below
``ASCEND_OPP_PATH`` once in a process, and says nothing if it finds none.

Sources: guides/facts/adapter.md#graphs-that-stay-on-the-cpu; npu_ops_identifier.cc; the manual of
ATC, page "--op_select_implmode" (folder of the implementation modes; the toolkit of a user is in
``$HOME/Ascend``); the manual, page "NPURunConfig Options"
(``config/<soc_version>/aic-<soc_version>-ops-info.json`` beside it); hicann/ge,
op_impl_mode_config_parser.cc (below ``ASCEND_OPP_PATH``).
"""

import glob
import json
import os
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.hardware.versions import TOOLKIT_VARIABLES, below

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
    """Read the list as the adapter does; never raises.

    Args:
        environ: Its ``ASCEND_OPP_PATH`` and ``ASCEND_CUSTOM_OPP_PATH`` say where to look.
        root: Root of the host; what is not found where the text says is looked for below it.
    """
    folder = environ.get(OPP_VARIABLE)
    if folder is None or len(folder) >= _LONGEST_PATH:
        folder = _DEFAULT
    operators = _read(folder, environ, root)
    if operators.operators or root == "/":
        return operators
    return _read(_below(root, folder), environ, root)


def _read(folder: str, environ: Mapping[str, str], root: str) -> OperatorList:
    files = _files(folder, environ, root)
    names = {name for path in files for name in _names(path)}
    return OperatorList(folder, tuple(files), len(names))


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
    added = [os.path.join(place, "framework/tensorflow", _FILE) for place in places]
    own = f"{folder}/built-in/framework/tensorflow/{_FILE}"
    return [own, *added, *([] if vendors else [older])]


def _vendors(folder: str) -> List[str]:
    """Read the names in the first line of ``vendors/config.ini``: ``load_priority=a,b``."""
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


ALL_MODES = "all_ops_impl_mode.ini"

_BELOW_OPP = os.path.join("built-in", "op_impl", "ai_core", "tbe")
_OPS_INFO = "aic-*ops-info*.json"
_PLACES = (
    "usr/local/Ascend/ascend-toolkit/latest",
    "usr/local/Ascend/cann",
    "usr/local/Ascend/latest",
)


def impl_mode_folder(
    environ: Mapping[str, str], root: str = "/", toolkit: Optional[str] = None
) -> Optional[str]:
    """Find the folder with the lists of implementation modes, None if there is none.

    Args:
        environ: Its ``ASCEND_OPP_PATH``, ``ASCEND_TOOLKIT_HOME``, ``ASCEND_HOME_PATH`` and ``HOME``
            say where to look.
        root: Root of the host.
        toolkit: Where to look instead: the toolkit, its ``opp`` or the folder itself.
    """
    return _implementation_folder(environ, root, toolkit, "impl_mode")


def ops_info_files(
    environ: Mapping[str, str], root: str = "/", toolkit: Optional[str] = None
) -> Dict[str, Tuple[str, ...]]:
    """Find the files that describe operators by kind of processor; see `impl_mode_folder`."""
    folder = _implementation_folder(environ, root, toolkit, "config")
    if folder is None:
        return {}
    files_of = {
        soc: tuple(
            sorted(glob.glob(os.path.join(glob.escape(os.path.join(folder, soc)), _OPS_INFO)))
        )
        for soc in sorted(os.listdir(folder))
    }
    return {soc: files for soc, files in files_of.items() if files}


def _implementation_folder(
    environ: Mapping[str, str], root: str, toolkit: Optional[str], name: str
) -> Optional[str]:
    if toolkit is None:
        places = [os.path.join(opp, _BELOW_OPP, name) for opp in _opp_of_host(environ, root)]
    else:
        places = [os.path.join(toolkit, opp, _BELOW_OPP, name) for opp in ("opp", "")]
        is_itself = os.path.basename(os.path.normpath(toolkit)) == name
        places += [toolkit] if is_itself else []
    return next((os.path.normpath(place) for place in places if os.path.isdir(place)), None)


def _opp_of_host(environ: Mapping[str, str], root: str) -> Iterator[str]:
    if environ.get(OPP_VARIABLE):
        yield os.path.join(root, below(root, environ[OPP_VARIABLE]))
    homes = [below(root, environ[name]) for name in TOOLKIT_VARIABLES if environ.get(name)]
    user = environ.get("HOME")
    own = [below(root, os.path.join(user, "Ascend/ascend-toolkit/latest"))] if user else []
    for home in (*homes, *_PLACES, *own):
        yield os.path.join(root, home, "opp")
