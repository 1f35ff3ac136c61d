"""Whether the toolkit's ``set_env.sh`` was sourced, and which parts go with each other.

Source: launch_facts.md, B4 (paths, keys); version files of drivers and toolkits as people print
them in public reports (``compatible_version`` names releases, ``compatible_version_fw`` ranges of
firmware); the vendor's installation guide, running dependencies (TensorFlow and Python).
"""

import glob
import os
import re
import shlex
from typing import Iterator, List, Mapping, Optional, Tuple

from ascend_session.checks.finding import ERROR, INFO, NOT_CHECKED, OK, WARNING, Finding
from ascend_session.hardware.operators import OPP_VARIABLE
from ascend_session.hardware.versions import Component, Versions, below, keys_of

__all__ = ["check_installed", "check_sourced", "check_versions"]

_VERSIONS, _SOURCED = "versions", "set_env.sh"
_PLACES = (
    "usr/local/Ascend/ascend-toolkit/set_env.sh",
    "usr/local/Ascend/ascend-toolkit/latest/set_env.sh",
    "usr/local/Ascend/cann/set_env.sh",
    "usr/local/Ascend/cann-*/set_env.sh",
)
_HOMES = ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH")
_EXPORT = re.compile(r"\s*export\s+([A-Za-z_][A-Za-z0-9_]*)=")
_MOST_CHARACTERS = 100000
# Set everywhere, so that they say nothing of what was sourced.
_COMMON = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
_RELEASE = re.compile(r"V[0-9]+R[0-9]+C[0-9]+")
_RANGE = re.compile(r"\[\s*([0-9.]+)\s*,\s*([0-9.]+)\s*\]")
_LISTED = re.compile(r"\[\s*(V[0-9]+R[0-9]+C[0-9]+)\s*\]")


def check_sourced(environ: Mapping[str, str], root: str) -> Iterator[Finding]:
    """Looks which variables of the toolkit's ``set_env.sh`` are set; reads it, never runs it.

    Args:
        environ: The environment.
        root: Root of the host.
    """
    path = _script(environ, root)
    shown = None if path is None else f"/{os.path.relpath(path, root)}"
    exported = [name for name in _exported(path) if name not in _COMMON] if path else []
    wanted = exported or [*_HOMES, OPP_VARIABLE]
    have = [name for name in wanted if environ.get(name)]
    lacking = [name for name in wanted if not environ.get(name)]
    source = f"source {shlex.quote(shown or '')}"
    if exported and lacking:
        kind = "not been sourced" if not have else "been sourced only in part"
        said = f"{shown} has {kind}: it sets {', '.join(lacking)}, which this environment lacks."
        yield Finding(_SOURCED, WARNING if have else ERROR, said, source)
    elif have:
        where = f", which {shown} sets" if exported else ""
        yield Finding(_SOURCED, OK, f"This environment has {', '.join(have)}{where}.")
    elif path is not None:  # nobody can read what it sets
        said = f"{shown} has not been sourced, it seems: none of {', '.join(wanted)} is set."
        yield Finding(_SOURCED, ERROR, said, source)
    else:
        said = f"No set_env.sh was found, and none of {', '.join(wanted)} is set."
        hint = "Source the set_env.sh of the toolkit (CANN), wherever it is installed."
        yield Finding(_SOURCED, ERROR, said, hint)


def check_installed(versions: Versions) -> Iterator[Finding]:
    """Says which of driver, firmware and toolkit are found, and what is odd about them."""
    for name, found in (
        ("driver", versions.driver),
        ("firmware", versions.firmware),
        ("toolkit (CANN)", versions.toolkits[0] if versions.toolkits else None),
    ):
        if found is None:
            said = f"No version file of the {name} was found; it may be installed elsewhere."
            severity = ERROR if name.startswith("toolkit") else NOT_CHECKED
            hint = "Install it, or set ASCEND_TOOLKIT_HOME." if severity == ERROR else None
            yield Finding(_VERSIONS, severity, said, hint)
    for note in versions.notes:
        yield Finding(_VERSIONS, WARNING, note)
    if len(versions.toolkits) > 1:
        named = ", ".join(f"{one.version} ({one.path})" for one in versions.toolkits)
        said = f"Several toolkits are installed: {named}. The first one counts here."
        yield Finding(_VERSIONS, INFO, said)


