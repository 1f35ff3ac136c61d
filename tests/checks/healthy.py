"""A host on which nothing is wrong, and a Python that has what it should."""

import json
import random
import socket
from pathlib import Path
from typing import Dict, Sequence

from tests.fake_host import (
    FakeHost,
    Reply,
    a2_chips,
    hccn_answers,
    install,
    npu_smi_answers,
)

__all__ = ["DEVICES", "Healthy", "addresses", "free_base_port", "python_answers", "table"]

DEVICES = 4
_SOURCED = ("ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH", "LD_LIBRARY_PATH")
_MARK = "ascend-session-found "


class Healthy:
    """An A2 server with four devices, nobody on them, a job's script and its rank table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = FakeHost(folder / "host")
        self.host.nodes(range(DEVICES))
        self.host.npu_smi(npu_smi_answers("910B", a2_chips(DEVICES)))
        self.host.hccn_tool(hccn_answers(addresses()))
        self.host.hccn_conf({f"address_{n}": one for n, one in addresses().items()})
        self.host.driver("24.1.rc2", "V100R001C18SPC001B233")
        self.host.toolkit("8.0.RC2")
        self.host.operators(["MatMulV2"])
        self.host.set_env(_SOURCED)
        self.script = folder / "train.py"
        self.script.write_text("print('here')\n")
        self.table = folder / "table.json"
        self.table.write_text(json.dumps(table(range(DEVICES))))
        self.python = install(folder / "python", {"": python_answers()})
        self.environ: Dict[str, str] = {
            **self.host.environ,
            "PATH": "/usr/bin:/bin",
            "ASCEND_TOOLKIT_HOME": "/usr/local/Ascend/ascend-toolkit/latest",
            "ASCEND_OPP_PATH": "/usr/local/Ascend/opp",
            "HCCL_IF_BASE_PORT": str(free_base_port()),
        }

    @property
    def logs(self) -> Path:
        """Where a launch would make its folder."""
        return self.folder / "ascend-logs"

    def rewrite(self, path: str, old: str, new: str) -> None:
        """Replaces text in a file of the host."""
        file = self.host.root / path
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))


def addresses() -> Dict[int, str]:
    """The address of each card."""
    return {number: f"192.168.100.{100 + number}" for number in range(DEVICES)}


def table(physical: Sequence[int], **changed: str) -> Dict[str, object]:
    """A table of one server (A2); ``changed`` changes fields of the first device."""
    devices = [
        {"device_id": str(node), "device_ip": addresses()[node], "rank_id": str(rank)}
        for rank, node in enumerate(physical)
    ]
    devices[0].update(changed)
    return {
        "version": "1.0",
        "status": "completed",
        "server_count": "1",
        "server_list": [{"server_id": "node_0", "device": devices}],
    }


def python_answers(**changed: object) -> Reply:
    """What a Python says of itself when it is looked into; None leaves a line out."""
    facts: Dict[str, object] = {
        "python": "3.7.9",
        "executable": "/usr/bin/python3.7",
        "tensorflow": "1.15.0",
        "npu_bridge": "1.15.0",
        "hccl": "",
        "tbe": "",
        **{name.replace("_error", " error"): value for name, value in changed.items()},
        "done": True,
    }
    lines = [_MARK + json.dumps(pair) for pair in facts.items() if pair[1] is not None]
    return Reply("noise of an import\n" + "\n".join(lines) + "\n")


def free_base_port() -> int:
    """The first of 32 ports that nobody has, none of which is given to those who ask for any."""
    for _ in range(100):
        first = random.SystemRandom().randrange(17000, 32000)
        if all(_is_free(port) for port in range(first, first + 32)):
            return first
    raise AssertionError("there are no 32 free ports in a row")


def _is_free(port: int) -> bool:
    with socket.socket() as trying:
        trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trying.bind(("", port))
        except OSError:
            return False
    return True
