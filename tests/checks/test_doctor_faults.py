"""Every fault of a host is in the report: one by one, and all at once."""

import json
import os
from typing import Any, Callable, Dict, List

import pytest
from click.testing import CliRunner

from ascend_session.cli._program import app
from tests.checks.faults import FAULTS, Fault
from tests.checks.healthy import Healthy

SOON = "0.5s"  # for a program that never answers
PATIENCE = "60s"  # for those that do
_WAITED_FOR = {
    "python hangs": "--imports",
    "npu-smi hangs": "--timeout",
    "hccn_tool hangs": "--timeout",
}
_OWN = [fault for fault in FAULTS if fault.only != "preflight"]


@pytest.fixture
def examine(healthy: Healthy) -> Callable[..., Dict[str, Any]]:
    """Asks the command ``doctor`` about the host; options that are None are left out."""

    def examine(**options: Any) -> Dict[str, Any]:
        usual = {"table": healthy.table, "--timeout": PATIENCE, "--imports": PATIENCE}
        given = {**usual, **options}
        given["--rank-table"] = given.pop("table")
        words = [f"{name}={value}" for name, value in given.items() if value is not None]
        places = ["--log-dir", str(healthy.logs), "--python", str(healthy.python)]
        environ = {**dict.fromkeys(os.environ), **healthy.environ}
        called = CliRunner().invoke(app, ["doctor", "--json", *words, *places], env=environ)
        report: Dict[str, Any] = json.loads(called.stdout)
        assert called.exit_code == (0 if report["ok"] else 1)
        return report

    return examine


def _of(report: Dict[str, Any], severity: str) -> List[Dict[str, Any]]:
    return [finding for finding in report["findings"] if finding["severity"] == severity]


def test_a_healthy_host_has_no_finding_but_what_was_looked_at(
    healthy: Healthy, examine: Any
) -> None:
    report = examine()
    severities = {finding["severity"] for finding in report["findings"]}
    assert severities <= {"ok", "info"}, report["findings"]
    assert report["ok"]
    assert report["backend"] == "npu"
    assert report["facts"]["driver"] == "24.1.rc2"
    assert not healthy.logs.exists()


@pytest.mark.parametrize("fault", _OWN, ids=lambda fault: fault.name)
def test_each_fault_is_found(healthy: Healthy, fault: Fault, examine: Any) -> None:
    close = fault.plant(healthy)
    waited_for = _WAITED_FOR.get(fault.name)
    options: Dict[str, Any] = {waited_for: SOON} if waited_for else {}
    # A table of devices that are hidden is an error, too.
    options.update({"table": None} if fault.check == "visible devices" else {})
    report = examine(**options)
    if callable(close):
        close()
    found = [one for one in _of(report, fault.severity) if one["check"] == fault.check]
    assert any(fault.said in one["said"] for one in found), report["findings"]
    assert report["ok"] is (fault.severity != "error")


def test_all_faults_are_in_one_report_each_with_what_to_do(healthy: Healthy, examine: Any) -> None:
    planted = [fault for fault in _OWN if not fault.alone]
    closes = [fault.plant(healthy) for fault in planted]
    report = examine()
    for close in closes:
        if callable(close):
            close()
    said = "\n".join(f"{one['severity']} {one['said']}" for one in report["findings"])
    assert [fault.name for fault in planted if fault.said not in said] == []
    assert [one for one in _of(report, "error") if not one["hint"]] == []
    assert len(planted) > 12
    assert report["ok"] is False


def test_a_device_without_a_node_is_said(healthy: Healthy, examine: Any) -> None:
    (healthy.host.root / "dev" / "davinci3").unlink()
    (found,) = _of(examine(table=None), "warning")
    assert "npu-smi lists 1 device(s) that have no node" in found["said"]
