import socket
import time

import psutil
import pytest

from tests.backends.ranks.jobs import PATIENCE, Job, Member

FAILED = ("failed", "join")


def test_eight_ranks_meet_at_a_port_that_is_held_for_them(job: Job) -> None:
    assert len(job.together(8)) == 8  # while the job holds the port bound


def test_the_service_listens_on_loopback_only(job: Job) -> None:
    job.together(1)
    host, port = job.address.split(":")
    with socket.create_connection((host, int(port)), 10):
        pass
    with socket.socket() as other:  # all of 127.0.0.0/8 is this machine
        assert other.connect_ex(("127.0.0.2", int(port))) != 0


def test_ranks_that_do_not_come_are_named_to_all_others(job: Job) -> None:
    members = [job.start(rank, 4, seconds=3) for rank in (0, 1)]
    for member in members:
        sentence, kind = member.expect(*FAILED)
        assert "rank 2 and rank 3 of 4 did not come within 3 s" in sentence
        assert kind == "InitializationError"
        assert member.run_out() == 0
        assert member.log == ""


def test_a_missing_rank_0_is_named_by_the_others(job: Job) -> None:
    member = job.start(1, 2, seconds=1)
    sentence, _ = member.expect(*FAILED)
    assert "rank 0 of 2 did not come within 1 s" in sentence
    assert job.address in sentence
    assert member.run_out() == 0


def test_rank_0_may_come_last(job: Job) -> None:
    early = job.start(1, 2, seconds=30)
    job.start(0, 2).expect("join")
    assert early.expect("join")[0] < 30


def test_a_rank_that_comes_too_late_hears_so_at_once(job: Job) -> None:
    job.start(0, 2, seconds=0.5).expect(*FAILED)
    late = job.start(1, 2, seconds=30)
    sentence, _ = late.expect(*FAILED)
    assert "rank 1 came when the others had given up: rank 1 of 2 did not come" in sentence


def test_after_a_failed_meeting_the_same_processes_can_meet(job: Job) -> None:
    first = job.start(0, 2, seconds=0.5)
    first.expect(*FAILED)
    second = job.start(1, 2)
    second.expect(*FAILED)
    for member in (first, second):
        member.do("again")
    second.do("join")
    first.do("join")
    first.expect("join")
    second.expect("join")


def test_ranks_that_waited_for_rank_0_in_vain_can_meet_it_later(job: Job) -> None:
    early = job.start(1, 2, seconds=0.5)
    early.expect(*FAILED)
    late = job.start(0, 2)
    for _ in range(40):  # until rank 0 is there
        early.do("again")
        early.do("join")
        if early.next()[0] == "join":
            break
    late.expect("join")


def test_a_death_during_the_rendezvous_is_heard_at_once(job: Job) -> None:
    members = [job.start(rank, 4, seconds=60) for rank in (0, 1, 2)]
    _until_there(job, members[1], 4)
    _until_there(job, members[2], 4)
    killed = members[1].kill()
    for member in (members[0], members[2]):
        sentence, _ = member.expect(*FAILED)
        assert "rank 1 has ended before all ranks were there" in sentence
    assert time.monotonic() - killed < 5


def test_the_death_of_rank_0_during_the_rendezvous_is_heard_at_once(job: Job) -> None:
    members = [job.start(rank, 3, seconds=60) for rank in (0, 1)]
    _until_there(job, members[1], 3)
    killed = members[0].kill()
    sentence, _ = members[1].expect(*FAILED)
    assert "rank 0 has ended before all ranks were there" in sentence
    assert time.monotonic() - killed < 5


def test_a_process_of_another_job_is_refused_and_harms_nobody(job: Job) -> None:
    job.start(0, 2)
    stranger = job.start(1, 2, job="another")
    sentence, _ = stranger.expect(*FAILED)
    assert "the ranks of another job meet there" in sentence
    job.start(1, 2).expect("join")


def test_a_second_process_of_a_rank_is_refused_and_harms_nobody(job: Job) -> None:
    members = job.together(2)
    second = job.start(1, 2)
    sentence, _ = second.expect(*FAILED)
    assert f"process {members[1].pid} is that already" in sentence
    for member in members:
        member.agree("k", [0, 1])
    assert [member.expect("agreed") for member in members] == [["k", 1, 1]] * 2


