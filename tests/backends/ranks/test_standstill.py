import time

from tests.backends.ranks.jobs import Job, ends


def test_a_missing_op_is_found_while_the_others_wait_elsewhere(job: Job) -> None:
    members = job.together(8)
    members[3].waiting("b", range(8), 2)
    for member in members:
        if member.rank != 3:
            member.agree("a", range(8), name="grads/a")
    said = ends(members)[0]
    assert "the ranks wait for different collectives" in said
    assert (
        'ranks 0 to 2 and 4 to 7 wait in "grads/a" (allreduce sum float32 [4]) to begin it' in said
    )
    assert 'rank 3 waits in "op/b" (allreduce sum float32 [4]) for the 2nd time' in said


def test_a_different_order_is_found_within_seconds(job: Job) -> None:
    members = job.together(2)
    begun = time.monotonic()
    members[0].waiting("a", [0, 1], 1)
    members[1].waiting("b", [0, 1], 1)
    said = ends(members)
    assert 3 < time.monotonic() - begun < 15
    assert said[0] == said[1]
    assert 'rank 0 waits in "op/a"' in said[0]
    assert 'rank 1 waits in "op/b"' in said[0]


def test_a_rank_that_computes_may_still_come(job: Job) -> None:
    members = job.together(2)
    members[1].do("compute")
    members[0].waiting("a", [0, 1], 1)
    members[1].waiting("b", [0, 1], 1)
    members[0].agree("late", [0], seconds=1)
    members[0].expect("agreed")
    members[0].agree("never", [0, 1], seconds=5)  # longer than a verdict takes
    assert 'did not come to "never"' in ends(members)[1]


def test_what_was_done_is_not_waited_for(job: Job) -> None:
    members = job.together(2)
    members[0].waiting("a", [0, 1], 1)
    members[1].waiting("b", [0, 1], 1)
    members[1].done("b", [0, 1], 1)
    members[0].agree("never", [0, 1], seconds=5)
    assert 'did not come to "never"' in ends(members)[1]


def test_the_same_exchange_on_all_ranks_may_take_long(job: Job) -> None:
    members = job.together(2)
    for member in members:
        member.waiting("a", [0, 1], 4)
    members[0].agree("never", [0, 1], seconds=5)
    assert 'did not come to "never"' in ends(members)[1]


def test_ranks_in_one_exchange_of_different_tensors_hear_so_at_once(job: Job) -> None:
    members = job.together(3)  # both shapes were agreed upon before
    for rank, shape in ((0, "[4]"), (2, "[5]")):
        members[rank].do("waiting", "a", "op/a", [0, 1, 2], 3, f"allreduce sum float32 {shape}")
    begun = time.monotonic()
    said = ends(members)[1]
    assert time.monotonic() - begun < 3
    assert 'rank 0 runs "op/a" as allreduce sum float32 [4]' in said
    assert 'rank 2 runs "op/a" as allreduce sum float32 [5]' in said
