"""Which rank is to blame, and what is said about it."""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict, Tuple

import pytest

from ascend_session.failures.failure import FailureClass
from ascend_session.failures.table import JOB_CANNOT_GO_ON, PROCESS_LIMIT
from ascend_session.launcher.verdict.cause import find_first_failed
from tests.launcher.situations import STOP, Situation, printed

_TERMINATED = "ascend_session.session.signals.Terminated"
NO_MEMORY, NO_ANSWER, NO_LINK = "EI0007", "EI0002", "EI0015"


def test_a_job_that_succeeded_has_no_cause_and_costs_nothing(tmp_path: Path) -> None:
    ranks, cause = Situation(tmp_path, 2).judged()
    assert cause is None
    assert [rank.outcome for rank in ranks] == ["succeeded", "succeeded"]
    code = "import sys, ascend_session.launcher.verdict.result\n"
    code += "print('ascend_session.failures.scanner' in sys.modules)"
    root = str(Path(__file__).resolve().parents[2])
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=root, stdout=subprocess.PIPE, check=True
    )
    assert said.stdout == b"False\n"


def test_who_ends_after_everyone_was_asked_to_is_stopped(tmp_path: Path) -> None:
    made = (
        Situation(tmp_path, 7).ended(0, 7).stopped(1, 2).stopped(3, status=0).stopped(4, status=1)
    )
    made.raised(5, "KeyboardInterrupt", "", STOP + 0.1).raised(6, "ValueError", "x", STOP - 0.1)
    found = ("failed", "stopped", "stopped", "stopped", "stopped", "stopped", "failed")
    assert made.outcomes() == found


def test_a_rank_whose_failure_follows_from_another_one_is_stopped(tmp_path: Path) -> None:
    made = Situation(tmp_path, 4).ended(1, -signal.SIGSEGV).raised(0, "UnknownError", "x", 5.0)
    made.raised(2, "ValueError", "x", 6.0).raised(3, "UnknownError", "x", 7.0)
    for rank, failed in ((0, 1), (3, 9)):
        path = Path(made.plan.ranks[rank].folder, "error.json")
        path.write_text(json.dumps({**json.loads(path.read_text()), "failed_rank": failed}))
    # Rank 9 is not there: who fails because of it is the only one who tells of it here.
    assert made.outcomes() == ("stopped", "failed", "failed", "failed")


def test_what_a_child_leaves_after_the_end_of_its_rank_did_not_end_the_rank(
    tmp_path: Path,
) -> None:
    made = Situation(tmp_path, 2).raised(1, "ValueError", "of a child", 9.5).ended(1, 7, 9.0)
    assert made.cause().said == "Rank 1 exited with code 7."
    assert made.ended(1, 7, 9.5).cause().said == "Rank 1 raised ValueError: of a child."


def test_the_rank_that_is_reported_at_once_is_the_one_that_is_blamed(tmp_path: Path) -> None:
    made = Situation(tmp_path, 4).raised(2, "ValueError", "x", 5.0).raised(3, "ValueError", "x", 6)
    assert made.first_failed() == 2
    made.attempt.first_failed = 2
    made.raised(1, "ValueError", "written late", 4.0)
    cause = made.cause()
    assert (cause.rank, cause.others) == (2, (1, 3))


def test_a_failure_that_may_follow_from_another_one_is_not_reported_at_once(tmp_path: Path) -> None:
    made = Situation(tmp_path, 2).ended(0, 1).wrote(0, printed(NO_ANSWER))
    assert made.first_failed() is None
    assert made.raised(1, "ValueError", "x", 12.0).cause().rank == 1


@pytest.mark.parametrize(
    ("remote", "named"),
    [(" [1]", "; it waited for rank 1"), (": [1]", "; it waited for rank 1"), (" [unknown]", "")],
)
def test_the_rank_that_another_one_waited_for_is_named(
    tmp_path: Path, remote: str, named: str
) -> None:
    line = (
        "EI0002: [PID: 7277] 2024-11-28-11:59:30.645.648 The wait execution of the Notify register "
        "times out. Reason: The Notify register has not received the Notify record from remote "
        f"rank{remote}.base information: [streamID:[14], taskID[4]]"
    )
    cause = Situation(tmp_path, 2).ended(0, 1).wrote(0, line).stopped(1).cause()
    assert cause.said == (
        "Rank 0 exited with code 1. It reported EI0002: another rank did not answer in "
        f"time{named}."
    )


