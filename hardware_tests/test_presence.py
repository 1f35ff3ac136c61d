"""The device and what belongs to it are there, whole and of one mind."""

import contextlib
import io
import os
from typing import Any

import pytest

from hardware_tests.needs import control_nodes, count_operators, device_nodes

# That the packages are missing is for these tests to find out.
pytestmark = pytest.mark.needs(packages=False)


def can_be_opened(node: Any) -> bool:
    """Whether it is there, and this user may read and write it."""
    return not node.is_dir() and os.access(str(node), os.R_OK | os.W_OK, effective_ids=True)


def test_every_device_node_can_be_opened() -> None:
    assert [node for node in device_nodes() if not can_be_opened(node)] == []


def test_the_control_nodes_can_be_opened() -> None:
    assert [node for node in control_nodes() if not can_be_opened(node)] == []


def test_the_version_of_the_driver_is_known(report: Any) -> None:
    assert [part.version for part in (report.driver,) if part]


def test_the_version_of_the_toolkit_is_known(report: Any) -> None:
    assert [toolkit.version for toolkit in report.toolkits if toolkit.version]


def test_npu_smi_answers(report: Any) -> None:
    assert report.unanswered == ()
    assert [device for device in report if device.name]


def test_npu_smi_and_the_nodes_agree_on_the_number_of_devices(report: Any) -> None:
    assert len([device for device in report if device.name]) == len(device_nodes())


def test_every_device_is_healthy(report: Any) -> None:
    assert {device.logical_id: device.health for device in report.visible} == {
        device.logical_id: "OK" for device in report.visible
    }


def test_the_vendor_packages_can_be_imported(tf: Any) -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):  # why its library cannot be loaded it only prints
        from hccl.manage import api
        from npu_bridge.estimator import npu_ops
        from npu_bridge.hccl import hccl_ops
    assert callable(npu_ops.initialize_system), said.getvalue()
    assert callable(npu_ops.shutdown_system)
    assert callable(hccl_ops.allreduce)
    assert callable(api.get_rank_id)


def test_the_list_of_supported_operators_is_found() -> None:
    assert count_operators() > 0
