"""The vendor's names mean the modules of this package where that is asked for, and nowhere else."""

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

import pytest

from ascend_session.compat.finder import PACKAGES, install
from tests.compat.run_scripts import run_script
from tests.compat.watching import session_log, unwatch_sessions


@pytest.fixture
def installed(tf: Any) -> Iterator[Any]:
    own = install()
    yield own
    sys.meta_path.remove(own)  # type: ignore[arg-type]
    for name in [name for name in list(sys.modules) if name.partition(".")[0] in PACKAGES]:
        del sys.modules[name]
    unwatch_sessions()


@pytest.mark.parametrize(
    "name",
    [
        "npu_bridge",
        "npu_bridge.estimator.npu",
        "npu_bridge.estimator.npu.npu_config",
        "hccl",
        "hccl.manage.api",
    ],
)
def test_both_names_are_the_very_same_module(installed: Any, name: str) -> None:
    module = importlib.import_module(name)
    own = f"ascend_session.compat.{name}"
    assert module is importlib.import_module(own)
    assert module is sys.modules[name]
    assert module.__spec__ is not None
    assert (module.__name__, module.__spec__.name) == (own, own)
    parent, _, child = name.rpartition(".")
    assert not parent or getattr(sys.modules[parent], child) is module


def test_what_only_python_asks_for_is_not_found(installed: Any) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"npu_bridge\.__main__") as found:
        importlib.import_module("npu_bridge.__main__")
    assert found.value.name == "npu_bridge.__main__"


def test_what_is_imported_first_begins_the_watch(installed: Any, tf: Any) -> None:
    assert not installed.started
    tf.Session().close()
    assert session_log().sessions == []
    importlib.import_module("hccl")
    assert installed.started
    tf.Session().close()
    assert len(session_log().sessions) == 1


def test_a_second_finder_is_not_put_there(installed: Any) -> None:
    assert install() is installed
    assert sys.meta_path.count(installed) == 1


def test_other_packages_are_none_of_its_business(installed: Any) -> None:
    assert installed.find_spec("numpy") is None
    assert installed.find_spec("npu_bridge_tools") is None
    assert not installed.started


def test_a_script_keeps_a_module_of_its_own_called_hccl(tmp_path: Path) -> None:
    (tmp_path / "hccl.py").write_text("mine = True")
    ended = run_script(tmp_path, "import hccl; print(hccl.mine)")
    assert ended.stdout == "True\n", ended.stderr


def test_importing_this_package_installs_nothing() -> None:
    program = (
        "import sys\n"
        "before = list(sys.meta_path), list(sys.path)\n"
        "import ascend_session, ascend_session.compat, ascend_session.compat.finder\n"
        "print(before == (sys.meta_path, sys.path), 'tensorflow' in sys.modules)\n"
        "print([n for n in sys.modules if n.split('.')[0] in ('npu_bridge', 'hccl')])\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert said.stdout == "True False\n[]\n"


def test_a_start_with_the_finder_imports_nothing_of_this_package(tmp_path: Path) -> None:
    script = "import sys; print([n for n in sys.modules if n.startswith('ascend_session')])"
    assert run_script(tmp_path, script).stdout == "[]\n"
