"""Every fault of a host is in the report: one by one, and all at once."""

import json
from typing import Any, Dict

import pytest

from ascend_session.cli._examination import Examination, examine
from tests.checks.faults import FAULTS, Fault
from tests.checks.healthy import Healthy

SOON = 0.5  # seconds, for a program that never answers
PATIENCE = 60.0  # for those that do
_WAITED_FOR = {
    "python hangs": "imports_s",
    "npu-smi hangs": "timeout_s",
    "hccn_tool hangs": "timeout_s",
}
_OWN = [fault for fault in FAULTS if fault.only != "preflight"]


def _examined(healthy: Healthy, **more: Any) -> Examination:
    request = {
        "rank_table": str(healthy.table),
        "log_dir": str(healthy.logs),
        "python": str(healthy.python),
        "timeout_s": PATIENCE,
        "imports_s": PATIENCE,
        **more,
    }
    return examine(healthy.environ, **request)


def test_a_healthy_host_has_no_finding_but_what_was_looked_at(healthy: Healthy) -> None:
    report = _examined(healthy)
    assert [finding for finding in report.findings if finding.severity not in ("ok", "info")] == []
    assert report.ok
    assert report.backend == "npu"
    assert dict(report.facts)["driver"] == "24.1.rc2"
    assert not healthy.logs.exists()


@pytest.mark.parametrize("fault", _OWN, ids=lambda fault: fault.name)
def test_each_fault_is_found(healthy: Healthy, fault: Fault) -> None:
    close = fault.plant(healthy)
    waited_for = _WAITED_FOR.get(fault.name)
    more: Dict[str, Any] = {waited_for: SOON} if waited_for else {}
    # A table of devices that are hidden is an error, too.
    more.update({"rank_table": None} if fault.check == "visible devices" else {})
    report = _examined(healthy, **more)
    if callable(close):
        close()
    found = [one for one in report.of(fault.severity) if one.rule == fault.check]
    assert any(fault.said in one.message for one in found), report.findings
    assert report.ok is (fault.severity != "error")


def test_all_faults_are_in_one_report_each_with_what_to_do(healthy: Healthy) -> None:
    planted = [fault for fault in _OWN if not fault.alone]
    closes = [fault.plant(healthy) for fault in planted]
    report = _examined(healthy)
    for close in closes:
        if callable(close):
            close()
    said = "\n".join(f"{one.severity} {one.message}" for one in report.findings)
    assert [fault.name for fault in planted if fault.said not in said] == []
    assert [one for one in report.of("error") if not one.hint] == []
    assert len(planted) > 12
    assert json.loads(json.dumps(report.as_dict()))["ok"] is False


def test_a_device_without_a_node_is_said(healthy: Healthy) -> None:
    (healthy.host.root / "dev" / "davinci3").unlink()
    (found,) = _examined(healthy, rank_table=None).of("warning")
    assert "npu-smi lists 1 device(s) that have no node" in found.message
