"""What is on this machine: device nodes, the vendor's programs, who holds a device, versions.

Names are loaded when they are first used. The functions of the public surface are in `devices`.
"""

from typing import TYPE_CHECKING

from ascend_session.lazy import late_names

if TYPE_CHECKING:
    from ascend_session.hardware.cpus import cores_of as cores_of
    from ascend_session.hardware.cpus import near_cpus as near_cpus
    from ascend_session.hardware.devices import Device as Device
    from ascend_session.hardware.devices import DeviceReport as DeviceReport
    from ascend_session.hardware.families import family as family
    from ascend_session.hardware.families import has_nic as has_nic
    from ascend_session.hardware.hccn import HccnTool as HccnTool
    from ascend_session.hardware.installation import Component as Component
    from ascend_session.hardware.installation import Versions as Versions
    from ascend_session.hardware.installation import impl_mode_folder as impl_mode_folder
    from ascend_session.hardware.installation import operator_list as operator_list
    from ascend_session.hardware.installation import ops_info_files as ops_info_files
    from ascend_session.hardware.installation import read_versions as read_versions
    from ascend_session.hardware.nodes import VISIBLE_VARIABLE as VISIBLE_VARIABLE
    from ascend_session.hardware.nodes import control_node_notes as control_node_notes
    from ascend_session.hardware.nodes import device_nodes as device_nodes
    from ascend_session.hardware.nodes import host_root as host_root
    from ascend_session.hardware.nodes import node_note as node_note
    from ascend_session.hardware.nodes import processor_nodes as processor_nodes
    from ascend_session.hardware.nodes import read_visible as read_visible
    from ascend_session.hardware.npu_smi import Chip as Chip
    from ascend_session.hardware.npu_smi import ChipIds as ChipIds
    from ascend_session.hardware.npu_smi import ChipListing as ChipListing
    from ascend_session.hardware.npu_smi import InfoTable as InfoTable
    from ascend_session.hardware.npu_smi import Memory as Memory
    from ascend_session.hardware.npu_smi import NpuSmi as NpuSmi
    from ascend_session.hardware.npu_smi import Process as Process
    from ascend_session.hardware.npu_smi import parse_info as parse_info
    from ascend_session.hardware.processes import Holder as Holder
    from ascend_session.hardware.processes import open_devices as open_devices
    from ascend_session.hardware.program import TIME_LIMIT as TIME_LIMIT
    from ascend_session.hardware.program import Program as Program
    from ascend_session.hardware.program import find_program as find_program
    from ascend_session.hardware.program import run_program as run_program

_NAMES = {
    "cpus": ("cores_of", "near_cpus"),
    "devices": ("Device", "DeviceReport"),
    "families": ("family", "has_nic"),
    "hccn": ("HccnTool",),
    "installation": (
        "Component",
        "Versions",
        "impl_mode_folder",
        "operator_list",
        "ops_info_files",
        "read_versions",
    ),
    "nodes": (
        "VISIBLE_VARIABLE",
        "control_node_notes",
        "device_nodes",
        "host_root",
        "node_note",
        "processor_nodes",
        "read_visible",
    ),
    "npu_smi": (
        "Chip",
        "ChipIds",
        "ChipListing",
        "InfoTable",
        "Memory",
        "NpuSmi",
        "Process",
        "parse_info",
    ),
    "processes": ("Holder", "open_devices"),
    "program": ("TIME_LIMIT", "Program", "find_program", "run_program"),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__getattr__, __dir__ = late_names(__name__, _HOMES, globals())
