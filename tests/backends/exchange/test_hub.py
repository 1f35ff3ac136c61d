"""What the hub of the ranks makes of what they say; it has no sockets, threads or clocks."""

import json
import random
from typing import Any, Dict, List, Optional

import pytest

from ascend_session.backends.exchange.hub import LOOK_S, Hub, OutgoingMessage
from ascend_session.backends.exchange.rendezvous import Endpoint
from ascend_session.backends.exchange.wire import MALFORMED, Header, decode, encode, is_small
from ascend_session.errors import CollectiveError


class Ranks:
    """A hub, and what it has told whom; the client of a rank is its number + 1."""

    def __init__(self, size: int, memory: Optional[Exception] = None) -> None:
        self.size = size
        self.memory = memory
        self.memory_count = 0
        self.hub = Hub(size, Endpoint("job", ("name",)), 4711, self._provide_memory)
        self.told: Dict[int, List[OutgoingMessage]] = {}

    def hello(self, rank: int, client: Optional[int] = None, **other: Any) -> None:
        who = {"job": "job", "starter": None, "rank": rank, "size": self.size, "pid": 100 + rank}
        more = {"node": "0", "local_size": self.size, "device": str(rank)}
        self.say(rank + 1 if client is None else client, {"kind": "hello", **who, **more, **other})

    def say(self, client: int, header: Header, payload: bytes = b"") -> None:
        self.hub.receive(client, header, payload)
        self.deliver()

    def deliver(self) -> None:
        messages, self.hub.outbox = self.hub.outbox, []
        for message in messages:
            for client in message.clients:
                self.told.setdefault(client, []).append(message)

    def enter(self, rank: int, key: str = "k", data: bytes = b"\1\2\3\4", **other: Any) -> None:
        ranks = other.pop("ranks", list(range(self.size)))
        plan = other.pop("plan", "sum int32")
        small = is_small(plan, len(data), len(ranks))
        entry = {"kind": "enter", "key": key, "name": f"op/{key}", "ranks": ranks}
        entry.update(signature="allreduce", line="", plan=plan, size_bytes=len(data))
        self.say(rank + 1, {**entry, **other}, data if small else b"")

    def events(self, rank: int) -> List[str]:
        """The events that a rank was told, in order."""
        return [message.header["event"] for message in self.told.get(rank + 1, [])]

    def last(self, rank: int) -> OutgoingMessage:
        return self.told[rank + 1][-1]

    def _provide_memory(self) -> None:
        self.memory_count += 1
        if self.memory is not None:
            raise self.memory


@pytest.fixture
def two() -> Ranks:
    return together(2)


def together(size: int, **given: Any) -> Ranks:
    ranks = Ranks(size, **given)
    for rank in range(size):
        ranks.hello(rank)
    return ranks


def end_of(ranks: Ranks, rank: int = 0) -> str:
    """Why the job has ended, which all that are there have heard."""
    reasons = {ranks.last(rank).header["reason"] for rank in range(ranks.size)}
    assert reasons == {ranks.hub.ended}
    return ranks.hub.ended


def test_all_hear_that_they_are_together_once_the_last_has_come() -> None:
    ranks = Ranks(3)
    ranks.hello(2)
    ranks.hello(0)
    assert not ranks.told
    ranks.hello(1)
    assert [ranks.events(rank) for rank in range(3)] == [["together"]] * 3
    assert ranks.last(0).header["notes"] == []


def test_small_tensors_are_reduced_as_they_come(two: Ranks) -> None:
    two.enter(0, data=b"\1\0\0\0")
    assert two.events(0) == ["together"]
    two.enter(1, data=b"\2\0\0\0")
    for rank in (0, 1):
        assert two.last(rank).payload == b"\3\0\0\0"
    assert two.memory_count == 0
    assert not two.hub.waits


