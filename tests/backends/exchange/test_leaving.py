"""Ranks that close their systems: together, early, or while others still wait for them."""

import pytest

from tests.backends.exchange.jobs import HASTY, Job, ends, leave

FAILED = "failed"


def run_through(job: Job, key: str, times: int) -> None:
    """Let all ranks run a collective so often."""
    everybody = [member.rank for member in job.members]
    for _ in range(times):
        for member in job.members:
            member.enter(key, everybody)
        for member in job.members:
            member.expect("entered", key)


def test_ranks_that_leave_together_hear_of_no_failure(job: Job) -> None:
    members = job.together(8)
    leave(members)


def test_a_rank_that_leaves_does_not_wait_longer_than_two_seconds(job: Job) -> None:
    members = job.together(2)
    members[1].do("leave")
    assert 1.5 < members[1].expect("leave")[0] < 4
    assert members[1].run_out() == 0
    members[0].enter("alone", [0])
    members[0].expect("entered", "alone")
    members[0].do("leave")
    assert members[0].expect("leave")[0] < 1


def test_leaving_does_not_raise_when_another_dies_meanwhile(job: Job) -> None:
    members = job.together(3)
    members[0].do("leave")
    members[2].kill()
    members[0].expect("leave")
    ends(members[1:2])
    members[0].run_out()
    assert members[0].remaining() == []


def test_to_enter_a_collective_of_a_rank_that_has_left_fails_at_once_and_names_it(
    job: Job,
) -> None:
    job.settings = HASTY
    members = job.together(3)
    members[2].do("leave")
    members[2].expect("leave")
    members[0].enter("k", [0, 1, 2], name="grads/k")
    sentence = members[0].expect_end()
    assert "rank 2 has left (it closed its system), but rank 0 waits for it" in sentence
    assert '"grads/k"' in sentence
    assert ends(members[1:2]) == {1: sentence}


def test_ranks_that_wait_in_a_collective_hear_that_one_leaves(job: Job) -> None:
    members = job.together(3)
    members[1].enter("k", [0, 1, 2])
    members[0].enter("k", [0, 1, 2])
    members[0].enter("one", [0])
    members[0].expect("entered", "one")
    members[2].do("leave")
    sentence = members[0].expect_end()
    assert "rank 2 has left" in sentence


@pytest.mark.parametrize("leaves_first", [True, False])
def test_who_waits_for_more_than_a_rank_has_done_can_never_go_on(
    job: Job, leaves_first: bool
) -> None:
    job.settings = HASTY
    members = job.together(2)
    run_through(job, "a", 2)
    if leaves_first:
        members[1].do("leave")
        members[1].expect("leave")
    members[0].enter("a", [0, 1])
    if not leaves_first:
        members[1].do("leave")
    sentence = members[0].expect_end()
    assert "rank 1 has left (it closed its system), but rank 0 waits for it" in sentence
    assert "for the 3rd time" in sentence


def test_what_a_rank_has_done_before_it_left_goes_on_for_the_others(job: Job) -> None:
    job.settings = HASTY
    members = job.together(3)
    for member in members:  # the others are in the midst of it still
        is_held = member.rank != 1
        member.enter("a", [0, 1, 2], data="x", times=100000, is_held=is_held)
    for member in members:
        member.expect("entered", "a")
    members[1].enter("alone", [1])
    members[1].expect("entered", "alone")
    members[1].do("leave")
    members[1].expect("leave")
    for rank in (0, 2):
        members[rank].do("release")
        members[rank].enter("b", [0, 2])
    for rank in (0, 2):
        members[rank].expect("entered", "b")
        members[rank].do("leave")
    for rank in (0, 2):
        members[rank].expect("leave")


def test_ranks_go_on_among_themselves_while_the_process_of_rank_0_lives(job: Job) -> None:
    job.settings = HASTY
    members = job.together(3)
    members[0].do("leave")
    members[0].expect("leave")
    for rank in (1, 2):
        members[rank].enter("k", [1, 2], data="x", times=100000, steps=1)
    for rank in (1, 2):
        members[rank].expect("entered", "k")


def test_rank_0_that_has_left_and_ended_is_no_failure(job: Job) -> None:
    job.settings = HASTY
    members = job.together(3)
    run_through(job, "a", 1)
    members[0].do("leave")
    members[0].expect("leave")
    members[2].enter("l", [1, 2], limit_s=60)
    assert members[0].run_out() == 0
    # Whom it has left hears so when it wants something of the others, and not before.
    assert "rank 0 has left" in members[2].expect(FAILED, "l")[0]
    members[1].enter("k", [1, 2])
    assert "rank 0 has left" in members[1].expect(FAILED, "k")[0]
    for rank in (1, 2):
        members[rank].do("leave")
        assert members[rank].expect("leave")[0] < 2
        assert members[rank].run_out() == 0
        assert members[rank].remaining() == []


def test_after_leaving_nothing_can_be_entered(job: Job) -> None:
    members = job.together(1)
    members[0].do("leave")
    members[0].enter("k", [0])
    members[0].expect("leave")
    assert "has left the others" in members[0].expect(FAILED, "k")[0]


def test_who_waits_in_a_thread_hears_that_its_own_rank_leaves(job: Job) -> None:
    job.settings = HASTY
    members = job.together(2)
    members[0].enter("k", [0, 1])
    members[0].enter("one", [0])
    members[0].expect("entered", "one")
    members[0].do("leave")
    found = members[0].expect_each("leave", FAILED)
    assert "has left the others" in found[FAILED][1]


def test_a_group_that_closes_for_a_failure_tells_the_others_the_reason(job: Job) -> None:
    members = job.together(3, begin="open")
    members[1].do("close", "the data ran out")
    members[1].expect("close")
    for rank in (0, 2):
        members[rank].do("reduce", "k", {"ranks": [0, 1, 2], "count": 4})
        sentence, kind = members[rank].expect(FAILED, "k")
        assert "rank 1 failed: RuntimeError: the data ran out" in sentence
        assert kind == "CollectiveError"


def test_who_closes_without_a_failure_has_only_left(job: Job) -> None:
    members = job.together(2, begin="open")
    for member in members:
        member.do("reduce", "k", {"ranks": [0, 1], "count": 4})
    for member in members:
        member.expect("reduced", "k")
        member.do("close")
    for member in members:
        assert member.expect("close")[0] < 2
        assert member.run_out() == 0
        assert member.log == ""


def test_a_rank_that_cannot_go_on_in_a_collective_says_so(job: Job) -> None:
    members = job.together(2, begin="open")
    members[1].do("share", "k", {"ranks": [0, 1], "sizes": [1]})  # it has none for itself
    assert members[1].expect(FAILED, "k")[1] == "IndexError"
    members[0].do("reduce", "k", {"ranks": [0, 1], "count": 4})
    sentence, _ = members[0].expect(FAILED, "k")
    assert 'rank 1 failed: in "op/k"' in sentence


def test_no_rank_is_told_an_end_in_a_job_that_ended_in_order(job: Job) -> None:
    members = job.together(4)
    run_through(job, "a", 3)
    for member in reversed(members):
        member.do("leave")
    for member in members:
        member.expect("leave")
        assert member.run_out() == 0
        assert member.remaining() == []
