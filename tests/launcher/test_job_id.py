"""``JOB_ID`` is legal and never the same twice."""

import pytest

from ascend_session.launcher.environment import id_of_attempt, job_id_fault, new_job_id


def test_new_ids_are_legal_and_differ() -> None:
    made = [new_job_id() for _ in range(100)]
    assert len(set(made)) == 100
    assert [job_id_fault(one) for one in made] == [""] * 100


def test_an_id_that_is_given_stays_legal_in_later_attempts() -> None:
    longest = "a" * 120
    assert job_id_fault(longest) == ""
    assert id_of_attempt(longest, 1) == longest
    assert id_of_attempt(longest, 2) == f"{longest}_2"
    assert len(id_of_attempt(longest, 9_999_999)) <= 128


@pytest.mark.parametrize("text", ["a b", "a/b", "\u00e4", "a\n", "", "007", "0"])
def test_what_the_vendor_does_not_take_has_a_fault(text: str) -> None:
    assert job_id_fault(text)
