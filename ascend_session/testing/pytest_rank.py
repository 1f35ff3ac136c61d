"""``python -m ascend_session.testing.pytest_rank``: one rank of a test, as a run of pytest."""

import os
import pickle
import sys
from pathlib import Path
from typing import Any, List, Optional

import pytest

from ascend_session.testing.pytest_job import WORK, write_report
from ascend_session.testing.rank import enter_rank


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
