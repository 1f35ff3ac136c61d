"""What can be wrong with a host and a job: how each is planted, and what has to be said of it."""

import json
import os
import shutil
import socket
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ascend_session.checks import network
from tests.checks.healthy import DEVICES, Healthy, addresses, python_answers, table
from tests.fake_host import (
    USER,
    Reply,
    a2_chips,
    a3_chips,
    hccn_answers,
    install,
    npu_smi_answers,
)

__all__ = ["FAULTS", "Fault"]

_Close = Callable[[], None]


class Fault(NamedTuple):
    """One thing that is wrong.

    Attributes:
        name: For the test.
        plant: Plants it; what it returns is called in the end.
        check: The check that finds it: the rule of its finding.
        severity: Of what it says.
        said: A part of what it says.
        launch: What the launch is asked besides.
        only: ``preflight`` or ``doctor``, if the other one does not look at it.
        alone: Whether it hides others, so that it cannot be planted together with them.
    """

    name: str
    plant: Callable[[Healthy], object]
    check: str
    severity: str
    said: str
    launch: Optional[Dict[str, object]] = None
    only: str = ""
    alone: bool = False


def _listening(port: int, host: str = "0.0.0.0") -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((host, port))
    made.listen(1)
    return made


def _missing_node(name: str) -> Callable[[Healthy], object]:
    return lambda healthy: (healthy.host.root / "dev" / name).unlink()


def _node_that_leads_nowhere(healthy: Healthy) -> None:
    node = healthy.host.root / "dev" / "davinci2"
    node.unlink()
    node.symlink_to("nowhere")


def _folder_for_a_node(healthy: Healthy) -> None:
    node = healthy.host.root / "dev" / "davinci0"
    node.unlink()
    node.mkdir()


def _ill(health: str) -> Callable[[Healthy], object]:
    def plant(healthy: Healthy) -> None:
        chips = a2_chips(DEVICES)
        chips[1] = chips[1]._replace(health=health)
        healthy.host.npu_smi(npu_smi_answers("910B", chips))

    return plant


def _smi(reply: Reply) -> Callable[[Healthy], object]:
    return lambda healthy: healthy.host.npu_smi({"": reply})


def _held(healthy: Healthy) -> None:
    healthy.host.process(4321, "python3 train.py", devices=[1])


def _tables(**changed: str) -> Callable[[Healthy], object]:
    made = table(range(DEVICES), **changed)
    return lambda healthy: healthy.table.write_text(json.dumps(made))


def _fifo(healthy: Healthy) -> None:
    healthy.table.unlink()
    os.mkfifo(str(healthy.table))


def _folder(healthy: Healthy) -> None:
    healthy.table.unlink()
    healthy.table.mkdir()


def _hccn(**changed: object) -> Callable[[Healthy], object]:
    def plant(healthy: Healthy) -> None:
        healthy.host.hccn_tool(hccn_answers(addresses(), **changed))  # type: ignore[arg-type]

    return plant


def _other_address(healthy: Healthy) -> None:
    healthy.rewrite("etc/hccn.conf", addresses()[1], "10.9.8.7")
    healthy.host.hccn_tool(hccn_answers({**addresses(), 1: "10.9.8.7"}))


def _no_address(healthy: Healthy) -> None:
    healthy.rewrite("etc/hccn.conf", f"address_0={addresses()[0]}\n", "")
    healthy.host.hccn_tool(hccn_answers({**addresses(), 0: ""}))


def _taken(healthy: Healthy) -> _Close:
    return _listening(int(healthy.environ["HCCL_IF_BASE_PORT"]) + 2).close


def _device_port_taken(healthy: Healthy) -> _Close:
    return _listening(network.DEVICE_PORT).close


def _full(healthy: Healthy) -> _Close:
    """The disk of the logs has no room; ``/dev/shm`` and all else is as it was."""
    real = os.statvfs

    def full(path: str) -> os.statvfs_result:
        found = real(path)
        if str(path) != str(healthy.folder):
            return found
        return os.statvfs_result((found[0], found[1], found[2], 0, 0, *found[5:]))

    os.statvfs = full  # type: ignore[assignment]

    def close() -> None:
        os.statvfs = real

    return close


def _other_server(made: Dict[str, Any]) -> Dict[str, Any]:
    """The table with a second server of the same kind."""
    (first,) = made["server_list"]
    second = json.loads(json.dumps(first).replace("192.168.100.", "192.168.99."))
    for device in second["device"]:
        device["rank_id"] = str(DEVICES + int(device["rank_id"]))
    first["server_id"], second["server_id"] = socket.gethostname(), "another"
    return {**made, "server_count": "2", "server_list": [first, second]}