def test_finding_the_failure_to_report_at_once_changes_nothing(tmp_path: Path) -> None:
    made = Situation(tmp_path, 2).raised(1, "ValueError", "x", 5.0)
    before = deepcopy(made.attempt)
    find_first_failed(made.plan, made.attempt)
    assert made.attempt == before


def test_ranks_that_never_ran_are_not_started(tmp_path: Path) -> None:
    made = Situation(tmp_path, 3).not_started(0, errno.ENOENT).never_tried(1).stopped(2)
    ranks, cause = made.judged()
    assert [rank.outcome for rank in ranks] == ["not started", "not started", "stopped"]
    assert ranks[1].trouble == "Rank 1 was not started, because the job was already stopping."
    assert cause is not None
    assert (cause.rank, cause.exit_code, cause.others) == (0, 127, ())


def said_by(situation: Situation) -> str:
    return situation.cause().said


@pytest.mark.parametrize(
    ("happens", "code", "said"),
    [
        (lambda s: s.ended(1, 7), 7, "Rank 1 exited with code 7."),
        (
            lambda s: s.ended(1, 139),
            139,
            "Rank 1 exited with code 139, the code a shell gives for SIGSEGV.",
        ),
        (lambda s: s.ended(1, -11), 139, "Rank 1 was killed by signal 11 (SIGSEGV)."),
        (lambda s: s.ended(1, -60), 188, "Rank 1 was killed by signal 60."),
        (
            lambda s: s.ended(1, -9),
            137,
            "Rank 1 was killed by SIGKILL, which is what the kernel's out-of-memory killer sends.",
        ),
        (lambda s: s.raised(1, "SystemExit", "7", 9.0, 7), 7, "Rank 1 exited with code 7."),
        (lambda s: s.raised(1, "SystemExit", "", 9.0), 1, "Rank 1 exited with code 1."),
        (
            lambda s: s.raised(1, "SystemExit", "no data", 9.0),
            1,
            "Rank 1 exited with code 1: no data.",
        ),
        (
            lambda s: s.raised(1, "__main__.Wrong", "one\ntwo", 9.0),
            1,
            "Rank 1 raised Wrong: one.",
        ),
        (lambda s: s.raised(1, "MemoryError", "", 9.0), 1, "Rank 1 raised MemoryError."),
        (
            lambda s: s.not_started(1, errno.ENOENT),
            127,
            "Rank 1 could not be started: /bin/sh: No such file or directory (the file is there; "
            "the interpreter that its first line names is not).",
        ),
        (
            lambda s: s.not_started(1, errno.ENOEXEC),
            126,
            "Rank 1 could not be started: /bin/sh: Exec format error (it is no program for this "
            "machine, or damaged).",
        ),
        (
            lambda s: s.not_started(1, errno.EACCES, "started in /closed"),
            126,
            "Rank 1 could not be started in /closed: Permission denied.",
        ),
    ],
)
def test_what_happened_is_said_in_a_sentence(
    tmp_path: Path, happens: Callable[[Situation], Situation], code: int, said: str
) -> None:
    cause = happens(Situation(tmp_path, 3)).stopped(0, 2).cause()
    assert (cause.rank, cause.exit_code, cause.said, cause.failure) == (1, code, said, None)


def test_a_killed_rank_comes_with_advice_on_memory(tmp_path: Path) -> None:
    assert "dmesg" in Situation(tmp_path, 1).ended(0, -signal.SIGKILL).cause().advice


def test_a_killed_rank_comes_with_the_limit_of_cpu_time_if_there_is_one(
    tmp_path: Path, monkeypatch: Any
) -> None:
    advice = Situation(tmp_path, 1).ended(0, -signal.SIGKILL).cause().advice
    assert "CPU time" not in advice
    limits = {resource.RLIMIT_CPU: (5, 7)}
    real = resource.getrlimit
    monkeypatch.setattr(resource, "getrlimit", lambda what: limits.get(what) or real(what))
    limited = Situation(tmp_path / "again", 1).ended(0, -signal.SIGKILL).cause().advice
    more = "The kernel also kills a process here once it has used 7 s of CPU time: see 'ulimit -t'."
    assert limited == f"{advice} {more}"


