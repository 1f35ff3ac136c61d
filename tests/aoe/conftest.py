"""A host that can tune: a toolkit, a Python, and if a test wants one, a device nobody holds."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Dict, Iterator, Optional

import psutil
import pytest

from ascend_session.aoe import AoePlan, read_results
from ascend_session.aoe.conditions import TuningCondition
from tests.fake_host import FakeHost, Reply, a2_chips, install, npu_smi_answers

GIB = 2**30
MEMORY = 64 * GIB
"""Of the machine that `tuning` is on, which has enough of everything."""


class TuningHost:
    """The host, and the environment of a run there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = FakeHost(folder / "host")
        self.host.toolkit()
        self.host.set_env(["ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH"])
        self.aoe_ini = self.host.aoe_ini("8")
        # The manual of AOE: if there are several, the first python3 on PATH counts.
        install(folder / "bin" / "python3", {"--version": Reply("Python 3.7.5\n")})
        self.home = folder / "home"
        self.home.mkdir()
        self.environ: Dict[str, str] = {
            **self.host.environ,
            "PATH": str(folder / "bin"),
            "HOME": str(self.home),
            "ASCEND_TOOLKIT_HOME": "/usr/local/Ascend/ascend-toolkit/latest",
            "ASCEND_OPP_PATH": "/usr/local/Ascend/opp",
            "ASCEND_WORK_PATH": str(folder),
        }

    def add_devices(self, count: int = 1, chip: str = "910B3") -> None:
        """Puts processors in; npu-smi is asked from then on, which takes its time."""
        self.host.nodes(range(count))
        chips = [each._replace(name=chip) for each in a2_chips(count)]
        self.host.npu_smi(npu_smi_answers("910B", chips))

    def conditions(
        self, config: Any = None, mode: str = "operator", environ: Any = (), **known: Any
    ) -> Dict[str, TuningCondition]:
        """The conditions of a run here, by name."""
        given = {**self.environ, **dict(environ)}
        plan = AoePlan.measure(config, mode, given, **known)
        return {condition.name: condition for condition in plan.conditions}


@pytest.fixture
def furnish(monkeypatch: Any) -> Callable[..., None]:
    """Gives this machine other room, memory and CPUs, as the operating system would say."""

    def furnish(
        free: int = 100 * GIB, memory: int = MEMORY, cpus: int = 96, online: Optional[int] = None
    ) -> None:
        def disk_usage(path: str) -> SimpleNamespace:
            os.stat(path)
            return SimpleNamespace(free=free)

        monkeypatch.setattr(psutil, "disk_usage", disk_usage)
        monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=memory))
        monkeypatch.setattr(psutil, "cpu_count", lambda *logical: online or cpus)
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cpus)))

    return furnish


@pytest.fixture
def tuning(tmp_path: Path, furnish: Callable[..., None]) -> Iterator[TuningHost]:
    """The host; this machine's own room does not count."""
    made = TuningHost(tmp_path)
    furnish()
    yield made
    made.host.close()


@pytest.fixture
def parse(tmp_path: Path) -> Callable[..., Any]:
    """Reads what a result file holds."""

    def parse(content: bytes, name: str = "a.json") -> Any:
        (tmp_path / name).write_bytes(content)
        return read_results(tmp_path / name).files[0]

    return parse
