"""Ranks as real processes: deaths, strangers, stopped ranks, memory, forks, many of them."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator, List

import psutil
import pytest

from ascend_session.backends.exchange import folder, group, memory
from ascend_session.backends.exchange.folder import find_folder
from ascend_session.backends.exchange.rendezvous import Endpoint, connect
from ascend_session.backends.exchange.wire import LARGEST, make_socket
from ascend_session.errors import CollectiveError, InitializationError
from tests.backends.exchange.members import Members, run_members

_ONE = """
group = open_group()
say(rank, float(all_reduce("a", {count})[-1]))
group.close()
"""
_TWO = """
group = open_group()
all_reduce("a")
say("met", rank)
say(rank, float(all_reduce("b", {count})[-1]))
group.close()
"""


def await_met(members: Members, count: int) -> None:
    assert sorted(members.next()[1] for _ in range(count)) == list(range(count))


@pytest.mark.parametrize("count", [4, 1 << 18, 5_000_001])
def test_ranks_add_up_what_they_have(count: int) -> None:
    found = run_members(4, _ONE.format(count=count))
    assert found == {"codes": [[0] * 4], **{rank: [10.0] for rank in range(4)}}


def test_a_hundred_and_twenty_eight_ranks_add_up_what_they_have() -> None:
    found = run_members(128, _ONE.format(count=1 << 12), timeout_s=100)
    assert found["codes"] == [[0] * 128]
    assert {tuple(found[rank]) for rank in range(128)} == {(128 * 129 / 2,)}


def test_systems_follow_one_another_and_groups_are_apart() -> None:
    body = """
for number in range(3):
    group = open_group()
    pair = [0, 1] if rank < 2 else [2, 3]
    values = [float(all_reduce(f"of {pair}", 1 << 18, pair)[0]), float(all_reduce("all")[0])]
    group.close()
    say(rank, values)
"""
    found = run_members(4, body)
    assert found["codes"] == [[0] * 4]
    assert [found[rank] for rank in range(4)] == [[[3.0, 10.0]]] * 2 + [[[7.0, 10.0]]] * 2


def test_a_limit_of_68_years_is_none() -> None:
    body = """
group = open_group()
say(rank, float(all_reduce("a", limit_s=2147483647)[0]))
group.close()
"""
    assert run_members(2, body) == {0: [3.0], 1: [3.0], "codes": [[0, 0]]}


@pytest.mark.parametrize("character", ["x", "\N{GRINNING FACE}"])
def test_a_reason_of_any_length_comes_to_the_others(character: str) -> None:
    failing = f"if rank == 1:\n    group.fail({character!r} * 100_000)\n    os._exit(1)\n"
    sentence = run_members(2, _TWO.format(count=4).replace('say("met", rank)', failing))[0][1]
    assert sentence.startswith(f"The job cannot continue: rank 1 failed: {character * 1000}")


@pytest.mark.parametrize("killed", [0, 2])
@pytest.mark.parametrize("count", [4, 20_000_000])
def test_the_others_hear_of_a_killed_rank_by_name(killed: int, count: int) -> None:
    body = _TWO.format(count=count).replace(
        'say("met", rank)',
        f'say("met", rank)\nif rank == {killed}:\n    signal.pause()',
    )
    with Members(4, body) as members:
        await_met(members, 4)
        os.kill(members.pids[killed], signal.SIGKILL)
        found = members.rest()
    for rank in {0, 1, 2, 3} - {killed}:
        kind, sentence = found[rank]
        assert kind == "CollectiveError"
        assert sentence.startswith(f"The job cannot continue: rank {killed} has exited")


def test_a_group_without_rank_0_is_told_that_the_process_of_rank_0_has_ended() -> None:
    body = """
import psutil
group = open_group()
if rank:
    psutil.Process(children[0]).wait()
    all_reduce("later", ranks=[1, 2])
