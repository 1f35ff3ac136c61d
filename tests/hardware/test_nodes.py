"""Device nodes, on hosts that are folders."""

import contextlib
import os
from pathlib import Path
from typing import Iterator, List, Optional, Tuple

import pytest

from ascend_session.hardware.nodes import (
    control_node_notes,
    device_nodes,
    host_root,
    node_note,
    processor_nodes,
    read_visible,
)
from ascend_session.ids import PhysicalDeviceId
from tests.fake_host import FakeHost


def host(tmp_path: Path, names: List[str]) -> str:
    (tmp_path / "dev").mkdir()
    for name in names:
        (tmp_path / "dev" / name).touch()
    return str(tmp_path)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ([], []),
        (["davinci0"], [0]),
        (["davinci10", "davinci9", "davinci0"], [0, 9, 10]),
        (["vdavinci100"], [100]),
        (["davinci_manager", "davinci", "xdavinci1", "davinci1x", "null"], []),
        (["davinci4", "vdavinci4"], [4]),
    ],
)
def test_nodes_are_found_by_their_names(tmp_path: Path, names: List[str], found: List[int]) -> None:
    assert device_nodes(host(tmp_path, names)) == found


def test_their_numbers_are_physical_ids(tmp_path: Path) -> None:
    (node,) = device_nodes(host(tmp_path, ["davinci5"]))
    assert isinstance(node, PhysicalDeviceId)


def test_a_host_without_dev_has_none(tmp_path: Path) -> None:
    assert device_nodes(str(tmp_path)) == []
    assert device_nodes(str(tmp_path / "nowhere")) == []


@pytest.mark.parametrize(
    ("environ", "root"),
    [
        ({}, "/"),
        ({"ASCEND_SESSION_HOST_ROOT": ""}, "/"),
        ({"ASCEND_SESSION_HOST_ROOT": "/host"}, "/host"),
    ],
)
def test_the_root_is_the_environments(environ: object, root: str) -> None:
    assert host_root(environ) == root  # type: ignore[arg-type]


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


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (None, (0, 1, 2, 3, 4, 5, 6, 7)),
        ("0", (0,)),
        ("0,1,2", (0, 1, 2)),
        ("3,4,5,6,7", (3, 4, 5, 6, 7)),
        ("1,", (1,)),
        ("1, ", (1,)),
        ("1,2 ", (1, 2)),
        ("007", (7,)),
        ("0,1,2,3,4,5,6,7", (0, 1, 2, 3, 4, 5, 6, 7)),
    ],
)
def test_a_good_list_has_no_traps(text: Optional[str], ids: Tuple[int, ...]) -> None:
    assert read_visible(text, 8) == (ids, ())


@pytest.mark.parametrize(
    ("text", "ids", "because"),
    [
        ("1, 2,3", (1,), "' 2,3'"),
        ("1,3,8", (1, 3), "'8', which is not one of 0 to 7"),
        ("1,8,3", (1,), "'8'"),
        ("0-3", (0,), "'-3'"),
        ("1,,2", (1,), "',,2'"),
        ("1;2", (1,), "';2'"),
        ("1,x", (1,), "'x'"),
        ("1,-1", (1,), "'-1'"),
        ("1,99999999999999999999", (1,), "'99999999999999999999'"),
        ("0,1,2,3,4,5,6,7,7", tuple(range(8)), "8, the number of devices"),
        ("0,1,2,3,4,5,6,7,0", tuple(range(8)), "8, the number of devices"),
        ("1\u0662", (1,), "'\u0662'"),
    ],
)
def test_it_stops_without_a_word(text: str, ids: Tuple[int, ...], because: str) -> None:
    found = read_visible(text, 8)
    assert found.ids == ids
    (trap,) = found.traps
    assert f"ASCEND_RT_VISIBLE_DEVICES={text!r}" in trap
    assert "because it stops" in trap
    assert because in trap


@pytest.mark.parametrize("text", ["", " ", " 0", ",0", "-1", "8", "void", "NoDevFiles", "all"])
def test_no_usable_beginning_is_no_device(text: str) -> None:
    found = read_visible(text, 8)
    assert found.ids == ()
    (trap,) = found.traps
    assert f"ASCEND_RT_VISIBLE_DEVICES={text!r}" in trap
    assert "no device" in trap


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("1,0", "0 comes after 1"),
        ("5,4,3,6,7", "4 comes after 5"),
        ("3,4,6,5,7", "5 comes after 6"),
        ("1,1", "1 is given twice"),
        ("0,1,2,1", "1 comes after 2"),
    ],
)
def test_a_list_that_does_not_ascend_is_dropped_as_a_whole(text: str, because: str) -> None:
    found = read_visible(text, 8)
    assert found.ids == ()
    (trap,) = found.traps
    assert because in trap
    assert "this process gets no device" in trap


def test_what_comes_after_the_stop_is_not_looked_at() -> None:
    assert read_visible("2, 1,1", 8).ids == (2,)


def test_the_text_is_cut_at_128_characters() -> None:
    text = ",".join(map(str, range(64)))
    found = read_visible(text, 64)
    assert len(text[:128].split(",")) == 47
    assert found.ids == tuple(range(46))
    assert "128 characters" in found.traps[0]


def test_the_cut_may_go_through_a_number() -> None:
    text = "00" + ",".join(map(str, range(64)))
    assert text[:128].endswith(",44,4")
    found = read_visible(text, 64)
    assert found.ids == ()
    assert "4 comes after 44" in found.traps[0]


def test_a_cut_between_two_numbers_is_said() -> None:
    text = ",".join(map(str, range(10, 64)))
    found = read_visible(text, 64)
    assert found.ids == tuple(range(10, 53))
    assert "128 characters" in found.traps[0]


@pytest.mark.parametrize(("text", "traps"), [(None, 0), ("0", 1), ("", 1)])
def test_without_devices_nothing_is_visible(text: Optional[str], traps: int) -> None:
    found = read_visible(text, 0)
    assert found.ids == ()
    assert len(found.traps) == traps
