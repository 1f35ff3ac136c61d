"""What the single checks say, where a fault of a whole host does not show it."""

import contextlib
import os
import socket
import sys
from pathlib import Path
from typing import Iterator, List, Tuple

import psutil
import pytest

from ascend_session.checks import network
from ascend_session.checks.availability import check_holders, find_holders
from ascend_session.checks.environment import (
    check_folder,
    check_limits,
    check_module,
    check_script,
)
from ascend_session.checks.interpreter import check_interpreter, inspect_interpreter
from ascend_session.checks.network import Interfaces, Need, find_need
from ascend_session.checks.toolkit import check_versions
from ascend_session.cluster.rank_table import RankTable, TableServer
from ascend_session.findings import ERROR, WARNING, Finding
from ascend_session.hardware import program
from ascend_session.hardware.hccn import HccnTool
from ascend_session.hardware.installation import Component, Versions
from ascend_session.text import format_ranges
from tests.checks.healthy import free_base_port, python_answers
from tests.fake_host import Reply, hccn_answers, install

NOBODY = 65534


@contextlib.contextmanager
def _nobody(folder: Path) -> Iterator[None]:
    """A user who is not root, in a folder below a private one: names have to be relative."""
    previous, effective = os.getcwd(), os.geteuid()
    os.chdir(str(folder))
    os.seteuid(NOBODY if effective == 0 else effective)
    try:
        yield
    finally:
        os.seteuid(effective)
        os.chdir(previous)


def _one(found: Iterator[Finding]) -> Finding:
    (finding,) = list(found)
    return finding


@pytest.mark.parametrize(
    ("numbers", "said"), [([], ""), ([3], "3"), ([1, 0, 2], "0-2"), ([0, 1, 3, 5, 4], "0-1, 3-5")]
)
def test_numbers_are_written_as_people_do(numbers: List[int], said: str) -> None:
    assert format_ranges(numbers) == said


def _disk(monkeypatch, **changed: int) -> None:
    """Every disk is this one: 64 GiB, of which some facts are changed."""
    facts = {"bsize": 4096, "frsize": 4096, "blocks": 2**24, "bfree": 2**23, "bavail": 2**23}
    facts.update(files=1000, ffree=500, favail=500, flag=0, namemax=255)
    made = os.statvfs_result(tuple({**facts, **changed}.values()))
    monkeypatch.setattr(os, "statvfs", lambda path: made)


@pytest.mark.parametrize(
    ("free_mb", "rule", "severity"),
    [
        (15, "disk space", "error"),
        (16, "disk space", "warning"),
        (511, "disk space", "warning"),
        (512, "log folder", "ok"),
    ],
)
def test_a_disk_that_is_full_is_in_the_way_and_one_that_nearly_is_is_not(
    tmp_path: Path, monkeypatch, free_mb: int, rule: str, severity: str
) -> None:
    _disk(monkeypatch, bfree=free_mb * 256, bavail=free_mb * 256)
    found = _one(check_folder(str(tmp_path / "a" / "b")))
    assert (found.rule, found.severity) == (rule, severity)
    assert f"{free_mb} MB" in found.message


def test_a_disk_that_takes_no_more_files_is_in_the_way(tmp_path: Path, monkeypatch) -> None:
    _disk(monkeypatch, ffree=0)
    full = _one(check_folder(str(tmp_path)))
    assert (full.rule, full.severity) == ("disk space", "error")
    assert full.message.endswith(", takes no more files.")


@pytest.mark.parametrize(("user", "severity"), [(0, "ok"), (1000, "error")])
def test_the_room_that_is_kept_for_root_is_roots_alone(
    tmp_path: Path, monkeypatch, user: int, severity: str
) -> None:
    _disk(monkeypatch, bavail=0)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert _one(check_folder(str(tmp_path))).severity == severity


def test_a_folder_in_which_this_user_may_not_write_is_said(tmp_path: Path) -> None:
    (tmp_path / "open" / "closed").mkdir(parents=True)
    (tmp_path / "open" / "closed").chmod(0o555)
    with _nobody(tmp_path / "open"):
        found = _one(check_folder("./closed/logs"))
    assert found.severity == "error"
    assert "./closed is a folder in which this user may not write" in found.message