group.close()
"""
    said = run_members(3, body)
    for rank in (1, 2):
        kind, message = said[rank]
        assert kind == "CollectiveError"
        assert "rank 0, whose process connects the ranks, closed its system" in message
        assert f'before "op/later" (allreduce sum float32 [4]) on rank {rank}' in message
        assert "waits for it" not in message


def test_a_stopped_rank_holds_up_only_those_that_wait_for_it() -> None:
    body = """
group = open_group()
all_reduce("a")
say("met", rank)
if rank == 8:
    signal.pause()
for number in range(50):
    all_reduce(f"others {number}", 1 << 14, range(8))
say("done", rank)
group.close()
"""
    with Members(9, body) as members:
        await_met(members, 9)
        os.kill(members.pids[8], signal.SIGSTOP)
        assert sorted(members.next()[1] for _ in range(8)) == list(range(8))


def test_a_fork_that_lives_on_does_not_hide_that_its_rank_has_ended() -> None:
    body = """
group = open_group()
if rank == 1:
    if not os.fork():
        time.sleep(30)  # nobody ends it
        os._exit(0)
    all_reduce("a")
    os.kill(os.getpid(), signal.SIGKILL)
all_reduce("a")
begun = time.monotonic()
try:
    all_reduce("b")
except AscendError as error:
    say(rank, str(error), time.monotonic() - begun)
