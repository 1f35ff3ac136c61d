"""What the ranks say to each other before a collective: that all mean the same."""

import time
from pathlib import Path
from typing import Any

import tenacity

from ascend_session.backends.exchange.messages import CANNOT_GO_ON
from ascend_session.cluster.member import read_members
from ascend_session.cluster.variables import RANK_FOLDER
from tests.backends.exchange.jobs import PATIENCE_S, Job, ends

FAILED = "failed"


def test_eight_ranks_enter_many_collectives_at_once_in_any_order(job: Job) -> None:
    members = job.together(8)
    keys = [f"graph 1, hccl_world_group, collective {number}" for number in range(6)]
    for member in members:
        for key in keys if member.rank % 2 else reversed(keys):
            member.enter(key, range(8), data=f"{member.rank} in {key}")
    for member in members:
        found = {key: texts for key, _, texts in (member.expect("entered") for _ in keys)}
        assert found == {key: [f"{rank} in {key}" for rank in range(8)] for key in keys}


def test_a_long_wait_says_whether_it_is_the_first_one_there(job: Job, tmp_path: Path) -> None:
    job.env[RANK_FOLDER] = str(tmp_path)
    members = job.together(2)
    members[0].do("record")
    found = []
    for _ in range(2):
        members[0].enter("k", [0, 1])
        found.append(wait_in(tmp_path).is_first)
        members[1].enter("k", [0, 1])
        for member in members:
            member.expect("entered", "k")
    assert found == [True, False]


@tenacity.retry(stop=tenacity.stop_after_delay(PATIENCE_S), wait=tenacity.wait_fixed(0.01))
def wait_in(folder: Path) -> Any:
    """What the one process that has this folder waits in, as soon as it waits for long."""
    ((wait,),) = (member.waits for member in read_members(str(folder)))
    return wait


def test_each_set_of_ranks_enters_without_the_others(job: Job) -> None:
    members = job.together(3)
    for key, ranks in (("all", [0, 1, 2]), ("two", [1, 2]), ("again", [0, 1, 2]), ("one", [1])):
        for rank in ranks:
            members[rank].enter(key, ranks, data=f"rank {rank}")
        for rank in ranks:
            assert members[rank].expect("entered", key)[1] == [f"rank {other}" for other in ranks]


def test_the_same_collective_may_have_another_signature_in_each_run(job: Job) -> None:
    members = job.together(2)
    for shape in ("[4]", "[5]", "[4]"):
        for member in members:
            member.enter("k", [0, 1], signature=f"allgather float32 {shape}")
        for member in members:
            member.expect("entered", "k")


def test_ranks_hear_what_each_has_and_how_much(job: Job) -> None:
    members = job.together(3)
    for member, times in zip(members, (0, 3, 1)):
        member.enter("few", [0, 1, 2], data="é", times=times)
    for member in members:
        assert member.expect("entered", "few") == [[0, 6, 2], ["", "ééé", "é"]]
    for member, times in zip(members, (0, 300000, 1)):
        member.enter("many", [0, 1, 2], data="x", times=times)
    for member in members:
        assert member.expect("entered", "many") == [[0, 300000, 1], None]


def test_a_different_signature_ends_the_job_and_names_ranks_ops_and_signatures(job: Job) -> None:
    members = job.together(3)
    members[0].enter("k", [0, 1, 2], name="loss/Sum", signature="allreduce sum float32 [4]")
    members[2].enter("k", [0, 1, 2], name="loss/Max", signature="allreduce max float32 [4]")
    sentence = ends(members[1:2])[1]
    assert sentence.startswith(CANNOT_GO_ON)
    assert 'rank 0 runs "loss/Sum" as allreduce sum float32 [4]' in sentence
    assert 'rank 2 runs "loss/Max" as allreduce max float32 [4]' in sentence
    for rank in (0, 2):
        assert members[rank].expect_end() == sentence
    members[1].enter("other", [0, 1, 2])  # afterwards everything fails at once
    assert members[1].expect(FAILED, "other") == [sentence, "CollectiveError"]


def test_different_signatures_in_a_later_run_are_heard_of_at_once(job: Job) -> None:
    members = job.together(3)
    for member in members:
        member.enter("a", [0, 1, 2])
    for member in members:
        member.expect("entered", "a")
    for rank, shape in ((0, "[4]"), (2, "[5]")):
        members[rank].enter("a", [0, 1, 2], signature=f"allreduce sum float32 {shape}")
    begun = time.monotonic()
    sentence = ends(members[1:2])[1]
    assert time.monotonic() - begun < 15
    assert 'rank 0 runs "op/a" as allreduce sum float32 [4]' in sentence
    assert 'rank 2 runs "op/a" as allreduce sum float32 [5]' in sentence


def test_other_names_of_one_collective_are_no_difference(job: Job) -> None:
    members = job.together(2)
    for member in members:
        member.enter("k", [0, 1], name=f"tower_{member.rank}/Sum")
    for member in members:
        member.expect("entered", "k")


def test_different_ranks_of_one_collective_end_the_job(job: Job) -> None:
    members = job.together(3)
    members[0].enter("k", [0, 1])
    members[1].enter("k", [0, 1, 2])
    sentence = ends(members[2:])[2]
    assert 'rank 0 runs "op/k" as allreduce sum float32 [4] among rank 0 and rank 1' in sentence
    assert "among ranks 0 to 2" in sentence


def test_a_rank_that_never_comes_to_a_collective_is_named_in_time(job: Job) -> None:
    members = job.together(3)
    members[2].do("compute")  # so that it may still come
    members[0].enter("k", [0, 1, 2], name="grads/Sum", limit_s=30)
    members[1].enter("k", [0, 1, 2], name="grads/Sum", limit_s=1)
    begun = time.monotonic()
    sentence = ends(members[2:])[2]
    assert time.monotonic() - begun < 25
    assert 'rank 2 did not come to "grads/Sum" (allreduce sum float32 [4]) within 1 s' in sentence
    assert members[1].expect_end() == sentence


def test_a_rank_that_comes_in_time_is_waited_for_without_a_limit(job: Job) -> None:
    members = job.together(2)
    members[0].enter("k", [0, 1], limit_s=None)
    members[1].enter("k", [0, 1], limit_s=None)
    for member in members:
        member.expect("entered", "k")


def test_without_the_others_nothing_can_be_entered(job: Job) -> None:
    member = job.start(0, 2, timeout_s=0.2)
    member.expect(FAILED, "join")
    member.enter("k", [0, 1])
    assert "rank 1 of 2 did not come" in member.expect(FAILED, "k")[0]


def test_a_rank_that_fails_tells_all(job: Job) -> None:
    members = job.together(3)
    members[1].do("fail", "ValueError in the exchange.")
    assert set(ends(members).values()) == {
        f"{CANNOT_GO_ON}rank 1 failed: ValueError in the exchange."
    }
    for member in members:
        member.run_out()
        assert member.remaining() == []


def test_a_rank_that_fails_in_the_midst_of_a_collective_lets_nobody_wait(job: Job) -> None:
    members = job.together(3)
    for member in members:
        is_held = member.rank == 1
        member.enter("k", [0, 1, 2], data="x", times=100000, is_held=is_held, steps=not is_held)
    for member in members:
        member.expect("entered", "k")
    members[1].do("fail", "ValueError in the exchange.")
    for member in (members[0], members[2]):
        member.expect_end()
