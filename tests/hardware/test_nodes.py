"""Device nodes, on hosts that are folders."""

from pathlib import Path
from typing import List

import pytest

from ascend_session.hardware.nodes import device_nodes, host_root
from ascend_session.ids import PhysicalDeviceId


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
