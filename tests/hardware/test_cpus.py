"""What ``/sys`` says of cores and NUMA nodes."""

from typing import Tuple

import pytest

from ascend_session.hardware.cpus import cores_of, node_cpus, parse_cpus
from tests.fake_host import FakeHost


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
    assert cores_of(range(8), str(host.root)) == [(0, 4), (1, 5), (2, 6), (3, 7)]
    # What may not be used is no part of its core.
    assert cores_of([0, 1, 5, 7], str(host.root)) == [(0,), (1, 5), (7,)]


def test_the_older_name_of_the_file_is_read_too(host: FakeHost) -> None:
    for cpu in (0, 1):
        host.write(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", "0-1\n")
    assert cores_of([0, 1, 2], str(host.root)) == [(0, 1), (2,)]


@pytest.mark.parametrize("text", ["", "garbage", "9-2", "\0\0", "1,"])
def test_a_cpu_whose_core_is_not_told_is_one_by_itself(host: FakeHost, text: str) -> None:
    host.write("sys/devices/system/cpu/cpu0/topology/core_cpus_list", text)
    assert cores_of([0, 1], str(host.root)) == [(0,), (1,)]


@pytest.mark.parametrize("bus", ["0000:C1:00.0", "0000:c1:00.0", "00000000:C1:00.0"])
def test_the_node_of_a_device_has_its_cpus(host: FakeHost, bus: str) -> None:
    host.numa(["0-23", "24-47"], {"0000:C1:00.0": 1})
    assert node_cpus(bus, str(host.root)) == tuple(range(24, 48))


@pytest.mark.parametrize("bus", ["NA", "", "../../../etc", "0000:C1:00.0\n", "0000:02:00.0"])
def test_without_a_known_device_there_are_none(host: FakeHost, bus: str) -> None:
    host.numa(["0-23"], {"0000:C1:00.0": 0})
    assert node_cpus(bus, str(host.root)) == ()


@pytest.mark.parametrize("node", [-1, 7])
def test_a_device_on_no_node_has_none(host: FakeHost, node: int) -> None:
    host.numa(["0-23"], {"0000:C1:00.0": node})
    assert node_cpus("0000:C1:00.0", str(host.root)) == ()
