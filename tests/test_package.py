"""What is published: the metadata, the wheel, and an sdist that can run its tests."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Dict, List

import pytest

HOME = Path(__file__).resolve().parents[1]
PARTS = (".ci", "ascend_session", "hardware_tests", "scripts", "tests")
FILES = (".gitignore", "LICENSE", "README.md", "pyproject.toml")
# The aim is 600; whoever makes it smaller lowers this, and nobody raises it for comfort.
WHEEL_LIMIT_KB = 1125
CONTRIBUTORS_PAGES = ("architecture", "changes", "contributing")  # these come with the source
SECONDS = 300
BUILD = "import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"


def run(*command: str, cwd: Path, **environ: str) -> None:
    subprocess.run(
        command,
        cwd=str(cwd),
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
        check=True,
    )


@pytest.fixture(scope="module")
def build_tools(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with what pip would build this project with, outside the environment of tests."""
    folder = tmp_path_factory.mktemp("tools")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    try:
        run(*pip, "setuptools>=64", "wheel", cwd=folder)
    except subprocess.CalledProcessError as error:
        text = error.output.decode(errors="replace")
        if "No matching distribution" not in text:
            raise
        pytest.skip("no package index has setuptools")
    return str(folder)


@pytest.fixture(scope="module")
def source(build_tools: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree that the sdist of this checkout unpacks to."""
    top = tmp_path_factory.mktemp("source")
    copy = top / "copy"
    copy.mkdir()
    for name in FILES:
        shutil.copy2(str(HOME / name), str(copy))
    # With caches, as a checkout has them, but without files of them that are just being written
    ignored = shutil.ignore_patterns("*.pyc.*")
    for name in PARTS:
        shutil.copytree(str(HOME / name), str(copy / name), symlinks=True, ignore=ignored)
    (copy / "tests" / "__pycache__").mkdir(exist_ok=True)
    (copy / "tests" / "__pycache__" / "left.pyc").write_bytes(b"")
    run(
        *(sys.executable, "-c", BUILD.format(kind="sdist"), str(top)),
        cwd=copy,
        PYTHONPATH=build_tools,
    )
    (archive,) = top.glob("*.tar.gz")
    with tarfile.open(str(archive)) as tar:
        # Python 3.12 warns where no filter is named, and 3.7 knows none
        options: Dict[str, str] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        tar.extractall(str(top / "unpacked"), **options)  # type: ignore[arg-type]
    (unpacked,) = (top / "unpacked").iterdir()
    return unpacked


@pytest.fixture(scope="module")
def wheel(build_tools: str, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that this sdist builds."""
    top = tmp_path_factory.mktemp("wheel")
    copy = top / "copy"
    shutil.copytree(str(source), str(copy))
    run(
        *(sys.executable, "-c", BUILD.format(kind="wheel"), str(top)),
        cwd=copy,
        PYTHONPATH=build_tools,
    )
    (archive,) = top.glob("*.whl")
    return archive


def metadata(wheel: Path) -> Dict[str, List[str]]:
    with zipfile.ZipFile(str(wheel)) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith("dist-info/METADATA"))
        message = Parser().parsestr(archive.read(name).decode("utf-8"))
    return {key: [str(value) for value in message.get_all(key, [])] for key in set(message.keys())}


def files_below(top: Path, *parts: str) -> List[str]:
    return sorted(
        file.relative_to(top).as_posix()
        for part in parts
        for file in (top / part).rglob("*")
        if file.is_file() and not re.search(r"(__pycache__|\.\w+_cache)/", str(file))
    )


def test_the_sdist_holds_what_the_checkout_holds(source: Path) -> None:
    assert files_below(source, *PARTS) == files_below(HOME, *PARTS)
    for name in FILES:
        assert (source / name).read_bytes() == (HOME / name).read_bytes()
    assert not list(source.rglob("*.pyc"))


def test_scripts_can_be_run_from_the_sdist(source: Path) -> None:
    for name in (".ci/run", "scripts/demo", "scripts/test", "scripts/_bootstrap/start"):
        assert os.access(str(source / name), os.X_OK), name


def test_the_sdist_can_run_its_tests(source: Path) -> None:
    code = "import ascend_session, os; print(os.path.realpath(ascend_session.__file__))"
    (source / "where.py").write_text(code)
    try:
        where = subprocess.check_output(
            [sys.executable, "where.py"], cwd=str(source), universal_newlines=True
        )
    finally:
        (source / "where.py").unlink()
    assert where.strip() == os.path.realpath(str(source / "ascend_session" / "__init__.py"))
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    tests = ("tests/test_text.py", "tests/test_ids.py", "tests/hardware/test_nodes.py")
    present = [name for name in tests if (source / name).exists()]
    assert present
    run(*command, *present, cwd=source, PYTHONPATH=str(source), PYTHONDONTWRITEBYTECODE="1")


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(str(wheel)) as archive:
        names = archive.namelist()
    package = [name for name in names if ".dist-info/" not in name]
    contributors = {f"ascend_session/guides/{page}.md" for page in CONTRIBUTORS_PAGES}
    kept = [name for name in files_below(HOME, "ascend_session") if "__pycache__" not in name]
    assert sorted(package) == [name for name in kept if name not in contributors]
    assert any(name.endswith("/LICENSE") for name in names)


def test_the_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size <= WHEEL_LIMIT_KB * 1024


def test_the_metadata_says_whose_it_is_and_under_which_licence(wheel: Path) -> None:
    fields = metadata(wheel)
    assert fields["Author"] == ["The ascend_session developers"]
    assert fields["License-File"] == ["LICENSE"]
    assert "License :: OSI Approved :: Apache Software License" in fields["Classifier"]
    assert "Programming Language :: Python :: 3.7" in fields["Classifier"]
    assert fields["Keywords"]


def test_the_metadata_invents_no_address(wheel: Path) -> None:
    fields = metadata(wheel)
    assert not {"Home-page", "Project-URL", "Author-email", "Download-URL"} & set(fields)


def test_the_licence_is_the_full_text() -> None:
    text = (HOME / "LICENSE").read_text(encoding="ascii")
    assert text.split()[:5] == ["Apache", "License", "Version", "2.0,", "January"]
    assert "END OF TERMS AND CONDITIONS" in text
    assert [f"   {n}. " in text for n in range(1, 10)] == [True] * 9


def test_python_3_8_is_refused_when_the_package_is_installed(
    build_tools: str, wheel: Path, tmp_path: Path
) -> None:
    assert metadata(wheel)["Requires-Python"] == ["!=3.8.*,>=3.7"]
    pip = [sys.executable, "-m", "pip", "download", "--no-index", "--no-deps", "--dest"]
    versions = ("37", "38", "39", "311")
    outcomes = {}
    for version in versions:
        outcome = subprocess.run(
            [*pip, str(tmp_path / version), "--python-version", version, str(wheel)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
        outcomes[version] = (outcome.returncode, outcome.stdout)
    assert [outcomes[version][0] for version in versions] == [0, 1, 0, 0]
    assert "requires a different Python: 3.8" in outcomes["38"][1]