group.close()
"""
    sentence, seconds = run_members(2, body)[0]
    assert "rank 1 has exited" in sentence
    assert seconds < 20


def test_no_process_of_a_job_has_a_port() -> None:
    with Members(
        3, _TWO.format(count=4).replace('"met", rank)', '"met", rank)\nsignal.pause()')
    ) as members:
        await_met(members, 3)
        for pid in members.pids:
            assert psutil.Process(pid).net_connections("inet") == []


@contextlib.contextmanager
def strangers(job: str, count: int) -> Iterator[List[socket.socket]]:
    """Processes of this user that connect and know nothing."""
    deadline = time.monotonic() + 60
    with contextlib.ExitStack() as stack:
        found: List[socket.socket] = []
        while len(found) < count:
            assert time.monotonic() < deadline
            try:
                found.append(stack.enter_context(connect(Endpoint.named(job).of_system(1).names)))
            except OSError:
                time.sleep(0.01)  # nobody listens yet
        yield found


def test_strangers_keep_nobody_out_and_are_answered_or_dropped() -> None:
    late = (
        "if rank == 1:\n    while not os.path.exists(os.environ['GO']):\n        time.sleep(.01)\n"
    )
    go = Path(find_folder(), f"go-{os.getpid()}")
    with contextlib.ExitStack() as stack:
        members = stack.enter_context(Members(2, late + _ONE.format(count=4), GO=str(go)))
        silent = stack.enter_context(strangers(members.job, 100))
        talking = stack.enter_context(strangers(members.job, 3))
        talking[0].send(b"\xff" * 1000)
        talking[1].send(b'{"kind":"hello"}\n'.ljust(30))
        with contextlib.suppress(OSError):  # what is too long
            talking[2].send(bytes(LARGEST + 1))
        talking[0].settimeout(60)
        assert b"not from a rank of this job" in talking[0].recv(LARGEST)
        go.touch()
        stack.callback(go.unlink)
        found = members.rest()
        assert len(silent) == 100
    assert found == {"codes": [[0, 0]], 0: [3.0], 1: [3.0]}


def test_two_jobs_at_once_are_two() -> None:
    body = _ONE.format(count=1 << 18)
    with Members(2, body) as first, Members(3, body) as second:
        assert first.rest()["codes"] == [[0, 0]]
        assert second.rest() == {"codes": [[0] * 3], 0: [6.0], 1: [6.0], 2: [6.0]}


def test_nothing_is_left_of_killed_jobs_once_another_has_run() -> None:
    before = set(os.listdir("/dev/shm"))
    names = []
    for _ in range(5):
        body = _TWO.format(count=20_000_000).replace('all_reduce("a")', 'all_reduce("a", 1 << 20)')
        with Members(2, body) as members:
            await_met(members, 2)
            names.append(members.job)
            for pid in members.pids:
                os.kill(pid, signal.SIGKILL)
    assert run_members(2, _ONE.format(count=4))["codes"] == [[0, 0]]
    left = os.listdir(find_folder())
    for job in names:
        (name,) = Endpoint.named(job).of_system(1).names
        assert not [each for each in left if each.startswith(name)]
    assert {name for name in set(os.listdir("/dev/shm")) - before if "ascend" in name} == set()


class TestMemory:
    @pytest.fixture
    def folders(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> List[str]:
        folders = [str(tmp_path / "missing"), str(tmp_path)]
        monkeypatch.setattr(memory, "FOLDERS", folders)
        return folders

    def test_where_a_folder_is_missing_the_next_is_taken(self, folders: List[str]) -> None:
        descriptor = memory.create_shared_memory(2, 1 << 20)
        try:
            assert os.fstat(descriptor).st_size == 1 << 20
            assert os.listdir(folders[1]) == []
        finally:
            os.close(descriptor)

    def test_with_less_room_it_is_smaller_and_without_any_that_is_said(
        self, folders: List[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        room = 1 << 18

        def allocate(descriptor: int, begin: int, size_bytes: int) -> None:
            if size_bytes > room:
                raise OSError(28, "No space left on device")
            os.ftruncate(descriptor, size_bytes)

        monkeypatch.setattr(os, "posix_fallocate", allocate)
        descriptor = memory.create_shared_memory(2048)
        assert os.fstat(descriptor).st_size == room
        os.close(descriptor)
        with pytest.raises(CollectiveError, match="no room for 257 KB of shared memory"):
            memory.create_shared_memory(2056)  # which need 64 bytes each, twice
        room = 0
        with pytest.raises(CollectiveError, match="no room for 64 KB of shared memory") as refused:
            memory.create_shared_memory(2)
        assert "No space left on device" in str(refused.value)

    def test_a_rank_that_cannot_open_one_more_file_ends_the_job_by_name(self) -> None:
        limit = "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 64))"
        body = _TWO.format(count=1 << 18).replace(
            'say("met", rank)', f"import resource\nif rank == 1:\n    {limit}"
        )
        found = run_members(2, body)
        for rank in (0, 1):
            kind, sentence = found[rank]
            assert kind == "CollectiveError"
            assert "rank 1 failed: it cannot use the shared memory" in sentence
            assert "ulimit -n" in sentence

    def test_ranks_get_along_with_very_little(self) -> None:
        small = "from ascend_session.backends.exchange import server\n"
        small += "make = server.create_shared_memory\n"
        small += "server.create_shared_memory = lambda count: make(count, 1 << 16)\n"
        found = run_members(3, small + _ONE.format(count=300_001))
        assert found == {"codes": [[0] * 3], **{rank: [6.0] for rank in range(3)}}


def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    program = (
        "from ascend_session.backends.exchange import folder\n"
        f"folder._PARENTS = ({str(tmp_path)!r},)\n"
        "folder.find_folder()\n"
    )
    folder = tmp_path / f"ascend_session-{os.geteuid()}"
    folder.mkdir()
    folder.chmod(0o755)
    ended = subprocess.run(
        [sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, timeout=60
    )
    assert "must be a folder that only this user may enter" in ended.stderr
    assert f"chmod 700 {folder}" in ended.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's folder")
def test_a_folder_that_another_user_has_made_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parents = [tmp_path / "first", tmp_path / "second"]
    for parent in parents:
        parent.mkdir()
    theirs = parents[0] / f"ascend_session-{os.geteuid()}"
    theirs.mkdir()
    os.chown(theirs, 54321, 54321)
    monkeypatch.setattr(folder, "_PARENTS", [str(parent) for parent in parents])
    assert find_folder() == str(parents[1] / theirs.name)
    monkeypatch.setattr(folder, "_PARENTS", [str(parents[0])])
    with pytest.raises(InitializationError, match="belongs to uid 54321"):
        find_folder()


def test_a_child_that_is_forked_while_rank_0_begins_to_listen_holds_nothing_of_it() -> None:
    body = """
