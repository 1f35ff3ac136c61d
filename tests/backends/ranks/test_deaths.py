import os
import signal
import time
from typing import List

import pytest

from ascend_session.backends.ranks.wording import CANNOT_GO_ON
from tests.backends.ranks.jobs import Job, Member, Wire, ends


@pytest.mark.parametrize("victim", [0, 7])
def test_a_killed_rank_is_named_to_all_others_at_once(job: Job, victim: int) -> None:
    members = job.together(8)
    others = _without(members, victim)
    killed = members[victim].kill()
    sentences = ends(others)
    assert time.monotonic() - killed < 5
    assert set(sentences.values()) == {
        f"{CANNOT_GO_ON}rank {victim} has ended (its connection broke). "
        "Look at its output for the reason."
    }
    for member in others:
        assert member.run_out() == 0
        assert member.log == ""


@pytest.mark.parametrize("victim", [0, 2])
def test_who_agrees_with_a_killed_rank_fails_at_once(job: Job, victim: int) -> None:
    members = job.together(3)
    others = _without(members, victim)
    for member in others:
        member.agree("k", [0, 1, 2], seconds=60)
    members[victim].agree("other", [0, 1, 2], seconds=60)
    killed = members[victim].kill()
    for member in others:
        said = {words[0]: words[1:] for words in (member.next(), member.next())}
        assert f"rank {victim} has ended" in said["end"][0]
        assert said["failed"] == ["k", said["end"][0], "CollectiveError"]
        assert member.run_out() == 0
    assert time.monotonic() - killed < 8


def test_a_script_that_ends_without_leaving_is_a_rank_that_has_ended(job: Job) -> None:
    members = job.together(3)
    assert members[1].run_out() == 0
    assert "rank 1 has ended" in ends(_without(members, 1))[0]


def test_rank_0_that_ends_without_leaving_is_named_and_does_not_hang(job: Job) -> None:
    members = job.together(2)
    members[1].agree("k", [0, 1])
    assert members[0].run_out() == 0
    assert members[0].log == ""
    assert "rank 0 has ended" in str(members[1].next())


def test_rank_0_that_leaves_after_the_end_lets_all_hear_who_failed(job: Job) -> None:
    members = job.together(4)
    members[2].kill()
    members[0].expect("end")
    members[0].do("leave", {})
    assert members[0].run_out() == 0
    assert "rank 2 has ended" in ends([members[1], members[3]])[1]


@pytest.mark.parametrize("victim", [0, 2])
def test_a_death_is_heard_although_a_child_keeps_the_connections_open(
    job: Job, victim: int
) -> None:
    members = job.together(3)
    members[victim].do("fork")
    (child,) = members[victim].expect("child")
    others = _without(members, victim)
    try:
        others[0].agree("k", [0, 1, 2], seconds=60)
        others[1].waiting("l", [0, 1, 2], 1)
        killed = members[victim].kill()
        for member in others:
            said = member.next()
            said = member.next() if said[0] == "failed" else said
            assert said[0] == "end"
            assert f"rank {victim} has ended" in said[1]
        assert time.monotonic() - killed < 10
        for member in others:
            assert member.run_out() == 0
    finally:
        os.kill(child, signal.SIGKILL)
    assert members[victim].log == ""  # nor does gRPC say anything of the fork


def test_a_broken_connection_ends_the_job_on_both_sides_though_all_live(job: Job) -> None:
    wire = Wire(job.address)
    try:
        members = [job.start(rank, 3) for rank in (0, 1)]
        members.append(job.start(2, 3, address=wire.address))
        for member in members:
            member.expect("join")
        members[2].agree("k", [0, 1, 2])
        members[1].agree("k", [0, 1, 2])
    finally:
        wire.cut()  # and perhaps what was to say so on it
    for member, other in ((members[1], 2), (members[2], 0)):
        said = {words[0]: words[1:] for words in (member.next(), member.next())}
        assert f"rank {other} has ended" in said["end"][0]
        assert said["failed"] == ["k", said["end"][0], "CollectiveError"]
    assert "rank 2 has ended" in ends(members[:1])[0]
    for member in members:
        member.do("leave", {})
        assert member.expect("leave")[0] < 3
        assert member.run_out() == 0


def test_a_rank_0_that_does_not_answer_is_named_in_time(job: Job) -> None:
    members = job.together(2)
    os.kill(members[0].pid, signal.SIGSTOP)
    members[1].agree("k", [0, 1], seconds=1)
    assert (
        "rank 0, which keeps the ranks together, has not answered for 1 s"
        in (members[1].expect("end")[0])
    )
    members[1].expect("failed", "k")
    members[1].do("leave", {})
    assert members[1].expect("leave")[0] < 3
    assert members[1].run_out() == 0


def _without(members: List[Member], rank: int) -> List[Member]:
    return [member for member in members if member.rank != rank]
