"""The public names: all there, none too many, and none of them costs an import."""

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Set

import pytest

import ascend_session

# What DESIGN.md fixes and this release has; a name that comes later is added with its issue.
FIXED = {
    "AscendConfig",
    "AscendConfigWarning",
    "AscendError",
    "AscendSystem",
    "DumpConfig",
    "DynamicInputConfig",
    "ExperimentalConfig",
    "GraphMemoryOptimizeConfig",
    "LaunchConfig",
    "LaunchResult",
    "MemoryConfig",
    "ProfilingConfig",
    "RankTable",
    "RetryPolicy",
    "ascend_session",
    "ascend_system",
    "current_system",
    "device_count",
    "devices",
    "fan_out",
    "hccl",
    "is_available",
    "launch",
    "ops",
    "training",
}
SLOW = ("tensorflow", "numpy", "rich", "click", "yaml", "psutil", "tenacity")


def typed_names() -> Dict[str, str]:
    """The names that type checkers see, with their modules."""
    text = Path(f"{ascend_session.__file__}i").read_text()
    found = re.findall(r"^from (\S+) import (\w+) as (\w+)$", text, re.MULTILINE)
    assert len(found) == text.count("import ")
    assert all(name == alias for _, name, alias in found)
    return {name: f"ascend_session{module.rstrip('.')}" for module, name, _ in found}


def imported_by(code: str) -> Set[str]:
    """The top-level packages in a fresh interpreter after ``code``."""
    shown = f"{code}\nimport sys; print(*{{name.split('.')[0] for name in sys.modules}})"
    ran = subprocess.run(
        [sys.executable, "-c", shown],
        cwd=str(Path(__file__).resolve().parents[1]),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return set(ran.stdout.split())


def test_the_fixed_names_are_public() -> None:
    assert set(ascend_session.__all__) >= FIXED


def test_the_list_is_sorted_and_what_type_checkers_see() -> None:
    assert ascend_session.__all__ == sorted(set(ascend_session.__all__))
    assert set(typed_names()) == set(ascend_session.__all__)


@pytest.mark.parametrize("name", ascend_session.__all__)
def test_a_public_name_is_the_one_in_its_module_and_documented(name: str) -> None:
    module = importlib.import_module(typed_names()[name])
    assert getattr(ascend_session, name) is getattr(module, name)
    assert str(getattr(ascend_session, name).__doc__).strip()


def test_every_error_is_public() -> None:
    content = vars(importlib.import_module("ascend_session.errors"))
    kinds = {name: kind for name, kind in content.items() if isinstance(kind, type)}
    names = {name for name, kind in kinds.items() if issubclass(kind, Exception)}
    assert {"AscendError", "AscendConfigWarning"} < names <= set(ascend_session.__all__)


def test_dir_lists_what_is_not_loaded_yet() -> None:
    assert set(dir(ascend_session)) >= set(ascend_session.__all__)
    assert dir(ascend_session) == sorted(dir(ascend_session))
    assert len(dir(ascend_session)) == len(set(dir(ascend_session)))


def test_an_unknown_name_is_an_attribute_error() -> None:
    missing = "ascend_sesion"
    with pytest.raises(AttributeError, match=f"'ascend_session' has no attribute '{missing}'"):
        getattr(ascend_session, missing)


def test_a_name_that_is_nearly_right_is_answered_with_the_right_one() -> None:
    with pytest.raises(AttributeError, match="Did you mean AscendConfig"):
        _ = ascend_session.AscendConfg
    assert not hasattr(ascend_session, "__path_hooks__")


@pytest.mark.parametrize(
    "code",
    [
        "import ascend_session",
        "from ascend_session import AscendConfig\nAscendConfig(deterministic=1).parameter_map()",
        "from ascend_session import ascend_session, ascend_system, current_system",
    ],
    ids=["package", "config", "session"],
)
def test_no_import_is_paid_for_before_it_is_needed(code: str) -> None:
    assert imported_by(code) & set(SLOW) == set()


@pytest.mark.parametrize("code", ["a.hccl.allreduce", "a.ops.gelu", "a.training.__all__"])
def test_a_module_is_an_attribute_and_needs_no_tensorflow(code: str) -> None:
    assert "tensorflow" not in imported_by(f"import ascend_session as a\n{code}")


def test_everything_can_be_imported_with_a_star() -> None:
    ran = imported_by("from ascend_session import *\nassert AscendConfig and ascend_session")
    assert "tensorflow" not in ran


def test_the_signatures_are_the_designs() -> None:
    def shape(function: Any) -> List[str]:
        return [str(p).split(":")[0] for p in inspect.signature(function).parameters.values()]

    assert shape(ascend_session.ascend_system) == ["config", "backend", "wait_for_device", "probe"]
    assert shape(ascend_session.ascend_session) == [
        "config",
        "graph",
        "device_id",
        "session_config",
        "backend",
    ]
    system = ascend_session.AscendSystem
    assert shape(system.session) == ["self", "graph", "device_id", "session_config"]
    assert shape(system.session_config) == ["self", "cfg", "base"]


def test_it_is_typed_and_says_its_version() -> None:
    assert (Path(str(ascend_session.__file__)).parent / "py.typed").is_file()
    assert re.fullmatch(r"\d+\.\d+\.\d+", ascend_session.__version__)
