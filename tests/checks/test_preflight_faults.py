"""Every fault of a host is found before a job is started: one by one, and all at once."""

import os
from typing import Any, List, Tuple

import pytest

from ascend_session.errors import AscendError, PreflightError
from ascend_session.launcher.plan import preflight_npu
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.plan.preflight import checked_plan
from tests.checks.faults import FAULTS, Fault
from tests.checks.healthy import DEVICES, Healthy

SOON = 0.5  # seconds, for a program that never answers
PATIENCE = 60.0  # for those that do
_OWN = [fault for fault in FAULTS if fault.only != "doctor"]


@pytest.fixture(autouse=True)
def _waits_for(request: Any, monkeypatch: Any) -> None:
    fault = getattr(request.node, "callspec", None) and request.node.callspec.params["fault"]
    timeout = SOON if fault and fault.name.endswith("hangs") else PATIENCE
    monkeypatch.setattr(preflight_npu, "TIME_LIMIT", timeout)


def _config(healthy: Healthy, **more: Any) -> LaunchConfig:
    what = {} if "module" in more else {"script": "train.py"}
    # How many CPUs this machine has is no matter here.
    where = {"rank_table": str(healthy.table), "cwd": str(healthy.folder), "bind": "none"}
    asked = {"wait_for_table": 0, **where, **what, **more}
    return LaunchConfig(**asked)


def _told(healthy: Healthy, **more: Any) -> Tuple[str, List[str]]:
    """What is told of it: the refusal, or the notes of the plan."""
    try:
        planned = checked_plan(_config(healthy, **more), healthy.environ)
    except AscendError as refused:
        return str(refused), []
    return "", list(planned.notes)


def test_of_a_healthy_host_there_is_nothing_to_say(healthy: Healthy) -> None:
    assert _told(healthy) == ("", [])


@pytest.mark.parametrize("fault", _OWN, ids=lambda fault: fault.name)
def test_each_fault_is_found(healthy: Healthy, fault: Fault) -> None:
    close = fault.plant(healthy)
    before = sorted(os.listdir(str(healthy.folder)))
    refusal, notes = _told(healthy, **(fault.launch or {}))
    if callable(close):
        close()
    if fault.severity == "error":
        assert fault.said in refusal
        assert not notes
    else:
        assert refusal == ""
        assert any(fault.said in note for note in notes), notes
    assert sorted(os.listdir(str(healthy.folder))) == before


def test_all_faults_are_said_at_once_each_with_what_to_do(healthy: Healthy) -> None:
    planted = [fault for fault in _OWN if not fault.alone]
    closes = [fault.plant(healthy) for fault in planted]
    before = sorted(os.listdir(str(healthy.folder)))
    with pytest.raises(PreflightError) as refused:
        checked_plan(_config(healthy), healthy.environ)
    for close in closes:
        if callable(close):
            close()
    message = refused.value.message
    assert [fault.name for fault in planted if fault.said not in message] == []
    found = refused.value.findings
    assert [one.message for one in found if one.severity == "error" and not one.hint] == []
    assert {fault.check for fault in planted} <= {one.rule for one in found}
    assert len(planted) > 10
    assert refused.value.is_wrong_call
    assert sorted(os.listdir(str(healthy.folder))) == before


def test_without_preflight_the_plan_is_made_whatever_is_wrong(healthy: Healthy) -> None:
    for fault in _OWN:
        if not fault.alone and fault.name != "script":
            close = fault.plant(healthy)
            if callable(close):
                close()
    planned = checked_plan(_config(healthy, preflight=False), healthy.environ)
    assert len(planned.ranks) == DEVICES
    assert healthy.host.calls() == []


def test_a_fault_of_the_host_alone_is_no_wrong_call(healthy: Healthy) -> None:
    healthy.host.process(4321, "python3 train.py", devices=[1])
    with pytest.raises(PreflightError) as refused:
        checked_plan(_config(healthy), healthy.environ)
    assert not refused.value.is_wrong_call
    assert refused.value.hint == (
        "Stop it (kill 4321), wait until it is free (wait_for_devices=600), or use another device. "
        "Or launch with preflight=False to skip the checks."
    )


def test_one_thing_that_is_wrong_with_the_call_is_said_as_ever(healthy: Healthy) -> None:
    """What a plan refuses alone keeps its class and its advice."""
    healthy.script.unlink()
    with pytest.raises(AscendError) as refused:
        checked_plan(_config(healthy), healthy.environ)
    assert not isinstance(refused.value, PreflightError)
    assert "There is no script" in refused.value.message


def test_several_things_that_are_wrong_with_the_call_are_said_at_once(healthy: Healthy) -> None:
    healthy.script.unlink()
    with pytest.raises(PreflightError) as refused:
        checked_plan(_config(healthy, processes=9, show="x"), healthy.environ)
    said = refused.value.message
    assert "this launch needs 9" in said
    assert "There is no script" in said
    assert refused.value.is_wrong_call


def test_devices_that_a_job_does_not_use_are_left_out(healthy: Healthy) -> None:
    healthy.host.process(4321, "python3 train.py", devices=[1])
    config = LaunchConfig(script="train.py", devices=[2], cwd=str(healthy.folder), bind="none")
    planned = checked_plan(config, healthy.environ)
    assert planned.notes == ()


def test_one_rank_alone_needs_no_network_and_no_ports(healthy: Healthy) -> None:
    asked = {"processes": 1, "rank_table": None, "no_rank_table": False}
    checked_plan(_config(healthy, **asked), healthy.environ)
    assert not [call for call in healthy.host.calls() if "-link" in call.arguments]
