"""Check that the toolkit is sourced, fits driver and firmware, and has its operators.

Sources: guides/facts/devices.md#paths-and-versions; version files of drivers and toolkits in public
reports (``compatible_version`` names releases, ``compatible_version_fw`` ranges of firmware).
"""

import glob
import os
import re
import shlex
from typing import Iterator, List, Mapping, Optional, Tuple

from ascend_session.findings import ERROR, INFO, NOT_CHECKED, OK, WARNING, Finding
from ascend_session.hardware.installation import (
    OPP_VARIABLE,
    TOOLKIT_PATTERNS,
    TOOLKIT_VARIABLES,
    Component,
    Versions,
    read_operator_list,
    read_version_file,
    strip_root,
)
from ascend_session.hardware.nodes import find_host_files, read_host_file

_VERSIONS, _SOURCED, _OPERATORS = "versions", "set_env.sh", "operators"
_PLACES = ("usr/local/Ascend/ascend-toolkit", *TOOLKIT_PATTERNS)
_EXPORT = re.compile(r"\s*export\s+([A-Za-z_][A-Za-z0-9_]*)=")
# Set in every environment, so they do not show what was sourced.
_COMMON = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
_RELEASE = re.compile(r"V[0-9]+R[0-9]+C[0-9]+")
_RANGE = re.compile(r"\[\s*([0-9.]+)\s*,\s*([0-9.]+)\s*\]")
_COMPATIBLE = re.compile(r"\[\s*(V[0-9]+R[0-9]+C[0-9]+)\s*\]")


def check_sourced(environ: Mapping[str, str], root: str) -> Iterator[Finding]:
    """Check that the variables of the toolkit's ``set_env.sh`` are set; the file is not run."""
    path = _find_script(environ, root)
    script = "" if path is None else f"/{os.path.relpath(path, root)}"
    lines = (read_host_file(path) or "").splitlines() if path else []
    matches = filter(None, map(_EXPORT.match, lines))
    exported = list(dict.fromkeys(match[1] for match in matches if match[1] not in _COMMON))
    names = exported or [*TOOLKIT_VARIABLES, OPP_VARIABLE]
    have = [name for name in names if environ.get(name)]
    lacking = [name for name in names if not environ.get(name)]
    source = f"source {shlex.quote(script)}"
    if exported and lacking:
        kind = "not been sourced" if not have else "been sourced only in part"
        message = (
            f"{script} has {kind}: it sets {', '.join(lacking)}, which this environment lacks."
        )
        yield Finding(WARNING if have else ERROR, message, source, rule=_SOURCED)
    elif have:
        where = f", which {script} sets" if exported else ""
        yield Finding(OK, f"This environment has {', '.join(have)}{where}.", rule=_SOURCED)
    elif path is not None:  # no variable could be read from it
        message = f"{script} does not seem to be sourced: none of {', '.join(names)} is set."
        yield Finding(ERROR, message, source, rule=_SOURCED)
    else:
        message = f"No set_env.sh was found, and none of {', '.join(names)} is set."
        hint = "Source the set_env.sh of the toolkit (CANN), wherever it is installed."
        yield Finding(ERROR, message, hint, rule=_SOURCED)


def check_installed(versions: Versions) -> Iterator[Finding]:
    """Report the versions of driver, firmware and toolkit, and faults of the installation."""
    for name, component in (
        ("driver", versions.driver),
        ("firmware", versions.firmware),
        ("toolkit (CANN)", versions.toolkits[0] if versions.toolkits else None),
    ):
        if component is None:
            message = f"No version file of the {name} was found; it may be installed elsewhere."
            severity = ERROR if name.startswith("toolkit") else NOT_CHECKED
            hint = "Install it, or set ASCEND_TOOLKIT_HOME." if severity == ERROR else None
            yield Finding(severity, message, hint, rule=_VERSIONS)
    for note in versions.notes:
        yield Finding(WARNING, note, rule=_VERSIONS)
    if len(versions.toolkits) > 1:
        named = ", ".join(f"{toolkit.version} ({toolkit.path})" for toolkit in versions.toolkits)
        message = f"Several toolkits are installed: {named}. The first one is used."
        yield Finding(INFO, message, rule=_VERSIONS)


