"""Ranks on several nodes, whose hubs are connected with each other."""

import os
import signal
import tempfile
import time
from typing import Any, Callable, Iterator, List

import pytest

from ascend_session.backends.exchange import links
from ascend_session.backends.exchange.credentials import read_credentials
from ascend_session.backends.exchange.links import Links, local_address
from ascend_session.backends.exchange.messages import encode
from ascend_session.errors import InitializationError
from tests.backends.exchange.jobs import HASTY, Job, Member, Wire, ends, enter_all, leave, without
from tests.launcher.nodes import own_address, port_kept

FAILED = "failed"

# A verdict takes half a second then, so that there is less to wait for.
SOON = {"coordinator.STANDSTILL_S": 0.5, "relay.INTERVAL_S": 0.1}

needs_own_address = pytest.mark.skipif(
    own_address() == "127.0.0.1", reason="this machine has no other address"
)


# Who meets.


def test_ranks_of_three_nodes_meet_and_leave_together(job: Job) -> None:
    members = job.apart(2, 1, 2)
    for key in ("a", "b", "a"):
        enter_all(members, key)
    leave(members)


def test_ranks_may_come_in_any_order(job: Job) -> None:
    places = {"node": 1, "local_size": 2}
    late = [
        job.start(3, 4, is_first=False, **places),
        job.start(1, 4, node=0, is_first=False, local_size=2),
        job.start(2, 4, is_first=True, **places),
    ]
    assert [member.pid for member in late]  # they have begun
    members = [*late, job.start(0, 4, node=0, is_first=True, local_size=2)]
    for member in members:
        member.expect("join")
    enter_all(sorted(members, key=lambda member: member.rank), "k")


def test_systems_one_after_the_other_meet_anew(job: Job) -> None:
    members = job.apart(2, 2)
    for _ in range(3):
        enter_all(members, "k")
        for member in members:
            member.do("leave")
            member.do("again")
            member.do("join")
        for member in members:
            assert member.expect("leave")[0] < 2
            member.expect("join")


def test_ranks_that_do_not_come_are_named_to_all_others_with_their_node(job: Job) -> None:
    members = [
        job.start(0, 4, node=0, local_size=2, timeout_s=3),
        job.start(1, 4, node=0, local_size=2, timeout_s=3, is_first=False),
    ]
    for member in members:
        sentence, kind = member.expect(FAILED, "join")
        assert "rank 2 and rank 3 of 4 (all of node 1) did not come within 3 s" in sentence
        assert kind == "InitializationError"
        assert member.run_out() == 0


def test_a_first_node_that_does_not_come_is_named_with_its_address(job: Job) -> None:
    member = job.start(1, 2, node=1, timeout_s=1)
    sentence, kind = member.expect(FAILED, "join")
    assert job.coordinator in sentence
    assert kind == "InitializationError"
    assert member.run_out() == 0
    assert member.log == ""


def test_a_first_rank_of_a_node_that_does_not_come_is_named_by_its_others(job: Job) -> None:
    job.start(0, 3, node=0, timeout_s=30)
    member = job.start(2, 3, node=1, is_first=False, local_size=2, timeout_s=1)
    sentence, _ = member.expect(FAILED, "join")
    assert "the first rank of this node, with LOCAL_RANK=0, did not come within 1 s" in sentence


def test_a_rank_of_another_node_is_refused_as_here(job: Job) -> None:
    members = job.apart(1, 2)
    for node, where in ((1, ""), (0, " on 127.0.0.1")):
        sentence, _ = job.start(2, 3, node=node, is_first=False).expect(FAILED, "join")
        assert f"process {members[2].pid}{where} has that rank already" in sentence
    sentence, _ = job.start(2, 4, node=1, is_first=False).expect(FAILED, "join")
    assert "Rank 2 says that the job has 4 ranks, rank 0 says 3" in sentence
    sentence, _ = job.start(9, 3, node=1, is_first=False).expect(FAILED, "join")
    assert "the 3 ranks of the job are 0 to 2" in sentence
    enter_all(members, "k")


