"""The guide for servers without a network: its commands are ones that pip takes, and they work."""

import json
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

HOME = Path(__file__).resolve().parents[1]
GUIDE = (HOME / "ascend_session" / "guides" / "offline.md").read_text(encoding="utf-8")
IGNORED = shutil.ignore_patterns("__pycache__", "*.egg-info")
# pip's own parser, in a process of its own: it is no library
PARSE = """
import json, shlex, sys
from pip._internal.commands import create_command
for line in json.load(sys.stdin):
    name, *arguments = shlex.split(line)
    options, rest = create_command(name).parse_args(arguments)
    print(json.dumps([name, getattr(options, "platforms", None) or [], options.no_index, rest]))
"""
IS_X86_64_LINUX = sys.platform == "linux" and platform.machine() == "x86_64"


def block(section: str, number: int = 0) -> str:
    text = GUIDE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[number]


AARCH64 = block("Collect for an aarch64 server")
X86_64 = block("Collect for an x86-64 server")
INSTALL = block("Install on the server")
TENSORFLOW = block("Install on the server", 1)
VENDOR = block("The vendor's packages")


def pip_commands(text: str) -> List[str]:
    return re.findall(r"-m pip (.*)", text.replace("\\\n", ""))


def test_pip_understands_every_command() -> None:
    lines = [
        line
        for text in (AARCH64, X86_64, INSTALL, TENSORFLOW, VENDOR)
        for line in pip_commands(text)
    ]
    parsed = subprocess.run(
        [sys.executable, "-c", PARSE],
        input=json.dumps(lines),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )
    commands = [json.loads(line) for line in parsed.stdout.splitlines()]
    assert [name for name, *_ in commands] == ["wheel", "download"] * 2 + ["install"] * 4
    platforms = [platforms for name, platforms, *_ in commands if name == "download"]
    assert platforms == [["manylinux2014_aarch64"], ["manylinux2014_x86_64"]]
    assert all(rest for *_, rest in commands)
    assert [no_index for name, _, no_index, _ in commands if name == "install"] == [True] * 4


def test_both_processors_are_collected_for_alike_but_for_tensorflow() -> None:
    expected = X86_64.replace("x86_64", "aarch64").replace(" gast==0.2.2", "")
    assert expected.replace(" tensorflow==1.15.5 'protobuf<3.21'", "") == AARCH64


def collect(text: str, folder: Path) -> List[str]:
    """Run one of the blocks in a copy of what it needs; return the files in ``wheels``."""
    for name in ("LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(str(HOME / name), str(folder))
    for name in ("ascend_session", "scripts"):
        shutil.copytree(str(HOME / name), str(folder / name), ignore=IGNORED)
    shell(text.replace("python3 ", f"{sys.executable} "), folder)
    return sorted(file.name for file in (folder / "wheels").iterdir())


def shell(text: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-euc", text],
        cwd=str(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.nightly
@pytest.mark.skipif(not IS_X86_64_LINUX, reason="aarch64 is the other processor on x86-64 only")
def test_every_package_has_a_wheel_for_aarch64(tmp_path: Path) -> None:
    names = collect(AARCH64, tmp_path)
    assert all(name.endswith(("none-any.whl", "aarch64.whl")) for name in names)
    for package in ("ascend_session", "importlib_metadata", "pip", "attrs", "zipp"):
        assert any(name.startswith(f"{package}-") for name in names), package


@pytest.mark.nightly
@pytest.mark.skipif(
    not IS_X86_64_LINUX or sys.version_info[:2] != (3, 7),
    reason="the server is x86-64 with Python 3.7",
)
def test_the_folder_alone_is_enough_for_a_server(tmp_path: Path) -> None:
    collect(X86_64, tmp_path)
    server = tmp_path / "server"
    server.mkdir()
    (tmp_path / "wheels").rename(server / "wheels")
    # The server has no vendor's packages to see, nor anything that doctor could find in order.
    commands = INSTALL.replace(" --system-site-packages", "").replace(" doctor", " --version")
    assert "ascend_session" in commands
    shell(commands.replace("python3.7 ", f"{sys.executable} ") + TENSORFLOW, server)
    imported = "import ascend_session, tensorflow; print(tensorflow.__version__)"
    shown = shell(
        f"ascend/bin/python -m pip check; ascend/bin/python -Wignore -c '{imported}'", server
    )
    assert "No broken requirements found." in shown
    assert shown.splitlines()[-1] == "1.15.5"
