"""Versions of driver, firmware and toolkit, and the toolkit's lists of operators.

Without the list of supported operators every graph stays on the CPU. The adapter looks for it below
``ASCEND_OPP_PATH`` once in a process, and does not report that it found none.

Sources: guides/facts/devices.md#paths-and-versions;
guides/facts/adapter.md#graphs-that-stay-on-the-cpu; npu_ops_identifier.cc; the manual of ATC, page
"--op_select_implmode" (folder of the implementation modes; a user's own toolkit is in
``$HOME/Ascend``); the manual, page "NPURunConfig Options"
(``config/<soc_version>/aic-<soc_version>-ops-info.json`` beside it); hicann/ge,
op_impl_mode_config_parser.cc (below ``ASCEND_OPP_PATH``).
"""

import glob
import json
import os
import re
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.hardware.nodes import find_host_files, read_host_file
from ascend_session.hardware.program import clean_lines

_KEY_VALUE = re.compile(r"\s*([A-Za-z]\w*)\s*=\s*(.*?)\s*")
_INSTALL_INFO = "etc/ascend_install.info"
DEFAULT_PREFIX = "usr/local/Ascend"
TOOLKIT_VARIABLES = ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH")
TOOLKIT_FOLDERS = ("usr/local/Ascend/ascend-toolkit/latest", "usr/local/Ascend/cann")
TOOLKIT_PATTERNS = (*TOOLKIT_FOLDERS, "usr/local/Ascend/cann-*")
_TOOLKIT_FILES = ("*-linux/ascend_toolkit_install.info", "ascend_toolkit_install.info")


@dataclass(frozen=True)
class Component:
    """An installed package: driver, firmware or toolkit.

    Attributes:
        version: As in ``24.1.rc2``.
        inner_version: The vendor's build, as in ``V100R001C18SPC001B233``; None if not given.
        path: The version file, as a path from the host's root; None if a program reported it.
    """

    version: str
    inner_version: Optional[str]
    path: Optional[str]


class Versions(NamedTuple):
    """The versions in the version files of a host.

    Attributes:
        driver: The driver; None if no file was found.
        firmware: The firmware; None if no file was found.
        toolkits: The toolkits (CANN); the one that the environment selects comes first.
        notes: Faults of the installation, in sentences.
    """

    driver: Optional[Component]
    firmware: Optional[Component]
    toolkits: Tuple[Component, ...]
    notes: Tuple[str, ...]


def read_versions(environ: Mapping[str, str], root: str = "/") -> Versions:
    """Read all version files below ``root``; never raises.

    Args:
        environ: ``ASCEND_TOOLKIT_HOME`` and ``ASCEND_HOME_PATH`` in it name the toolkit in use.
        root: Root of the host.
    """
    notes: List[str] = []
    installed = _read(root, _INSTALL_INFO)
    status = installed.get("driver_install_status", "complete")
    if status != "complete":
        notes.append(
            f"/{_INSTALL_INFO} says Driver_Install_Status={status}: install the driver again."
        )
    toolkits: List[Component] = []
    for variable in TOOLKIT_VARIABLES:
        home = environ.get(variable)
        selected = _find_toolkits(root, glob.escape(strip_root(root, home))) if home else []
        if home and not selected:
            notes.append(
                f"{variable} is {home!r}, but no ascend_toolkit_install.info is found there."
            )
        toolkits += selected
    for place in TOOLKIT_PATTERNS:
        toolkits += _find_toolkits(root, place)
    return Versions(
        driver=_find_component(root, installed, "driver"),
        firmware=_find_component(root, installed, "firmware"),
        toolkits=tuple({toolkit.path: toolkit for toolkit in reversed(toolkits)}.values())[::-1],
        notes=tuple(notes),
    )


def read_version_file(root: str, component: Component) -> Dict[str, str]:
    """Read a component's version file, with keys in lower case; empty if it has none."""
    return {} if component.path is None else _read(root, component.path.lstrip("/"))