def check_versions(versions: Versions, root: str, machine: Optional[str]) -> Iterator[Finding]:
    """Check that driver, firmware, toolkit and machine fit together, as their files say.

    Args:
        versions: What is installed.
        root: Root of the host that has the version files.
        machine: The kind of processor, as ``uname -m`` prints it; None skips this comparison.
    """
    driver, firmware = versions.driver, versions.firmware
    toolkit = versions.toolkits[0] if versions.toolkits else None
    findings: List[Finding] = []
    if driver and firmware:
        findings += _check_firmware(driver, firmware, root)
    if driver and toolkit:
        findings += _check_toolkit(driver, toolkit, root)
    made_for = read_version_file(root, toolkit).get("arch", machine) if toolkit else machine
    if toolkit and machine is not None and made_for != machine:
        message = f"The toolkit {toolkit.version} is for {made_for}, but this machine is {machine}."
        hint = f"Install the toolkit for {machine}."
        findings.append(Finding(ERROR, message, hint, rule=_VERSIONS))
    yield from findings
    if driver and toolkit and not findings:
        message = "The version files of driver, firmware and toolkit do not contradict each other."
        yield Finding(OK, message, rule=_VERSIONS)


def _check_firmware(driver: Component, firmware: Component, root: str) -> Iterator[Finding]:
    ranges = _RANGE.findall(read_version_file(root, driver).get("compatible_version_fw", ""))
    if ranges and not any(
        _parse_numbers(low) <= _parse_numbers(firmware.version)[:3] <= _parse_numbers(high)
        for low, high in ranges
    ):
        fitting = " or ".join(f"{low} to {high}" for low, high in ranges)
        message = (
            f"The driver {driver.version} needs firmware {fitting} ({driver.path}), but the "
            f"firmware is {firmware.version}."
        )
        yield Finding(ERROR, message, "Install firmware and driver of one package.", rule=_VERSIONS)


def _check_toolkit(driver: Component, toolkit: Component, root: str) -> Iterator[Finding]:
    """Check that one lists the other's release; which list counts is not documented."""
    of_driver = _parse_release(driver.inner_version)
    of_toolkit = _parse_release(toolkit.inner_version)
    lists = [
        set(_COMPATIBLE.findall(read_version_file(root, component).get("compatible_version", "")))
        for component in (driver, toolkit)
    ]
    if of_driver is None or of_toolkit is None or not all(lists) or of_driver == of_toolkit:
        return
    if of_toolkit not in lists[0] and of_driver not in lists[1]:
        message = (
            f"Driver {driver.version} ({of_driver}) and toolkit {toolkit.version} ({of_toolkit}) "
            "do not name each other as compatible in their version files."
        )
        hint = "Compare with the vendor's table of versions; install a matching driver."
        yield Finding(WARNING, message, hint, rule=_VERSIONS)


def _parse_release(inner: Optional[str]) -> Optional[str]:
    match = _RELEASE.match(inner or "")
    return match.group() if match else None


def _parse_numbers(version: str) -> Tuple[int, ...]:
    return tuple(int(part[:9]) for part in version.split(".") if re.fullmatch("[0-9]+", part))


def _find_script(environ: Mapping[str, str], root: str) -> Optional[str]:
    """Find the ``set_env.sh`` of the toolkit that the environment names, else of any toolkit."""
    homes = [strip_root(root, environ[name]) for name in TOOLKIT_VARIABLES if environ.get(name)]
    named = [f"{place}/set_env.sh" for home in homes for place in (home, f"{home}/..")]
    if environ.get("HOME"):
        # The folder of a user who is not root: the manual, page "Subgraph/Operator Tuning".
        folder = strip_root(root, environ["HOME"])
        named += [f"{folder}/Ascend/{name}/set_env.sh" for name in ("ascend-toolkit", "cann")]
    places = [glob.escape(path) for path in named]
    places += [f"{folder}/set_env.sh" for folder in _PLACES]
    for place in places:
        for path in find_host_files(root, place):
            if os.path.isfile(path):
                return os.path.normpath(path)
    return None


def check_operators(environ: Mapping[str, str], root: str) -> Iterator[Finding]:
    """Check that the adapter finds its list of supported operators."""
    listed = read_operator_list(environ, root)
    given = environ.get(OPP_VARIABLE)
    variable = f"{OPP_VARIABLE} is not set" if given is None else f"{OPP_VARIABLE}={given!r}"
    if listed.operators:
        where = f"The adapter's list of supported operators in {listed.folder}"
        yield Finding(OK, f"{where} has {listed.operators}.", rule=_OPERATORS)
        return
    message = (
        f"The adapter finds no list of supported operators in {listed.folder} ({variable}), so it "
        f"would silently run every graph on the CPU. It looks for {listed.files[0]}."
    )
    hint = f"Source the toolkit's set_env.sh, which sets {OPP_VARIABLE}."
    yield Finding(ERROR, message, hint, rule=_OPERATORS)