def test_a_second_node_of_the_same_name_is_refused_and_harms_nobody(job: Job) -> None:
    members = job.apart(1, 1)
    with tempfile.TemporaryDirectory(dir="/tmp") as parent:  # as on another machine
        second = job.start(1, 2, node=1, settings={"rendezvous._PARENTS": [parent]})
        sentence, _ = second.expect(FAILED, "join")
        assert f"process {members[1].pid} has that rank already" in sentence
        assert second.run_out() == 0
    enter_all(members, "k")


def test_a_death_during_the_rendezvous_is_heard_on_all_nodes(job: Job) -> None:
    members = [job.start(0, 3, node=0), job.start(1, 3, node=1, local_size=2)]
    members[1].await_connected(3)  # at which it listens, and both ends of its own
    sentence, _ = job.start(7, 3, node=1, is_first=False).expect(FAILED, "join")
    assert "the 3 ranks of the job are 0 to 2" in sentence
    killed = members[1].kill()
    sentence, _ = members[0].expect(FAILED, "join")
    assert "rank 1 has ended before all ranks were there" in sentence
    assert time.monotonic() - killed < 15


def test_a_proxy_of_the_environment_is_not_asked(job: Job) -> None:
    job.env = dict.fromkeys(("http_proxy", "grpc_proxy", "https_proxy"), "http://127.0.0.1:9")
    enter_all(job.apart(1, 1), "k")


# Addresses.


@pytest.mark.parametrize("address", ["127.0.0.1", "here:", ":4000", "here:0", "::1:4000"])
def test_what_is_no_address_is_refused(job: Job, address: str) -> None:
    sentence, kind = job.start(0, 2, node=0, coordinator=address).expect(FAILED, "join")
    assert repr(address) in sentence
    assert kind == "JobError"


def test_an_address_that_somebody_else_listens_at_cannot_be_had(job: Job) -> None:
    with port_kept() as port:
        pass
    first = job.start(0, 2, node=0, coordinator=f"127.0.0.1:{port}")
    second = job.start(1, 2, node=1, coordinator=f"127.0.0.1:{port}")
    for member in (first, second):
        member.expect("join")
    other = job.start(0, 2, node=0, job=f"{job.name} 2", coordinator=f"127.0.0.1:{port}")
    sentence, kind = other.expect(FAILED, "join")
    assert f"127.0.0.1:{port}" in sentence
    assert kind == "InitializationError"
    assert other.run_out() == 0


def test_a_node_of_another_job_is_refused_and_harms_nobody(job: Job) -> None:
    first = job.start(0, 2, node=0)
    stranger = job.start(1, 2, node=1, job=f"{job.name} 2", timeout_s=20)
    sentence, kind = stranger.expect(FAILED, "join")
    assert kind == "InitializationError"
    assert job.coordinator in sentence or "JOB_ID" in sentence
    enter_all([first, _joined(job.start(1, 2, node=1), first)], "k")


def test_a_name_that_nobody_learns_is_said_in_the_time_that_ranks_wait(job: Job) -> None:
    member = job.start(1, 2, node=1, coordinator="no-such-host:4000", timeout_s=1)
    sentence, kind = member.expect(FAILED, "join")
    assert "Cannot reach no-such-host:4000, where rank 0's node" in sentence
    assert kind == "InitializationError"


@needs_own_address
def test_an_address_of_another_machine_cannot_be_listened_at(job: Job) -> None:
    member = job.start(0, 2, node=0, coordinator="192.0.2.250:4000")
    sentence, kind = member.expect(FAILED, "join")
    assert "192.0.2.250:4000" in sentence
    assert kind == "InitializationError"


@needs_own_address
def test_the_first_rank_says_once_that_others_can_read_along(job: Job) -> None:
    with port_kept() as port:
        where = f"{own_address()}:{port}"
        members = job.apart(1, 2, coordinator=where)
        for member in members:
            member.do("leave")
        for member in members:
            member.expect("leave")
            member.run_out()
    assert members[0].log.count(f"The nodes of this job meet at {where} and send each other") == 1
    assert "JOB_ID" in members[0].log
    assert [member.log for member in members[1:]] == ["", ""]


@pytest.mark.parametrize("address", ["127.0.0.1:4000", "localhost:4000", "[::1]:4000"])
def test_the_way_to_loopback_stays_inside(address: str) -> None:
    assert local_address(address) in ("127.0.0.1", "::1")