def _find_component(root: str, installed: Mapping[str, str], name: str) -> Optional[Component]:
    prefix = installed.get(f"{name}_install_path_param", "").strip("/")
    places = [f"{folder}/{name}/version.info" for folder in (prefix, DEFAULT_PREFIX) if folder]
    components = (_describe(root, path) for path in [*places, f"var/davinci/{name}/version.info"])
    return next(filter(None, components), None)


def _find_toolkits(root: str, place: str) -> List[Component]:
    paths = [path for name in _TOOLKIT_FILES for path in find_host_files(root, f"{place}/{name}")]
    toolkits = (_describe(root, strip_root(root, os.path.realpath(path))) for path in sorted(paths))
    return [toolkit for toolkit in toolkits if toolkit]


def strip_root(root: str, path: str) -> str:
    """Return a path relative to the host's root, whether or not it begins with that root."""
    for prefix in (root, os.path.realpath(root)):
        if prefix != "/" and os.path.join(path, "").startswith(os.path.join(prefix, "")):
            return os.path.relpath(path, prefix)
    return path.lstrip("/")


def _describe(root: str, path: str) -> Optional[Component]:
    values = _read(root, path)
    # Newer driver packages have their version in package_version, and a component's in Version.
    version = values.get("version", "")
    if os.path.dirname(path).endswith("driver"):
        version = values.get("package_version") or version
    inner = values.get("innerversion") or None
    return Component(version, inner, f"/{path}") if version else None


def _read(root: str, path: str) -> Dict[str, str]:
    """Read a version file, keys in lower case; empty if there is none."""
    matches = map(_KEY_VALUE.fullmatch, clean_lines(read_host_file(root, path) or ""))
    return {match[1].lower(): match[2].strip('"') for match in matches if match}


# Operators

OPP_VARIABLE = "ASCEND_OPP_PATH"

_CUSTOM_VARIABLE = "ASCEND_CUSTOM_OPP_PATH"
_DEFAULT_OPP = "/usr/local/Ascend/opp"
_OPERATORS_FILE = "npu_supported_ops.json"
_LONGEST_PATH = 1024 * 1024


class OperatorList(NamedTuple):
    """The list of supported operators that the adapter finds.

    Attributes:
        folder: The operator package (OPP) that it searches.
        files: The paths that it reads, the vendor's own list first.
        operators: The number of operators in all of them; with 0 no graph runs on the device.
    """

    folder: str
    files: Tuple[str, ...]
    operators: int


def read_operator_list(environ: Mapping[str, str], root: str = "/") -> OperatorList:
    """Read the list as the adapter does; never raises.

    Args:
        environ: ``ASCEND_OPP_PATH`` and ``ASCEND_CUSTOM_OPP_PATH`` in it name the folders.
        root: Root of the host; a folder that does not exist as named is searched below it.
    """
    folder = environ.get(OPP_VARIABLE)
    if folder is None or len(folder) >= _LONGEST_PATH:
        folder = _DEFAULT_OPP
    for place in [folder] if root == "/" else [folder, _on_host(root, folder)]:
        files = _list_operator_files(place, environ, root)
        names = {name for path in files for name in _read_operator_names(path)}
        if names:
            break
    return OperatorList(place, tuple(files), len(names))


def _on_host(root: str, path: str) -> str:
    return os.path.join(root, path.lstrip("/"))


