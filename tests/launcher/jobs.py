"""Hosts and launches for the tests of the plan."""

from pathlib import Path
from typing import Any, Dict, Iterator, Sequence

import pytest

from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.plan.plan import Plan, plan_job
from tests.fake_host import FakeHost

__all__ = ["Bench", "bench"]


class Bench:
    """A host, a script, a rank table, and an environment in which launches are planned."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = FakeHost(folder / "host")
        self.table = folder / "table.json"
        self.table.write_text("{}")
        (folder / "train.py").write_text("print('here')\n")
        self.environ: Dict[str, str] = {**self.host.environ, "PATH": "/usr/bin:/bin"}

    def nodes(self, ids: Sequence[int]) -> None:
        """Gives the host devices."""
        self.host.nodes(ids)

    def config(self, **asked: Any) -> LaunchConfig:
        """A launch of the script, unless something else is to be started.

        Ranks are not bound, for how many CPUs there are is the test machine's affair.
        """
        what = {} if {"module", "program"} & set(asked) else {"script": "train.py"}
        return LaunchConfig(**{**what, "bind": "none", "cwd": str(self.folder), **asked})

    def plan(self, attempt: int = 1, **asked: Any) -> Plan:
        """The plan of such a launch."""
        return plan_job(self.config(**asked), self.environ, attempt=attempt)

    def with_table(self, **asked: Any) -> Plan:
        """The plan of such a launch, with a rank table."""
        return self.plan(rank_table=str(self.table), **asked)

    def close(self) -> None:
        """Take the host away."""
        self.host.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """An empty host, which has no device."""
    made = Bench(tmp_path)
    yield made
    made.close()
