"""Jobs of real processes for the tests of the ranks' meeting."""

import json
import os
import queue
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Dict, List, Sequence

_PROGRAM = Path(__file__).with_name("member.py")
_ROOT = Path(__file__).resolve().parents[3]

PATIENCE = 40.0  # seconds after which a test gives up on a process


class Member:
    """One rank's process, which ``python`` runs."""

    def __init__(
        self,
        python: str,
        rank: int,
        size: int,
        address: str,
        job: str,
        seconds: float,
        machine: str = "",
    ) -> None:
        arguments = [str(part) for part in (rank, size, address, job, seconds)]
        self.rank = rank
        self._process = subprocess.Popen(
            [python, str(_PROGRAM), *arguments],
            env={**os.environ, "PYTHONPATH": str(_ROOT), "MEMBER_MACHINE": machine},
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
        """Of the process that is the rank."""
        pid = self._pid.get(timeout=PATIENCE)
        self._pid.put(pid)
        return pid

    def do(self, *words: Any) -> None:
        """Has it do something."""
        print(json.dumps(words), file=self._process.stdin, flush=True)

    def next(self) -> List[Any]:
        """What it says next."""
        line = self._lines.get(timeout=PATIENCE)
        assert line, f"rank {self.rank} has ended; its log:\n{''.join(self._log)}"
        said: List[Any] = json.loads(line)
        return said

    def expect(self, *words: Any) -> List[Any]:
        """What it says next after these words, with which it must begin."""
        said = self.next()
        assert tuple(said[: len(words)]) == words, f"rank {self.rank}: {said}, not {words}"
        return said[len(words) :]

    def said(self) -> List[List[Any]]:
        """What it said before it ended, and nobody has asked for."""
        return [json.loads(line) for line in iter(self._lines.get, "")]

    def agree(self, key: str, ranks: Sequence[int], **given: Any) -> None:
        """Begins to agree."""
        signature = given.get("signature", "allreduce sum float32 [4]")
        name, seconds = given.get("name", key), given.get("seconds", 30)
        self.do("agree", key, name, list(ranks), signature, seconds)

    def waiting(self, key: str, ranks: Sequence[int], times: int) -> None:
        """Says that it waits in an exchange."""
        self.do("waiting", key, f"op/{key}", list(ranks), times)

    def done(self, key: str, ranks: Sequence[int], times: int) -> None:
        """Says that it does not wait there any more."""
        self.do("done", key, f"op/{key}", list(ranks), times)

    def kill(self) -> float:
        """Kills it; the time at which that was."""
        os.kill(self.pid, signal.SIGKILL)
        return time.monotonic()

    def run_out(self) -> int:
        """Lets it end as a script that has run through does; its exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(PATIENCE)

    @property
    def log(self) -> str:
        """What it wrote to stderr, once it has ended."""
        self._readers[1].join(PATIENCE)
        return "".join(self._log)

    def close(self) -> None:
        """Ends it, whatever it does."""
        self._process.kill()
        self._process.wait()
        for reader in self._readers:
            reader.join()
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
    """A job whose address is held as the launcher holds it: bound, not listening.

    Its ranks are run by ``python``.
    """

    def __init__(self, python: str) -> None:
        self._python = python
        self._port = socket.socket()
        self._port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._port.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._port.getsockname()[1]}"
        self.members: List[Member] = []

    def start(self, rank: int, size: int, **given: Any) -> Member:
        """Starts a rank that joins at once."""
        job, seconds = given.get("job", "job"), given.get("seconds", 30)
        address, machine = given.get("address", self.address), given.get("machine", "")
        member = Member(self._python, rank, size, address, job, seconds, machine)
        self.members.append(member)
        member.do("join")
        return member

    def together(self, size: int) -> List[Member]:
        """Starts all ranks and waits until they have met."""
        members = [self.start(rank, size) for rank in range(size)]
        for member in members:
            member.expect("join")
        return members

    def close(self) -> None:
        """Ends all processes."""
        for member in self.members:
            member.close()
        self._port.close()


class Wire:
    """Stands between a rank and rank 0; can be cut although both live."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self._to = (host, int(port))
        self._listening = socket.socket()
        self._listening.bind((host, 0))
        self._listening.listen(8)
        self.address = f"{host}:{self._listening.getsockname()[1]}"
        self._is_silent = False
        self._sockets: List[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def cut(self) -> None:
        """Breaks the connection, and makes no other."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for end in self._sockets:
            end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE)
        for end in self._sockets:
            end.close()

    def vanish(self) -> None:
        """Passes on nothing any more, and does not say so."""
        self._is_silent = True

    def _accept(self) -> None:
        while True:
            try:
                near = self._listening.accept()[0]
            except OSError:
                return  # it was cut
            try:
                far = socket.create_connection(self._to)
            except OSError:  # rank 0 is not there yet
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
                if not self._is_silent:
                    sink.sendall(data)
        except OSError:
            pass  # it was cut


def ends(members: Sequence[Member]) -> Dict[int, str]:
    """The sentence that each hears as the end of the job."""
    return {member.rank: member.expect("end")[0] for member in members}