def _several_servers(healthy: Healthy) -> None:
    made = _other_server(table(range(DEVICES)))
    healthy.table.write_text(json.dumps(made))
    healthy.host.hccn_tool(hccn_answers(addresses(), links={2: "DOWN"}))


def _several_denied(healthy: Healthy) -> None:
    _several_servers(healthy)
    (healthy.host.root / "etc/hccn.conf").unlink()
    healthy.host.hccn_tool({"": Reply(err="permission denied\n", code=1)})


def _a3(healthy: Healthy) -> None:
    """Two servers of one superpod, linked by HCCS; a link of the cards' interfaces is down."""
    healthy.host.npu_smi(npu_smi_answers("A3", a3_chips(DEVICES)))
    healthy.host.hccn_tool(hccn_answers(addresses(), links={2: "DOWN"}))
    made = _other_server(table(range(DEVICES)))
    for number, server in enumerate(made["server_list"]):
        for device in server["device"]:
            device["super_device_id"] = str(16777216 + 100 * number + int(device["device_id"]))
    names = [{"server_id": server["server_id"]} for server in made["server_list"]]
    made = {**made, "version": "1.2"}
    made["super_pod_list"] = [{"super_pod_id": "0", "server_list": names}]
    healthy.table.write_text(json.dumps(made))


def _variable(name: str, value: str) -> Callable[[Healthy], object]:
    return lambda healthy: healthy.environ.update({name: value})


def _unset(name: str) -> Callable[[Healthy], object]:
    return lambda healthy: healthy.environ.pop(name)


def _logs_are_a_file(healthy: Healthy) -> None:
    healthy.logs.write_text("")


def _logs_lead_nowhere(healthy: Healthy) -> None:
    healthy.logs.symlink_to("nowhere")


def _python(reply: Reply) -> Callable[[Healthy], object]:
    return lambda healthy: install(healthy.python, {"": reply})


def _no_operators(healthy: Healthy) -> None:
    shutil.rmtree(str(healthy.host.root / "usr/local/Ascend/opp"))


def _firmware(healthy: Healthy) -> None:
    # From a public report on a driver and a firmware that do not go together.
    driver = healthy.host.root / "usr/local/Ascend/driver/version.info"
    driver.write_text(driver.read_text() + "compatible_version_fw=[7.0.0,7.2.99]\n")
    healthy.host.write("usr/local/Ascend/firmware/version.info", "Version=7.3.0.1.231\n")


def _toolkit(healthy: Healthy) -> None:
    driver = healthy.host.root / "usr/local/Ascend/driver/version.info"
    driver.write_text(driver.read_text() + "compatible_version=[V100R001C17],[V100R001C18]\n")
    info = "usr/local/Ascend/ascend-toolkit/8.0.RC2/aarch64-linux/ascend_toolkit_install.info"
    healthy.rewrite(info, "innerversion=V100R001C18SPC001B251", "innerversion=V100R001C23B1")
    file = healthy.host.root / info
    file.write_text(file.read_text() + "compatible_version=[V100R001C21],[V100R001C22]\n")


_USED = "dcmi model initialized failed, because the device is used. ret is -8020\n"
_NODES, _HEALTH, _TABLE, _TOOLS = "device nodes", "health", "rank table", "versions"