from ascend_session.backends.exchange import rendezvous
from ascend_session.backends.exchange.folder import find_folder
name = rendezvous.socket.gethostname

def fork_and_name():
    rendezvous.socket.gethostname = name
    if not os.fork():
        held = []
        for number in os.listdir("/proc/self/fd"):
            try:
                held.append(os.readlink(f"/proc/self/fd/{number}"))
            except OSError:
                pass
        say("held", [path for path in held if find_folder() in path])
        os._exit(0)
    os.wait()
    return name()

rendezvous.socket.gethostname = fork_and_name
open_group().close()
"""
    assert run_members(1, body) == {"held": [[]], "codes": [[0]]}


def test_a_rank_whose_rank_0_may_be_on_another_machine_is_told_so_while_it_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(group, "ALONE_S", 0.1)
    who = group.Rank(1, 2, "1", 1, Endpoint.named("nobody", str(os.getpid())))
    with pytest.raises(InitializationError, match="rank 0 of 2 did not join within 2 s"):
        group.ProcessGroup(who, timeout_s=2).open()
    assert "rank 1 is waiting up to 2 s for 1 other rank" in caplog.text
    assert "They have to be on this machine" in caplog.text


def test_a_socket_of_another_machine_in_a_shared_folder_names_both() -> None:
    (name,) = Endpoint.named("elsewhere", str(os.getpid())).names
    lock = Path(find_folder(), f"{name}.lock")
    lock.write_text('{"host": "another-host", "boot": "another-boot"}')
    try:
        with pytest.raises(Exception, match="on another machine, another-host; this") as refused:
            connect([name])
        assert socket.gethostname() in str(refused.value)
        assert "start all ranks on one machine" in str(getattr(refused.value, "hint", ""))
    finally:
        lock.unlink()


def test_a_process_that_waits_for_nobody_in_the_folder_is_refused_by_the_system() -> None:
    with make_socket() as alone, pytest.raises(OSError, match=r"."):
        alone.connect(os.path.join(find_folder(), "nobody"))


def test_ranks_that_do_not_come_are_named() -> None:
    body = "if rank == 2:\n    sys.exit()\nopen_group()"
    found: Any = run_members(3, body, timeout_s=1)
    for rank in (0, 1):
        kind, sentence = found[rank]
        assert kind == "InitializationError"
        assert "rank 2 of 3 did not join within 1 s" in sentence


def test_rank_0_listens_once_another_process_has_cleaned_up_there() -> None:
    body = """
import fcntl, threading
from ascend_session.backends.exchange.folder import find_folder
path = os.path.join(find_folder(), Endpoint.named(job).of_system(1).names[0] + ".lock")
if rank == 1:
    lock = os.open(path + ".new", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.rename(path + ".new", path)
    threading.Timer(0.5, os.close, [lock]).start()
while rank == 0 and not os.path.exists(path):
    time.sleep(0.01)
open_group().close()
say(rank, "met")
"""
    found = run_members(2, body, timeout_s=20)
    assert found == {"codes": [[0, 0]], 0: ["met"], 1: ["met"]}


def test_a_full_disk_where_the_ranks_meet_is_named() -> None:
    body = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
open_group()
"""
    kind, sentence = run_members(2, body, timeout_s=1)[0]
    assert kind == "InitializationError"
    assert sentence.startswith(f"The ranks of this machine cannot use {find_folder()} for their ")