def test_a_second_rank_0_is_refused_and_harms_nobody(job: Job) -> None:
    members = job.together(2)
    sentence, _ = job.start(0, 2).expect(*FAILED)
    assert "another process does" in sentence
    members[1].agree("k", [0, 1])
    members[0].agree("k", [0, 1])
    members[1].expect("agreed", "k")


def test_a_rank_with_another_size_is_refused_and_all_hear_why(job: Job) -> None:
    first = job.start(0, 2)
    sentence, _ = job.start(1, 3).expect(*FAILED)
    assert "Rank 1 says that the job has 3 ranks, rank 0 says 2" in sentence
    assert "the same RANK_SIZE; `ascend-session launch` makes it from --nnodes and -n" in sentence
    heard, _ = first.expect(*FAILED)
    assert "rank 1 says that the job has 3 ranks, rank 0 says 2" in heard


def test_a_rank_with_another_size_harms_nobody_who_has_met(job: Job) -> None:
    members = job.together(2)
    sentence, _ = job.start(1, 3).expect(*FAILED)
    assert "Rank 1 says that the job has 3 ranks" in sentence
    for member in members:
        member.agree("k", [0, 1])
    assert [member.expect("agreed") for member in members] == [["k", 1, 1]] * 2


def test_a_rank_out_of_range_is_refused(job: Job) -> None:
    job.start(0, 2)
    sentence, _ = job.start(2, 2).expect(*FAILED)
    assert "the 2 ranks of the job are 0 to 1" in sentence


@pytest.mark.parametrize("address", ["127.0.0.1", "here:", ":4000", "here:0", "::1:4000"])
def test_what_is_no_address_is_refused(job: Job, address: str) -> None:
    sentence, kind = job.start(0, 2, address=address).expect(*FAILED)
    assert repr(address) in sentence
    assert kind == "JobError"


def test_a_proxy_of_the_environment_is_not_asked(job: Job) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("http_proxy", "http://127.0.0.1:9")
        members = [job.start(rank, 2) for rank in (0, 1)]
        for member in members:
            member.expect("join")


def test_two_systems_one_after_the_other_go_on_counting(job: Job) -> None:
    members = job.together(3)
    numbers = []
    for _ in range(2):
        for key in ("a", "b"):
            for member in members:
                member.agree(key, [0, 1, 2])
            numbers += [member.expect("agreed", key) for member in members]
        for member in members:
            member.do("leave", {})
            member.do("again")
            member.do("join")  # some are there while others still leave
        for member in members:
            assert member.expect("leave")[0] < 2
            member.expect("join")
    assert numbers == [[1, 1]] * 3 + [[1, 2]] * 3 + [[2, 3]] * 3 + [[2, 4]] * 3


def test_a_rank_that_joins_again_early_is_no_death_and_disturbs_nobody(job: Job) -> None:
    members = job.together(3)
    members[2].do("leave", {})
    members[2].expect("leave")
    members[2].do("again")
    members[2].do("join")
    for member in members[:2]:
        member.agree("k", [0, 1])
    for member in members[:2]:
        member.expect("agreed", "k")
    for member in members[:2]:
        member.do("leave", {"k": 1})
        member.do("again")
        member.do("join")
    for member in members[:2]:
        member.expect("leave")
        member.expect("join")
    members[2].expect("join")
    for member in members:
        member.do("leave", {})
    for member in members:
        member.expect("leave")
        member.run_out()
        assert member.said() == []


def _until_there(job: Job, member: Member, size: int) -> None:
    """A second process of a rank is refused as soon as the first one is there."""
    deadline = time.monotonic() + PATIENCE
    while not _is_connected(job, member):  # or the second might be the first
        assert time.monotonic() < deadline
    job.start(member.rank, size, seconds=60).expect(*FAILED)


def _is_connected(job: Job, member: Member) -> bool:
    port = int(job.address.split(":")[1])
    return any(
        one.pid == member.pid and one.raddr and one.raddr.port == port
        for one in psutil.net_connections("tcp")
        if one.status == psutil.CONN_ESTABLISHED
    )
