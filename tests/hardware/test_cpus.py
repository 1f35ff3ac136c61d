"""What ``/sys`` says of cores and NUMA nodes."""

from typing import Any, Dict, Tuple

import pytest

from ascend_session.hardware.cpus import NearCpus, find_near_cpus, group_by_core, read_node_cpus
from ascend_session.hardware.npu_smi import parse_topology
from ascend_session.hardware.program import parse_cpus
from ascend_session.ids import PhysicalDeviceId
from tests.fake_host import FakeHost, Reply, a2_chips, a3_chips, npu_smi_answers
from tests.hardware.topologies import A2, A5, WITHOUT_BLANKS


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0-3", (0, 1, 2, 3)),
        ("0-1,128-129", (0, 1, 128, 129)),
        ("0-1, 4, 6-7", (0, 1, 4, 6, 7)),
        ("7,3,3", (3, 7)),
        ("", ()),
        ("3-1", ()),
        ("1-2-3", ()),
        ("-1", ()),
        ("0-4000000000", ()),
        ("all", ()),
    ],
)
def test_lists_of_cpus(text: str, found: Tuple[int, ...]) -> None:
    assert parse_cpus(text) == found


def test_siblings_are_one_core(host: FakeHost) -> None:
    host.cores([(0, 4), (1, 5), (2, 6), (3, 7)])
    assert group_by_core(range(8), str(host.root)) == [(0, 4), (1, 5), (2, 6), (3, 7)]
    # What may not be used is no part of its core.
    assert group_by_core([0, 1, 5, 7], str(host.root)) == [(0,), (1, 5), (7,)]


