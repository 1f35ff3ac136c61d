"""What a launch says of a rank table of several servers, for which there may be no plan."""

import json
import socket
from typing import Any, Dict

import pytest

from ascend_session.errors import AscendError, PreflightError
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.plan.preflight import checked_plan
from tests.checks.healthy import DEVICES, Healthy, table


def _on_two_servers(healthy: Healthy) -> Dict[str, Any]:
    made: Dict[str, Any] = table(range(DEVICES))
    (first,) = made["server_list"]
    second = {"server_id": "node_1", "device": [dict(one) for one in first["device"]]}
    first["server_id"] = socket.gethostname()
    for number, device in enumerate(second["device"]):
        device.update(device_ip=f"192.168.200.{number}", rank_id=str(DEVICES + number))
    made.update(server_count="2", server_list=[first, second])
    healthy.table.write_text(json.dumps(made))
    return made


def _refused(healthy: Healthy, **asked: Any) -> AscendError:
    how: Dict[str, Any] = {"bind": "none", "wait_for_table": 0, **asked}
    config = LaunchConfig("train.py", rank_table=str(healthy.table), cwd=str(healthy.folder), **how)
    with pytest.raises(AscendError) as refused:
        checked_plan(config, healthy.environ)
    return refused.value


@pytest.mark.parametrize("asked", [{}, {"nnodes": 2, "node_rank": 0}])
def test_a_table_for_which_there_is_no_plan_is_refused_once(healthy: Healthy, asked: Any) -> None:
    made = _on_two_servers(healthy)
    made["server_list"][1]["device"][0]["rank_id"] = "0"
    healthy.table.write_text(json.dumps(made))
    refused = _refused(healthy, **asked)
    assert isinstance(refused, PreflightError)
    assert refused.message.count("server_list[0].device[0].rank_id") == 1
    assert refused.message.count("server_list[1].device[0].rank_id") == 1
    assert not refused.is_wrong_call


def test_a_table_that_is_not_completed_is_refused_once(healthy: Healthy) -> None:
    _on_two_servers(healthy)
    healthy.table.write_text(healthy.table.read_text().replace("completed", "initializing"))
    assert _refused(healthy).message.count("initializing") == 1
