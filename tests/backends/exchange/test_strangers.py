"""Processes of this user that connect to the socket of a job and are none of its ranks."""

import array
import contextlib
import os
import random
import socket
import struct
import threading
import time
from typing import Any, Callable, Dict, List

import psutil
import pytest

from ascend_session.backends.exchange import rendezvous
from ascend_session.backends.exchange.messages import LARGEST, decode, encode
from ascend_session.backends.exchange.rendezvous import Rendezvous, describe_starter
from tests.backends.exchange.jobs import PATIENCE_S, Job, Member, ends, enter_all

MESSAGES = 100_000  # for each way to meet
SEED = 16
FAILED = "failed"


class Stranger:
    """A connection to the first rank, which says whatever it is told to."""

    def __init__(self, meeting: Rendezvous) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._connection = rendezvous.connect(meeting.names)
                break
            except OSError:  # it does not listen yet
                assert time.monotonic() < deadline
                time.sleep(0.01)
        self._connection.settimeout(PATIENCE_S)

    def send(self, message: bytes, descriptors: Any = ()) -> None:
        """Send a message; the other side may have had enough before."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._connection.sendmsg([message], rights if descriptors else [])

    def events(self) -> List[Any]:
        """Wait for the end of the connection; give what came before."""
        found = []
        with contextlib.suppress(ConnectionResetError):
            for message in iter(lambda: self._connection.recv(LARGEST), b""):
                found.append(decode(message)[0])
        return found

    def event(self) -> Any:
        """Wait for an event."""
        return decode(self._connection.recv(LARGEST))[0]

    def close(self) -> None:
        self._connection.close()


def stranger_of(meeting: Rendezvous) -> Any:
    return contextlib.closing(Stranger(meeting))


@pytest.fixture
def meeting(job: Job) -> Rendezvous:
    return Rendezvous.named(job.name)


def hello(of: Job, **said: Any) -> Dict[str, Any]:
    """Give what rank 1 of two says first."""
    return {
        "kind": "hello",
        "job": of.name,
        "starter": describe_starter([1]),
        "system": 1,
        "rank": 1,
        "size": 2,
        "pid": os.getpid(),
        "node": "0",
        "local_size": 2,
        **said,
    }


NO_MESSAGES = {
    "too short": b"\0",
    "text": b"GET / HTTP/1.1\r\n\r\n",
    "a length alone": struct.pack("<I", 7),
    "a longer header than there is": struct.pack("<I", 4000) + b"{}",
    "a header of 4 GB": struct.pack("<I", 0xFFFFFFFF) + b"{}",
    "no header": struct.pack("<I", 0),
    "no JSON": struct.pack("<I", 2) + b"\xff\xfe",
    "a list": struct.pack("<I", 2) + b"[]",
    "an empty object": struct.pack("<I", 2) + b"{}",
    "half of an object": struct.pack("<I", 7) + b'{"rank"',
    "deep JSON": struct.pack("<I", 100000) + b"[" * 100000,
    "deep objects": struct.pack("<I", 100000) + b'{"a":' * 20000,
    "the largest that there is": b"\1" * LARGEST,
    "more than that": b"\1" * (LARGEST + 1),
}


def test_what_is_no_message_is_answered_with_the_end_of_the_connection(
    job: Job, meeting: Rendezvous
) -> None:
    job.start(0, 2)
    for name, message in NO_MESSAGES.items():
        with stranger_of(meeting) as stranger:
            stranger.send(message)
            assert stranger.event()["event"] == "refused", name
            stranger.send(encode({"kind": "leave"}))
            assert stranger.events() == [], name
    job.start(1, 2).expect("join")
    job.members[0].expect("join")


WRONG: Dict[str, Dict[str, Any]] = {
    "a rank that is text": {"rank": "one"},
    "a rank that is a list": {"rank": [1]},
    "a rank that is nothing": {"rank": None},
    "a rank that is no number": {"rank": float("nan")},
    "a rank without end": {"rank": float("inf")},
    "a size without end": {"size": float("-inf")},
    "a pid without end": {"pid": float("inf")},
    "a system without end": {"system": float("inf")},
    "a rank of a thousand digits": {"rank": 10**1000},
    "a rank out of range": {"rank": 2},
    "a rank below zero": {"rank": -1},
    "another size": {"size": 2.5, "rank": 7},
    "a local size that is an object": {"local_size": {}},
    "half of a character": {"job": "\ud800"},
    "another job": {"job": "another"},
    "no job": {"job": None},
}


def test_who_does_not_speak_as_a_rank_is_refused(job: Job, meeting: Rendezvous) -> None:
    job.start(0, 2)
    for name, said in WRONG.items():
        with stranger_of(meeting) as stranger:
            stranger.send(encode(hello(job, **said)))
            assert stranger.event()["event"] == "refused", name
    job.start(1, 2).expect("join")
    job.members[0].expect("join")


def test_who_belongs_to_another_job_hears_so(job: Job, meeting: Rendezvous) -> None:
    job.start(0, 2)
    with stranger_of(meeting) as stranger:
        stranger.send(encode(hello(job, job="another")))
        assert "the ranks of another job meet there" in stranger.event()["reason"]


STARTERS: Dict[str, Any] = {
    "nobody": None,
    "text": "somebody",
    "a list": [1, 2],
    "an empty object": {},
    "another parent and group": {"parent": ["1", "1"], "group": ["1", "1"]},
    "another folder": {"folder": "/somewhere"},
    "another script": {"script": "/somewhere/train.py"},
    "another number in a folder": {"folder": f"{os.getcwd()}7"},
}
NO_STARTERS: Dict[str, Any] = {
    "a folder that is a number": {"folder": 5},
    "a folder that is nothing": {"folder": None},
    "a script that is a list": {"script": ["/"]},
    "numbers that are a number": {"numbers": 1, "folder": f"{os.getcwd()}7"},
    "numbers that are a list of lists": {"numbers": [[1]], "folder": f"{os.getcwd()}7"},
}


def test_who_was_started_by_somebody_else_is_refused_with_a_hint(job: Job) -> None:
    first = job.start(0, 2, starter=[0])
    for name, said in STARTERS.items():
        if isinstance(said, dict) and said:
            said = {**_starter_of(first), **said}
        with stranger_of(Rendezvous.started_together(job.name, [1])) as stranger:
            stranger.send(encode(hello(job, starter=said)))
            reason = stranger.event()["reason"]
        assert f"belong to another job with JOB_ID={job.name}" in reason, name
        assert f"process {first.pid} is the first of them" in reason
        assert "export JOB_ID=$$" in reason
    for name, said in NO_STARTERS.items():
        with stranger_of(Rendezvous.started_together(job.name, [1])) as stranger:
            stranger.send(encode(hello(job, starter={**_starter_of(first), **said})))
            assert stranger.event()["event"] == "refused", name
    job.start(1, 2, starter=[1]).expect("join")
    first.expect("join")


def test_who_does_not_say_who_it_is_is_not_waited_for_long(job: Job, meeting: Rendezvous) -> None:
    job.settings["hub._HELLO_S"] = 0.3
    job.start(0, 2)
    with stranger_of(meeting) as stranger:
        begun = time.monotonic()
        assert stranger.events() == []
        assert time.monotonic() - begun < 30
    job.start(1, 2).expect("join")


def test_strangers_that_say_nothing_keep_no_rank_out_for_long(
    job: Job, meeting: Rendezvous
) -> None:
    job.settings["hub._HELLO_S"] = 0.5
    job.start(0, 2)
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(stranger_of(meeting))
        job.start(1, 2).expect("join")


def test_strangers_that_were_refused_and_stay_keep_no_rank_out_for_long(
    job: Job, meeting: Rendezvous
) -> None:
    job.settings["hub._HELLO_S"] = 0.5
    job.start(0, 2)
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            stranger = stack.enter_context(stranger_of(meeting))
            stranger.send(encode(hello(job, rank=7)))
        rank = job.start(1, 2, timeout_s=20)
        rank.expect("join")


def test_who_wants_to_join_a_system_far_ahead_keeps_nobody_out(
    job: Job, meeting: Rendezvous
) -> None:
    job.start(0, 2)
    for system in (10**9, 3, 0, -1):
        with stranger_of(meeting) as stranger:
            stranger.send(encode(hello(job, system=system)))
            assert "met and parted before" in stranger.event()["reason"], system
    job.start(1, 2).expect("join")
    job.members[0].expect("join")


def test_a_hub_that_may_open_no_more_files_rests_and_goes_on(job: Job, meeting: Rendezvous) -> None:
    members = job.together(2)
    members[0].do("files", 3)  # fewer than it has
    with stranger_of(meeting) as stranger:
        stranger.send(b"x")
        for member in members:
            member.enter("k", [0, 1])
        for member in members:
            member.expect("entered", "k")
        hub = psutil.Process(members[0].pid)
        before = sum(hub.cpu_times()[:2])
        members[0].assert_silent(0.5)
        assert sum(hub.cpu_times()[:2]) - before < 0.2  # it would be all of the time
        members[0].do("files", 0)
        assert stranger.event()["event"] == "refused"


def test_nobody_speaks_for_a_rank_but_its_process(job: Job, meeting: Rendezvous) -> None:
    members = job.together(2)
    for said in (
        {"kind": "fail", "reason": "No.", "system": 1, "rank": 0},
        {"kind": "leave", "system": 1, "rank": 1},
        {"kind": "disconnect", "system": 1, "rank": 1},
        hello(job),
    ):
        with stranger_of(meeting) as stranger:
            stranger.send(encode(said))
            stranger.send(encode({"kind": "fail", "reason": "No."}))
            assert [event["event"] for event in stranger.events()] in ([], ["refused"])
    enter_all(members, "k")


RUBBISH: Dict[str, bytes] = {
    **NO_MESSAGES,
    "an unknown kind": encode({"kind": "open the door"}),
    "a kind that is a list": encode({"kind": ["leave"]}),
    "a second hello": encode({"kind": "hello", "rank": 0}),
    "a collective of nobody": encode({"kind": "enter", "ranks": None}),
    "ranks without end": encode(
        {"kind": "enter", "key": "k", "name": "k", "ranks": [1, float("inf")], "signature": "s"}
    ),
    "bytes without end": encode(
        {
            "kind": "enter",
            **{"key": "k", "name": "k", "ranks": [2], "signature": "s", "plan": "gather"},
            **{"is_small": False, "size_bytes": float("inf")},
        }
    ),
    "a limit that is text": encode({"kind": "give_up", "seconds": "soon"}),
}


@pytest.mark.parametrize("name", RUBBISH)
def test_a_rank_that_sends_rubbish_is_the_only_one_that_ends(
    job: Job, meeting: Rendezvous, name: str
) -> None:
    members = [job.start(rank, 3) for rank in (0, 1)]
    with stranger_of(meeting) as rank:
        rank.send(encode(hello(job, rank=2, size=3)))
        assert rank.event()["event"] == "welcome"
        for member in members:
            member.expect("join")
        rank.send(RUBBISH[name])
        rank.events()  # and the end
    sentences = ends(members)
    assert sentences[0] == sentences[1]
    assert "rank 2 has ended (its connection broke)" in sentences[0]
    with stranger_of(meeting) as late:  # the hub lives, and knows who ended
        late.send(encode(hello(job, rank=2, size=3)))
        assert "came when the others had given up: rank 2 has ended" in late.event()["reason"]


# Thousands of messages.


@pytest.mark.parametrize("meets", ["by name", "by starter"])
def test_no_message_harms_a_job_that_runs(job: Job, meets: str) -> None:
    starter = None if meets == "by name" else [0]
    meeting = (
        Rendezvous.named(job.name)
        if starter is None
        else Rendezvous.started_together(job.name, starter)
    )
    members = job.together(2, begin="open", starter=starter)
    for member in members:
        member.do("run", 2)
    fuzzing = Fuzzing(job, meeting, random.Random(SEED), _starter_of(members[0]))
    hub = psutil.Process(members[0].pid)
    fuzzing.run(MESSAGES // 4)
    _await_only_ranks(meeting)
    before = (hub.num_fds(), hub.num_threads())
    memory = hub.memory_info().rss
    fuzzing.run(MESSAGES - MESSAGES // 4)
    _await_only_ranks(meeting)
    assert (hub.num_fds(), hub.num_threads()) == before
    assert hub.memory_info().rss - memory < 3 << 20
    assert fuzzing.answers == {"refused"}
    for member in members:
        member.do("stop")
    counts = [member.expect("ran")[0] for member in members]
    assert counts[0] == counts[1] > 20
    for member in members:
        member.do("close")
    for member in members:
        member.expect("close")
        assert member.run_out() == 0
        assert member.remaining() == []
        assert member.log == ""


def test_nothing_is_kept_of_what_strangers_have_sent(job: Job, meeting: Rendezvous) -> None:
    members = job.together(2)
    hub = psutil.Process(members[0].pid)
    memory = hub.memory_info().rss
    for number in range(300):
        with stranger_of(meeting) as stranger:
            stranger.send(encode({"rank": number, "values": [[]] * 40000}))
            assert stranger.event()["event"] == "refused"
    assert hub.memory_info().rss - memory < 16 << 20
    enter_all(members, "k")


class Fuzzing:
    """Connects again and again and sends what no rank sends.

    Attributes:
        answers: The events that it got.
    """

    def __init__(
        self, job: Job, meeting: Rendezvous, chance: random.Random, starter: Dict[str, Any]
    ) -> None:
        self.answers: Any = set()
        self._meeting = meeting
        self._chance = chance
        self._hello = hello(job, starter=starter)
        self._makers: List[Callable[[], bytes]] = [
            self._random_bytes,
            self._mutated,
            self._mutated,
            self._wrong_header,
            self._wrong_header,
            self._wrong_hello,
            self._wrong_hello,
            self._nested,
            self._of_a_rank,
        ]
        self._files = [os.open(os.devnull, os.O_RDONLY) for _ in range(4)]

    def run(self, count: int) -> None:
        try:
            self._run(count)
        finally:
            for file in self._files:
                os.close(file)
            self._files = [os.open(os.devnull, os.O_RDONLY) for _ in range(4)]

    def _run(self, count: int) -> None:
        while count > 0:
            with stranger_of(self._meeting) as stranger:
                for _ in range(self._chance.randint(1, 3)):
                    message = self._chance.choice(self._makers)()
                    files = self._files if self._chance.random() < 0.2 else []
                    stranger.send(message, files)
                    count -= 1
                if self._chance.random() < 0.3:
                    stranger.send(b"end")
                    stranger.send(b"end")
                    self.answers.update(event["event"] for event in stranger.events())

    def _random_bytes(self) -> bytes:
        size = self._chance.choice([1, 3, 4, 5, 64, 1000, 70000])
        return bytes(self._chance.getrandbits(8) for _ in range(min(size, 300))) * (size // 300 + 1)

    def _mutated(self) -> bytes:
        message = bytearray(encode(self._safe_hello()))
        for _ in range(self._chance.randint(1, 8)):
            place = self._chance.randrange(len(message))
            kind = self._chance.randrange(4)
            if kind == 0:
                message[place] = self._chance.randrange(256)
            elif kind == 1:
                del message[place : place + self._chance.randint(1, 9)]
            elif kind == 2:
                message[place:place] = self._chance.choice([b"[", b'"', b"1e999", b"\xff", b"{}"])
            else:
                message[:4] = struct.pack("<I", self._chance.getrandbits(32) >> 16)
            message = message or bytearray(b"x")
        return bytes(message)

    def _value(self) -> Any:
        return self._chance.choice(
            [
                None,
                True,
                -1,
                0,
                1,
                2,
                7,
                10**30,
                -(10**400),
                0.5,
                float("inf"),
                float("-inf"),
                float("nan"),
                "",
                "1",
                "one",
                "\ud800\0",
                "x" * 2000,
                [],
                [1],
                [[]],
                {},
                {"a": 1},
            ]
        )

    def _wrong_header(self) -> bytes:
        kinds = [
            "hello",
            "enter",
            "step",
            "finish",
            "leave",
            "fail",
            "give_up",
            "disconnect",
            "time_out",
            "",
        ]
        header = {"kind": self._chance.choice(kinds)}
        for name in ("rank", "key", "run", "ranks", "is_small", "size_bytes", "reason", "event"):
            if self._chance.random() < 0.5:
                header[name] = self._value()
        return encode(header, b"x" * self._chance.choice([0, 10, 50000]))

    def _safe_hello(self) -> Dict[str, Any]:
        """Give that of a rank which is there already."""
        return {**self._hello, "rank": self._chance.choice([0, 1])}

    def _wrong_hello(self) -> bytes:
        said = self._safe_hello()
        names = [name for name in said if name != "system"]  # the next one may be joined early
        for name in self._chance.sample(names, self._chance.randint(0, 3)):
            said[name] = self._value()
        if self._chance.random() < 0.5:
            starter = dict(self._hello["starter"])
            starter[self._chance.choice(sorted(starter))] = self._value()
            said["starter"] = starter
        return encode(said)

    def _nested(self) -> bytes:
        depth = self._chance.choice([100, 3000, 30000])
        opening, closing = self._chance.choice([("[", "]"), ('{"a":', "}")])
        text = (opening * depth + "1" + closing * depth).encode()[: LARGEST - 4]
        return struct.pack("<I", len(text)) + text

    def _of_a_rank(self) -> bytes:
        return encode(
            {
                "kind": "enter",
                "key": "large",
                "name": "op/large",
                "ranks": [0, 1],
                "signature": "sum [20000]",
                "plan": "sum int64",
                "size_bytes": 160000,
                "is_small": False,
            }
        )


def test_a_hello_that_comes_in_parts_is_none(job: Job, meeting: Rendezvous) -> None:
    job.start(0, 2)
    with stranger_of(meeting) as stranger:
        whole = encode(hello(job))
        stranger.send(whole[:10])
        assert stranger.event()["event"] == "refused"
        stranger.send(whole[10:])
        assert stranger.events() == []
    job.start(1, 2).expect("join")


def test_many_strangers_at_once_do_not_hold_up_a_collective(job: Job, meeting: Rendezvous) -> None:
    members = job.together(2, begin="open")
    for member in members:
        member.do("run", 2)
    is_over = threading.Event()

    def flood() -> None:
        while not is_over.is_set():
            with stranger_of(meeting) as stranger:
                stranger.send(b"x" * 1000)

    floods = [threading.Thread(target=flood) for _ in range(4)]
    for thread in floods:
        thread.start()
    is_over.wait(1)
    for member in members:
        member.do("stop")
    counts = [member.expect("ran")[0] for member in members]
    is_over.set()
    for thread in floods:
        thread.join(PATIENCE_S)
    assert counts[0] == counts[1] > 5


def _starter_of(member: Member) -> Dict[str, Any]:
    """Give a starter that the first rank takes for its own: the process group is the same."""
    assert os.getpgid(member.pid) == os.getpgrp()
    script = os.path.join(os.path.dirname(__file__), "member.py")
    return {**describe_starter([member.rank]), "script": os.path.realpath(script)}


def _await_only_ranks(meeting: Rendezvous) -> None:
    """Wait until the hub has handled all that came before: it answers in turn."""
    with stranger_of(meeting) as last:
        last.send(b"x")
        assert last.event()["event"] == "refused"
        last.send(b"x")
        assert last.events() == []
