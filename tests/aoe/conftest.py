"""A host that can tune: a toolkit, a Python, and if a test wants one, a device nobody holds."""

from pathlib import Path
from typing import Any, Dict, Iterator, Optional

import pytest

from ascend_session.aoe import plan
from ascend_session.aoe.conditions import KnownFacts, TuningRun
from ascend_session.aoe.machine import Machine, Parallel
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.hardware.devices import Device, DeviceReport
from tests.fake_host import FakeHost, Reply, a2_chips, install, npu_smi_answers

ROOM = Machine(
    home="/home/tuner",
    home_free=100 * 2**30,
    home_problem=None,
    memory=64 * 2**30,
    cpus=96,
    all_cpus=96,
)
"""A machine with enough of everything."""


def planned(
    machine: Machine = ROOM,
    mode: str = "2",
    known: Optional[KnownFacts] = None,
    devices: int = 0,
    **counts: Parallel,
) -> TuningRun:
    """A run of which nothing else is known, on a machine with so many devices."""
    return TuningRun(
        mode=mode,
        environ={},
        root="/",
        machine=machine,
        report=DeviceReport(tuple(Device(number, None, None) for number in range(devices))),
        known=known or KnownFacts(),
        config=AscendConfig(),
        is_config_known=False,
        **{"tuners": Parallel(8, ""), "compilers": Parallel(8, ""), **counts},
    )


class TuningHost:
    """The host, and the environment of a run there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = FakeHost(folder / "host")
        self.host.toolkit()
        self.host.set_env(["ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH"])
        self.host.aoe_ini("8")
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

    def add_device(self) -> None:
        """Puts an A2 processor in; npu-smi is asked from then on, which takes its time."""
        self.host.nodes([0])
        self.host.npu_smi(npu_smi_answers("910B", a2_chips(1)))


@pytest.fixture
def tuning(tmp_path: Path, monkeypatch: Any) -> Iterator[TuningHost]:
    """The host; this machine's own room does not count."""
    made = TuningHost(tmp_path)
    monkeypatch.setattr(plan, "measure_machine", lambda environ: ROOM)
    yield made
    made.host.close()