@pytest.mark.parametrize("module", ["npu_bridge", "npu_bridge.npu_init", "hccl"])
def test_a_rank_that_does_not_find_the_vendors_packages_is_told_what_brings_them(
    tmp_path: Path, module: str
) -> None:
    text = f"No module named '{module}'"
    cause = Situation(tmp_path, 1).raised(0, "ModuleNotFoundError", text, 5.0).cause()
    assert "ascend-session run" in cause.advice
    assert cause.said.count("No module named") == 1


def test_a_rank_that_was_not_started_comes_with_advice_on_its_program(tmp_path: Path) -> None:
    assert "by hand" in Situation(tmp_path, 1).not_started(0, errno.ENOMEM).cause().advice


@pytest.mark.parametrize(
    ("number", "content", "why"),
    [
        (errno.ENOEXEC, b"echo hi\n", "it is a script, but no first line such as '#!/bin/bash'"),
        (errno.ENOEXEC, b"", "the file is empty"),
        (errno.ENOEXEC, b"\x7fELF\x02\x01", "it is no program for this machine, or damaged"),
        (errno.ENOENT, b"#!/bin/bash\r\necho\r\n", "its lines end as on Windows"),
        (errno.ENOENT, b"#!/bin/none\n", "the interpreter that its first line names is not"),
    ],
    ids=["script", "empty", "binary", "windows", "interpreter"],
)
def test_a_file_that_is_no_program_says_what_is_wrong_with_it(
    tmp_path: Path, number: int, content: bytes, why: str
) -> None:
    program = tmp_path / "train.sh"
    program.write_bytes(content)
    made = Situation(tmp_path / "logs", 1)
    made.plan.ranks[0].command = (str(program),)
    cause = made.not_started(0, number).cause()
    assert why in cause.said
    assert (f"--no-python bash {program}" in cause.advice) is why.startswith("it is a script")


def all_fail_late(situation: Situation, code: str) -> Situation:
    """Every rank ends by abort(), one after the other, and wrote the code."""
    for rank in range(len(situation.plan.ranks)):
        situation.ended(rank, -signal.SIGABRT, 11.0 + rank).wrote(rank, printed(code))
    return situation


@pytest.mark.parametrize(
    "happens",
    [
        lambda s: s.wrote(3, printed(NO_MEMORY)),
        lambda s: s.wrote(3, "").wrote(3, printed(NO_MEMORY), "stdout"),
        lambda s: s.wrote(3, "") and s.logged(3, printed(NO_MEMORY)) and s,
        lambda s: s.wrote(3, "").raised(3, "some.InternalError", printed(NO_MEMORY), 19.0),
        lambda s: s.wrote(3, "").raised(3, "ZeroDivisionError", "division by zero", 19.0),
        lambda s: s.wrote(3, "").ended(3, 7, 19.5),
        lambda s: s.ended(3, -signal.SIGKILL, 19.5),
        lambda s: s.ended(3, -signal.SIGSEGV, 19.5),
        lambda s: s.wrote(3, "").not_started(3, errno.ENOENT),
        lambda s: s.wrote(3, printed("507033")).ended(3, 1, 19.5),
    ],
    ids=[
        "stderr",
        "stdout",
        "plog",
        "record",
        "exception",
        "code",
        "killed",
        "crash",
        "unstarted",
        "ambiguous",
    ],
)
def test_a_failure_of_its_own_beats_timeouts_that_came_first(
    tmp_path: Path, happens: Callable[[Situation], Situation]
) -> None:
    cause = happens(all_fail_late(Situation(tmp_path, 8), NO_ANSWER)).cause()
    assert cause.rank == 3
    assert sorted(cause.others) == [0, 1, 2, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (NO_MEMORY, "507033"),
        ("507033", NO_ANSWER),
        (NO_ANSWER, "E19999"),
        (NO_MEMORY, "E19999"),
    ],
)
def test_clearer_codes_beat_others(tmp_path: Path, better: str, worse: str) -> None:
    made = all_fail_late(Situation(tmp_path, 3), worse).wrote(2, printed(worse) + printed(better))
    cause = made.cause()
    assert cause.rank == 2
    assert cause.failure is not None
    assert cause.failure.code == better
    assert f"It reported {better}" in cause.said


