"""Ranks that wait in different collectives, none of which can ever begin."""

import time

from tests.backends.exchange.jobs import Job, ends

FAILED = "failed"

# A verdict takes half a second then, so that there is less to wait for.
SOON = {"coordinator.STANDSTILL_S": 0.5, "relay.INTERVAL_S": 0.1}


def test_a_missing_op_is_found_while_the_others_wait_elsewhere(job: Job) -> None:
    job.settings = SOON
    members = job.together(8)
    for member in members:
        member.enter("b", range(8))
    for member in members:
        member.expect("entered", "b")
    members[3].enter("b", range(8))
    for member in members:
        if member.rank != 3:
            member.enter("a", range(8), name="grads/a")
    sentence = members[0].expect_end()
    assert "the ranks wait for different collectives" in sentence
    assert (
        'ranks 0 to 2 and 4 to 7 wait in "grads/a" (allreduce sum float32 [4]) to begin it'
        in sentence
    )
    assert 'rank 3 waits in "op/b" (allreduce sum float32 [4]) for the 2nd time' in sentence


def test_a_different_order_is_found_within_seconds(job: Job) -> None:
    members = job.together(2)
    begun = time.monotonic()
    members[0].enter("a", [0, 1])
    members[1].enter("b", [0, 1])
    sentences = [member.expect_end() for member in members]
    assert 3 < time.monotonic() - begun < 30
    assert sentences[0] == sentences[1]
    assert 'rank 0 waits in "op/a"' in sentences[0]
    assert 'rank 1 waits in "op/b"' in sentences[0]


def test_a_rank_that_computes_may_still_come(job: Job) -> None:
    job.settings = SOON
    members = job.together(2)
    members[1].do("compute")
    members[0].enter("a", [0, 1])
    members[1].enter("b", [0, 1])
    members[0].enter("late", [0])
    members[0].expect("entered", "late")
    members[0].enter("never", [0, 1], limit_s=2)  # longer than a verdict takes
    assert 'did not come to "op/never"' in members[1].expect_end()


def test_what_a_rank_has_computed_does_not_put_off_the_verdict(job: Job) -> None:
    job.settings = {**SOON, "standstill.STANDSTILL_S": 0.25}
    members = job.together(2)
    begun = time.monotonic()
    members[1].do("compute", 2.0)
    members[0].enter("a", [0, 1])
    members[1].enter("b", [0, 1])
    assert "the ranks wait for different collectives" in members[0].expect_end()
    # Two seconds are little enough of 67.
    assert 2 < time.monotonic() - begun < 40


def test_a_rank_that_waits_for_nobody_may_still_come(job: Job) -> None:
    job.settings = SOON
    members = job.together(2)
    members[0].enter("a", [0, 1], limit_s=2)  # longer than a verdict takes
    members[0].expect_end()
    assert 'did not come to "op/a"' in ends(members[1:])[1]


def test_a_collective_that_all_have_begun_may_take_long(job: Job) -> None:
    job.settings = SOON
    members = job.together(2)
    for member in members:
        is_held = member.rank == 1
        member.enter("a", [0, 1], data="x", times=100000, is_held=is_held, steps=not is_held)
    for member in members:
        member.expect("entered", "a")
    members[0].enter("never", [0, 1], limit_s=2)
    for _ in range(2):
        assert 'did not come to "op/never"' in members[0].expect_end()
    assert 'did not come to "op/never"' in ends(members[1:])[1]


def test_a_collective_that_does_not_end_within_the_limit_fails_with_its_name(job: Job) -> None:
    members = job.together(2)
    members[0].enter("a", [0, 1], data="x", times=100000, steps=1, limit_s=0.5)
    members[1].enter("a", [0, 1], data="x", times=100000, is_held=True)
    for member in members:
        member.expect("entered", "a")
    sentence, kind = members[0].expect(FAILED, "a")
    assert '"op/a" (allreduce sum float32 [4]) has not ended within 0.5 s' in sentence
    assert kind == "CollectiveError"