FAULTS: List[Fault] = [
    # Device nodes
    Fault("folder for a node", _folder_for_a_node, _NODES, "error", "davinci0 is a folder, not"),
    Fault("dangling node", _node_that_leads_nowhere, _NODES, "error", "no /dev/davinci2"),
    Fault("davinci_manager", _missing_node("davinci_manager"), _NODES, "error", "_manager"),
    Fault("devmm_svm", _missing_node("devmm_svm"), _NODES, "error", "no /dev/devmm_svm"),
    Fault("hisi_hdc", _missing_node("hisi_hdc"), _NODES, "error", "no /dev/hisi_hdc"),
    # Health
    Fault("alarm", _ill("Alarm"), _HEALTH, "error", "the health of device 1 as Alarm"),
    Fault("critical", _ill("Critical"), _HEALTH, "error", "device 1 as Critical", alone=True),
    Fault("warning", _ill("Warning"), _HEALTH, "warning", "device 1 as Warning", alone=True),
    Fault("unknown", _ill("UNKNOWN"), _HEALTH, "warning", "device 1 as UNKNOWN", alone=True),
    Fault(
        "npu-smi hangs",
        _smi(Reply(then="hang")),
        _HEALTH,
        "not checked",
        "'npu-smi info' did not answer within",
        alone=True,
    ),
    Fault(
        "npu-smi fails",
        _smi(Reply(err="boom\n", code=9)),
        _HEALTH,
        "not checked",
        "exited with code 9 and printed 'boom'",
        alone=True,
    ),
    Fault(
        "npu-smi says garbage",
        _smi(Reply("\x00\xff|| 7 | \x1b[31m\n" * 50)),
        _HEALTH,
        "not checked",
        "printed nothing that could be read",
        alone=True,
    ),
    Fault(
        "held elsewhere",
        _smi(Reply(_USED, code=1)),
        "holders",
        "error",
        "another container holds it",
        alone=True,
    ),
    Fault(
        "held",
        _held,
        "holders",
        "error",
        f"is held by process 4321 (python3 train.py) of user {USER}.",
    ),
    # Rank table
    Fault("table is a pipe", _fifo, _TABLE, "error", "is a pipe", only="doctor", alone=True),
    Fault("table is a folder", _folder, _TABLE, "error", "is a folder", only="doctor", alone=True),
    Fault(
        "table without a rank",
        _tables(rank_id="9"),
        _TABLE,
        "error",
        "rank 0",
        alone=True,
    ),
    Fault(
        "table of other devices",
        _tables(device_id="3"),
        _TABLE,
        "error",
        "is 3, as is that of",
        alone=True,
    ),
    Fault(
        "initializing",
        lambda healthy: healthy.table.write_text(
            healthy.table.read_text().replace("completed", "initializing")
        ),
        _TABLE,
        "error",
        "the table is not ready",
    ),
    # Network interfaces: EJ0002, EJ0004, EI0016
    Fault(
        "link", _hccn(links={2: "DOWN"}), "network link", "warning", "link of device(s) 2 is down"
    ),
    Fault(
        "address",
        _other_address,
        _TABLE,
        "warning",
        "device_ip: is 192.168.100.101, but device 1 has 10.9.8.7, as hccn_tool says. This job "
        "does not use it",
        alone=True,
    ),
    Fault(
        "no address",
        _no_address,
        _TABLE,
        "not checked",
        "The address of device 0 is not known here",
        alone=True,
    ),
    Fault(
        "tls",
        _hccn(switches={3: 1}),
        "tls",
        "error",
        "TLS is on for device(s) 3 and off for 0-2",
        only="doctor",
        alone=True,
    ),
    # Ports
    Fault("device port", _device_port_taken, "ports", "warning", "HCCL needs it on the cards"),
    Fault("port", _taken, "ports", "error", f"process {os.getpid()} ("),
    Fault(
        "base port",
        _variable("HCCL_IF_BASE_PORT", "80"),
        "environment",
        "error",
        "HCCL_IF_BASE_PORT='80' is not a port from 1024 to 65520",
        alone=True,
    ),
    Fault(
        "connect",
        _variable("HCCL_CONNECT_TIMEOUT", "60"),
        "environment",
        "error",
        "HCCL_CONNECT_TIMEOUT='60' is not from 120 to 7200 seconds",
    ),
    # Variables of a job: of these a launch rids its ranks itself.
    Fault(
        "chief and table",
        lambda healthy: healthy.environ.update(RANK_TABLE_FILE="t.json", CM_CHIEF_IP="10.0.0.1"),
        "environment",
        "error",
        "RANK_TABLE_FILE and CM_CHIEF_IP are both set",
        only="doctor",
    ),
    # Several servers
    Fault(
        "link between servers",
        _several_servers,
        "network link",
        "error",
        "link of device(s) 2 is down",
        {"nnodes": 2, "node_rank": 0},
        alone=True,
    ),
    Fault(
        "link of a superpod",
        _a3,
        "network link",
        "warning",
        "link of device(s) 2 is down",
        {"nnodes": 2, "node_rank": 0},
        alone=True,
    ),
    Fault(
        "hccn_tool denied",
        _several_denied,
        "network address",
        "not checked",
        "permission denied",
        {"nnodes": 2, "node_rank": 0},
        alone=True,
    ),
    Fault(
        "hccn_tool hangs",
        lambda healthy: healthy.host.hccn_tool({"": Reply(then="hang")}),
        "tls",
        "not checked",
        "did not answer within",
        only="doctor",
        alone=True,
    ),
    # Visible devices
    Fault(
        "descending",
        _variable("ASCEND_RT_VISIBLE_DEVICES", "1,0"),
        "visible devices",
        "error",
        "drops the whole list",
        only="doctor",
    ),
    Fault(
        "stray blank",
        _variable("ASCEND_RT_VISIBLE_DEVICES", "0, 1"),
        "visible devices",
        "warning",
        "the runtime reads only '0'",
        only="doctor",
        alone=True,
    ),
    Fault(
        "no effect",
        _variable("NPU_VISIBLE_DEVICES", "0"),
        "visible devices",
        "warning",
        "has no effect on the runtime",
        only="doctor",
        alone=True,
    ),
    # What is written
    Fault("logs are a file", _logs_are_a_file, "log folder", "error", "is not a folder"),
    Fault(
        "logs lead nowhere",
        _logs_lead_nowhere,
        "log folder",
        "error",
        "is a link to something that is not there",
        alone=True,
    ),
    Fault("full", _full, "disk space", "error", "has 0 MB left", alone=True),
    # What is run
    Fault(
        "script",
        lambda healthy: healthy.script.unlink(),
        "launch",
        "error",
        "There is no script",
        only="preflight",
    ),
    Fault(
        "module",
        lambda healthy: None,
        "program",
        "error",
        "There is no module no_such_package in",
        {"module": "no_such_package.train"},
        "preflight",
        alone=True,
    ),
    # Installation
    Fault(
        "set_env.sh",
        _unset("ASCEND_TOOLKIT_HOME"),
        "set_env.sh",
        "warning",
        "it sets ASCEND_TOOLKIT_HOME, which this environment lacks",
        only="doctor",
    ),
    Fault(
        "operators",
        _no_operators,
        "operators",
        "error",
        "would silently run every graph on the CPU",
        only="doctor",
    ),
    Fault("firmware", _firmware, _TOOLS, "error", "needs firmware 7.0.0 to 7.2.99", only="doctor"),
    Fault(
        "toolkit",
        _toolkit,
        _TOOLS,
        "warning",
        "do not name each other as compatible",
        only="doctor",
        alone=True,
    ),
    Fault(
        "no toolkit",
        lambda healthy: shutil.rmtree(str(healthy.host.root / "usr/local/Ascend/ascend-toolkit")),
        _TOOLS,
        "error",
        "No version file of the toolkit",
        only="doctor",
        alone=True,
    ),
    # E: E40002, E40020
    Fault(
        "no tensorflow",
        _python(
            python_answers(
                tensorflow=None,
                tensorflow_error="ModuleNotFoundError: No module named 'tensorflow'",
            )
        ),
        "tensorflow",
        "error",
        "cannot import TensorFlow: ModuleNotFoundError",
        only="doctor",
        alone=True,
    ),
    Fault(
        "broken tensorflow",
        _python(
            python_answers(
                tensorflow=None,
                tensorflow_error="TypeError: Descriptors cannot not be created directly.",
            )
        ),
        "tensorflow",
        "error",
        "cannot import TensorFlow: TypeError: Descriptors",
        only="doctor",
        alone=True,
    ),
    Fault(
        "other tensorflow",
        _python(python_answers(tensorflow="2.6.5")),
        "tensorflow",
        "error",
        "npu_bridge is for TensorFlow 1.15, but this Python has 2.6.5",
        only="doctor",
        alone=True,
    ),
    Fault(
        "other python",
        _python(python_answers(python="3.8.10")),
        "tensorflow",
        "warning",
        "on Python 3.7.5 to 3.7.11",
        only="doctor",
        alone=True,
    ),
    Fault(
        "no adapter",
        _python(
            python_answers(npu_bridge=None, npu_bridge_error="OSError: libgraph.so: cannot open")
        ),
        "adapter",
        "error",
        "cannot import npu_bridge: OSError: libgraph.so",
        only="doctor",
    ),
    Fault(
        "operator compiler",
        _python(python_answers(tbe=None, tbe_error="ModuleNotFoundError: No module named 'sympy'")),
        "operator compiler",
        "error",
        "cannot import tbe, the operator compiler, so no graph can be compiled",
        only="doctor",
        alone=True,
    ),
    Fault(
        "python dies",
        _python(Reply('ascend-session-found ["python", "3.7.9"]\n', then="signal")),
        "tensorflow",
        "warning",
        "was killed by SIGSEGV",
        only="doctor",
        alone=True,
    ),
    Fault(
        "python hangs",
        _python(Reply(then="hang")),
        "tensorflow",
        "error",
        "did not answer within",
        only="doctor",
        alone=True,
    ),
    Fault(
        "python is none",
        lambda healthy: healthy.python.unlink(),
        "tensorflow",
        "error",
        "could not be started",
        only="doctor",
        alone=True,
    ),
]