def check_versions(versions: Versions, root: str, machine: Optional[str]) -> Iterator[Finding]:
    """Compares driver, firmware, toolkit and machine, as far as their own files say what fits.

    Args:
        versions: What is installed.
        root: Root of the host.
        machine: The kind of processor, as ``uname -m`` says it; None if that is not to count.
    """
    driver, firmware = versions.driver, versions.firmware
    toolkit = versions.toolkits[0] if versions.toolkits else None
    found: List[Finding] = []
    if driver and firmware:
        found += _firmware(driver, firmware, root)
    if driver and toolkit:
        found += _toolkit(driver, toolkit, root)
    if toolkit and machine is not None:
        found += _machine(toolkit, root, machine)
    yield from found
    if driver and toolkit and not found:
        said = "Driver, firmware and toolkit do not exclude each other in their version files."
        yield Finding(_VERSIONS, OK, said)


def _firmware(driver: Component, firmware: Component, root: str) -> Iterator[Finding]:
    ranges = _RANGE.findall(keys_of(root, driver).get("compatible_version_fw", ""))
    if ranges and not any(
        _numbers(low) <= _numbers(firmware.version)[:3] <= _numbers(high) for low, high in ranges
    ):
        fitting = " or ".join(f"{low} to {high}" for low, high in ranges)
        said = (
            f"The driver {driver.version} goes with firmware {fitting} ({driver.path}), but the "
            f"firmware is {firmware.version}."
        )
        yield Finding(_VERSIONS, ERROR, said, "Install firmware and driver of one package.")


def _toolkit(driver: Component, toolkit: Component, root: str) -> Iterator[Finding]:
    """The files list releases; which of the two lists counts is not documented, so either does."""
    of_driver, of_toolkit = _release(driver.inner_version), _release(toolkit.inner_version)
    lists = [
        set(_LISTED.findall(keys_of(root, one).get("compatible_version", "")))
        for one in (driver, toolkit)
    ]
    if of_driver is None or of_toolkit is None or not all(lists) or of_driver == of_toolkit:
        return
    if of_toolkit not in lists[0] and of_driver not in lists[1]:
        said = (
            f"Driver {driver.version} ({of_driver}) and toolkit {toolkit.version} ({of_toolkit}) "
            "do not name each other as compatible in their version files."
        )
        hint = "Compare with the vendor's table of versions; install a driver that goes with it."
        yield Finding(_VERSIONS, WARNING, said, hint)


def _machine(toolkit: Component, root: str, machine: str) -> Iterator[Finding]:
    made_for = keys_of(root, toolkit).get("arch", machine)
    if made_for != machine:
        said = f"The toolkit {toolkit.version} is for {made_for}, but this machine is {machine}."
        yield Finding(_VERSIONS, ERROR, said, f"Install the toolkit for {machine}.")


def _release(inner: Optional[str]) -> Optional[str]:
    found = _RELEASE.match(inner or "")
    return found.group() if found else None


def _numbers(version: str) -> Tuple[int, ...]:
    return tuple(int(part[:9]) for part in version.split(".") if part.isdigit())


def _script(environ: Mapping[str, str], root: str) -> Optional[str]:
    """The first ``set_env.sh`` that is there: that of the toolkit which the environment names."""
    homes = [below(root, environ[name]) for name in _HOMES if environ.get(name)]
    named = [f"{place}/set_env.sh" for home in homes for place in (home, f"{home}/..")]
    if environ.get("HOME"):  # where whoever is not root installs it (seed 003)
        own = below(root, environ["HOME"])
        named += [f"{own}/Ascend/{name}/set_env.sh" for name in ("ascend-toolkit", "cann")]
    for place in [*(glob.escape(path) for path in named), *_PLACES]:
        for path in sorted(glob.glob(os.path.join(glob.escape(root), place))):
            if os.path.isfile(path):
                return str(os.path.normpath(path))
    return None


def _exported(path: str) -> List[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(_MOST_CHARACTERS)
    except OSError:
        return []
    found = (_EXPORT.match(line) for line in text.splitlines())
    return list(dict.fromkeys(match.group(1) for match in found if match))
