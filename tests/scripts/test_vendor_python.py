"""Hardware tests run in the interpreter that has npu_bridge, which stays as it is."""

import subprocess
import sys
from pathlib import Path
from typing import Any, List

import pytest

from vendor_python import tests_hardware as asks_for_devices

# Says which Python runs it, and where that looks for modules last.
TEST = """
import sys
def test_it():
    print("\\nran in", sys.executable, "and last looks in", sys.path[-1])
"""
# Stand in for pip and for what it installs.
PIP = """
import os, sys
folder = sys.argv[sys.argv.index("--target") + 1]
os.makedirs(folder)
with open(os.path.join(folder, "pytest.py"), "w") as file:
    file.write("import sys\\ndef console_main():\\n    print('ran', sys.argv[1:], sys.path[-1])\\n")
with open({calls!r}, "a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
"""


@pytest.fixture
def vendor(checkout: Any, tmp_path: Path) -> str:
    """A folder for PYTHONPATH, as that of the toolkit, with a package ``npu_bridge``."""
    (checkout.top / "hardware_tests").mkdir()
    (checkout.top / "hardware_tests/test_it.py").write_text(TEST)
    package = tmp_path / "vendor/npu_bridge"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('it needs a device')")
    return str(package.parent)


def make_bare_python(checkout: Any, folder: Path) -> Path:
    """Make an interpreter without pytest, whose pip is the stand-in."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "pip").mkdir()
    (packages / "pip/__init__.py").write_text("")
    (packages / "pip/__main__.py").write_text(PIP.format(calls=str(checkout.calls)))
    return folder / "bin/python"


def test_python_is_used_as_it_is_if_it_has_the_vendors_package(checkout: Any, vendor: str) -> None:
    outcome = checkout.run("test", "hardware_tests", "-s", PYTHON=sys.executable, PYTHONPATH=vendor)
    assert f"ran in {sys.executable} and" in outcome.stdout, outcome.stderr
    assert outcome.code == 0
    assert not checkout.venv.exists()


def test_it_is_found_on_the_path_if_python_names_none(checkout: Any, vendor: str) -> None:
    outcome = checkout.run("test", "hardware_tests/test_it.py::test_it", "-s", PYTHONPATH=vendor)
    assert "ran in " in outcome.stdout, outcome.stderr
    assert not checkout.venv.exists()


def test_a_pytest_that_it_lacks_is_put_into_a_folder_of_its_own_once(
    checkout: Any, vendor: str, tmp_path: Path
) -> None:
    python = make_bare_python(checkout, tmp_path / "bare")
    before = sorted((tmp_path / "bare").rglob("*.py"))
    version = f"{sys.version_info[0]}{sys.version_info[1]}"
    folder = checkout.venv / f"pytest-py{version}"
    ran = f"ran ['hardware_tests', '-x'] {folder}"
    outcomes = [
        checkout.run("test", "hardware_tests", "-x", PYTHON=str(python), PYTHONPATH=vendor)
        for _ in range(2)
    ]
    first, second = (outcome.stdout.splitlines() for outcome in outcomes)
    assert first[0] == (
        f"Installing pytest into .venv/pytest-py{version} for {python}, which stays as it is."
    ), outcomes[0].stderr
    assert (first[-1], second) == (ran, [ran])
    assert checkout.pip_calls() == [f"install --target {folder} pytest>=7.4"]
    assert sorted((tmp_path / "bare").rglob("*.py")) == before


def test_without_the_vendors_package_they_run_in_the_own_environment(
    checkout: Any, vendor: str
) -> None:
    python = str(checkout.stand_in())
    outcome = checkout.run("test", "hardware_tests", PYTHON=python)
    lines = outcome.stdout.splitlines()
    assert lines[0].endswith("PYTHON=... names the Python that has it.")
    assert lines[-1] == "ran pytest hardware_tests"
    assert checkout.environments() == ["py37"]


def test_a_folder_that_only_has_its_name_is_no_package(checkout: Any, tmp_path: Path) -> None:
    (checkout.top / "hardware_tests").mkdir()
    (tmp_path / "sources/npu_bridge").mkdir(parents=True)
    environ = {"PYTHON": str(checkout.stand_in()), "PYTHONPATH": str(tmp_path / "sources")}
    outcome = checkout.run("test", "hardware_tests", **environ)
    assert outcome.stdout.splitlines()[-1] == "ran pytest hardware_tests"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["hardware_tests"], True),
        (["./hardware_tests/", "--require-npu"], True),
        (["-k", "x", "hardware_tests/test_options.py::test_it"], True),
        (["hardware_tests", "tests/session"], False),
        (["-k", "hardware"], False),
        (["hardware_tests_of_others"], False),
        ([], False),
    ],
)
def test_only_hardware_tests_run_there(arguments: List[str], expected: bool) -> None:
    assert asks_for_devices(arguments, "/top") == expected
