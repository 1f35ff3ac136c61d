"""Which driver, firmware and toolkit are installed: the files that the vendor's installers leave.

Source: guides/facts/devices.md#paths-and-versions.
"""

import glob
import os
import re
from dataclasses import dataclass
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

from ascend_session.hardware.program import clean_lines

_KEY_VALUE = re.compile(r"\s*([A-Za-z]\w*)\s*=\s*(.*?)\s*")
_INSTALL_INFO = "etc/ascend_install.info"
DEFAULT_PREFIX = "usr/local/Ascend"
TOOLKIT_VARIABLES = ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH")
_TOOLKIT_PLACES = (
    "usr/local/Ascend/ascend-toolkit/latest",
    "usr/local/Ascend/cann",
    "usr/local/Ascend/cann-*",
)
_MOST_CHARACTERS = 100000
_TOOLKIT_FILES = ("*-linux/ascend_toolkit_install.info", "ascend_toolkit_install.info")


@dataclass(frozen=True)
class Component:
    """One thing that is installed.

    Attributes:
        version: As in ``24.1.rc2``.
        inner_version: The vendor's build, as in ``V100R001C18SPC001B233``; None if not given.
        path: The file that says so, seen from the host's root; None if a program said it.
    """

    version: str
    inner_version: Optional[str]
    path: Optional[str]


class Versions(NamedTuple):
    """What is installed; None or empty for what is not found.

    Attributes:
        driver: The driver.
        firmware: The firmware.
        toolkits: The toolkits (CANN), the one that the environment selects first.
        notes: What is wrong with an installation, in sentences.
    """

    driver: Optional[Component]
    firmware: Optional[Component]
    toolkits: Tuple[Component, ...]
    notes: Tuple[str, ...]


def read_versions(environ: Mapping[str, str], root: str = "/") -> Versions:
    """Read all version files below ``root``; never raises.

    Args:
        environ: Its ``ASCEND_TOOLKIT_HOME`` and ``ASCEND_HOME_PATH`` name the toolkit in use.
        root: Root of the host to look at.
    """
    notes: List[str] = []
    installed = _read(root, _INSTALL_INFO) or {}
    status = installed.get("driver_install_status", "complete")
    if status != "complete":
        notes.append(
            f"/{_INSTALL_INFO} says Driver_Install_Status={status}: install the driver again."
        )
    toolkits = _selected_toolkits(environ, root, notes)
    toolkits += [toolkit for place in _TOOLKIT_PLACES for toolkit in _find_toolkits(root, place)]
    return Versions(
        driver=_component(root, installed, "driver"),
        firmware=_component(root, installed, "firmware"),
        toolkits=tuple({toolkit.path: toolkit for toolkit in reversed(toolkits)}.values())[::-1],
        notes=tuple(notes),
    )


def keys_of(root: str, component: Component) -> Dict[str, str]:
    """Read a component's version file, keys in lower case; empty if it has none."""
    return {} if component.path is None else _read(root, component.path.lstrip("/")) or {}


def _component(root: str, installed: Mapping[str, str], name: str) -> Optional[Component]:
    prefix = installed.get(f"{name}_install_path_param", "").strip("/")
    places = [f"{folder}/{name}/version.info" for folder in (prefix, DEFAULT_PREFIX) if folder]
    for path in [*places, f"var/davinci/{name}/version.info"]:
        component = _describe(root, path)
        if component:
            return component
    return None


def _selected_toolkits(environ: Mapping[str, str], root: str, notes: List[str]) -> List[Component]:
    selected: List[Component] = []
    for variable in TOOLKIT_VARIABLES:
        home = environ.get(variable, "")
        toolkits = _find_toolkits(root, glob.escape(below(root, home))) if home else []
        if home and not toolkits:
            notes.append(
                f"{variable} is {home!r}, but no ascend_toolkit_install.info is found there."
            )
        selected += toolkits
    return selected


def _find_toolkits(root: str, place: str) -> List[Component]:
    folder = os.path.join(glob.escape(root), place)
    paths = [path for name in _TOOLKIT_FILES for path in glob.glob(os.path.join(folder, name))]
    toolkits = (_describe(root, below(root, os.path.realpath(path))) for path in sorted(paths))
    return [toolkit for toolkit in toolkits if toolkit]


def below(root: str, path: str) -> str:
    """Cut the host's root off the front of a path."""
    for prefix in (root, os.path.realpath(root)):
        if prefix != "/" and os.path.join(path, "").startswith(os.path.join(prefix, "")):
            return os.path.relpath(path, prefix)
    return path.lstrip("/")


def _describe(root: str, path: str) -> Optional[Component]:
    values = _read(root, path) or {}
    # Newer driver packages have a component's number in Version and their own in package_version.
    version = values.get("version", "")
    if os.path.dirname(path).endswith("driver"):
        version = values.get("package_version") or version
    inner = values.get("innerversion") or None
    return Component(version, inner, f"/{path}") if version else None


def _read(root: str, path: str) -> Optional[Dict[str, str]]:
    try:
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            text = file.read(_MOST_CHARACTERS)
    except (OSError, ValueError):
        return None
    matches = (_KEY_VALUE.fullmatch(line) for line in clean_lines(text))
    return {match.group(1).lower(): match.group(2).strip('"') for match in matches if match}