def test_among_equals_the_first_is_to_blame(tmp_path: Path) -> None:
    made = Situation(tmp_path, 4).ended(0, 1, 12.0).ended(1, -11, 11.0).ended(2, 1, 13.0)
    # It raised first, and took its time to end.
    made.raised(3, "ValueError", "first", 10.5).ended(3, 1, 14.0)
    cause = made.cause()
    assert (cause.rank, cause.others) == (3, (1, 0, 2))
    same = all_fail_late(Situation(tmp_path / "same", 3), NO_MEMORY).ended(2, -6, 10.0)
    assert same.cause().rank == 2


def test_an_exception_that_speaks_for_itself_is_not_explained_by_the_logs(tmp_path: Path) -> None:
    made = Situation(tmp_path, 1).raised(0, "KeyError", "'name'", 9.0).wrote(0, printed("EJ0001"))
    assert made.cause().failure is None
    named = Situation(tmp_path / "named", 1).raised(0, "ValueError", printed(NO_MEMORY), 9.0)
    failure = named.cause().failure
    assert failure is not None
    assert failure.code == NO_MEMORY


@pytest.mark.parametrize(("count", "end"), [(5, "    line 4"), (6, "    ...")])
def test_a_message_that_is_cut_says_so(tmp_path: Path, count: int, end: str) -> None:
    text = "\n".join(f"line {number}" for number in range(count))
    made = Situation(tmp_path, 1).raised(0, "KeyError", text, 9.0, frames=[["gone.py", 1, "f"]])
    assert made.cause().place[-1] == end


def test_of_a_file_too_large_to_be_read_no_other_line_is_shown(tmp_path: Path) -> None:
    script = tmp_path / "large.py"
    script.write_text("raise KeyError\n" + "another = 1\n" * 400_000)
    made = Situation(tmp_path / "logs", 1)
    made.raised(0, "KeyError", "", 9.0, frames=[[str(script), 1, "<module>"]])
    assert made.cause().place == (f"Rank 0 failed in {script}:1 (<module>):", "  KeyError")


def test_a_stopped_rank_explains_what_failed_ranks_do_not(tmp_path: Path) -> None:
    made = Situation(tmp_path, 4).ended(0, -6).wrote(0, printed(NO_ANSWER)).stopped(1, 2, 3)
    made.logged(2, printed(NO_MEMORY))
    cause = made.cause()
    assert cause.rank == 2
    assert cause.exit_code == 134
    assert cause.said.startswith(f"Rank 2 reported {NO_MEMORY} (")
    assert "was stopped when rank 0 failed" in cause.said
    assert cause.others == (0,)


def test_a_stopped_rank_does_not_explain_a_failure_of_its_own(tmp_path: Path) -> None:
    made = Situation(tmp_path, 2).ended(0, 3).stopped(1).wrote(1, printed(NO_MEMORY))
    assert said_by(made) == "Rank 0 exited with code 3."


@pytest.mark.parametrize(
    "text",
    [
        "F tsl/platform/default/env.cc:74] Check failed: ret == 0 (11 vs. 0)Thread tf_Compute "
        "creation via pthread_create() failed.\n",
        "terminate called after throwing an instance of 'std::system_error'\n"
        "  what():  Resource temporarily unavailable\n",
    ],
)
def test_an_abort_at_the_limit_of_processes_says_so(tmp_path: Path, text: str) -> None:
    cause = Situation(tmp_path, 2).ended(1, -signal.SIGABRT, 9.0).wrote(1, text).cause()
    assert cause.advice == PROCESS_LIMIT
    assert "pids.max" in cause.advice
    assert "ulimit -u" in cause.advice


def test_an_exception_at_the_limit_of_processes_says_so(tmp_path: Path) -> None:
    situation = Situation(tmp_path, 2)
    cause = situation.raised(1, "RuntimeError", "can't start new thread", 9.0).cause()
    assert cause.said.startswith("Rank 1 raised RuntimeError: can't start new thread")
    assert cause.advice == PROCESS_LIMIT