def test_large_ones_take_turns_in_the_memory(two: Ranks) -> None:
    for key in ("a", "b"):
        for rank in (0, 1):
            two.enter(rank, key, data=bytes(1 << 20))
    assert two.events(0) == ["together", "go"]
    assert two.last(0).header["is_transfer"]
    two.say(1, {"kind": "step"})
    two.say(2, {"kind": "step"})
    assert two.last(1).header == {"event": "step", "key": "a"}
    two.say(1, {"kind": "finish"})
    assert two.events(1) == ["together", "go", "step"]
    two.say(2, {"kind": "finish"})
    assert two.last(1).header["key"] == "b"


@pytest.mark.parametrize("error", [CollectiveError("no room"), OSError(28, "no space")])
def test_a_job_without_room_for_memory_ends_with_the_reason(error: Exception) -> None:
    ranks = together(2, memory=error)
    for rank in (0, 1):
        ranks.enter(rank, data=bytes(1 << 20))
    assert "rank 0 failed: " in end_of(ranks)
    assert str(error) in ranks.hub.ended


def test_a_rank_that_does_something_else_is_named(two: Ranks) -> None:
    two.enter(0)
    two.enter(1, signature="allgather")
    assert 'rank 0 runs "op/k" as allreduce; rank 1 runs "op/k" as allgather' in end_of(two)


@pytest.mark.parametrize("odd", [0, 3])
def test_ranks_that_disagree_wait_for_the_others_to_see_which_one_differs(odd: int) -> None:
    ranks = together(4)
    for run in range(2):
        for rank in range(4):
            assert not ranks.hub.ended
            is_odd = rank == odd and run == 1
            ranks.enter(rank, signature="allgather" if is_odd else "allreduce")
    others = {0: "ranks 1 to 3", 3: "ranks 0 to 2"}[odd]
    said = end_of(ranks)
    assert f"rank {odd} disagrees with the others about k when they run it for the second" in said
    assert f'{others} run "op/k" as allreduce' in said
    assert ranks.last(0).header["rank"] == odd


@pytest.mark.parametrize("end", ["look", "leave", "disconnect"])
def test_ranks_that_disagree_wait_for_the_others_two_seconds(end: str) -> None:
    ranks = together(4)
    ranks.enter(0)
    ranks.enter(1, signature="allgather")
    for _ in range(4):
        ranks.hub.look(dict)
        ranks.enter(2, "other")
        assert not ranks.hub.ended
    if end == "look":
        ranks.hub.look(dict)
    elif end == "leave":
        ranks.say(1, {"kind": "leave"})
        ranks.say(2, {"kind": "fail", "reason": "of this"})
    else:
        ranks.hub.disconnect(4)
    ranks.deliver()
    assert "the ranks disagree about k: " in end_of(ranks)
    assert ranks.last(0).header["rank"] is None


def test_two_of_eight_that_disagree_with_the_others_are_named() -> None:
    ranks = together(8)
    for rank in range(8):
        ranks.enter(rank, signature="allgather" if rank in (2, 5) else "allreduce")
    assert "rank 2 and rank 5 disagree with the others about k: " in end_of(ranks)
    assert ranks.last(0).header["rank"] is None


def test_who_hears_that_a_rank_never_joins_tells_the_others_before_it_goes() -> None:
    ranks = Ranks(3)
    ranks.hello(0)
    ranks.hello(1)
    ranks.say(2, {"kind": "absent", "reason": "no process is rank 2."})
    ranks.hub.disconnect(2)
    ranks.deliver()
    said = ranks.last(0).header
    assert said["reason"] == "The job cannot continue: no process is rank 2."
    assert said["rank"] is None


def test_a_rank_whose_connection_ends_is_named_and_a_later_one_hears_of_it() -> None:
    ranks = Ranks(3)
    ranks.hello(1)
    ranks.hub.disconnect(2)
    ranks.hello(2)
    assert ranks.events(2) == ["refused"]
    assert "rank 2 joined after the others had given up: rank 1 has exited before all" in str(
        ranks.last(2).header["reason"]
    )
    assert ranks.hub.is_needed


