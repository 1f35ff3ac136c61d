"""How many tests ran, how many could not, and on what: one line, beginning with ``hardware:``."""

from collections import Counter
from typing import Any, Dict, Set

from ascend_session import devices
from hardware_tests import limits

__all__ = ["Tally"]


class Tally:
    """Counts the tests of a run by what became of them.

    Args:
        require: Whether a test that cannot run has failed.
    """

    def __init__(self, require: bool) -> None:
        self.chosen = 0
        self._require = require
        self._ran: Set[str] = set()
        self._failed: Set[str] = set()
        self._missing: Dict[str, str] = {}

    def add(self, report: Any) -> None:
        """Takes a pytest report in; makes a failure out of a skip where that is asked for."""
        if report.skipped:
            reason = _reason(report)
            self._missing[report.nodeid] = reason
            if self._require:
                # "call", so that it counts as a failure of the test and not as a broken fixture.
                report.outcome, report.longrepr, report.when = "failed", reason, "call"
        elif report.nodeid not in self._missing and (report.failed or report.when == "call"):
            self._ran.add(report.nodeid)
            if report.failed:
                self._failed.add(report.nodeid)

    def line(self) -> str:
        """The summary."""
        failed = f" ({len(self._failed)} failed)" if self._failed else ""
        said = [
            f"{len(self._ran)} ran{failed}",
            f"{len(self._missing)} {'could not run' if self._require else 'skipped'}",
        ]
        left = self.chosen - len(self._ran) - len(self._missing)
        said += [f"{left} not reached"] if left else []
        text = f"hardware: {', '.join(said)}"
        if self._ran or not self._missing:
            return f"{text}, on {_machine()}"
        return f"{text}: {'; '.join(sorted(set(self._missing.values())))}"


def _reason(report: Any) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text[len("Skipped: ") :] if text.startswith("Skipped: ") else text


def _machine() -> str:
    found = devices(timeout=limits.ANSWER)
    names = Counter(device.name or "unknown device" for device in found.visible)
    said = [f"{count} x {name}" for name, count in names.items()] or ["no device"]
    said += [f"driver {found.driver.version if found.driver else 'unknown'}"]
    said += [f"CANN {found.toolkits[0].version if found.toolkits else 'unknown'}"]
    return ", ".join(said)