def test_an_import_that_fails_at_the_limit_of_processes_says_so(tmp_path: Path) -> None:
    log = "OpenBLAS blas_thread_init: pthread_create failed for thread 1 of 2: Resource temporarily"
    made = Situation(tmp_path, 1).wrote(0, f"{log} unavailable\n")
    cause = made.raised(0, "ImportError", "Error importing numpy", 9.0).cause()
    assert cause.advice == PROCESS_LIMIT


def test_a_rank_that_cannot_be_started_at_the_limit_of_processes_says_so(tmp_path: Path) -> None:
    situation = Situation(tmp_path, 1)
    situation.not_started(0, errno.EAGAIN)
    assert situation.cause().advice == PROCESS_LIMIT


@pytest.mark.parametrize(
    ("own", "kind"), [(False, FailureClass.TRANSIENT), (True, FailureClass.PERMANENT)]
)
def test_a_secondary_failure_without_a_primary_one_has_another_class(
    tmp_path: Path, own: bool, kind: FailureClass
) -> None:
    made = all_fail_late(Situation(tmp_path, 3), NO_LINK)
    if own:
        made.wrote(1, printed(NO_MEMORY))
    assert made.cause().failure_class is kind


def test_a_secondary_failure_whose_cause_is_not_seen_here_stays_secondary(tmp_path: Path) -> None:
    # As a script says it that has started eight ranks by itself.
    text = f"{JOB_CANNOT_GO_ON}rank 5 has exited with code 3.\n"
    cause = Situation(tmp_path, 1).ended(0, 1).wrote(0, text).cause()
    assert (cause.elsewhere, cause.failure_class) == (5, FailureClass.SECONDARY)


@pytest.mark.parametrize(
    ("devices", "kind"),
    [((0, 1, None), FailureClass.TRANSIENT), ((0, 1, 0), FailureClass.PERMANENT)],
)
def test_a_device_that_two_ranks_were_given_does_not_get_free(
    tmp_path: Path, devices: Tuple[Any, ...], kind: FailureClass
) -> None:
    made = (
        Situation(tmp_path, 3)
        .ended(2, -signal.SIGABRT)
        .wrote(2, "[Open][Tsd]Open TsdClient failed")
    )
    for rank, device in zip(made.plan.ranks, devices):
        rank.physical_id = device
    assert made.cause().failure_class is kind
    assert made.wrote(2, printed("EJ0001")).cause().failure_class is FailureClass.TRANSIENT


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (signal.SIGINT, "The launcher was stopped by SIGINT (Ctrl-C)."),
        (signal.SIGTERM, "The launcher was stopped by SIGTERM."),
        (signal.SIGHUP, "The launcher was stopped by SIGHUP."),
    ],
)
def test_a_signal_to_the_launcher_is_the_cause(tmp_path: Path, number: int, said: str) -> None:
    made = Situation(tmp_path, 2).stopped(0, 1, status=0)
    made.attempt.signal = number
    cause = made.cause()
    assert (cause.rank, cause.exit_code, cause.said) == (None, 128 + number, said)


def test_a_signal_that_everyone_got_is_the_launchers(tmp_path: Path) -> None:
    made = Situation(tmp_path, 2).ended(0, -15, STOP - 0.01).stopped(1)
    made.attempt.signal = signal.SIGTERM
    assert made.cause().rank is None
    made.ended(0, 5, STOP - 0.01)
    assert made.cause().rank == 0


def test_a_rank_that_raised_and_then_hung_is_the_cause_of_the_stall(tmp_path: Path) -> None:
    made = Situation(tmp_path, 2).stopped(0, 1).raised(1, "ValueError", "x", 5.0)
    made.ended(1, -signal.SIGKILL, STOP + 5)
    made.attempt.stall = ("Rank 0 sleeps.",)
    cause = made.cause()
    assert (cause.rank, cause.exit_code, cause.said) == (1, 1, "Rank 1 raised ValueError: x.")


def test_a_stall_is_a_cause(tmp_path: Path) -> None:
    made = Situation(tmp_path, 2).stopped(0, 1)
    made.attempt.stall = ("The job stalled: rank 0 is asleep.", "Wake it.", "Or do not.")
    cause = made.cause()
    assert (cause.rank, cause.exit_code) == (None, 124)
    assert (cause.said, cause.advice) == (
        "The job stalled: rank 0 is asleep.",
        "Wake it. Or do not.",
    )
    made.wrote(1, printed(NO_MEMORY))
    cause = made.cause()
    assert (cause.rank, cause.exit_code) == (1, 124)
    assert f"Rank 1 reported {NO_MEMORY}" in cause.said


