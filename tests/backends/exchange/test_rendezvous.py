"""How the ranks of one machine meet, who is refused, and what is left of it in the file system."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Iterator

import psutil
import pytest

from ascend_session.backends.exchange import rendezvous
from ascend_session.backends.exchange.rendezvous import Listening, Rendezvous, remove_abandoned
from ascend_session.errors import InitializationError
from tests.backends.exchange.jobs import (
    HASTY,
    PATIENCE_S,
    ROOT,
    Job,
    Member,
    ends,
    enter_all,
    leave,
)

FAILED = ("failed", "join")


# Who meets.


def test_eight_ranks_meet_and_open_no_port(job: Job) -> None:
    for member in job.together(8):
        assert psutil.Process(member.pid).net_connections("inet") == []


def test_ranks_that_do_not_come_are_named_to_all_others(job: Job) -> None:
    members = [job.start(rank, 4, timeout_s=3) for rank in (0, 1)]
    for member in members:
        sentence, kind = member.expect(*FAILED)
        assert "rank 2 and rank 3 of 4 did not come within 3 s" in sentence
        assert kind == "InitializationError"
    for member in members:
        assert member.run_out() == 0
        assert member.log == ""


def test_a_missing_rank_0_is_named_by_the_others(job: Job) -> None:
    member = job.start(1, 2, timeout_s=1)
    sentence, _ = member.expect(*FAILED)
    assert "rank 0 of 2 did not come within 1 s: nothing answers on this machine" in sentence
    assert member.run_out() == 0


def test_rank_0_may_come_last(job: Job) -> None:
    early = job.start(1, 2, timeout_s=30)
    assert early.pid
    job.start(0, 2).expect("join")
    assert early.expect("join")[0] < 30


def test_a_rank_that_comes_too_late_hears_so_at_once(job: Job) -> None:
    job.start(0, 2, timeout_s=0.5).expect(*FAILED)
    late = job.start(1, 2, timeout_s=30)
    sentence, _ = late.expect(*FAILED)
    assert "rank 1 came when the others had given up: rank 1 of 2 did not come" in sentence


def test_after_a_failed_meeting_the_same_processes_can_meet(job: Job) -> None:
    first = job.start(0, 2, timeout_s=0.5)
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
    early = job.start(1, 2, timeout_s=0.5)
    early.expect(*FAILED)
    late = job.start(0, 2)
    for _ in range(40):  # until rank 0 is there
        early.do("again")
        early.do("join")
        if early.next()[0] == "join":
            break
    late.expect("join")


def test_a_death_during_the_rendezvous_is_heard_at_once(job: Job) -> None:
    members = [job.start(rank, 4, timeout_s=60) for rank in (0, 1, 2)]
    _await_welcome(job, members[1], 4)
    _await_welcome(job, members[2], 4)
    killed = members[1].kill()
    for member in (members[0], members[2]):
        sentence, _ = member.expect(*FAILED)
        assert "rank 1 has ended before all ranks were there" in sentence
    assert time.monotonic() - killed < 30


def test_the_death_of_rank_0_during_the_rendezvous_is_heard_at_once(job: Job) -> None:
    members = [job.start(rank, 3, timeout_s=60) for rank in (0, 1)]
    _await_welcome(job, members[1], 3)
    killed = members[0].kill()
    sentence, _ = members[1].expect(*FAILED)
    assert "rank 0 has ended before all ranks were there" in sentence
    assert time.monotonic() - killed < 30


def test_a_second_process_of_a_rank_is_refused_and_harms_nobody(job: Job) -> None:
    members = job.together(2)
    for rank, member in enumerate(members):
        begun = time.monotonic()
        sentence, _ = job.start(rank, 2).expect(*FAILED)
        assert time.monotonic() - begun < 10
        assert f"process {member.pid} has that rank already" in sentence
    enter_all(members, "k")


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
    enter_all(members, "k")


def test_a_rank_out_of_range_is_refused(job: Job) -> None:
    job.start(0, 2)
    for rank in (2, -1):
        sentence, _ = job.start(rank, 2).expect(*FAILED)
        assert "the 2 ranks of the job are 0 to 1" in sentence


def test_two_systems_one_after_the_other(job: Job) -> None:
    members = job.together(3)
    for _ in range(2):
        for key in ("a", "b"):
            for member in members:
                member.enter(key, [0, 1, 2])
            for member in members:
                member.expect("entered", key)
        for member in members:
            member.do("leave")
            member.do("again")
            member.do("join")  # some are there while others still leave
        for member in members:
            assert member.expect("leave")[0] < 2
            member.expect("join")


def test_a_rank_that_joins_again_early_is_no_death_and_disturbs_nobody(job: Job) -> None:
    job.settings = HASTY
    members = job.together(3)
    members[2].do("leave")
    members[2].expect("leave")
    members[2].do("again")
    members[2].do("join")
    for member in members[:2]:
        member.enter("k", [0, 1])
    for member in members[:2]:
        member.expect("entered", "k")
    for member in members[:2]:
        member.do("leave")
        member.do("again")
        member.do("join")
    for member in members[:2]:
        member.expect("leave")
        member.expect("join")
    members[2].expect("join")
    leave(members)


# The folder.


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch, job: Job) -> Iterator[Path]:
    """Where the folder of this process and of the job's ranks is; a test's own path is too long."""
    with tempfile.TemporaryDirectory(dir="/tmp") as parent:
        monkeypatch.setattr(rendezvous, "_PARENTS", (parent,))
        job.settings["rendezvous._PARENTS"] = [parent]
        yield Path(parent)


@pytest.fixture
def folder(parent: Path) -> Path:
    return parent / f"ascend_session-{os.geteuid()}"


def test_only_this_user_may_enter_the_folder(folder: Path) -> None:
    before = os.umask(0)
    try:
        assert rendezvous.folder() == str(folder)
    finally:
        os.umask(before)
    found = folder.stat()
    assert (found.st_mode & 0o7777, found.st_uid) == (0o700, os.geteuid())
    assert rendezvous.folder() == str(folder)  # and another time


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o701, 0o777])
def test_a_folder_that_others_may_enter_is_refused(folder: Path, mode: int) -> None:
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(InitializationError, match=f"has mode {mode:o}") as refused:
        rendezvous.folder()
    assert str(refused.value.hint) == f"Remove it, or chmod 700 {folder}."


def test_a_link_or_a_file_is_no_folder(parent: Path, folder: Path) -> None:
    (parent / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(parent / "elsewhere")
    with pytest.raises(InitializationError, match="is not a folder that only this user may enter"):
        rendezvous.folder()
    folder.unlink()
    folder.touch(0o600)
    with pytest.raises(InitializationError, match="is not a folder that only this user may enter"):
        rendezvous.folder()


def test_the_folder_of_somebody_else_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendezvous.folder()
    owner = os.geteuid()
    folder.rename(folder.with_name(f"ascend_session-{owner + 1}"))
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(InitializationError, match=f"it belongs to uid {owner} and"):
        rendezvous.folder()


def test_where_no_folder_can_be_made_it_is_said(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendezvous, "_PARENTS", (str(parent / "missing"), str(parent / "also")))
    with pytest.raises(InitializationError, match=r"cannot meet in .*: No such file") as refused:
        rendezvous.folder()
    assert "Make one of" in str(refused.value.hint)
    monkeypatch.setattr(rendezvous, "_PARENTS", (str(parent / "missing"), str(parent)))
    assert rendezvous.folder().startswith(str(parent))


def test_ranks_do_not_meet_in_a_folder_that_others_may_enter(job: Job, folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o755)
    for rank in (0, 1):
        sentence, kind = job.start(rank, 2).expect(*FAILED)
        assert "is not a folder that only this user may enter" in sentence
        assert kind == "InitializationError"
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "meeting",
    [
        Rendezvous.named("job"),
        Rendezvous.named("j" * 300, "node " * 100, "[fd00::2]:4000"),
        Rendezvous.started_together("10087", [0]),
        Rendezvous.started_together("", [1]),
    ],
)
def test_the_paths_of_sockets_are_short_enough(meeting: Rendezvous) -> None:
    for parent in rendezvous._PARENTS:
        for name in meeting.names:
            path = os.path.join(parent, "ascend_session-4294967294", name)
            assert len(os.fsencode(path)) <= 107


def test_ranks_with_different_folders_for_temporary_files_meet(job: Job, tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"{rank}").mkdir()
        job.start(rank, 2, env={"TMPDIR": str(tmp_path / f"{rank}")})
    for member in job.members:
        member.expect("join")
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []


# What is left in it.


def test_nothing_is_left_when_all_ranks_have_left(job: Job, folder: Path) -> None:
    members = job.together(2)
    assert len(list(folder.iterdir())) == 2
    leave(members)
    assert list(folder.iterdir()) == []


def test_nothing_is_left_although_processes_go_on_after_they_have_left(
    job: Job, folder: Path
) -> None:
    members = job.together(2)
    for member in members:
        member.do("leave")
    for member in members:
        member.expect("leave")
    _await(lambda: not list(folder.iterdir()))
    for member in members:
        member.do("again")
        member.do("join")
    for member in members:
        member.expect("join")


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_nothing_is_left_of_a_killed_rank_once_the_others_have_closed(
    job: Job, folder: Path, victim: int
) -> None:
    members = job.together(3)
    members[victim].kill()
    others = [member for member in members if member.rank != victim]
    ends(others)
    leave(others)
    assert list(folder.iterdir()) == []


def test_nothing_is_left_of_ranks_that_did_not_meet(job: Job, folder: Path) -> None:
    member = job.start(0, 2, timeout_s=0.2)
    member.expect(*FAILED)
    assert member.run_out() == 0
    assert list(folder.iterdir()) == []


def test_nothing_is_left_of_a_first_rank_that_cannot_listen_for_other_nodes(
    job: Job, folder: Path
) -> None:
    member = job.start(0, 2, node=0, coordinator="here:0")
    member.expect(*FAILED)
    assert member.run_out() == 0
    assert list(folder.iterdir()) == []


def test_nothing_is_left_of_a_script_that_ends_without_closing_its_system(
    job: Job, folder: Path
) -> None:
    for member in job.together(2):
        assert member.run_out() == 0
    assert list(folder.iterdir()) == []


def test_the_next_job_of_that_name_is_not_hindered_by_one_that_was_killed(
    job: Job, folder: Path
) -> None:
    for member in job.together(2):
        member.kill()
        member.close()
    assert len(list(folder.iterdir())) == 2
    members = job.together(2)
    leave(members)
    assert list(folder.iterdir()) == []


def test_whoever_comes_next_removes_what_killed_jobs_have_left_and_no_more(
    job: Job, folder: Path
) -> None:
    killed = job.together(2, job=f"{job.name} that is killed")
    members = job.together(2)
    for member in killed:
        member.kill()
        member.close()
    assert len(list(folder.iterdir())) == 4
    remove_abandoned()
    assert len(list(folder.iterdir())) == 2
    remove_abandoned()
    assert len(list(folder.iterdir())) == 2
    enter_all(members, "k")
    sentence, _ = job.start(1, 2).expect(*FAILED)  # it is found still
    assert "has that rank already" in sentence


def test_another_job_removes_what_a_killed_one_has_left(job: Job, folder: Path) -> None:
    for member in job.together(2, job=f"{job.name} that is killed"):
        member.kill()
        member.close()
    members = job.together(2)
    leave(members)
    assert list(folder.iterdir()) == []


def test_to_remove_what_is_abandoned_never_fails(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir(0o755)
    folder.chmod(0o755)
    (folder / "name.lock").touch()
    remove_abandoned()
    assert (folder / "name.lock").exists()
    monkeypatch.setattr(rendezvous, "_PARENTS", ("/nowhere",))
    remove_abandoned()


# Listening.


def test_of_two_that_want_to_listen_one_does(folder: Path) -> None:
    with contextlib.closing(Listening(["a", "b"])):
        with pytest.raises(BlockingIOError):
            Listening(["c", "b"])
        assert sorted(path.name for path in folder.iterdir()) == ["a", "a.lock", "b", "b.lock"]
        with contextlib.closing(rendezvous.connect(["missing", "b"])) as connection:
            assert rendezvous.credentials_of(connection) == (os.getpid(), os.geteuid())
    assert list(folder.iterdir()) == []


def test_a_lock_is_not_inherited_by_what_a_rank_starts(folder: Path) -> None:
    with contextlib.closing(Listening(["a"])):
        with subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
        ) as child:
            links = [_link(f"/proc/{child.pid}/fd/{name}") for name in _descriptors(child.pid)]
            assert child.stdin is not None
            child.stdin.close()
    assert not [link for link in links if str(folder) in link]


def test_a_fork_leaves_the_files_to_its_parent(folder: Path) -> None:
    program = (
        "import os, sys\n"
        "from ascend_session.backends.exchange import process_group, rendezvous\n"
        f"rendezvous._PARENTS = [{str(folder.parent)!r}]\n"
        "from ascend_session.backends.exchange.hub import hub_of\n"
        "where = rendezvous.Rendezvous.named('job')\n"
        "hub_of(rendezvous.Rank(0, 2, '', 2, where, is_hub=True), 1)\n"
        "if not os.fork():\n"
        "    sys.exit(0)\n"  # with all that a process does at its end
        "os.wait()\n"
        "print(*os.listdir(rendezvous.folder()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        check=True,
        timeout=PATIENCE_S,
    )
    assert len(done.stdout.split()) == 2
    assert list(folder.iterdir()) == []


@pytest.fixture
def unlistened(folder: Path) -> str:
    """A socket that was left behind: a file at which nobody listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
        dead.bind(os.path.join(rendezvous.folder(), "a"))
    return "a"


def test_at_what_was_left_behind_nobody_answers_but_one_can_listen_anew(unlistened: str) -> None:
    with pytest.raises(ConnectionRefusedError):
        rendezvous.connect([unlistened])
    with contextlib.closing(Listening([unlistened])):
        rendezvous.connect([unlistened]).close()


def _descriptors(pid: int) -> Any:
    return os.listdir(f"/proc/{pid}/fd")


def _link(path: str) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(path)
    return ""


def _await(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _await_welcome(job: Job, member: Member, size: int) -> None:
    """Wait until a rank is let in: only then a second process of it would be refused."""
    member.await_connected(1)
    job.start(member.rank, size, timeout_s=60).expect(*FAILED)
