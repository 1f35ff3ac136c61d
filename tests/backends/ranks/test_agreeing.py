import time

from ascend_session.backends.ranks.wording import CANNOT_GO_ON
from tests.backends.ranks.jobs import Job, ends

FAILED = "failed"


def test_eight_ranks_get_the_same_numbers_for_many_keys_at_once(job: Job) -> None:
    members = job.together(8)
    keys = [f"graph 1, hccl_world_group, collective {number}" for number in range(6)]
    for member in members:
        for key in keys if member.rank % 2 else reversed(keys):
            member.agree(key, range(8))
    found = [
        {key: (group, instance) for key, group, instance in (member.expect("agreed") for _ in keys)}
        for member in members
    ]
    assert found == [found[0]] * 8
    assert sorted(found[0].values()) == [(1, number) for number in range(1, 7)]


def test_each_set_of_ranks_has_a_number_of_its_own(job: Job) -> None:
    members = job.together(3)
    numbers = {}
    for key, ranks in (("all", [0, 1, 2]), ("two", [1, 2]), ("again", [0, 1, 2])):
        for rank in ranks:
            members[rank].agree(key, ranks)
        numbers[key] = [members[rank].expect("agreed", key) for rank in ranks]
    assert numbers == {"all": [[1, 1]] * 3, "two": [[2, 2]] * 2, "again": [[1, 3]] * 3}


def test_another_signature_under_the_same_key_gets_another_number(job: Job) -> None:
    members = job.together(2)
    for number, shape in enumerate(("[4]", "[5]", "[4]"), 1):
        for member in members:
            member.agree("k", [0, 1], signature=f"allgather float32 {shape}")
        for member in members:
            member.expect("agreed", "k", 1, number)


def test_a_different_signature_ends_the_job_and_names_ranks_ops_and_signatures(job: Job) -> None:
    members = job.together(3)
    members[0].agree("k", [0, 1, 2], name="loss/Sum", signature="allreduce sum float32 [4]")
    members[2].agree("k", [0, 1, 2], name="loss/Max", signature="allreduce max float32 [4]")
    sentences = ends(members)
    said = sentences[1]
    assert set(sentences.values()) == {said}
    assert said.startswith(CANNOT_GO_ON)
    assert 'rank 0 runs "loss/Sum" as allreduce sum float32 [4]' in said
    assert 'rank 2 runs "loss/Max" as allreduce max float32 [4]' in said
    for rank in (0, 2):
        assert members[rank].expect(FAILED, "k") == [said, "CollectiveError"]
    members[1].agree("other", [0, 1, 2])  # afterwards everything fails at once
    assert members[1].expect(FAILED, "other") == [said, "CollectiveError"]


def test_different_ranks_of_one_collective_end_the_job(job: Job) -> None:
    members = job.together(3)
    members[0].agree("k", [0, 1])
    members[1].agree("k", [0, 1, 2])
    said = ends(members)[2]
    assert 'rank 0 runs "k" as allreduce sum float32 [4] among rank 0 and rank 1' in said
    assert "among ranks 0 to 2" in said


def test_a_rank_that_never_comes_to_a_collective_is_named_in_time(job: Job) -> None:
    members = job.together(3)
    members[2].do("compute")  # so that it may still come
    members[0].agree("k", [0, 1, 2], name="grads/Sum", seconds=30)
    members[1].agree("k", [0, 1, 2], name="grads/Sum", seconds=1)
    begun = time.monotonic()
    said = ends(members)[2]
    assert time.monotonic() - begun < 8
    assert 'rank 2 did not come to "grads/Sum" (allreduce sum float32 [4]) within 1 s' in said


def test_an_operation_of_others_is_refused_and_harms_nobody(job: Job) -> None:
    members = job.together(2)
    members[1].agree("k", [0])
    members[1].agree("l", [0, 1, 2])
    members[1].agree("m", [1, 0])
    for _ in range(3):
        assert "this is rank 1" in members[1].expect(FAILED)[1]
    members[1].agree("n", [1])
    members[1].expect("agreed", "n", 1, 1)


def test_one_key_in_two_threads_at_once_is_refused(job: Job) -> None:
    members = job.together(2)
    members[0].agree("k", [0, 1])
    members[0].agree("k", [0, 1])
    assert "by two threads" in members[0].expect(FAILED, "k")[0]
    members[1].agree("k", [0, 1])
    members[0].expect("agreed", "k", 1, 1)


def test_without_the_others_nothing_can_be_agreed(job: Job) -> None:
    member = job.start(0, 2, seconds=0.2)
    member.expect(FAILED, "join")
    member.agree("k", [0, 1])
    assert "rank 1 of 2 did not come" in member.expect(FAILED, "k")[0]


def test_a_rank_that_fails_tells_all(job: Job) -> None:
    members = job.together(3)
    members[1].do("fail", "ValueError in the exchange.")
    assert set(ends(members).values()) == {
        f"{CANNOT_GO_ON}rank 1 failed: ValueError in the exchange."
    }
    for member in members:
        member.run_out()
        assert member.said() == []
