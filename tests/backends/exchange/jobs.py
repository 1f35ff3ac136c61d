"""Jobs of real processes for the tests of the exchange between ranks."""

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import threading
import time
import uuid
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import psutil
import pytest

from ascend_session.cluster.coordinator import bind_port

PROGRAM = Path(__file__).with_name("member.py")
ROOT = Path(__file__).resolve().parents[3]

PATIENCE_S = 120.0  # after which a test gives up on a process

HASTY = {"peer._PARTING_S": 0.2}
"""For ranks that leave while others stay, so that a test need not wait for two seconds."""


class Member:
    """One rank's process.

    Args:
        python: What runs it.
        given: What it is told of itself, see `member.py`.
        env: Further variables.
    """

    def __init__(self, python: str, given: Dict[str, Any], env: Dict[str, str]) -> None:
        self.rank, self.size = given["rank"], given["size"]
        self._process = subprocess.Popen(
            [python, str(PROGRAM), json.dumps(given)],
            env={**os.environ, "PYTHONPATH": str(ROOT), **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )
        self._pid: queue.Queue[int] = queue.Queue()  # the first that it says
        self._lines: queue.Queue[str] = queue.Queue()
        self._log: List[str] = []
        self._readers = [
            threading.Thread(target=self._read_stdout),
            threading.Thread(target=self._read, args=[self._process.stderr, self._log.append]),
        ]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        """Give the process that is the rank."""
        pid = self._pid.get(timeout=PATIENCE_S)
        self._pid.put(pid)
        return pid

    def do(self, *words: Any) -> None:
        """Have it do something."""
        print(json.dumps(words), file=self._process.stdin, flush=True)

    def next(self) -> List[Any]:
        """Wait for what it says next."""
        line = self._lines.get(timeout=PATIENCE_S)
        assert line, f"rank {self.rank} has ended; its log:\n{self.log}"
        words: List[Any] = json.loads(line)
        return words

    def expect(self, *words: Any) -> List[Any]:
        """Wait for what it says next, and return what comes after these words in it."""
        found = self.next()
        assert tuple(found[: len(words)]) == words, f"rank {self.rank}: {found}, not {words}"
        return found[len(words) :]

    def expect_each(self, *firsts: str) -> Dict[str, List[Any]]:
        """Wait for several, which may come in any order, by the first word of each."""
        found = {words[0]: words[1:] for words in (self.next() for _ in firsts)}
        assert set(found) == set(firsts), f"rank {self.rank}: {found}"
        return found

    def expect_end(self) -> str:
        """Wait until what it has begun fails because the job cannot go on; give the sentence."""
        _, sentence, kind = self.expect("failed")
        assert kind == "CollectiveError"
        return str(sentence)

    def assert_silent(self, seconds: float) -> None:
        """Wait for so long, in which it says nothing."""
        with contextlib.suppress(queue.Empty):
            pytest.fail(f"rank {self.rank}: {self._lines.get(timeout=seconds)}")

    def remaining(self) -> List[List[Any]]:
        """List what it said before it ended, and nobody has asked for."""
        return [json.loads(line) for line in iter(self._lines.get, "")]

    def await_connected(self, count: int) -> None:
        """Wait until it has so many Unix sockets of the kind at which ranks meet."""
        deadline = time.monotonic() + PATIENCE_S
        process = psutil.Process(self.pid)
        while count > sum(
            one.type == socket.SOCK_SEQPACKET for one in process.net_connections("unix")
        ):
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def enter(self, key: str, ranks: Sequence[int], **given: Any) -> None:
        """Have it enter a collective.

        ``name``, ``signature``, ``plan``, ``limit_s``; ``data``, a text, ``times`` times;
        ``is_held`` if it is to stay in it until it is let go.
        """
        self.do("enter", {"key": key, "ranks": list(ranks), **given})

    def kill(self) -> float:
        """Kill it; the time at which that was."""
        os.kill(self.pid, signal.SIGKILL)
        return time.monotonic()

    def run_out(self) -> int:
        """Let it end as a script that has run through does; its exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(PATIENCE_S)

    @property
    def log(self) -> str:
        """What it wrote to stderr, once it has ended."""
        self._readers[1].join(PATIENCE_S)
        return "".join(self._log)

    def close(self) -> None:
        """End it, whatever it does."""
        if self._process.poll() is None:
            with contextlib.suppress(queue.Empty):
                self.pid  # noqa: B018  (before it has begun, there is no rank that could be ended)
        self._process.kill()
        self._process.wait()
        for reader in self._readers:
            reader.join(PATIENCE_S)
            assert not reader.is_alive(), f"somebody still has the pipes of rank {self.rank} open"
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def _read_stdout(self) -> None:
        first = self._process.stdout.readline() if self._process.stdout else ""
        if first:
            self._pid.put(int(first))
        self._read(self._process.stdout, self._lines.put)

    def _read(self, pipe: Any, put: Any) -> None:
        for line in pipe:
            put(line)
        put("")


class Job:
    """A job whose ranks ``python`` runs, on one node or on several.

    Attributes:
        name: No other job has it.
        settings: Constants of the product's modules that its ranks replace, by
            ``module.name``; and the environment of all that are started.
    """

    def __init__(self, python: str) -> None:
        self.name = uuid.uuid4().hex
        self.settings: Dict[str, Any] = {}
        self.env: Dict[str, str] = {}
        self.members: List[Member] = []
        self._python = python
        self._port: Optional[socket.socket] = None

    @property
    def coordinator(self) -> str:
        """An address that is kept for this job."""
        if self._port is None:
            self._port = bind_port()
        return f"127.0.0.1:{self._port.getsockname()[1]}"

    def start(self, rank: int, size: int, **given: Any) -> Member:
        """Start a rank that joins at once, by default one of a job on one node.

        Args:
            rank: Its number.
            size: The number of ranks that it believes in.
            given: ``job``, another one's name; ``timeout_s``; ``starter``, numbers if it is to
                meet those that the same has started; ``env``; ``settings``; ``begin="open"`` if
                it is to open its process group and not only to join; of a job on several nodes
                ``node``, a number, ``is_first`` for the first rank there, ``local_size``, and
                ``coordinator``.
        """
        env = {**self.env, **given.get("env", {})}
        member = Member(self._python, self._described(rank, size, given), env)
        self.members.append(member)
        member.do(given.get("begin", "join"))
        return member

    def together(self, size: int, **given: Any) -> List[Member]:
        """Start all ranks on one node and wait until they have met."""
        members = [self.start(rank, size, **given) for rank in range(size)]
        return _met(members, given.get("begin", "join"))

    def apart(self, *counts: int, **given: Any) -> List[Member]:
        """Start so many ranks on each of several nodes and wait until they have met."""
        places = [(node, local) for node, count in enumerate(counts) for local in range(count)]
        members = []
        for rank, (node, local) in enumerate(places):
            place = {"node": node, "is_first": not local, "local_size": counts[node]}
            members.append(self.start(rank, len(places), **place, **given))
        return _met(members, given.get("begin", "join"))

    def close(self) -> None:
        """End all processes."""
        for member in self.members:
            member.close()
        if self._port is not None:
            self._port.close()

    def _described(self, rank: int, size: int, given: Dict[str, Any]) -> Dict[str, Any]:
        node = given.get("node")
        return {
            "rank": rank,
            "size": size,
            "job": given.get("job", self.name),
            "timeout_s": given.get("timeout_s", 30),
            "starter": given.get("starter"),
            "node": node,
            "is_hub": rank == 0 if node is None else given.get("is_first", True),
            "local_size": given.get("local_size", size if node is None else 1),
            "coordinator": None if node is None else given.get("coordinator", self.coordinator),
            "settings": {**self.settings, **given.get("settings", {})},
        }


class Wire:
    """Stands between a node and the first one; can be cut although both live."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self._to = (host, int(port))
        self._listening = socket.socket()
        self._listening.bind((host, 0))
        self._listening.listen(8)
        self.address = f"{host}:{self._listening.getsockname()[1]}"
        self._sockets: List[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def cut(self) -> None:
        """Break the connection, and make no other."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for end in self._sockets:
            end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE_S)
        for end in self._sockets:
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                near = self._listening.accept()[0]
            except OSError:
                return  # it was cut
            try:
                far = socket.create_connection(self._to)
            except OSError:  # the first node is not there yet
                near.close()
                continue
            self._sockets += [near, far]
            for source, sink in ((near, far), (far, near)):
                thread = threading.Thread(target=self._pump, args=[source, sink])
                thread.start()
                self._threads.append(thread)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            for data in iter(lambda: source.recv(65536), b""):
                sink.sendall(data)
        except OSError:
            pass  # it was cut


def ends(members: Sequence[Member]) -> Dict[int, str]:
    """Give the sentence that each hears as the end of the job, once it wants something of it."""
    for member in members:
        member.enter("the end", range(member.size))
    return {member.rank: member.expect_end() for member in members}


def enter_all(members: Sequence[Member], key: str, **given: Any) -> None:
    """Let all of these ranks enter a collective, and hear what each has."""
    ranks = [member.rank for member in members]
    for member in members:
        member.enter(key, ranks, data=f"rank {member.rank}", **given)
    texts = [f"rank {rank}" for rank in ranks]
    for member in members:
        assert member.expect("entered", key) == [[len(text) for text in texts], texts]


def leave(members: Sequence[Member]) -> None:
    """Let ranks leave and end, as those of a job do that has ended in order."""
    for member in members:
        member.do("leave")
    for member in members:
        assert member.expect("leave")[0] < 2
    for member in members:
        assert member.run_out() == 0
        assert member.remaining() == []
        assert member.log == ""


def without(members: Sequence[Member], rank: int) -> List[Member]:
    """Give all but one."""
    return [member for member in members if member.rank != rank]


def _met(members: List[Member], begin: str) -> List[Member]:
    for member in members:
        member.expect(begin)
    return members
