"""What the processes of a job report to the launcher on the channel (`ascend_session.channel`).

The supervisor opens the address, before any rank is started; the guardian accepts and reads, and
passes on to the launcher what it has read.
"""

import contextlib
import json
import os
import select
import socket
import struct
import time
import uuid
from dataclasses import dataclass, field, fields
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from ascend_session.cluster.member import ENDED, FAILED, JoinedProcess, parse_state

_BACKLOG = 4096  # the kernel may allow less
_MOST_BYTES = 1 << 17  # of a message
_MOST_AT_ONCE = 1000  # messages, after which the guardian looks at everything else
_INVALID = (ValueError, TypeError, KeyError, AttributeError)

# Takes what an attribute holds, the rank, the process that has sent the message, and the message.
_Note = Callable[[Any, int, int, Dict[str, Any]], None]


class Report(NamedTuple):
    """A message: the folder of its rank, the process that has sent it, and what it says."""

    folder: str
    pid: int
    message: Dict[str, Any]


def open_address() -> Tuple[socket.socket, str]:
    """Open a socket to which ranks connect, in the abstract namespace of this machine's network.

    Returns:
        The socket, and its address for `rank_folder.CHANNEL`.

    Raises:
        OSError: If there can be no more sockets.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        address = f"ascend-session-{uuid.uuid4().hex}"
        listener.bind(f"\0{address}")
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener, address


class ReportReceiver:
    """Receives the messages of all ranks of a job; `fileno` is readable when there are any.

    Only processes of the launcher's user and of root are heard: any user of the machine may
    connect.

    Args:
        listener: The descriptor of the socket of `open_address`.

    Attributes:
        reports: What has been noted of the messages.
    """

    def __init__(self, listener: int) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, fileno=listener)
        self._listener.setblocking(False)
        self._poll = select.epoll()
        self._poll.register(self._listener, select.EPOLLIN)
        self._senders: Dict[int, _Sender] = {}
        self.reports = Reports()

    def fileno(self) -> int:
        """Return a descriptor that poll(2) finds readable when there is something to receive."""
        return self._poll.fileno()

    def receive(self) -> Iterator[Report]:
        """Read what has come by now."""
        count = 0
        while count < _MOST_AT_ONCE:
            ready = self._poll.poll(0)
            if not ready:
                return
            for fd, _ in ready:
                count += 1
                if fd == self._listener.fileno():
                    self._accept()
                    continue
                report = self._read(self._senders[fd])
                if report is not None:
                    yield report

    def send_stop(self, pid: int, folder: str = "") -> None:
        """Tell a process, and all that have a rank's folder, that they get the signal to stop."""
        for sender in self._senders.values():
            if sender.pid == pid or (folder and sender.folder == folder):
                sender.send({"kind": "stop", "time": time.monotonic()})

    def send_absent(self, pid: int, text: str) -> None:
        """Tell a process that waits for the ranks of its job which of them never joins, and why."""
        for sender in self._senders.values():
            if sender.pid == pid:
                sender.send({"kind": "absent", "text": text})

    def send_paused(self) -> None:
        """Tell all processes that they were stopped, right before they continue."""
        for sender in self._senders.values():
            sender.send({"kind": "paused"})

    def close(self) -> None:
        """Close everything; what has not been read is lost."""
        self._poll.close()
        for connection in [self._listener, *(each.connection for each in self._senders.values())]:
            connection.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        size = struct.calcsize("3i")
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        pid, uid, _ = struct.unpack("3i", credentials)
        if uid not in (os.geteuid(), 0):
            connection.close()
            return
        connection.setblocking(False)
        self._senders[connection.fileno()] = _Sender(connection, pid)
        self._poll.register(connection, select.EPOLLIN)

    def _read(self, sender: "_Sender") -> Optional[Report]:
        """Read one message; None for the first, and at the end of a connection."""
        try:
            data = sender.connection.recv(_MOST_BYTES)
            if len(data) == 1:
                return Report(sender.folder, sender.pid, {"kind": "exit", "code": data[0]})
            message = json.loads(data.decode()) if data else None
            if message is not None and message["kind"] != "hello":
                return Report(sender.folder, sender.pid, message)
            if message is not None:
                sender.folder = str(message["folder"])
                return None
        except (BlockingIOError, ConnectionResetError):
            return None  # reset: it has exited before it read all, but what it sent comes next
        except (OSError, *_INVALID):
            pass
        self._poll.unregister(sender.connection)
        del self._senders[sender.connection.fileno()]
        sender.connection.close()
        return None