def test_a_script_that_this_user_may_not_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "train.py").touch(mode=0o200)
    with _nobody(tmp_path / "open"):
        found = _one(check_script("./train.py"))
    assert found.severity == "error"
    assert "may not read the script ./train.py" in found.message


def test_a_folder_is_a_script_if_python_can_run_it(tmp_path: Path) -> None:
    assert "without a __main__.py" in _one(check_script(str(tmp_path))).message
    (tmp_path / "__main__.py").touch()
    assert _one(check_script(str(tmp_path))).severity == "ok"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("package.part", ""),
        ("package", ""),
        ("json.tool", ""),
        ("sys", ""),
        ("no.part", "There is no module no in "),
        ("package.no", "The module package.no is not found where its package is."),
        ("package.part.deeper", "The module package.part.deeper is not found"),
    ],
)
def test_a_module_is_looked_for_without_importing_it(tmp_path, name, said) -> None:
    (tmp_path / "more" / "package").mkdir(parents=True)
    (tmp_path / "more" / "package" / "__init__.py").write_text("raise SystemExit('imported')")
    (tmp_path / "more" / "package" / "part.py").write_text("raise SystemExit('imported')")
    found = _one(check_module(name, str(tmp_path), {"PYTHONPATH": "more"}))
    assert found.message.startswith(said or f"The module {name} is found")
    # A package may have its own way to its parts.
    wanted = "ok" if not said else "error" if name == "no.part" else "warning"
    assert found.severity == wanted


def test_a_port_that_only_a_connection_has_is_no_reason_not_to_start(monkeypatch) -> None:
    monkeypatch.setattr(network, "DEVICE_PORT", free_base_port())
    base = free_base_port()
    with socket.socket() as server, socket.socket() as client:
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        client.bind(("127.0.0.1", base + 3))
        client.connect(server.getsockname())
        found = _one(network.check_ports({"HCCL_IF_BASE_PORT": str(base)}))
    assert found.severity == "warning"
    assert (
        f"Port(s) {base + 3} of HCCL are used by a connection of process {os.getpid()}"
        in found.message
    )
    assert f"ip_local_reserved_ports={network.DEVICE_PORT},{base}-{base + 31}" in str(found.hint)


def test_ports_of_the_vendors_own_choice_are_not_looked_at(monkeypatch) -> None:
    monkeypatch.setattr(network, "DEVICE_PORT", free_base_port())
    base = free_base_port()
    with socket.socket() as server:
        server.bind(("", base))
        server.listen(1)
        environ = {"HCCL_IF_BASE_PORT": str(base), "HCCL_HOST_SOCKET_PORT_RANGE": "auto"}
        assert _one(network.check_ports(environ)).severity == "ok"


def _ports_of(base: int, physical=None) -> List[Tuple[str, str]]:
    found = network.check_ports({"HCCL_IF_BASE_PORT": str(base)}, physical)
    return [(one.severity, one.message) for one in found]


def test_a_job_on_other_devices_has_other_ports(monkeypatch) -> None:
    monkeypatch.setattr(network, "DEVICE_PORT", free_base_port())
    base = free_base_port()
    with socket.socket() as theirs, socket.socket() as more:
        for one, port in ((theirs, base + 3), (more, base + 8 + 2)):
            one.bind(("", port))
            one.listen(1)
        assert [severity for severity, _ in _ports_of(base, [0, 1])] == ["ok"]
        assert [severity for severity, _ in _ports_of(base, [3])] == ["error"]
        assert [severity for severity, _ in _ports_of(base, [2])] == ["error"]
        assert [severity for severity, _ in _ports_of(base)] == ["error"]


@pytest.mark.parametrize("offset", [0, None])
def test_who_listens_on_this_hosts_own_address_only_is_not_in_the_way(monkeypatch, offset) -> None:
    monkeypatch.setattr(network, "DEVICE_PORT", free_base_port())
    base = free_base_port()
    with socket.socket() as server:
        server.bind(("127.0.0.1", network.DEVICE_PORT if offset is None else base))
        server.listen(1)
        assert [severity for severity, _ in _ports_of(base)] == ["ok"]


def test_a_port_that_nobody_is_seen_to_have_is_no_reason_not_to_start(monkeypatch) -> None:
    monkeypatch.setattr(network, "DEVICE_PORT", free_base_port())
    base = free_base_port()
    with socket.socket() as server:
        server.bind(("", base))  # and does not listen
        ((severity, said),) = _ports_of(base)
    assert severity == "warning"
    assert (
        said == f"Port(s) {base} of HCCL cannot be bound, and no process that uses them was found."
    )


