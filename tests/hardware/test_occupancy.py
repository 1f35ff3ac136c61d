"""Who holds a device: the processes of a fake ``/proc`` and the list of ``npu-smi`` together."""

import os
import shutil
from typing import List, Optional

import pytest

from ascend_session.hardware.npu_smi_rows import Process
from ascend_session.hardware.occupancy import Holder, occupancy
from ascend_session.ids import PhysicalDeviceId
from tests.fake_host import USER, FakeHost

ZERO, ONE = PhysicalDeviceId(0), PhysicalDeviceId(1)


def test_a_holder_has_its_command_and_its_beginning(host: FakeHost) -> None:
    host.process(100, "python3 train.py", devices=[1], seconds=5)
    found = occupancy(str(host.root), {})
    assert found.notes == []
    assert found.holders == {
        ONE: [Holder(100, "python3 train.py", host.begun(5), None, own=False, here=True, user=USER)]
    }


def test_the_list_adds_the_memory(host: FakeHost) -> None:
    host.process(100, "python3 train.py", devices=[1])
    listed = {ONE: [Process(1, 0, 100, "python3", 30000, None)]}
    (holder,) = occupancy(str(host.root), listed).holders[ONE]
    assert (holder.pid, holder.command, holder.memory_mb) == (100, "python3 train.py", 30000)


def test_a_holder_may_be_known_to_the_list_only(host: FakeHost) -> None:
    listed = {ZERO: [Process(0, 0, 4321, "python3", 7, None)]}
    assert occupancy(str(host.root), listed).holders == {
        ZERO: [Holder(4321, "python3", None, 7, own=False, here=False)]
    }


def test_a_process_here_that_only_has_the_same_number_is_no_holder(host: FakeHost) -> None:
    host.process(57, "bash -l")
    listed = {ZERO: [Process(0, 0, 57, "python3", 7, None)]}
    assert occupancy(str(host.root), listed).holders == {
        ZERO: [Holder(57, "python3", None, 7, own=False, here=False)]
    }


@pytest.mark.parametrize(
    ("name", "devices", "container_pid"),
    [
        # It may have been renamed, ...
        ("python3", [0], None),
        # ... not have the node open now, ...
        ("ray::Worker", [], None),
        ("/usr/bin/ray::Worker", [], None),
        ("", [], None),
        # ... or be known by its number in this container.
        ("python3", [], 57),
    ],
)
def test_a_listed_process_is_the_one_here_if_anything_speaks_for_it(
    host: FakeHost, name: str, devices: List[int], container_pid: Optional[int]
) -> None:
    host.process(57, "ray::Worker train", devices=devices)
    listed = {ZERO: [Process(0, 0, 57, name, 7, container_pid)]}
    (holder,) = occupancy(str(host.root), listed).holders[ZERO]
    assert (holder.command, holder.here) == ("ray::Worker train", True)


def test_without_proc_it_is_said_that_holders_may_be_missing(host: FakeHost) -> None:
    shutil.rmtree(str(host.root / "proc"))
    found = occupancy(str(host.root), {ZERO: [Process(0, 0, 57, "python3", 7, None)]})
    assert [holder.pid for holder in found.holders[ZERO]] == [57]
    assert found.notes == [
        "/proc could not be read: No such file or directory. Who holds a device is known only if "
        "npu-smi lists it."
    ]


def test_in_a_container_its_own_number_counts(host: FakeHost) -> None:
    host.process(57, "python3 train.py", devices=[0])
    listed = {ZERO: [Process(0, 0, 90412, "", 7, 57)]}
    (holder,) = occupancy(str(host.root), listed).holders[ZERO]
    assert (holder.pid, holder.memory_mb, holder.here) == (57, 7, True)


def test_holders_ascend(host: FakeHost) -> None:
    host.process(30, "b", devices=[0])
    host.process(200, "c", devices=[0])
    listed = {ZERO: [Process(0, 0, 100, "a", 7, None)]}
    found = occupancy(str(host.root), listed).holders[ZERO]
    assert [holder.pid for holder in found] == [30, 100, 200]


def test_the_asking_process_is_marked(host: FakeHost) -> None:
    host.process(os.getpid(), "python3", devices=[0])
    host.process(7, "python3", devices=[0])
    ours = {pid.pid: pid.own for pid in occupancy(str(host.root), {}).holders[ZERO]}
    assert ours == {os.getpid(): True, 7: False}
    (seven, _) = occupancy(str(host.root), {}, own_pid=7).holders[ZERO]
    assert seven.own
