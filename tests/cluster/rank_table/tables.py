"""Rank tables as they are written by hand and by tools, for tests to read and to spoil."""

import json
from typing import Any, Dict

from ascend_session.cluster.rank_table import RankTable


def v1_0(servers: int = 2, devices: int = 2) -> Dict[str, Any]:
    """A table of version 1.0 in which all is well."""
    return {
        "version": "1.0",
        "status": "completed",
        "server_count": str(servers),
        "server_list": [
            {
                "server_id": f"node_{server}",
                "device": [
                    {
                        "device_id": str(device),
                        "device_ip": f"192.168.{server + 1}.{device + 8}",
                        "rank_id": str(server * devices + device),
                    }
                    for device in range(devices)
                ],
            }
            for server in range(servers)
        ],
    }


def v1_2(servers: int = 4, devices: int = 4) -> Dict[str, Any]:
    """A table of version 1.2: the manual's own example, two superpods of two servers each."""
    table = v1_0(servers, devices)
    table["version"] = "1.2"
    for number, server in enumerate(table["server_list"]):
        server["host_ip"] = f"172.16.0.{100 + number}"
        for device in server["device"]:
            own = int(device["device_id"])
            device["super_device_id"] = str(number % 2 * devices + own)
            device["device_port"] = "16666"
            device["backup_device_ip"] = f"192.168.{number + 1}.{(own ^ 1) + 8}"
            device["backup_device_port"] = "16667"
            device["host_port"] = str(16665 + own)
    table["super_pod_list"] = [
        {
            "super_pod_id": str(pod),
            "server_list": [
                {"server_id": f"node_{server}"} for server in range(servers) if server // 2 == pod
            ],
        }
        for pod in range((servers + 1) // 2)
    ]
    return table


def template_2() -> Dict[str, Any]:
    """A table of a former layout, with pods."""
    devices = [{"device_id": "0", "device_ip": "192.168.1.7"}]
    instance = {"pod_name": "tf-bae41", "server_id": "node_0", "devices": devices}
    return {
        "status": "completed",
        "group_count": "1",
        "group_list": [{"instance_list": [instance]}],
    }


def lab() -> Dict[str, Any]:
    """A table of the layout before that."""
    return {**template_2(), "deploy_mode": "lab", "para_plane_nic_location": "device"}


def device(table: Dict[str, Any], server: int = 0, index: int = 0) -> Dict[str, Any]:
    """One device of a table of version 1.0 or 1.2."""
    found: Dict[str, Any] = table["server_list"][server]["device"][index]
    return found


def parsed(table: Any) -> RankTable:
    """A table read from its JSON."""
    return RankTable.from_text(json.dumps(table), "t.json")