def _list_operator_files(folder: str, environ: Mapping[str, str], root: str) -> List[str]:
    # Joined as the adapter does it, so that an empty folder means the root.
    older = f"{folder}/framework/custom/tensorflow/{_OPERATORS_FILE}"
    if not os.path.isdir(f"{folder}/built-in"):
        return [f"{folder}/framework/built-in/tensorflow/{_OPERATORS_FILE}", older]
    custom = [path for path in environ.get(_CUSTOM_VARIABLE, "").split(":") if path]
    custom += [_on_host(root, path) for path in custom] if root != "/" else []
    vendors = [f"{folder}/vendors/{name}" for name in _read_vendors(folder)]
    places = [*(path for path in custom if os.path.isdir(path)), *vendors]
    added = [os.path.join(place, "framework/tensorflow", _OPERATORS_FILE) for place in places]
    built_in = f"{folder}/built-in/framework/tensorflow/{_OPERATORS_FILE}"
    return [built_in, *added, *([] if vendors else [older])]


def _read_vendors(folder: str) -> List[str]:
    """Read the names in the first line of ``vendors/config.ini``: ``load_priority=a,b``."""
    try:
        with open(f"{folder}/vendors/config.ini", encoding="utf-8") as file:
            parts = file.readline().strip().split("=")
    except (OSError, UnicodeDecodeError):
        return []
    return [name.strip() for name in parts[1].split(",") if name.strip()] if len(parts) == 2 else []


def _read_operator_names(path: str) -> List[str]:
    try:
        with open(path, encoding="utf-8-sig") as file:
            entries: Any = json.load(file)
    except (OSError, ValueError, RecursionError):
        return []
    if not isinstance(entries, dict):
        return []
    # The adapter counts an operator as supported if its entry is an object.
    return [name for name, entry in entries.items() if isinstance(entry, dict)]


ALL_MODES = "all_ops_impl_mode.ini"

_BELOW_OPP = os.path.join("built-in", "op_impl", "ai_core", "tbe")
_OPS_INFO = "aic-*ops-info*.json"


def find_impl_mode_folder(
    environ: Mapping[str, str], root: str = "/", toolkit: Optional[str] = None
) -> Optional[str]:
    """Find the folder with the lists of implementation modes; None if there is none.

    Args:
        environ: ``ASCEND_OPP_PATH``, ``ASCEND_TOOLKIT_HOME``, ``ASCEND_HOME_PATH`` and ``HOME`` in
            it name the folders to search.
        root: Root of the host.
        toolkit: The only folder to search: a toolkit, its ``opp``, or the searched folder itself.
    """
    return _implementation_folder(environ, root, toolkit, "impl_mode")


def find_ops_info_files(
    environ: Mapping[str, str], root: str = "/", toolkit: Optional[str] = None
) -> Dict[str, Tuple[str, ...]]:
    """Find ``{soc_version: files that describe its operators}``; see `find_impl_mode_folder`."""
    folder = _implementation_folder(environ, root, toolkit, "config")
    if folder is None:
        return {}
    files_of = {
        soc: tuple(find_host_files(os.path.join(folder, soc), _OPS_INFO))
        for soc in sorted(os.listdir(folder))
    }
    return {soc: files for soc, files in files_of.items() if files}


def _implementation_folder(
    environ: Mapping[str, str], root: str, toolkit: Optional[str], name: str
) -> Optional[str]:
    if toolkit is not None:
        places = [os.path.join(toolkit, opp, _BELOW_OPP, name) for opp in ("opp", "")]
        if os.path.basename(os.path.normpath(toolkit)) == name:
            places.append(toolkit)
    else:
        homes = [environ[variable] for variable in TOOLKIT_VARIABLES if environ.get(variable)]
        homes += [*TOOLKIT_FOLDERS, "usr/local/Ascend/latest"]
        if environ.get("HOME"):
            homes.append(os.path.join(environ["HOME"], "Ascend/ascend-toolkit/latest"))
        opps = [environ[OPP_VARIABLE]] if environ.get(OPP_VARIABLE) else []
        opps += [os.path.join(home, "opp") for home in homes]
        places = [os.path.join(root, strip_root(root, opp), _BELOW_OPP, name) for opp in opps]
    return next((os.path.normpath(place) for place in places if os.path.isdir(place)), None)