def test_who_waits_for_a_rank_that_has_left_is_told_so(two: Ranks) -> None:
    two.enter(1)
    two.say(1, {"kind": "leave"})
    assert "rank 0 has left (it closed its system), but rank 1 waits for it" in end_of(two)


def test_all_hear_when_the_last_has_left_and_the_hub_is_needed_no_longer(two: Ranks) -> None:
    two.say(1, {"kind": "leave"})
    two.say(2, {"kind": "leave"})
    assert two.events(0) == two.events(1) == ["together", "left", "over"]
    for client in (1, 2):
        assert two.hub.is_needed
        two.hub.disconnect(client)
    assert not two.hub.is_needed


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"job": "another"}, "but the rendezvous belongs to another job"),
        ({"size": 3}, "Rank 1 reports a job of 3 ranks, rank 0 one of 2"),
        ({"rank": 7}, "reports that it is rank 7; the 2 ranks of the job are 0 to 1"),
        ({"rank": 0}, "is rank 0 of the job, but process 100 already has that rank"),
    ],
)
def test_a_process_that_is_none_of_the_ranks_is_told_why(other: Any, reason: str) -> None:
    ranks = Ranks(2)
    ranks.hello(0)
    other = dict(other)
    ranks.hello(other.pop("rank", 1), client=9, **other)
    (refused,) = ranks.told[9]
    assert refused.header["event"] == "refused"
    assert reason in refused.header["reason"]
    assert not ranks.hub.has_joined(9)


def test_ranks_of_one_device_and_ranks_of_none_are_noted_by_name() -> None:
    ranks = Ranks(4)
    for rank, device in enumerate(["0", "", "0", ""]):
        ranks.hello(rank, device=device)
    notes = " ".join(ranks.last(0).header["notes"])
    assert "rank 0 and rank 2 have the same device, 0;" in notes
    assert "rank 1 and rank 3 have no ASCEND_DEVICE_ID; on a server all of them" in notes


class TestStandstill:
    def judged(self, ranks: Ranks, used: Any, looks: int = 9) -> str:
        """What comes of so many looks at processes that use so much in each second."""
        for number in range(looks):
            used_s = {client: rate * LOOK_S * number for client, rate in used.items()}
            ranks.hub.look(lambda used_s=used_s: used_s)
            ranks.deliver()
        return ranks.hub.ended

    def test_ranks_that_wait_in_different_places_are_ended_after_four_seconds(
        self, two: Ranks
    ) -> None:
        two.enter(0, "a")
        two.enter(1, "b")
        assert not self.judged(two, {1: 0.0, 2: 0.01}, 6)
        said = self.judged(two, {1: 0.0, 2: 0.01})
        assert 'rank 0 waits in "op/a" (allreduce) to begin it; rank 1 waits in "op/b"' in said

    def test_the_rank_that_waits_elsewhere_than_the_others_is_named(self) -> None:
        ranks = together(4)
        for rank in range(4):
            ranks.enter(rank, "b" if rank == 2 else "a")
        said = self.judged(ranks, dict.fromkeys(range(1, 5), 0.0))
        assert "rank 2 waits for another collective than the others, and none" in said
        assert ranks.last(0).header["rank"] == 2

    def test_of_ranks_that_wait_for_several_groups_none_is_named(self) -> None:
        ranks = together(4)
        for rank in range(4):
            among = {"ranks": [1, 2], "key": "pair"} if rank == 2 else {}
            ranks.enter(rank, **among)
        assert "the ranks wait for different" in self.judged(ranks, dict.fromkeys(range(1, 5), 0.0))
        assert ranks.last(0).header["rank"] is None

    @pytest.mark.parametrize("used", [{1: 0.0, 2: 0.5}, {1: 0.0}], ids=["computing", "unknown"])
    def test_nothing_is_said_of_ranks_that_may_still_come(self, two: Ranks, used: Any) -> None:
        two.enter(0, "a")
        two.enter(1, "b")
        assert not self.judged(two, used, 40)

    def test_a_rank_that_waits_for_none_may_still_come(self, two: Ranks) -> None:
        two.enter(0, "a")
        assert not self.judged(two, {1: 0.0, 2: 0.0}, 40)

    def test_a_message_of_any_rank_begins_the_wait_anew(self, two: Ranks) -> None:
        two.enter(0, "a")
        two.enter(1, "b")
        assert not self.judged(two, {1: 0.0, 2: 0.0}, 6)
        two.enter(0, "c")
        assert not self.judged(two, {1: 0.0, 2: 0.0}, 6)
        assert self.judged(two, {1: 0.0, 2: 0.0}, 3)