@pytest.mark.parametrize(("died", "code"), [(True, 137), (False, 143)])
def test_a_guardian_that_was_ended_is_the_cause(tmp_path: Path, died: bool, code: int) -> None:
    made = Situation(tmp_path, 2).ended(0, None).ended(1, None)
    made.attempt.guardian_died = died
    ranks, cause = made.judged()
    assert [rank.outcome for rank in ranks] == ["stopped", "stopped"]
    assert cause is not None
    assert (cause.rank, cause.exit_code) == (None, code)


def test_the_last_lines_are_shown(tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(50)] + ["x" * 1000, "\x1b[31mred\x1b[0m"]
    made = Situation(tmp_path, 1).ended(0, 1)
    made.wrote(0, "only this\n", "stdout")
    assert made.cause().tail == ("only this",)
    Path(made.plan.ranks[0].stderr).write_bytes("\n".join(lines).encode() + b"\n\xff\x07\n\n")
    tail = made.cause().tail
    assert len(tail) == 20
    assert tail[-3] == "x" * 397 + "..."
    assert tail[-2:] == ("red", "\\xff")


def test_the_stack_of_a_crash_is_shown(tmp_path: Path) -> None:
    made = Situation(tmp_path, 1).ended(0, -11).wrote(0, "last words\n")
    stack = 'Stack\n\nFatal Python error: Aborted\n\nThread 1:\n  File "a", line 1'
    Path(made.plan.ranks[0].folder, "stacks.log").write_text(stack)
    tail = made.cause().tail
    assert tail[:2] == ("last words", "Fatal Python error: Aborted")
    assert tail[-1] == '  File "a", line 1'


def test_a_crash_outside_of_python_tells_where_python_was(tmp_path: Path) -> None:
    made = Situation(tmp_path, 3).ended(2, -signal.SIGSEGV)
    Path(made.plan.ranks[2].folder, "stacks.log").write_text(
        "Fatal Python error: Segmentation fault\n\n"
        "Thread 0x1 (most recent call first):\n"
        '  File "/usr/lib/python3.9/threading.py", line 5 in wait\n\n'
        "Thread 0x2 (most recent call first):\n"
        '  File "/venv/lib/python3.9/site-packages/tensorflow/session.py", line 7 in run\n'
        '  File "train.py", line 3 in main\n'
    )
    assert made.cause().place == (
        "Rank 2 crashed in a thread that runs no Python of yours; meanwhile it was in "
        "train.py:3 (main):",
        "  which calls",
        "    tensorflow/session.py:7 (run)",
    )


def test_the_vendors_logs_of_the_process_are_named(tmp_path: Path) -> None:
    made = Situation(tmp_path, 1).ended(0, 1)
    other = made.logged(0, "x", pid=77)
    assert made.cause().plogs == (other,)
    own = made.logged(0, "x")
    assert made.cause().plogs == (own,)


def test_a_cause_is_json(tmp_path: Path) -> None:
    made = all_fail_late(Situation(tmp_path, 2), NO_MEMORY).raised(0, "ValueError", "x", 9.0)
    ranks, cause = made.judged()
    assert cause is not None
    shown: Dict[str, Any] = json.loads(json.dumps([cause.as_dict(), ranks[0].as_dict()]))
    assert shown[1]["error"]["type"] == "ValueError"


def test_large_logs_of_many_ranks_are_judged_in_bounded_time(tmp_path: Path) -> None:
    made = Situation(tmp_path, 64).stopped(*range(64)).ended(0, -6).wrote(0, printed(NO_ANSWER))
    text = "step 100 loss 0.5 of 507015 samples\n" * 30_000
    for rank in range(1, 64):
        made.wrote(rank, text)
    before = os.times()
    assert made.cause().rank == 0
    after = os.times()
    assert after.user - before.user < 20


