"""A signal ends a rank also while it waits for the others in a collective."""

import signal

import pytest

from tests.rank_processes import Ranks


@pytest.mark.parametrize("session", ["own", "ours"])
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_rank_that_waits_for_others(
    ranks: Ranks, session: str, signum: int
) -> None:
    with ranks.start("waiting", 2, session) as job:
        job.await_said(1)
        job.send(0, signum)
        job.await_said(2, rank=0)
        job.send(1, signal.SIGKILL)
        waited, _ = job.results()
    assert waited.said == ["in", "left"]
    ended = -signal.SIGTERM if signum == signal.SIGTERM else (1, 130, -signal.SIGINT)
    assert waited.code == ended or waited.code in (ended if isinstance(ended, tuple) else ())
    assert "Second signal" not in waited.log
