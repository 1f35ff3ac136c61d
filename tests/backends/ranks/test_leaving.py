import pytest

from tests.backends.ranks.jobs import Job, ends


def test_ranks_that_leave_together_hear_of_no_failure(job: Job) -> None:
    members = job.together(8)
    for member in members:
        member.do("leave", {})
    for member in members:
        assert member.expect("leave")[0] < 2
        assert member.run_out() == 0
        assert member.said() == []
        assert member.log == ""


def test_a_rank_that_leaves_does_not_wait_longer_than_two_seconds(job: Job) -> None:
    members = job.together(2)
    members[1].do("leave", {})
    assert 1.5 < members[1].expect("leave")[0] < 4
    assert members[1].run_out() == 0
    members[0].agree("alone", [0])
    members[0].expect("agreed", "alone")
    members[0].do("leave", {})
    assert members[0].expect("leave")[0] < 1


def test_leaving_does_not_raise_when_another_dies_meanwhile(job: Job) -> None:
    members = job.together(3)
    members[0].do("leave", {})
    members[2].kill()
    members[0].expect("leave")
    members[1].expect("end")
    members[0].run_out()
    assert members[0].said() == []


def test_to_agree_with_a_rank_that_has_left_fails_at_once_and_names_it(job: Job) -> None:
    members = job.together(3)
    members[2].do("leave", {})
    members[2].expect("leave")
    members[0].agree("k", [0, 1, 2], name="grads/k")
    said = ends(members[:2])
    assert said[0] == said[1]
    assert "rank 2 has left (it closed its system), but rank 0 waits for it" in said[0]
    assert '"grads/k"' in said[0]
    members[0].expect("failed", "k", said[0])


def test_ranks_that_wait_to_agree_hear_that_one_leaves(job: Job) -> None:
    members = job.together(3)
    for member in members[:2]:
        member.agree("k", [0, 1, 2])
    members[0].agree("one", [0])
    members[0].expect("agreed", "one")
    members[2].do("leave", {})
    assert "rank 2 has left" in ends(members[:1])[0]


@pytest.mark.parametrize("leaves_first", [True, False])
def test_who_waits_for_more_than_a_rank_has_done_can_never_go_on(
    job: Job, leaves_first: bool
) -> None:
    members = job.together(2)
    if leaves_first:
        members[1].do("leave", {"a": 2})
        members[1].expect("leave")
    members[0].waiting("a", [0, 1], 3)
    if not leaves_first:
        members[1].do("leave", {"a": 2})
    said = ends(members[:1])[0]
    assert "rank 1 has left (it closed its system), but rank 0 waits for it" in said
    assert "for the 3rd time" in said


def test_who_waits_for_what_a_rank_has_done_before_it_left_goes_on(job: Job) -> None:
    members = job.together(3)
    members[1].do("leave", {"a": 3})
    members[1].expect("leave")
    members[0].waiting("a", [0, 1, 2], 3)
    members[0].done("a", [0, 1, 2], 3)
    for rank in (0, 2):
        members[rank].do("leave", {"a": 3})
    for rank in (0, 2):
        members[rank].expect("leave")


def test_rank_0_that_has_left_and_ended_is_no_failure(job: Job) -> None:
    members = job.together(3)
    members[0].do("leave", {"a": 1})
    members[0].expect("leave")
    assert members[0].run_out() == 0
    members[1].waiting("a", [0, 1, 2], 1)
    members[1].agree("k", [1, 2])
    assert "rank 0 has left" in members[1].expect("failed", "k")[0]
    members[2].waiting("a", [0, 1, 2], 2)  # rank 0 did it once only
    assert "rank 0 has left" in ends(members[2:])[2]
    members[1].do("leave", {"a": 1})
    assert members[1].expect("leave")[0] < 2
    assert members[1].run_out() == 0


def test_after_leaving_nothing_can_be_agreed(job: Job) -> None:
    members = job.together(1)
    members[0].do("leave", {})
    members[0].agree("k", [0])
    members[0].expect("leave")
    assert "has left the others" in members[0].expect("failed", "k")[0]
