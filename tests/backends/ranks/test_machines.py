"""Ranks on several machines: who cannot be looked at from here says what it does, or is heard."""

import subprocess
import sys
import time
from typing import List

import pytest

from ascend_session.backends.ranks.coordinator import Coordinator, Numbers
from ascend_session.backends.ranks.endpoint import Endpoint, this_machine
from ascend_session.backends.ranks.operation import Operation
from ascend_session.backends.ranks.watch import Watch
from tests.backends.ranks.jobs import Job, Member, Wire, ends
from tests.launcher.nodes import own_address, port_kept

KEEPALIVE = "1000"  # milliseconds instead of the ten seconds of a job


def apart(job: Job, size: int = 2) -> List[Member]:
    """A job of which each rank is on a machine of its own."""
    members = [job.start(rank, size, machine=f"machine {rank}") for rank in range(size)]
    for member in members:
        member.expect("join")
    return members


def test_a_standstill_is_found_by_what_each_rank_says_of_itself(job: Job) -> None:
    members = apart(job, 3)
    begun = time.monotonic()
    for member, key in zip(members, "abc"):
        member.waiting(key, [0, 1, 2], 1)
    assert "the ranks wait for different collectives" in ends(members)[2]
    assert 3 < time.monotonic() - begun < 20


@pytest.mark.parametrize("computes", [0, 1])
def test_a_rank_elsewhere_that_computes_may_still_come(job: Job, computes: int) -> None:
    members = apart(job)
    members[computes].do("compute")
    members[0].waiting("a", [0, 1], 1)
    members[1].waiting("b", [0, 1], 1)
    members[0].agree("never", [0, 1], seconds=8)  # longer than a verdict takes
    assert 'did not come to "never"' in ends(members)[1]


@pytest.mark.parametrize("victim", [0, 2])
def test_a_rank_that_is_killed_elsewhere_is_named_at_once(job: Job, victim: int) -> None:
    members = apart(job, 3)
    others = [member for member in members if member.rank != victim]
    for member in others:
        member.waiting("k", [0, 1, 2], 1)
    killed = members[victim].kill()
    assert all(f"rank {victim} has ended" in said for said in ends(others).values())
    assert time.monotonic() - killed < 5


def test_a_pid_of_another_machine_is_not_looked_for_here() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    found = []
    for machine in ("elsewhere", this_machine()):
        coordinator = Coordinator(2, Numbers.fresh())
        coordinator.come(0, "a", ended.pid, Endpoint(machine=machine))
        coordinator.come(1, "b", ended.pid, Endpoint(machine=machine))
        coordinator.enter(0, Operation("k", "op", (0, 1), "allreduce"))
        Watch(coordinator.settled._cond, lambda c=coordinator: [c])._look()  # type: ignore[misc]
        found.append(coordinator.ended)
    assert found[0] is None
    assert "has ended" in str(found[1])


@pytest.mark.skipif(own_address() == "127.0.0.1", reason="this machine has no other address")
@pytest.mark.parametrize("waits", [0, 1])
def test_a_machine_that_vanishes_without_a_word_is_missed(
    job: Job, waits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMBER_KEEPALIVE", KEEPALIVE)
    with port_kept() as port:
        where = f"{own_address()}:{port}"
        first = job.start(0, 2, address=where, machine="one")
        wire = Wire(where)
        other = job.start(1, 2, address=wire.address, machine="two")
        first.expect("join")
        other.expect("join")
        wire.vanish()
        begun = time.monotonic()
        members = [first, other]
        try:
            assert f"rank {1 - waits} has ended" in ends([members[waits]])[waits]
            assert time.monotonic() - begun < 30
        finally:
            for member in members:
                member.kill()
            wire.cut()


@pytest.mark.skipif(own_address() == "127.0.0.1", reason="this machine has no other address")
def test_the_first_rank_says_once_that_others_can_read_along(job: Job) -> None:
    with port_kept() as port:
        where = f"{own_address()}:{port}"
        members = [job.start(rank, 2, address=where) for rank in range(2)]
        for member in members:
            member.expect("join")
        for member in members:
            member.do("leave", {})
            member.expect("leave")
            member.run_out()
    assert members[0].log.count(f"The ranks of this job meet at {where} and send each other") == 1
    assert members[1].log == ""


@pytest.mark.skipif(own_address() == "127.0.0.1", reason="this machine has no other address")
def test_an_address_of_another_machine_cannot_be_listened_at(job: Job) -> None:
    sentence, _ = job.start(0, 2, address="192.0.2.250:4000").expect("failed", "join")
    assert "or that is no address of its machine" in sentence


def test_a_name_that_nobody_learns_is_said_in_the_time_that_ranks_wait(job: Job) -> None:
    sentence, kind = job.start(1, 2, address="no-such-host:4000", seconds=1).expect(
        "failed", "join"
    )
    assert "There is no way from here to no-such-host:4000, where rank 0 listens" in sentence
    assert kind == "InitializationError"


def test_whole_nodes_that_do_not_come_are_named() -> None:
    coordinator = Coordinator(8, Numbers.fresh())
    for rank in (0, 1, 4):
        place = Endpoint(node=str(rank - rank % 2), local_size=2)
        coordinator.come(rank, "token", 1, place)
    coordinator.give_up(30)
    assert "ranks 2, 3 and 5 to 7 of 8 (all of node 1 and node 3) did not" in str(coordinator.ended)


@pytest.mark.parametrize(
    "places",
    [
        [Endpoint(node="0", local_size=2), Endpoint(node="0", local_size=3)],
        [Endpoint(node="host a", local_size=2), Endpoint(node="host b", local_size=2)],
        [Endpoint(node="0", local_size=4), Endpoint(node="0", local_size=4)],
    ],
    ids=["uneven", "in turn", "one node"],
)
def test_nodes_are_not_named_where_it_is_not_clear_who_is_on_them(places: List[Endpoint]) -> None:
    coordinator = Coordinator(4, Numbers.fresh())
    for rank, place in enumerate(places):
        coordinator.come(rank, "token", 1, place)
    coordinator.give_up(30)
    assert "rank 2 and rank 3 of 4 did not come" in str(coordinator.ended)


def test_a_second_process_of_a_rank_hears_on_which_host_the_first_is(job: Job) -> None:
    first = Endpoint(host="192.0.2.7", machine="one")
    coordinator = Coordinator(2, Numbers.fresh())
    coordinator.come(1, "a", 4321, first)
    with pytest.raises(Exception, match=r"process 4321 on .* is that already") as refused:
        coordinator.come(1, "b", 77, Endpoint(host="192.0.2.8", machine="two"))
    assert "each node a number" in str(refused.value)