def test_the_older_name_of_the_file_is_read_too(host: FakeHost) -> None:
    for cpu in (0, 1):
        host.write(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", "0-1\n")
    assert group_by_core([0, 1, 2], str(host.root)) == [(0, 1), (2,)]


@pytest.mark.parametrize("text", ["", "garbage", "9-2", "\0\0", "1,"])
def test_a_cpu_whose_core_is_not_told_is_one_by_itself(host: FakeHost, text: str) -> None:
    host.write("sys/devices/system/cpu/cpu0/topology/core_cpus_list", text)
    assert group_by_core([0, 1], str(host.root)) == [(0,), (1,)]


@pytest.mark.parametrize("bus", ["0000:C1:00.0", "0000:c1:00.0", "00000000:C1:00.0"])
def test_the_node_of_a_device_has_its_cpus(host: FakeHost, bus: str) -> None:
    host.numa(["0-23", "24-47"], {"0000:C1:00.0": 1})
    assert read_node_cpus(bus, str(host.root)) == tuple(range(24, 48))


@pytest.mark.parametrize("bus", ["NA", "", "../../../etc", "0000:C1:00.0\n", "0000:02:00.0"])
def test_without_a_known_device_there_are_none(host: FakeHost, bus: str) -> None:
    host.numa(["0-23"], {"0000:C1:00.0": 0})
    assert read_node_cpus(bus, str(host.root)) == ()


@pytest.mark.parametrize("node", [-1, 7])
def test_a_device_on_no_node_has_none(host: FakeHost, node: int) -> None:
    host.numa(["0-23"], {"0000:C1:00.0": node})
    assert read_node_cpus("0000:C1:00.0", str(host.root)) == ()


def _ask(host: FakeHost, count: int, *more: Any, topology: str = "") -> NearCpus:
    layout, chips, *rest = more
    host.nodes(range(count))
    answers = npu_smi_answers(layout, chips, (), *rest)
    if topology:
        answers["info -t topo"] = Reply(topology)
    host.npu_smi(answers)
    return find_near_cpus(host.environ)


def _by_number(cpus: Dict[PhysicalDeviceId, Tuple[int, ...]]) -> Dict[int, Tuple[int, ...]]:
    return {int(device): found for device, found in cpus.items()}


def test_a_public_a2_server(host: FakeHost) -> None:
    near = _ask(host, 8, "910B", a2_chips(), topology=A2)
    first = {0: 144, 1: 144, 2: 96, 3: 96, 4: 0, 5: 0, 6: 48, 7: 48}
    assert _by_number(near.by_npu_smi) == {n: tuple(range(at, at + 24)) for n, at in first.items()}


def test_a_public_server_with_hyper_threads(host: FakeHost) -> None:
    near = _ask(host, 4, "910B", a2_chips(4), topology=WITHOUT_BLANKS)
    assert near.by_npu_smi[PhysicalDeviceId(1)] == (*range(96), *range(192, 288))
    assert near.by_npu_smi[PhysicalDeviceId(2)] == (*range(96, 192), *range(288, 384))


def test_on_a3_rows_are_by_physical_id_and_nothing_else_is_asked(host: FakeHost) -> None:
    near = _ask(host, 16, "A3", a3_chips(), [f"{40 * n}-{40 * n + 39}" for n in range(16)])
    assert near.by_npu_smi[PhysicalDeviceId(15)] == tuple(range(600, 640))
    assert len(near.by_npu_smi) == 16
    assert [call.arguments for call in host.calls()] == ["info -t topo"]


def test_rows_by_device_are_no_cards(host: FakeHost) -> None:
    """A release that labels the sixteen chips of eight cards ``NPU0`` to ``NPU15``."""
    rows = [f"NPU{n} {' '.join(['HCCS'] * 16)} {n}" for n in range(16)]
    near = _ask(host, 16, "A3", a3_chips(), topology="\n".join(rows))
    assert _by_number(near.by_npu_smi) == {n: (n,) for n in range(16)}


def test_both_chips_of_a_card_are_near_what_the_card_is(host: FakeHost) -> None:
    rows = [f"NPU{n} X HCCS {n}-{n}" for n in range(2)]
    near = _ask(host, 4, "A3", a3_chips(2), topology="\n".join(rows))
    assert _by_number(near.by_npu_smi) == {0: (0,), 1: (0,), 2: (1,), 3: (1,)}


def test_without_that_column_numa_nodes_count(host: FakeHost) -> None:
    chips = a2_chips(2)
    host.numa(["0-3", "4-7"], {chips[0].bus: 1, chips[1].bus: 0})
    near = _ask(host, 2, "910B", chips, topology=A5)
    assert near.by_npu_smi == {}
    assert _by_number(near.by_node) == {0: (4, 5, 6, 7), 1: (0, 1, 2, 3)}


def test_what_is_said_of_some_devices_is_kept(host: FakeHost) -> None:
    chips = a2_chips(2)
    host.numa(["0-3", "4-7"], {chips[0].bus: 0, chips[1].bus: 1})
    near = _ask(host, 2, "910B", chips, ["2-3", "what"])
    assert near.find(PhysicalDeviceId(0)) == (2, 3)
    assert near.find(PhysicalDeviceId(1)) == (4, 5, 6, 7)


def test_a_device_that_nobody_knows_is_near_nothing(host: FakeHost) -> None:
    near = _ask(host, 2, "910B", a2_chips(2), ["", ""])
    assert near == NearCpus({}, {})
    assert near.find(PhysicalDeviceId(0)) == ()


@pytest.mark.parametrize(
    "reply",
    [
        Reply("", "dcmi model initialized failed, because the device is used. ret is -8020", 255),
        Reply("\0\x1b[31m|||NPU NPU0 0-1-2\nNPU0\nNPU99999999999 X 0-3\n"),
        Reply(then="signal"),
    ],
)
def test_garbage_is_no_answer(host: FakeHost, reply: Reply) -> None:
    host.nodes(range(2))
    host.npu_smi({"": reply})
    assert find_near_cpus(host.environ) == NearCpus({}, {})


def test_without_npu_smi_nothing_is_known(host: FakeHost) -> None:
    host.nodes(range(8))
    assert find_near_cpus(host.environ) == NearCpus({}, {})


def test_network_cards_in_the_matrix_are_no_devices() -> None:
    assert [row.number for row in parse_topology(A5)] == [0, 1]


@pytest.mark.parametrize("column", ["0-1, 4", "0-1,4"])
def test_blanks_in_a_list_do_not_matter(column: str) -> None:
    (row,) = parse_topology(f"NPU3 X HCCS {column}")
    assert row.cpus == (0, 1, 4)
