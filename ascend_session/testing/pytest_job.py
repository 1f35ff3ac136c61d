"""A test of pytest as the ranks of a job.

``python -m ascend_session.testing.pytest_job`` is one of them, itself a run of pytest.
"""

import json
import os
import pickle
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional

import pytest

from ascend_session.errors import AscendError
from ascend_session.testing.rank import enter_rank
from ascend_session.testing.ranks import run_job

WORK = "pytest.pickle"


def name_report(folder: str, rank: int) -> str:
    """Return the path of the file with what became of the test in a rank."""
    return os.path.join(folder, f"report_{rank}.json")


def run_item(item: pytest.Function, mark: pytest.Mark) -> None:
    """Run a test in ranks, and fail or skip as it did there.

    Raises:
        Failed: With what pytest reports in the rank that failed first.
        Skipped: If every rank skipped it.
    """
    size, timeout = _read_mark(*mark.args, **mark.kwargs)
    if size is None:
        pytest.fail(
            f"{mark.name} takes a number of ranks, not {mark.args!r}; write "
            "@pytest.mark.ranks(2), or @pytest.mark.ranks(2, timeout=60).",
            pytrace=False,
        )
    with tempfile.TemporaryDirectory(prefix="ranks_") as folder:
        with open(os.path.join(folder, WORK), "wb") as file:
            pickle.dump(_describe(item), file)
        refused = ""
        try:
            module = "ascend_session.testing.pytest_job"
            ended = run_job(module, item.name, size, timeout, folder, os.environ)
        except AscendError as error:
            refused = str(error)
        if refused:
            pytest.fail(refused, pytrace=False)
        reports = [_read_report(folder, rank) for rank in range(size)]
    failed = [rank for rank, report in enumerate(reports) if report.get("failed")]
    if failed:
        first = ended.rank if ended.rank in failed else failed[0]
        pytest.fail(f"rank {first} of {size}:\n{reports[first]['failed']}", pytrace=False)
    if ended.code:
        pytest.fail(f"{ended.message}\n\n{ended.details}".rstrip(), pytrace=False)
    missing = [rank for rank, report in enumerate(reports) if not report]
    if missing:
        pytest.fail(f"rank {missing[0]} exited without running the test", pytrace=False)
    skipped = [report["skipped"] for report in reports if report.get("skipped")]
    if len(skipped) == size:
        pytest.skip(skipped[0])


def _read_mark(size: Any = None, timeout: Any = 300, **others: Any) -> Any:
    is_size = isinstance(size, int) and not isinstance(size, bool) and size > 0
    is_timeout = isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and timeout > 0
    return (size, timeout) if is_size and is_timeout and not others else (None, None)


def _describe(item: pytest.Function) -> Dict[str, Any]:
    """Describe what each rank needs to run the test as this process would."""
    words = item.nodeid.split("::")
    words[0] = str(item.path)
    options = {name: value for name, value in vars(item.config.option).items() if _is_plain(value)}
    # What a worker of pytest-xdist does not do, a rank does not do either.
    options.update(usepdb=False, trace=False, numprocesses=None, dist="no", tx=[], maxfail=0)
    options.pop("file_or_dir", None)  # else argparse warns that it is there already
    # A rank has imported the package before pytest looks for what it rewrites.
    no_rewriting = "ignore::pytest.PytestAssertRewriteWarning"
    options["pythonwarnings"] = [*(options.get("pythonwarnings") or []), no_rewriting]
    shared = item.funcargs.get("tmp_path")
    return {
        "test": "::".join(words),
        "options": options,
        "tmp_path": None if shared is None else str(shared),
    }


def _is_plain(value: Any) -> bool:
    try:
        pickle.dumps(value)
    except Exception:  # pickle raises whatever the class of a value does
        return False
    return True


def _read_report(folder: str, rank: int) -> Dict[str, Any]:
    try:
        with open(name_report(folder, rank), encoding="utf-8") as file:
            report: Dict[str, Any] = json.load(file)
    except FileNotFoundError:
        return {}
    return report


def write_report(folder: str, rank: int, reports: List[pytest.TestReport]) -> None:
    """Write what became of the test in this rank."""
    failed = "\n".join(report.longreprtext for report in reports if report.failed)
    sections = "".join(
        f"\n--- {title} ---\n{text}"
        for report in reports[-1:]
        for title, text in report.sections
        if text.strip()
    )
    reasons = [report.longrepr[2] for report in reports if report.skipped]  # type: ignore[index]
    values = {
        "ran": True,
        "failed": failed and failed + sections,
        "skipped": reasons[0] if reasons else "",
    }
    with open(name_report(folder, rank), "w", encoding="utf-8") as file:
        json.dump(values, file)


class _Rank:
    """A plugin of pytest that notes what becomes of the test."""

    def __init__(self, shared: Optional[str]) -> None:
        self.reports: List[pytest.TestReport] = []
        self._shared = shared

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what became of a phase of the test."""
        self.reports.append(report)

    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Optional[Path]:
        """Give ``tmp_path``, which the ranks share."""
        if fixturedef.argname != "tmp_path" or self._shared is None:
            return None
        path = Path(self._shared)
        fixturedef.cached_result = (path, fixturedef.cache_key(request), None)
        return path


def _main() -> int:
    folder, number = enter_rank()
    with open(os.path.join(folder, WORK), "rb") as file:
        work = pickle.load(file)
    rank = _Rank(work["tmp_path"])
    # As pytest-xdist makes the configuration of its workers.
    options = {**work["options"], "runxfail": True}
    config = pytest.Config.fromdictargs(options, [work["test"]])
    config.pluginmanager.register(rank, "ascend_session_rank")
    code = config.hook.pytest_cmdline_main(config=config)
    if rank.reports:
        write_report(folder, number, rank.reports)
    return int(code)


if __name__ == "__main__":
    sys.exit(_main())
