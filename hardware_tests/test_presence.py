"""The device and what belongs to it are there, whole and of one mind."""

import contextlib
import io
import os
from typing import Any

import pytest

from ascend_session.hardware import (
    DeviceReport,
    NpuSmi,
    control_node_notes,
    host_root,
    node_note,
    operator_list,
    processor_nodes,
)
from hardware_tests import limits

# That the packages are missing is for these tests to find out.
pytestmark = pytest.mark.needs(packages=False)


@pytest.fixture
def root() -> str:
    return host_root(os.environ)


def test_every_device_node_can_be_opened(root: str) -> None:
    assert [node_note(root, node) for node in processor_nodes(root) if node_note(root, node)] == []


def test_the_control_nodes_can_be_opened(root: str) -> None:
    assert control_node_notes(root) == []


def test_the_version_of_the_driver_is_known(report: DeviceReport) -> None:
    assert [part.version for part in (report.driver,) if part]


def test_the_version_of_the_toolkit_is_known(report: DeviceReport) -> None:
    assert [toolkit.version for toolkit in report.toolkits if toolkit.version]


def test_npu_smi_answers(root: str) -> None:
    npu_smi = NpuSmi(os.environ, root, limits.ANSWER)
    chips = npu_smi.info().chips
    assert npu_smi.notes == []
    assert chips


def test_npu_smi_and_the_nodes_agree_on_the_number_of_devices(root: str) -> None:
    chips = NpuSmi(os.environ, root, limits.ANSWER).info().chips
    assert len(chips) == len(processor_nodes(root))


def test_every_device_is_healthy(report: DeviceReport) -> None:
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


def test_the_list_of_supported_operators_is_found(root: str) -> None:
    found = operator_list(os.environ, root)
    assert found.operators > 0, f"none in {found.files}"
