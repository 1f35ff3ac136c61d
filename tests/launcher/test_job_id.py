"""``JOB_ID`` is legal and never the same twice."""

import pytest

from ascend_session import ConfigError, LaunchConfig
from tests.launcher.jobs import Bench, bench

__all__ = ["bench"]


def test_new_ids_are_legal_and_differ(bench: Bench) -> None:
    made = [bench.plan(processes=1).job_id for _ in range(20)]
    assert len(set(made)) == 20
    assert [LaunchConfig(script="a.py", job_id=each).job_id for each in made] == made


def test_an_id_that_is_given_stays_legal_in_later_attempts(bench: Bench) -> None:
    longest = "a" * 120
    assert bench.plan(processes=1, job_id=longest).job_id == longest
    assert bench.plan(2, processes=1, job_id=longest).job_id == f"{longest}_2"
    assert len(bench.plan(9_999_999, processes=1, job_id=longest).job_id) <= 128


@pytest.mark.parametrize("text", ["a b", "a/b", "\u00e4", "a\n", "", "007", "0"])
def test_what_the_vendor_does_not_take_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="job_id"):
        LaunchConfig(script="a.py", job_id=text)
