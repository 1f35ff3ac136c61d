"""The hosts that cases run on, by the names that cases give them."""

from pathlib import Path
from typing import Callable, Dict

from tests.checks.faults import FAULTS
from tests.checks.healthy import Healthy
from tests.cli.test_precision import LISTS
from tests.fake_host import (
    FakeHost,
    FakeProcess,
    a2_chips,
    a3_chips,
    atlas_chips,
    hccn_answers,
    inference_chips,
    npu_smi_answers,
)

__all__ = ["HOSTS", "MadeHost"]

_PATH = "/usr/bin:/bin"


class MadeHost:
    """A host, and what is to be undone in the end.

    Attributes:
        environ: The variables with which commands look at it.
        close: Ends what it has started.
    """

    def __init__(self, host: FakeHost, **environ: str) -> None:
        self.environ = {**host.environ, "PATH": _PATH, **environ}
        self.close: Callable[[], object] = host.close


def _make_healthy(folder: Path, fault: str = "") -> MadeHost:
    """Four devices of an A2 server with all that a job needs, or all but one thing."""
    healthy = Healthy(folder)
    close = None
    if fault:
        (planted,) = [one for one in FAULTS if one.name == fault]
        close = planted.plant(healthy)
    made = MadeHost(healthy.host, **healthy.environ)
    if callable(close):
        host_close, fault_close = made.close, close
        made.close = lambda: (host_close(), fault_close())
    return made


def _make_a2(folder: Path) -> MadeHost:
    """Eight devices, two of which have a process."""
    host = FakeHost(folder / "host")
    host.nodes(range(8))
    chips = a2_chips(8)
    chips[5] = chips[5]._replace(health="Warning")
    host.npu_smi(npu_smi_answers("910B", chips, [FakeProcess(3, 0, 77, "python3", 1024)]))
    host.hccn_conf({f"address_{n}": f"192.168.100.{100 + n}" for n in range(8)})
    host.process(4321, "python3 train.py --epochs 3", devices=[2])
    host.driver()
    host.toolkit()
    return MadeHost(host)


def _make_a3(folder: Path) -> MadeHost:
    """Two processors of two chips, in a superpod."""
    host = FakeHost(folder / "host")
    host.nodes(range(4))
    host.npu_smi(npu_smi_answers("A3", a3_chips(2)))
    host.hccn_tool(hccn_answers({n: f"192.168.100.{100 + n}" for n in range(4)}))
    return MadeHost(host)


def _make_atlas(folder: Path) -> MadeHost:
    """Eight devices of an Atlas training server."""
    host = FakeHost(folder / "host")
    host.nodes(range(8))
    host.npu_smi(npu_smi_answers("910A", atlas_chips(8)))
    host.hccn_conf({f"address_{n}": f"192.168.{1 + n % 4}.{100 + n // 4}" for n in range(8)})
    return MadeHost(host)


def _make_inference(folder: Path) -> MadeHost:
    """Three inference cards with sparse numbers, and no control nodes."""
    host = FakeHost(folder / "host")
    host.nodes(range(3), control=False)
    host.npu_smi(npu_smi_answers("310", inference_chips()))
    return MadeHost(host)


def _make_bare(folder: Path) -> MadeHost:
    """Nodes of two devices, and no program to ask about them."""
    host = FakeHost(folder / "host")
    host.nodes([1, 4])
    return MadeHost(host)


def _make_toolkit(folder: Path) -> MadeHost:
    """A toolkit with its lists of operators' modes, and AOE's own configuration."""
    host = FakeHost(folder / "host")
    place = "usr/local/Ascend/cann/opp/built-in/op_impl/ai_core/tbe/impl_mode"
    for name, text in LISTS.items():
        host.write(f"{place}/{name}", text)
    host.aoe_ini()
    return MadeHost(host)


def _make_none(folder: Path) -> MadeHost:
    """A machine without any device."""
    return MadeHost(FakeHost(folder / "host"))


HOSTS: Dict[str, Callable[..., MadeHost]] = {
    "none": _make_none,
    "bare": _make_bare,
    "a2": _make_a2,
    "a3": _make_a3,
    "atlas": _make_atlas,
    "inference": _make_inference,
    "healthy": _make_healthy,
    "toolkit": _make_toolkit,
}