@pytest.mark.parametrize("nodes", [1, 2])
def test_who_only_missed_others_is_no_cause_while_there_are_other_nodes(
    tmp_path: Path, nodes: int
) -> None:
    made = Situation(tmp_path, 2)
    made.plan = made.plan._replace(nodes=replace(made.plan.nodes, count=nodes))
    made.ended(1, 1).wrote(1, printed(NO_LINK))
    cause = made.cause()
    assert cause.rank == 1
    assert cause.elsewhere is None
    said = "The cause may be on another node: see what the launchers there report."
    assert cause.said.endswith(said) is (nodes == 2)
    assert (cause.failure_class is FailureClass.SECONDARY) is (nodes == 2)


def _stop_failures(made: Situation, number: int = signal.SIGTERM) -> Dict[int, str]:
    made.attempt.signal = number
    assert made.cause().exit_code == 128 + number
    return {rank.rank: rank.stop_failure for rank in made.attempt.ranks if rank.stop_failure}


def test_what_fails_after_a_signal_to_the_launcher_is_reported(tmp_path: Path) -> None:
    made = Situation(tmp_path, 5).stopped(0, 1, 2, 3, 4)
    made.raised(1, "OSError", "[Errno 116] Stale file handle", STOP + 1)
    made.raised(2, "SystemExit", "no space for the checkpoint", STOP + 1)
    made.ended(3, -signal.SIGSEGV, STOP + 1)
    made.ended(4, -signal.SIGKILL, STOP + 10)
    made.attempt.killed = STOP + 10
    assert _stop_failures(made) == {
        1: "Rank 1 raised OSError: [Errno 116] Stale file handle.",
        2: "Rank 2 exited with code 1: no space for the checkpoint.",
        3: "Rank 3 was killed by signal 11 (SIGSEGV).",
        4: "Rank 4 had not exited after 10 s and was killed.",
    }
    assert made.outcomes() == ("stopped",) * 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ranks_that_exit_when_they_are_stopped_have_not_failed(
    tmp_path: Path, number: signal.Signals
) -> None:
    made = Situation(tmp_path, 8).stopped(*range(8), status=-number)
    made.ended(0, 0, STOP + 1).ended(1, 128 + number, STOP + 1)
    made.raised(2, "SystemExit", "3", STOP + 1, code=3)  # a code that the program has chosen
    made.raised(3, "KeyboardInterrupt", "", STOP + 1)
    made.raised(4, _TERMINATED, "143", STOP + 1, code=143).ended(4, -signal.SIGTERM, STOP + 1)
    # Others have exited before these, and so they could not go on.
    made.raised(5, "RuntimeError", f"{JOB_CANNOT_GO_ON}rank 0 has left.", STOP + 1)
    made.raised(6, "RuntimeError", "x", STOP + 1, failed_rank=5)
    assert _stop_failures(made, number) == {}


def test_ranks_that_somebody_kills_by_a_second_signal_have_not_failed(tmp_path: Path) -> None:
    made = Situation(tmp_path, 2).stopped(0, 1, status=-signal.SIGKILL)
    made.attempt.killed, made.attempt.is_kill_asked = STOP + 1, True
    assert _stop_failures(made, signal.SIGINT) == {}


@pytest.mark.parametrize("status", [-signal.SIGTERM, 128 + signal.SIGTERM])
def test_a_rank_that_gets_the_launchers_signal_before_it_has_not_failed(
    tmp_path: Path, status: int
) -> None:
    made = Situation(tmp_path, 2).stopped(1).ended(0, status, STOP - 0.1)
    assert _stop_failures(made) == {}
    assert made.attempt.cause.said == "The launcher was stopped by SIGTERM."
    assert made.outcomes() == ("stopped", "stopped")


def test_a_rank_that_sigterm_has_ended_is_described_without_our_exception(tmp_path: Path) -> None:
    made = Situation(tmp_path, 2).stopped(0)
    frames = [["train.py", 3, "<module>"], ["/x/site-packages/signals.py", 9, "_handle"]]
    made.raised(1, _TERMINATED, "143", 12.0, code=143, frames=frames).ended(1, -15, 12.5)
    cause = made.cause()
    assert (cause.said, cause.exit_code) == ("Rank 1 was killed by SIGTERM.", 143)
    assert cause.place == ("Rank 1 got SIGTERM in train.py:3 (<module>):",)