@needs_own_address
def test_the_way_out_has_an_address() -> None:
    assert local_address("192.0.2.77:4000") == own_address()
    assert local_address(f"{own_address()}:4000") == own_address()


def test_there_is_no_way_to_a_name_that_nobody_knows() -> None:
    with pytest.raises(InitializationError, match="Cannot reach no-such-host:1"):
        local_address("no-such-host:1")


# A node that was slow to answer, and connects a second time.


class Answer:
    """A connection of another node, of which the test says when it begins and ends."""

    def __init__(self, number: int, until: Callable[[], None] = lambda: None) -> None:
        self.peer, self.number, self.sent = "node 1", number, []  # type: ignore[var-annotated]
        self._until = until

    def send(self, message: bytes) -> None:
        self.sent.append(message)

    def __iter__(self) -> Iterator[bytes]:
        self._until()
        yield encode({"kind": "hello"})


@pytest.mark.parametrize("order", ["old first", "old last", "old in between"])
def test_the_end_of_an_attempt_that_was_given_up_is_not_the_end_of_the_node(
    monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    serves: List[Any] = []
    monkeypatch.setattr(links, "Listener", lambda *given: serves.append(given[-1]))
    first = Links("", "127.0.0.1:1", read_credentials({}, "job"), 1)
    heard: List[str] = []
    lost: List[str] = []
    first.open(
        lambda function: function(),
        lambda node, header, payload: heard.append(node),
        lambda node, reason: lost.append(node),
    )
    (serve,) = serves
    old = Answer(1)

    def in_between() -> None:
        if order == "old in between":
            serve(old)
        first.send("node 1", {"kind": "event"})
        assert (len(new.sent), lost.count("node 1")) == (1, before)

    new = Answer(2, in_between)
    if order == "old first":
        serve(old)
    before = len(lost)  # of a node of which no rank has joined yet
    serve(new)
    assert len(lost) == before + 1
    if order == "old last":
        serve(old)
    assert len(lost) == before + 1
    assert old.sent == []


# Ranks that end.


@pytest.mark.parametrize("victim", [0, 1, 2, 3, 4])
def test_a_rank_that_is_killed_anywhere_is_named_at_once(job: Job, victim: int) -> None:
    # Ranks 0, 2 and 4 are hubs; with them goes the node.
    members = job.apart(2, 2, 1)
    others = without(members, victim)
    for member in others:
        member.enter("k", range(5), limit_s=60)
    killed = members[victim].kill()
    for member in others:
        sentence = member.expect_end()
        assert f"rank {victim} has ended" in sentence
    assert time.monotonic() - killed < 15
    for member in others:
        assert member.run_out() == 0
        assert member.log == ""


@pytest.mark.parametrize("victim", [0, 1, 3])
def test_a_rank_that_is_killed_in_the_midst_of_a_collective_is_named_at_once(
    job: Job, victim: int
) -> None:
    members = job.apart(1, 2, 1)
    for member in members:
        given = {"is_held": True} if member.rank == victim else {"steps": 1, "limit_s": 60}
        member.enter("k", range(4), data="x", times=100000, **given)
    for member in members:
        member.expect("entered", "k")
    killed = members[victim].kill()
    for member in without(members, victim):
        sentence = member.expect_end()
        assert f"rank {victim} has ended" in sentence
    assert time.monotonic() - killed < 15


def test_a_whole_node_that_is_killed_names_one_of_its_ranks(job: Job) -> None:
    members = job.apart(1, 2)
    killed = [member.kill() for member in members[1:]]
    assert " has ended" in ends(members[:1])[0]
    assert time.monotonic() - killed[0] < 15


def test_a_child_that_keeps_the_connections_open_does_not_hide_a_death_elsewhere(
    job: Job,
) -> None:
    members = job.apart(1, 2)
    members[2].do("fork", True)
    (child,) = members[2].expect("child")
    try:
        members[0].enter("k", [0, 1, 2], limit_s=8)  # nobody of the other node waits
        killed = members[2].kill()
        sentence = members[0].expect_end()
        assert "rank 2 has ended" in sentence
        assert time.monotonic() - killed < 15
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_broken_connection_ends_the_job_on_both_sides_though_all_live(job: Job) -> None:
    wire = Wire(job.coordinator)
    try:
        members = [
            job.start(0, 3, node=0, local_size=2),
            job.start(1, 3, node=0, local_size=2, is_first=False),
            job.start(2, 3, node=1, coordinator=wire.address),
        ]
        for member in members:
            member.expect("join")
        members[2].enter("k", [0, 1, 2])
        members[1].enter("k", [0, 1, 2])
    finally:
        wire.cut()
    for member, other in ((members[1], 2), (members[2], 0)):
        sentence = member.expect_end()
        assert f"rank {other} has ended" in sentence
    assert "rank 2 has ended" in ends(members[:1])[0]
    for member in members:
        member.do("leave")
    for member in members:
        assert member.expect("leave")[0] < 3
        assert member.run_out() == 0


def test_a_rank_elsewhere_that_fails_tells_all(job: Job) -> None:
    members = job.apart(1, 1, 2)
    members[3].do("fail", "ValueError in the exchange.")
    assert set(ends(members).values()) == {
        "The job cannot go on: rank 3 failed: ValueError in the exchange."
    }


def test_a_first_node_that_leaves_after_the_end_lets_all_hear_who_failed(job: Job) -> None:
    members = job.apart(1, 1, 1)
    members[1].kill()
    ends(members[:1])
    members[0].do("leave")
    assert members[0].run_out() == 0
    assert "rank 1 has ended" in ends(members[2:])[2]


def test_who_waits_for_a_rank_elsewhere_that_has_left_hears_so(job: Job) -> None:
    job.settings = HASTY
    members = job.apart(2, 2)
    enter_all(members, "k")
    members[2].do("leave")
    members[2].expect("leave")
    for rank in (0, 3):
        members[rank].enter("k", range(4))
    for rank in (0, 3):
        sentence = members[rank].expect_end()
        assert "rank 2 has left (it closed its system)" in sentence
        assert "for the 2nd time" in sentence


def test_a_first_node_that_has_left_in_order_and_ended_is_not_said_to_have_died(job: Job) -> None:
    job.settings = HASTY
    members = job.apart(1, 1)
    enter_all(members, "k")
    members[0].do("leave")
    members[0].expect("leave")
    assert members[0].run_out() == 0
    (sentence,) = ends(members[1:]).values()
    assert "rank 0 has left (it closed its system) and its process has ended" in sentence
    members[1].do("leave")
    assert members[1].expect("leave")[0] < 3


# Ranks that wait for each other.


def test_a_standstill_over_several_nodes_is_found(job: Job) -> None:
    job.settings = SOON
    members = job.apart(1, 2)
    for member, key in zip(members, "abc"):
        member.enter(key, [0, 1, 2])
    for member in members:
        sentence = member.expect_end()
        assert "the ranks wait for different collectives" in sentence
        assert 'rank 2 waits in "op/c"' in sentence


@pytest.mark.parametrize("computes", [0, 1])
def test_a_rank_elsewhere_that_computes_may_still_come(job: Job, computes: int) -> None:
    job.settings = SOON
    members = job.apart(1, 1)
    members[computes].do("compute")
    members[0].enter("a", [0, 1])
    members[1].enter("b", [0, 1])
    members[0].enter("never", [0, 1], limit_s=2)  # longer than a verdict takes
    sentence = members[1].expect_end()
    assert 'did not come to "op/never"' in sentence


def test_ranks_of_different_nodes_that_run_different_collectives_are_named(job: Job) -> None:
    members = job.apart(1, 1)
    members[0].enter("k", [0, 1], signature="allreduce sum float32 [4]")
    members[1].enter("k", [0, 1], signature="allreduce sum float32 [5]")
    for member in members:
        sentence = member.expect_end()
        assert 'rank 0 runs "op/k" as allreduce sum float32 [4]' in sentence
        assert 'rank 1 runs "op/k" as allreduce sum float32 [5]' in sentence


def _joined(member: Member, first: Member) -> Member:
    for one in (member, first):
        one.expect("join")
    return member
