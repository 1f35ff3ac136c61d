"""The pip commands in hints: they fit the Python that runs, and name nobody else's package."""

import platform
import re
import sys
from pathlib import Path

import pytest

from ascend_session.requirements import (
    EXAMPLES_COMMAND,
    VENDOR_WHEEL_COMMAND,
    hint_for_import_error,
    tensorflow_hint,
)

HOME = Path(__file__).resolve().parents[1]
PROJECT = (HOME / "pyproject.toml").read_text(encoding="utf-8")
COMMAND = re.compile(r"pip (?:install|download)\b.*(?:\\\n.*)*")


@pytest.mark.parametrize(
    ("python", "machine", "hint"),
    [
        ((3, 7), "x86_64", "pip install tensorflow==1.15.5 'protobuf<3.21'"),
        ((3, 9), "x86_64", "pip install 'tensorflow-cpu>=2.8'"),
        ((3, 11), "AMD64", "pip install 'tensorflow-cpu>=2.8'"),
        ((3, 11), "aarch64", "pip install 'tensorflow>=2.8'"),
    ],
)
def test_the_hint_names_the_tensorflow_for_this_python_and_processor(python, machine, hint):
    assert tensorflow_hint(python, machine) == hint
    for requirement in re.findall(r"'?(\w[\w-]*[=<>]+[\d.]+)'?", hint):
        assert f'"{requirement};' in PROJECT


def test_the_hint_is_for_the_python_that_runs():
    assert tensorflow_hint() == tensorflow_hint(sys.version_info[:2], platform.machine())


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        ("No module named 'tensorflow'", "pip install tensorflow==1.15.5 'protobuf<3.21'"),
        (
            "Descriptors cannot not be created directly.\nIf this call came from a _pb2.py file",
            "TensorFlow needs an older protobuf: pip install 'protobuf<3.21'",
        ),
        (
            "module 'numpy' has no attribute 'object'.",
            "TensorFlow needs an older numpy: pip install 'numpy<1.24'",
        ),
        ("_ARRAY_API not found", "TensorFlow needs an older numpy: pip install 'numpy<2'"),
        (
            "No module named 'google'",
            "TensorFlow is installed, but needs google: "
            "pip install tensorflow==1.15.5 'protobuf<3.21'",
        ),
        (
            "libcudart.so.10.0: cannot open shared object file",
            "TensorFlow is installed, but broken: "
            "pip install --force-reinstall tensorflow==1.15.5 'protobuf<3.21'",
        ),
    ],
)
def test_an_import_that_fails_is_answered_with_the_line_that_mends_it(error, hint):
    assert hint_for_import_error(error, (3, 7)) == hint


def test_python_3_7_on_aarch64_is_sent_to_the_wheel_that_the_host_brings():
    hint = tensorflow_hint((3, 7), "aarch64")
    assert hint.startswith("Install the TensorFlow 1.15 wheel that was built for aarch64")
    assert "pip install" not in hint


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_python_3_8_gets_a_sentence_and_no_command(machine):
    hint = tensorflow_hint((3, 8), machine)
    assert hint.startswith("Use Python 3.7 for TensorFlow 1.15, or 3.9 or newer for 2.x")
    assert "pip install" not in hint


def test_examples_need_what_the_extra_demo_brings():
    packages = EXAMPLES_COMMAND.split()[2:]
    assert f"demo = {packages}".replace("'", '"') in PROJECT


def test_the_vendors_package_is_named_as_a_file_and_without_an_index():
    assert "--no-index" in VENDOR_WHEEL_COMMAND
    assert VENDOR_WHEEL_COMMAND.endswith(".whl")


def commands():
    texts = [HOME / "README.md", *(HOME / "ascend_session").rglob("*.py")]
    for file in [*texts, *(HOME / "ascend_session").rglob("*.md")]:
        # Strings that a line break divides are one
        text = re.sub(r'"\n\s*f?"', "", file.read_text(encoding="utf-8"))
        for match in COMMAND.finditer(text):
            yield file.relative_to(HOME).as_posix(), match.group()


def test_no_command_takes_this_package_or_the_vendors_from_an_index():
    all_commands = list(commands())
    assert len(all_commands) > 5
    for name, command in all_commands:
        assert not re.search(r"ascend[_-]session\[", command), (name, command)
        if "--no-index" not in command:
            paths_aside = re.sub(r"\S*/\S*", "", command)
            assert not re.search(r"ascend[_-]session|npu[_-]bridge", paths_aside), (name, command)


def test_the_vendors_package_is_asked_for_by_its_own_extra_alone():
    table = PROJECT.split("[project.scripts]")[0].split("dependencies = [")[1]
    assert [line for line in table.splitlines() if "npu_bridge" in line] == ['npu = ["npu_bridge"]']
    assert "hccl" not in table