class _Sender:
    """A process that has connected."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.connection = connection
        self.pid = pid
        self.folder = ""

    def send(self, message: Dict[str, Any]) -> None:
        """Send it a message, if there is room."""
        with contextlib.suppress(OSError):
            self.connection.send(json.dumps(message).encode(), socket.MSG_NOSIGNAL)


class Joining(NamedTuple):
    """A process that waits for the ranks of a script's job to join.

    Attributes:
        rank: Its rank in that job.
        size: The number of ranks of it.
    """

    rank: int
    size: int


class Progress(NamedTuple):
    """The last step that a rank has reported, the last one that it will make, and when it did."""

    step: int
    total: Optional[int]
    time: float


class RankPace(NamedTuple):
    """The steps that a process has made, as far as they count (`training.progress`).

    Attributes:
        first_step_s: Seconds of the first step; None if that is not known.
        steps: The steps after it.
        seconds: The time of these.
        samples: What this rank has trained on in these; 0 if it has not reported that.
    """

    first_step_s: Optional[float]
    steps: int
    seconds: float
    samples: float


class NotFinite(NamedTuple):
    """Since when a rank's gradients have not been finite.

    Attributes:
        pid: The process that has seen it.
        step: The step, counted from 1 since the start.
        variable: Whose gradient; may be empty.
        is_own: Whether the rank's own gradient was not finite.
    """

    pid: int
    step: int
    variable: str
    is_own: bool


class Models(NamedTuple):
    """How the models of the ranks compare, as rank 0 has found.

    Attributes:
        is_one_model: Whether all hold one; None if nothing was compared.
        error: Why that fails the job, as a sentence; may be empty.
        notes: Sentences.
        late_shares: By rank, the share of the steps in which the others waited for it; may be
            empty.
        slow_rank: The rank for which they waited in most of the steps; None if there is none.
    """

    is_one_model: Optional[bool]
    error: str
    notes: Tuple[str, ...]
    late_shares: Tuple[float, ...]
    slow_rank: Optional[int]


def _keep_last(parse: Callable[[Dict[str, Any]], Any]) -> _Note:
    """Keep what is parsed from the last message, by rank."""

    def note(values: Dict[int, Any], rank: int, pid: int, message: Dict[str, Any]) -> None:
        values[rank] = parse(message)

    return note


def _note_state(values: Dict[int, Any], rank: int, pid: int, message: Dict[str, Any]) -> None:
    values.setdefault(rank, {})[pid] = parse_state(message, pid)


def _note_exit(values: Dict[int, Any], rank: int, pid: int, message: Dict[str, Any]) -> None:
    """Note the exit code of a process that ended in order; other than 0 it is a failure."""
    code, processes = int(message["code"]), values[rank]
    if code and processes[pid].state == ENDED:
        processes[pid] = processes[pid]._replace(state=FAILED, error=f"SystemExit: {code}")


def _note_joining(values: Dict[int, Any], rank: int, pid: int, message: Dict[str, Any]) -> None:
    values.pop(pid, None)
    if message["size"]:
        values[pid] = Joining(int(message["rank"]), int(message["size"]))


def _parse_progress(message: Dict[str, Any]) -> Progress:
    total = None if message["total"] is None else int(message["total"])
    return Progress(int(message["step"]), total, float(message["time"]))


def _note_pace(values: Dict[int, Any], rank: int, pid: int, message: Dict[str, Any]) -> None:
    pace = message.get("pace")
    if pace is not None:
        values.setdefault(rank, {})[pid] = RankPace(**pace)


def _note_not_finite(values: Dict[int, Any], rank: int, pid: int, message: Dict[str, Any]) -> None:
    known = values.get(rank)
    if message["step"] is not None:
        found = int(message["step"]), str(message["variable"]), bool(message["is_own"])
        values.setdefault(rank, NotFinite(pid, *found))
    elif known is not None and known.pid == pid:
        del values[rank]


def _parse_models(message: Dict[str, Any]) -> Models:
    is_one, error, slow = (message[name] for name in ("is_one_model", "error", "slow_rank"))
    return Models(
        None if is_one is None else bool(is_one),
        "" if error is None else str(error),
        tuple(map(str, message["notes"])),
        tuple(map(float, message["late_shares"])),
        None if slow is None else int(slow),
    )


def _parse_replaced(message: Dict[str, Any]) -> Tuple[Tuple[str, Any, Any], ...]:
    return tuple((str(option), value, before) for option, value, before in message["options"])


@dataclass
class Reports:
    """What the ranks of an attempt have reported, by the numbers of the ranks.

    Each attribute is declared with the kinds of messages that change it, and how.

    Attributes:
        members: The processes of each that have joined the job, by pid.
        witnessed: The ranks of a script below each, by pid; some have joined the job, too.
        users: The processes below them that use this package or the vendor's.
        joining: The processes that wait for others to join, by pid.
        progress: The last step of each that has reported one.
        paces: The steps that count, of each process that has made two, by rank and pid.
        first_steps: The steps with which they have begun.
        not_finite: The first gradients that are not finite, of each whose last ones are not.
        models: How the models of all ranks compare.
        replaced: Option, value and the script's own value of those that were set from outside.
    """

    members: Dict[int, Dict[int, JoinedProcess]] = field(
        default_factory=dict, metadata={"state": _note_state}
    )
    witnessed: Dict[int, Dict[int, JoinedProcess]] = field(
        default_factory=dict, metadata={"witness": _note_state, "exit": _note_exit}
    )
    users: Set[int] = field(
        default_factory=set, metadata={"uses": lambda users, rank, pid, message: users.add(pid)}
    )
    joining: Dict[int, Joining] = field(default_factory=dict, metadata={"joining": _note_joining})
    progress: Dict[int, Progress] = field(
        default_factory=dict, metadata={"step": _keep_last(_parse_progress)}
    )
    paces: Dict[int, Dict[int, RankPace]] = field(
        default_factory=dict, metadata={"step": _note_pace}
    )
    first_steps: Dict[int, int] = field(
        default_factory=dict, metadata={"first_step": _keep_last(lambda it: int(it["step"]))}
    )
    not_finite: Dict[int, NotFinite] = field(
        default_factory=dict, metadata={"not_finite": _note_not_finite}
    )
    models: Dict[int, Models] = field(
        default_factory=dict, metadata={"models": _keep_last(_parse_models)}
    )
    replaced: Dict[int, Tuple[Tuple[str, Any, Any], ...]] = field(
        default_factory=dict, metadata={"replaced": _keep_last(_parse_replaced)}
    )

    def note(self, rank: int, pid: int, message: Dict[str, Any]) -> None:
        """Note a message of a process of a rank; one that says nothing known is ignored."""
        with contextlib.suppress(*_INVALID):
            for each in fields(self):
                note = each.metadata.get(message["kind"])
                if note is not None:
                    note(getattr(self, each.name), rank, pid, message)

    def list_processes(self, rank: int) -> List[JoinedProcess]:
        """List the processes of a rank that have joined the job, and the ranks of a script.

        They are in order of their own ranks and times.
        """
        found = dict(self.witnessed.get(rank, {}))
        for pid, member in self.members.get(rank, {}).items():
            seen = found.get(pid)
            if seen is not None and seen.state == FAILED and member.state != FAILED:
                member = member._replace(state=FAILED, error=seen.error)
            if seen is not None:  # the witness knows more of how it was started
                member = member._replace(
                    program=seen.program,
                    rank_size=seen.rank_size,
                    began=seen.began,
                    beside=seen.beside,
                )
            found[pid] = member
        return sorted(found.values(), key=lambda process: (process.rank, process.time))
