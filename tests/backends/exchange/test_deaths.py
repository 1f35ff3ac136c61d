"""Ranks that end: all others hear it at once, and who it was."""

import os
import signal
import time

import pytest

from ascend_session.backends.exchange.messages import CANNOT_GO_ON
from tests.backends.exchange.jobs import Job, ends, without

FAILED = "failed"


@pytest.mark.parametrize("victim", [0, 7])
def test_a_killed_rank_is_named_to_all_others_at_once(job: Job, victim: int) -> None:
    members = job.together(8)
    others = without(members, victim)
    killed = members[victim].kill()
    sentences = ends(others)
    assert time.monotonic() - killed < 15
    assert set(sentences.values()) == {
        f"{CANNOT_GO_ON}rank {victim} has ended (its connection broke). "
        "Look at its output for the reason."
    }
    for member in others:
        assert member.run_out() == 0
        assert member.log == ""


@pytest.mark.parametrize("victim", [0, 2])
def test_who_waits_for_a_killed_rank_fails_at_once(job: Job, victim: int) -> None:
    members = job.together(3)
    others = without(members, victim)
    for member in others:
        member.enter("k", [0, 1, 2], limit_s=60)
    members[victim].enter("other", [0, 1, 2], limit_s=60)
    killed = members[victim].kill()
    for member in others:
        sentence = member.expect_end()
        assert f"rank {victim} has ended" in sentence
    assert time.monotonic() - killed < 15
    for member in others:
        assert member.run_out() == 0


@pytest.mark.parametrize("victim", [0, 2])
def test_who_exchanges_tensors_with_a_killed_rank_fails_at_once(job: Job, victim: int) -> None:
    members = job.together(3)
    for member in members:
        given = {"is_held": True} if member.rank == victim else {"steps": 1, "limit_s": 60}
        member.enter("k", [0, 1, 2], data="x", times=100000, **given)
    for member in members:
        member.expect("entered", "k")
    killed = members[victim].kill()
    for member in without(members, victim):
        sentence = member.expect_end()
        assert f"rank {victim} has ended" in sentence
    assert time.monotonic() - killed < 15


def test_a_script_that_ends_without_leaving_is_a_rank_that_has_ended(job: Job) -> None:
    members = job.together(3)
    assert members[1].run_out() == 0
    assert "rank 1 has ended" in ends(without(members, 1))[0]


def test_rank_0_that_ends_without_leaving_is_named_and_does_not_hang(job: Job) -> None:
    members = job.together(2)
    members[1].enter("k", [0, 1])
    assert members[0].run_out() == 0
    assert members[0].log == ""
    assert "rank 0 has ended" in members[1].expect_end()


def test_rank_0_that_leaves_after_the_end_lets_all_hear_who_failed(job: Job) -> None:
    members = job.together(4)
    members[2].kill()
    ends(members[:1])
    members[0].do("leave")
    assert members[0].run_out() == 0
    assert "rank 2 has ended" in ends([members[1], members[3]])[1]


@pytest.mark.parametrize("victim", [0, 2])
def test_a_child_that_python_has_forked_does_not_hide_a_death(job: Job, victim: int) -> None:
    # Nobody looks at processes: only their connections tell that they have ended.
    job.settings.update({"relay.INTERVAL_S": 600.0, "peer._LOOK_S": 600.0})
    members = job.together(3, begin="open")
    members[victim].do("fork", False)
    (child,) = members[victim].expect("child")
    try:
        for member in without(members, victim):
            member.do("reduce", "k", {"ranks": [0, 1, 2], "count": 4})
        killed = members[victim].kill()
        for member in without(members, victim):
            assert f"rank {victim} has ended" in member.expect(FAILED, "k")[0]
        assert time.monotonic() - killed < 15
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("victim", [0, 2])
def test_a_child_that_keeps_the_connections_open_does_not_hide_a_death(
    job: Job, victim: int
) -> None:
    members = job.together(3)
    members[victim].do("fork", True)
    (child,) = members[victim].expect("child")
    others = without(members, victim)
    try:
        others[0].enter("k", [0, 1, 2], limit_s=60)
        others[1].enter("l", [0, 1, 2], limit_s=60)
        killed = members[victim].kill()
        for member in others:
            sentence = member.expect_end()
            assert f"rank {victim} has ended" in sentence
        assert time.monotonic() - killed < 15
        for member in others:
            assert member.run_out() == 0
    finally:
        os.kill(child, signal.SIGKILL)
    assert members[victim].log == ""


@pytest.mark.parametrize("victim", [0, 2])
def test_nor_does_it_in_the_midst_of_a_collective(job: Job, victim: int) -> None:
    members = job.together(3)
    members[victim].do("fork", True)
    (child,) = members[victim].expect("child")
    try:
        for member in members:
            given = {"is_held": True} if member.rank == victim else {"steps": 1, "limit_s": 8}
            member.enter("k", [0, 1, 2], data="x", times=100000, **given)
        for member in members:
            member.expect("entered", "k")
        killed = members[victim].kill()
        for member in without(members, victim):
            assert f"rank {victim} has ended" in str(member.next())
        assert time.monotonic() - killed < 15
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_forked_child_that_ends_is_no_death(job: Job) -> None:
    members = job.together(2, begin="open")
    for member in members:
        for keeps in (False, True):
            member.do("fork", keeps)
            os.kill(member.expect("child")[0], signal.SIGKILL)
    for member in members:
        member.do("reduce", "k", {"ranks": [0, 1], "count": 100000})
    for member in members:
        member.expect("reduced", "k")
        member.do("close")
    for member in members:
        member.expect("close")
        assert member.run_out() == 0
        assert member.remaining() == []


def test_a_rank_0_that_does_not_answer_is_named_in_time(job: Job) -> None:
    job.settings["peer._ANSWER_S"] = 1.0
    members = job.together(2)
    os.kill(members[0].pid, signal.SIGSTOP)
    members[1].enter("k", [0, 1], limit_s=1)
    sentence = members[1].expect_end()
    assert "rank 0, which keeps the ranks together, has not answered for 2 s" in sentence
    members[1].do("leave")
    assert members[1].expect("leave")[0] < 3
    assert members[1].run_out() == 0


def test_nobody_waits_for_ever_to_send_something_to_a_rank_0_that_takes_nothing(job: Job) -> None:
    job.settings["peer._SEND_S"] = 0.5
    members = job.together(2)
    os.kill(members[0].pid, signal.SIGSTOP)
    keys = [f"key {number}" for number in range(100)]
    for key in keys:  # more than a socket keeps
        members[1].enter(key, [0, 1], data="x", times=8000, limit_s=60)
    for _ in keys:
        assert "has not answered for 0.5 s" in members[1].expect_end()


def test_a_rank_that_is_stopped_for_a_while_is_no_death(job: Job) -> None:
    job.settings.update({"relay.INTERVAL_S": 0.1, "peer._LOOK_S": 0.1})
    members = job.together(2)
    members[0].enter("k", [0, 1], limit_s=60)
    os.kill(members[1].pid, signal.SIGSTOP)
    members[1].enter("k", [0, 1], limit_s=60)
    members[0].assert_silent(0.5)  # longer than two looks take
    os.kill(members[1].pid, signal.SIGCONT)
    for member in members:
        member.expect("entered", "k")
