"""What must not depend on which rank is faster: each test holds one where the order matters."""

import os
import time
from pathlib import Path
from typing import Any, List

from ascend_session.cluster.member import LONG_WAIT_S
from ascend_session.failures.record import read_record
from tests.backends.exchange.members import Members, run_members
from tests.channels import Launcher
from tests.waiting import wait_until

# Both ranks share two blocks of bytes, 1 and 2. Rank 1 begins to read a block of 1 only when rank 0
# has written its block of 2 somewhere into the memory, all of it.
_SHARE = """
from ascend_session.backends.exchange.communicator import _BLOCK_BYTES
data = np.repeat(np.arange(1, 3, dtype=np.uint8), _BLOCK_BYTES)

class Late:
    def __init__(self, size):
        self.bytes = np.zeros(size, np.uint8)
        self.is_held = True
    def __len__(self):
        return len(self.bytes)
    def __setitem__(self, where, piece):
        while self.is_held and (group.memory == 2).sum() < _BLOCK_BYTES:
            time.sleep(0.001)
        self.is_held = False
        self.bytes[where] = piece

group = open_group()
operation = Operation("a", "op/a", (0, 1), "allgather uint8")
target = Late(len(data)) if rank else np.zeros(len(data), np.uint8)
Collective(group, operation, lambda comm: comm.share(data, [(0, 0, target)])).run()
read = target.bytes if rank else target
say(rank, (read == data).all().item())
group.close()
"""


def test_what_a_slow_rank_still_reads_is_not_overwritten() -> None:
    assert run_members(2, _SHARE) == {0: [True], 1: [True], "codes": [[0, 0]]}


# Of 1.2 MB in small tensors, for which rank 1 has entered, it reads nothing before rank 0 has all.
_LATE = """
import contextlib
from ascend_session.backends.exchange.group import NotYetError
group = open_group()
x = np.full(15_000, rank + 1, np.float32)
work = lambda comm: collectives.all_reduce(comm, [x], "sum")
names = [f"op/{number}" for number in range(20)]
operations = [Operation(name, name, (0, 1), "allreduce sum float32 [15000]") for name in names]
runs = [Collective(group, operation, work) for operation in operations]
if rank:
    for each in runs:
        with contextlib.suppress(NotYetError):
            each.run(0)
    open(os.environ["ENTERED"], "w").close()
    open(os.environ["GO"]).close()
else:
    open(os.environ["ENTERED"]).close()
say(rank, sum(float(each.run()[0][-1]) for each in runs))
if not rank:
    open(os.environ["GONE"]).close()
group.close()
"""


def test_a_rank_that_reads_late_gets_all_that_was_sent(tmp_path: Path) -> None:
    gates = {name: str(tmp_path / name) for name in ("ENTERED", "GO", "GONE")}
    for gate in gates.values():
        os.mkfifo(gate)
    with Members(2, _LATE, **gates) as members:
        assert members.next() == [0, 60.0]
        os.close(os.open(gates["GO"], os.O_WRONLY))
        assert members.next() == [1, 60.0]
        os.close(os.open(gates["GONE"], os.O_WRONLY))


# Rank 0, with whose process the hub is, hears last that rank 1 has failed.
_FAIL = """
group = open_group()
if rank == 1:
    group.fail("no data", ValueError("no data"))
elif rank == 0:
    try:
        all_reduce("a")
    except AscendError:
        open(os.environ["GO"], "w").close()
else:
    open(os.environ["GO"]).close()
    os.environ["ASCEND_SESSION_RANK_FOLDER"] = os.environ["FOLDER"]
    os.environ["ASCEND_SESSION_RANK_PID"] = str(os.getpid())
    group.fail("its own", ValueError("its own"))
    say(rank, group.ended)
group.close()
"""


def test_a_rank_that_fails_after_another_blames_what_it_has_not_read_yet(tmp_path: Path) -> None:
    os.mkfifo(str(tmp_path / "go"))
    folder = tmp_path / "rank_2"
    folder.mkdir()
    said = run_members(3, _FAIL, GO=str(tmp_path / "go"), FOLDER=str(folder))
    assert said[2] == ["The job cannot continue: rank 1 failed: no data"]
    record = read_record(str(folder))
    assert record is not None
    assert record.failed_rank == 1


_WAIT = """
from ascend_session.cluster import member
group = open_group()
if rank == 0:
    member.join(0)
    say("enters", time.monotonic())
else:
    open(os.environ["GO"]).close()
all_reduce("a")
group.close()
"""


def test_a_wait_begins_when_the_rank_enters(tmp_path: Path) -> None:
    os.mkfifo(str(tmp_path / "go"))
    with Launcher(tmp_path) as launcher:
        waits: List[Any] = []

        def is_waiting() -> bool:
            for kind, values in launcher.messages():
                waits.extend(values["waits"] if kind == "state" else ())
            return bool(waits)

        variables = {"GO": str(tmp_path / "go"), **launcher.environ}
        with Members(2, _WAIT, **variables) as members:
            _, entered_s = members.next()
            wait_until(is_waiting, 60)
            seen_s = time.monotonic()
            os.close(os.open(str(tmp_path / "go"), os.O_WRONLY))
            members.rest()
    assert entered_s - 0.1 <= waits[0]["since"] <= seen_s - LONG_WAIT_S
