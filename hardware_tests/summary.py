"""How a run of the tests ended: one line, beginning with ``hardware:``, and the page."""

import time
from collections import Counter
from typing import Any, Dict, List, NamedTuple, Set

from ascend_session import devices
from hardware_tests import limits, page

__all__ = ["Tally"]


class _Failed(NamedTuple):
    test: str
    reason: str


class Tally:
    """Counts the tests of a run by what became of them.

    Args:
        require: Whether a test that cannot run has failed.
    """

    def __init__(self, require: bool) -> None:
        self.chosen = 0
        self._began = time.time()
        self._require = require
        self._ran: Set[str] = set()
        self._failed: Dict[str, _Failed] = {}
        self._missing: Dict[str, str] = {}
        self._elapsed_s: Dict[str, float] = {}

    def add(self, report: Any) -> None:
        """Takes a pytest report in; makes a failure out of a skip where that is asked for."""
        group = _group_of(report.nodeid)
        self._elapsed_s[group] = self._elapsed_s.get(group, 0.0) + report.duration
        if report.skipped:
            reason = _reason(report)
            self._missing[report.nodeid] = reason
            if self._require:
                # "call", so that it counts as a failure of the test and not as a broken fixture.
                report.outcome, report.longrepr, report.when = "failed", reason, "call"
        elif report.nodeid not in self._missing and (report.failed or report.when == "call"):
            self._ran.add(report.nodeid)
            if report.failed:
                self._failed[report.nodeid] = _Failed(
                    report.nodeid.split("::")[-1], _message(report)
                )

    def line(self) -> str:
        """The summary."""
        text = f"hardware: {self._counts()}"
        if self._ran or not self._missing:
            return f"{text}, on {_machine()}"
        return f"{text}: {'; '.join(sorted(set(self._missing.values())))}"

    def make_page(self, folder: str) -> page.Page:
        """Make the page about this run; without facts of the machine if nothing ran.

        Args:
            folder: Where the run wrote what it wrote.
        """
        machine = page.look_at_machine() if self._ran else page.Machine()
        elapsed_s = time.time() - self._began
        ok = not self._failed and not (self._require and self._missing)
        steps = [self._step(group) for group in self._elapsed_s]
        verdict = f"Tests: {self._counts()}."
        return page.Page(
            "hardware tests", verdict, ok, self._began, elapsed_s, folder, machine, steps
        )

    def _counts(self) -> str:
        failed = f" ({len(self._failed)} failed)" if self._failed else ""
        said = [
            f"{len(self._ran)} ran{failed}",
            f"{len(self._missing)} {'could not run' if self._require else 'skipped'}",
        ]
        left = self.chosen - len(self._ran) - len(self._missing)
        said += [f"{left} not reached"] if left else []
        return ", ".join(said)

    def _step(self, group: str) -> page.Step:
        ran, missing = (
            [nodeid for nodeid in some if _group_of(nodeid) == group]
            for some in (self._ran, self._missing)
        )
        failed = [self._failed[nodeid] for nodeid in self._failed if _group_of(nodeid) == group]
        counts = [f"{len(ran)} ran", f"{len(failed)} failed", f"{len(missing)} not run"]
        by_reason: Dict[str, List[str]] = {}
        for test, reason in failed:
            by_reason.setdefault(reason, []).append(test)
        lines = [f"{_name_first(tests)}: {reason}" for reason, tests in by_reason.items()]
        lines += sorted({self._missing[nodeid] for nodeid in missing})
        outcome = page.FAILED if failed else page.PASSED if ran else page.NOT_RUN
        return page.Step(
            name=f"{group} ({', '.join(text for text in counts if not text.startswith('0'))})",
            devices="",
            outcome=outcome,
            elapsed_s=round(self._elapsed_s[group], 3),
            error="\n".join(lines),
        )


def _group_of(nodeid: str) -> str:
    """Name the tests of a module or class: ``collectives TestOnTwo``."""
    module, *names = nodeid.split("[")[0].split("::")
    name = module.split("/")[-1].replace("test_", "", 1).replace(".py", "")
    return " ".join([name, *names[:-1]])


def _name_first(tests: List[str]) -> str:
    return tests[0] if len(tests) == 1 else f"{tests[0]} and {len(tests) - 1} more"


def _message(report: Any) -> str:
    """Give what failed, in a line or two, not where."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash else str(report.longrepr)).strip().splitlines()
    return " ".join(line.strip() for line in lines[:4])[:400]


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