def test_a_connection_that_ends_between_two_looks_is_none(monkeypatch) -> None:
    monkeypatch.setattr(network, "DEVICE_PORT", free_base_port())
    base = free_base_port()
    with socket.socket() as server:
        server.bind(("", base))

        def gone(kind: str) -> List[object]:
            server.close()
            return []

        monkeypatch.setattr(psutil, "net_connections", gone)
        assert [severity for severity, _ in _ports_of(base)] == ["ok"]


def test_of_many_holders_some_are_named_and_the_others_counted(healthy) -> None:
    for number in range(60):
        healthy.host.process(4321 + number, "python3 train.py", devices=[1])
    found = next(iter(check_holders(find_holders([1], healthy.environ))))
    assert found.message.count("python3 train.py") == 3
    assert found.message.endswith(" and 57 more.")
    assert "lists all 60" in str(found.hint)


@pytest.mark.parametrize(("size_mb", "severity"), [(64, "warning"), (65, "ok")])
def test_little_shared_memory_is_said(monkeypatch, size_mb: int, severity: str) -> None:
    _disk(monkeypatch, blocks=size_mb * 256)
    *_, found = check_limits()
    assert found.severity == severity


def test_shared_memory_that_is_not_there_is_not_checked(monkeypatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: os.stat("/no/such/folder"))
    *_, found = check_limits()
    assert found.severity == "not checked"


def test_this_python_is_looked_into_without_importing_anything_here() -> None:
    before = set(sys.modules)
    seen = inspect_interpreter(sys.executable, dict(os.environ), False, 300)
    assert seen.problem is None
    assert seen.python == ".".join(map(str, sys.version_info[:3]))
    assert [one.severity for one in check_interpreter(seen, on_devices=False)] == ["ok"]
    assert "tensorflow" not in set(sys.modules) - before


@pytest.mark.parametrize(
    "said",
    ["[", "7", '["python"]', '[["a"], {"b": 1}]', '["python", [1]]', "[" * 100000, "null"],
)
def test_nonsense_that_a_python_says_of_itself_is_a_finding(tmp_path, said) -> None:
    python = install(tmp_path / "python", {"": Reply(f"ascend-session-found {said}\n")})
    found = list(check_interpreter(inspect_interpreter(str(python), {}, True, 60), on_devices=True))
    assert found[0].severity in ("error", "warning")
    assert "exited before it had listed its packages" in found[0].message


def test_what_others_wrote_is_shown_on_one_line(tmp_path) -> None:
    said = "\x1b[31mred\nline " + "x" * 1000
    reply = python_answers(tensorflow=None, tensorflow_error=said)
    python = install(tmp_path / "python", {"": reply})
    found = list(
        check_interpreter(inspect_interpreter(str(python), {}, False, 60), on_devices=False)
    )
    assert "cannot import TensorFlow: [31mred line xxx" in found[0].message
    assert len(found[0].message) < 500
    assert found[0].message.isprintable()


def test_a_holders_command_cannot_write_to_the_terminal(healthy) -> None:
    healthy.host.process(4321, "python3 \x1b[2J" + "y" * 5000, devices=[1])
    found = next(iter(check_holders(find_holders([1], healthy.environ))))
    assert found.message.isprintable()
    assert "process 4321 (python3 [2Jyyy" in found.message
    assert len(found.message) < 250


def _interfaces(healthy, known) -> Interfaces:
    return Interfaces(known, HccnTool(healthy.environ, str(healthy.host.root)))


def test_addresses_that_a_job_needs_are_missed(healthy) -> None:
    interfaces = _interfaces(healthy, {0: "10.0.0.1", 1: None})
    needed = Need(ERROR, ERROR)
    said = [(one.severity, one.message) for one in interfaces.check_addresses(needed)]
    assert said == [
        ("error", "The network interface of device(s) 1 has no address."),
        ("ok", "Device(s) 0 have network addresses."),
    ]
    assert [one.severity for one in interfaces.check_addresses(Need(WARNING, None))] == ["ok"]
    (healthy.host.root / "usr/local/Ascend/driver/tools/hccn_tool").unlink()
    without = _interfaces(healthy, {1: None})
    assert _one(without.check_addresses(needed)).severity == "not checked"