def mutated(chance: random.Random, message: bytes) -> bytes:
    """A message in which some bytes are others, are missing or are doubled."""
    found = bytearray(message)
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(found) + 1)
        found[at : at + chance.randrange(3)] = bytes(
            chance.randrange(256) for _ in range(chance.randrange(3))
        )
    return bytes(found)


def test_fifty_thousand_random_messages_neither_break_it_nor_let_anybody_in() -> None:
    chance = random.Random(34)
    values: List[Any] = [0, 1, -1, 2, 10**30, 0.5, None, True, "", "k", "job", [], [0, 1], {}]
    hello = {"kind": "hello", "job": "job", "starter": None, "rank": 1, "size": 2, "pid": 1}
    hello.update(node="0", local_size=2, device="")
    entry: Header = {"kind": "enter", "key": "k", "name": "n", "ranks": [0, 1]}
    entry.update(signature="s", line="", plan="sum int32", size_bytes=4)
    kinds = ("step", "finish", "leave", "fail", "absent", "time_out", "what")
    ranks = together(2)
    malformed = joined = 0
    for number in range(50_000):
        header = dict(chance.choice([hello, entry, *({"kind": kind} for kind in kinds)]))
        for _ in range(chance.randrange(3)):
            header[chance.choice([*hello, *entry, "reason", "seconds"])] = chance.choice(values)
        is_stranger = chance.random() < 0.5
        client = 100 + number if is_stranger else chance.choice([1, 2])
        message = mutated(chance, encode(header, bytes(chance.choice([0, 4, 9]))))
        try:
            ranks.say(client, *decode(message))
        except MALFORMED:
            malformed += 1
            ranks.hub.disconnect(client)
        joined += ranks.hub.has_joined(client) and is_stranger
        ranks.hub.look(dict)
        ranks.told.clear()
        if ranks.hub.is_over:  # begin anew, with ranks that are there
            ranks = together(2)
            ranks.told.clear()
        assert len(ranks.hub.members) == 2
        assert len(ranks.hub.waits) <= 64
    assert joined == 0
    assert 5_000 < malformed < 49_000


def test_a_message_is_what_was_written() -> None:
    header = {"kind": "enter", "ranks": [0, 1], "name": "é"}
    assert decode(encode(header, b"\0\1")) == (header, b"\0\1")


@pytest.mark.parametrize(
    "message", [b"", b"\n", b"\n{}", b"[]\n", b"{\n}", b"\xff\xff\n", b"{} {}"]
)
def test_what_is_no_message_is_refused(message: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(message)


def test_a_header_that_is_nested_very_deeply_is_refused() -> None:
    with pytest.raises(ValueError, match=r"nested|object"):
        decode((b"[" * 100_000) + (b"]" * 100_000))


def test_a_header_is_readable_json() -> None:
    text = encode({"kind": "step"}, b"\xff").partition(b"\n")[0]
    assert json.loads(text.decode()) == {"kind": "step"}


def test_the_rank_in_whose_process_the_hub_is_hears_of_the_end_last() -> None:
    hub = together(3).hub
    hub.disconnect(2)
    (end,) = [message for message in hub.outbox if message.header["event"] == "end"]
    assert end.clients == [3, 2, 1]
