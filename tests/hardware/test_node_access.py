"""Which nodes count as devices, and what is said of nodes that cannot be opened."""

import contextlib
import os
from typing import Iterator

import pytest

from ascend_session.hardware.nodes import control_node_notes, node_note, processor_nodes
from ascend_session.ids import PhysicalDeviceId
from tests.fake_host import FakeHost

NOBODY = 65534


@contextlib.contextmanager
def nobody(host: FakeHost) -> Iterator[str]:
    """The root of the host for a user who is not root; relative, for the folder is private."""
    previous, effective = os.getcwd(), os.geteuid()
    os.chdir(str(host.root))
    os.seteuid(NOBODY if effective == 0 else effective)
    try:
        yield "."
    finally:
        os.seteuid(effective)
        os.chdir(previous)


def test_parts_of_a_processor_do_not_count_beside_it(host: FakeHost) -> None:
    host.nodes([0, 1])
    host.nodes([100, 101], virtual=True)
    assert processor_nodes(str(host.root)) == [0, 1]


def test_in_a_container_there_may_be_nothing_else(host: FakeHost) -> None:
    host.nodes([100], virtual=True)
    assert processor_nodes(str(host.root)) == [100]


def test_a_whole_set_of_nodes_is_worth_no_note(host: FakeHost) -> None:
    host.nodes([0])
    assert control_node_notes(str(host.root)) == []
    assert node_note(str(host.root), PhysicalDeviceId(0)) is None


@pytest.mark.parametrize("name", ["davinci_manager", "devmm_svm", "hisi_hdc"])
def test_each_control_node_is_missed(host: FakeHost, name: str) -> None:
    host.nodes([0])
    (host.root / "dev" / name).unlink()
    (note,) = control_node_notes(str(host.root))
    assert f"no /dev/{name}," in note
    assert "--device" in note


def test_a_device_without_a_node_is_said(host: FakeHost) -> None:
    note = node_note(str(host.root), PhysicalDeviceId(12))
    assert note is not None
    assert "no /dev/davinci12" in note


def test_a_node_that_others_may_not_open_is_said(host: FakeHost) -> None:
    host.nodes([3])
    for node in (host.root / "dev").iterdir():
        closed = node.name in ("davinci3", "hisi_hdc")
        node.chmod(0o444 if closed else 0o666)
    with nobody(host) as root:
        note = node_note(root, PhysicalDeviceId(3))
        said = control_node_notes(root)
    assert note is not None
    assert "may not read and write /dev/davinci3" in note
    assert "HwHiAiUser" in note
    assert ["/dev/hisi_hdc" in one for one in said] == [True]