def test_a_tool_that_this_user_may_not_run_does_not_say_that_there_is_no_address(healthy) -> None:
    healthy.host.hccn_tool({"": Reply(err="permission denied\n", code=1)})
    tool = HccnTool(healthy.environ, str(healthy.host.root))
    assert tool.address(1) is None
    found = _one(Interfaces({1: None}, tool).check_addresses(Need(ERROR, ERROR)))
    assert found.severity == "not checked"
    assert "permission denied" in found.message


_A2, _A3, _OLD = "A2 (910B)", "A3", "Atlas training (910A)"
_PODS = {"one": ("p", "p"), "two": ("p", "q"), "none": (None, None)}


@pytest.mark.parametrize(
    ("product", "leaves", "pods", "wanted"),
    [
        (_A2, None, "none", (WARNING, None)),
        (_A3, None, "none", (WARNING, None)),
        (_OLD, None, "none", (ERROR, ERROR)),
        (_A2, False, "none", (WARNING, None)),
        (_OLD, False, "none", (WARNING, ERROR)),
        (_A2, True, "one", (ERROR, ERROR)),
        (_A3, True, "one", (WARNING, WARNING)),
        (_A3, True, "two", (ERROR, ERROR)),
        (_A3, True, "none", (ERROR, ERROR)),
    ],
)
def test_how_much_a_job_needs_the_interfaces(product, leaves, pods, wanted) -> None:
    servers = [TableServer(f"s{number}", (), None, pod) for number, pod in enumerate(_PODS[pods])]
    job = RankTable("1.2", "completed", tuple(servers))
    assert find_need(product, leaves, job, {})[:2] == wanted
    off = find_need(_A3, True, job, {"HCCL_INTER_HCCS_DISABLE": "TRUE"})
    assert off == Need(ERROR, ERROR)


@pytest.mark.parametrize("severity", [WARNING, ERROR])
def test_a_link_that_is_down_weighs_as_the_job_needs_it(healthy, severity) -> None:
    healthy.host.hccn_tool(hccn_answers({0: "10.0.0.1"}, link="DOWN"))
    found = _one(_interfaces(healthy, {0: "10.0.0.1"}).check_links(Need(severity, None)))
    assert (found.rule, found.severity) == ("network link", severity)


def test_a_slow_tool_is_said_and_not_asked_for_ever(healthy, monkeypatch) -> None:
    monkeypatch.setattr(program, "_SLOW_S", 0.0)
    said: List[str] = []
    root = str(healthy.host.root)
    tool = HccnTool(healthy.environ, root, total=300, say=said.append)
    assert tool.link(0)
    assert tool.link(1)
    assert said == ["hccn_tool is slow; waiting up to 300 s for it."]
    short = HccnTool(healthy.environ, root, timeout=300, total=1e-9)
    assert (short.link(0), short.link(1)) == (None, None)
    assert "was killed" in short.notes[0]
    assert not short.answers


def test_ports_are_not_checked_where_the_first_is_none() -> None:
    (found,) = network.check_ports({"HCCL_IF_BASE_PORT": " 60000"})
    assert found.message == "The ports of HCCL: HCCL_IF_BASE_PORT=' 60000' is not valid."
    assert found.severity == "not checked"


@pytest.mark.parametrize("version", ["7.\u00b2", "\u00b2", "7.\u0661.x", "9" * 5000, "", "."])
def test_a_version_that_is_no_number_is_compared_all_the_same(tmp_path, version: str) -> None:
    (tmp_path / "version.info").write_text("compatible_version_fw=[7.0.0,7.2.99]\n")
    driver = Component("24.1", None, "/version.info")
    versions = Versions(driver, Component(version, None, None), (), ())
    (finding,) = check_versions(versions, str(tmp_path), None)
    assert "needs firmware 7.0.0 to 7.2.99" in finding.message


def test_a_file_system_that_does_not_say_its_size_is_not_full(tmp_path, monkeypatch) -> None:
    silent = os.statvfs("/proc")
    assert silent.f_blocks == 0
    monkeypatch.setattr(os, "statvfs", lambda path: silent)
    found = _one(check_folder(str(tmp_path)))
    assert (found.rule, found.severity) == ("disk space", "not checked")
