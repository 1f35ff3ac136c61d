"""What is said at the end of a launch, of made-up results."""

import dataclasses

from ascend_session.failures.failure import Definition, Failure, FailureClass
from ascend_session.failures.record import ErrorRecord
from ascend_session.launcher.job.attempt import Attempt, Cause
from ascend_session.launcher.plan.rank import LaunchRank, Outcome
from ascend_session.launcher.verdict import summary
from ascend_session.launcher.verdict.result import LaunchResult

FOLDER = "/logs/job_1"


def rank(number, outcome=Outcome.SUCCEEDED, status=0, trouble="", error=None):
    place = f"{FOLDER}/attempt_1/rank_{number}"
    files = {name: f"{place}/{name}.log" for name in ("stdout", "stderr")}
    files["plog"] = f"{place}/plog"
    return LaunchRank(
        number,
        outcome=outcome,
        pid=100 + number,
        status=status,
        started=0.0,
        ended=1.0,
        trouble=trouble,
        error=error,
        **files,
    )


def attempt(ranks, cause=None, number=1, began=0.0, ended=12.34, **others):
    folder = f"{FOLDER}/attempt_{number}"
    return Attempt(number, f"job_{number}", folder, began, ended, tuple(ranks), cause, **others)


def result(*attempts, code=0, notes=()):
    return LaunchResult(code, "job_1", "stub", tuple(attempts), tuple(notes))


def summarize(result, **how):
    return summary.summarize(result.code, result.attempts, result.notes, **how)


def failed(cause, *others, **settings):
    return result(attempt([rank(0), rank(1), *others], cause), code=cause.exit_code, **settings)


CAUSE = Cause(1, 7, "Rank 1 exited with code 7.")


def facts(text):
    """Label and texts of the block below the verdict."""
    found, label = {}, ""
    for line in text.split("ascend-session: ")[1].splitlines()[1:]:
        name, _, said = line[2:].partition("  ")
        label = name.strip() or label
        found.setdefault(label, []).append(said.strip())
    return found


def test_success_is_one_line():
    text = summarize(result(attempt([rank(0), rank(1)])))
    assert text == (
        "ascend-session: all 2 ranks succeeded in 12.3 s; logs in /logs/job_1/attempt_1\n"
    )


def test_success_of_one_rank_at_a_later_attempt_names_the_folder_of_all():
    first = attempt([rank(0)], CAUSE)
    second = attempt([rank(0)], number=2, began=22.3, ended=90.0)
    text = summarize(result(first, second))
    assert text == (
        "ascend-session: the rank succeeded at attempt 2 in 90.0 s; logs in /logs/job_1\n"
    )


def test_success_says_only_notes_that_are_new():
    text = summarize(result(attempt([rank(0)]), notes=["Old.", "New."]), known=["Old."])
    assert text.splitlines()[1:] == ["New."]


def test_processes_that_ranks_left_behind_are_said_after_success_too():
    text = summarize(result(attempt([rank(0)], swept=("12 (sleep)",), left=("13 (stuck)",))))
    assert "Left behind by ranks, stopped  12 (sleep)" in text
    assert "STILL RUNNING, could not be stopped  13 (stuck)" in text


def test_the_verdict_stands_below_the_last_lines_of_the_rank():
    cause = dataclasses.replace(CAUSE, tail=("Traceback", "ValueError: bad"))
    text = summarize(failed(cause))
    assert text.startswith("\nLast lines of rank 1:\n  Traceback\n  ValueError: bad\n\n")
    assert "ascend-session: the job failed. Rank 1 exited with code 7.\n" in text


def test_advice_comes_first_and_the_class_is_said_in_words():
    failure = Failure("EX0099", "", Definition(FailureClass.PERMANENT, "", ""))
    cause = dataclasses.replace(
        CAUSE,
        advice="Use smaller batches.",
        failure=failure,
        failure_class=FailureClass.PERMANENT,
    )
    found = facts(summarize(failed(cause)))
    assert list(found)[:2] == ["What to do", "Failure"]
    assert found["What to do"] == ["Use smaller batches."]
    assert found["Failure"] == [
        "EX0099, permanent: it fails the same way until something is changed"
    ]


def test_a_code_that_is_not_in_the_table_has_no_class_in_words():
    failure = Failure("EX0099", "", Definition(FailureClass.PERMANENT, "", "", is_listed=False))
    cause = dataclasses.replace(CAUSE, failure=failure, failure_class=FailureClass.PERMANENT)
    assert facts(summarize(failed(cause)))["Failure"] == [
        "EX0099, unknown: what to do is the vendor's own advice"
    ]


def test_without_advice_the_logs_are_pointed_to(tmp_path):
    stderr = tmp_path / "stderr.log"
    stderr.write_text("said")
    whose = dataclasses.replace(rank(1), stderr=str(stderr), stdout=str(tmp_path / "none"))
    cause = dataclasses.replace(CAUSE, plogs=("/logs/plog-101_1.log",), tail=("lost",))
    found = facts(summarize(result(attempt([rank(0), whose], cause), code=7)))
    assert found["What to do"] == ["Read what rank 1 wrote, in the logs below."]
    assert found["Rank 1"] == [
        str(stderr),
        f"{tmp_path}/none (not there)",
        "/logs/plog-101_1.log",
    ]


def test_other_ranks_are_grouped_by_what_became_of_them():
    error = ErrorRecord("MemoryError", "", "", 0.0, 1, 1)
    others = [
        rank(2, Outcome.FAILED, 1, error=error),
        rank(3, Outcome.STOPPED, -15),
        rank(4, Outcome.STOPPED, -15),
        rank(5, Outcome.STOPPED, 0),
        rank(6, Outcome.FAILED, -11),
        rank(7, Outcome.NOT_STARTED, None, "Rank 7 could not be started: x: No."),
        rank(8, Outcome.NOT_STARTED, None, "Rank 8 could not be started: x: No."),
        rank(9, Outcome.FAILED, -15, error=error),
        rank(
            *(10, Outcome.NOT_STARTED, None),
            "Rank 10 was not started, because the job was already stopping.",
        ),
    ]
    found = facts(summarize(failed(CAUSE, *others)))
    assert found["Failed too"] == ["ranks 2,9, exit code 1 (MemoryError)", "rank 6, by SIGSEGV"]
    assert found["Stopped"] == ["ranks 3-5"]
    assert found["Not started"] == [
        "ranks 7-8: could not be started: x: No.",
        "rank 10: the job was already stopping.",
    ]
    assert found["Succeeded"] == ["rank 0"]


def test_ranks_that_were_stopped_because_of_the_cause_say_so():
    whose = dataclasses.replace(rank(1), outcome=Outcome.FAILED, status=7)
    stopped = rank(2, Outcome.STOPPED, -15)
    found = facts(summarize(result(attempt([rank(0), whose, stopped], CAUSE), code=7)))
    assert found["Stopped"] == ["rank 2, because rank 1 failed"]


def test_the_place_of_an_exception_stands_first_and_no_last_lines_repeat_it():
    error = ErrorRecord("ValueError", "bad", "", 0.0, 1, 1)
    whose = dataclasses.replace(rank(1), outcome=Outcome.FAILED, status=1, error=error)
    place = ("Rank 1 failed in train.py:3 (load):", "    raise ValueError('bad')")
    cause = dataclasses.replace(CAUSE, place=place, tail=("Traceback", "ValueError: bad"))
    text = summarize(result(attempt([rank(0), whose], cause), code=7))
    assert text.startswith("\n" + "\n".join(place) + "\n\nascend-session: the job failed.")
    assert "Last lines" not in text
    assert "What to do" not in facts(text)


def test_a_launcher_that_was_stopped_points_to_no_rank():
    cause = Cause(None, 130, "The launcher was stopped by SIGINT (Ctrl-C).")
    text = summarize(failed(cause))
    assert "the job was interrupted. The launcher was stopped by SIGINT (Ctrl-C)." in text
    assert facts(text)["Exit code"] == ["130, after 12.3 s"]
    assert "What to do" not in facts(text)


def test_every_attempt_says_why_it_failed_and_how_long_the_next_one_waited():
    first = attempt([rank(0)], Cause(0, 1, "Rank 0 hung."))
    second = attempt([rank(0), rank(1)], CAUSE, number=2, began=22.34, ended=322.34)
    found = facts(summarize(result(first, second, code=7)))
    assert found["Attempts"] == [
        "1 (12.3 s): Rank 0 hung. Tried again 10.0 s later.",
        "2 (5 min): Rank 1 exited with code 7.",
    ]
    assert found["All logs"] == ["/logs/job_1"]


def test_a_code_that_is_not_the_causes_is_explained():
    text = summarize(result(attempt([rank(0), rank(1)], CAUSE), code=130))
    said = "130, because the launcher was stopped before it tried again"
    assert facts(text)["Exit code"] == [said]


def test_notes_are_repeated_after_a_failure():
    found = facts(summarize(failed(CAUSE, notes=["One.", "Two."]), known=["One."]))
    assert found["Notes"] == ["One.", "Two."]


def test_a_terminal_folds_sentences_but_no_paths_and_has_emphasis():
    long = "/a" * 60
    cause = dataclasses.replace(CAUSE, advice="word " * 30, plogs=(long,))
    text = summarize(failed(cause), width=60, is_coloured=True)
    assert "\x1b[31m\x1b[1mascend-session: the job failed." in text
    assert f"  {long}\n" in text
    assert all(len(line) <= 60 + 10 for line in text.splitlines() if "word" in line)
    assert text.count("word") == 30
    assert "\x1b" not in summarize(failed(cause), width=60)


def test_logs_that_are_empty_are_not_what_to_read() -> None:
    found = facts(summarize(failed(dataclasses.replace(CAUSE, tail=()))))
    assert found["What to do"] == ["Rank 1 wrote nothing: run its program alone, and look."]


STOPPED = Cause(None, 143, "The launcher was stopped by SIGTERM.")


def test_a_job_that_was_stopped_and_whose_ranks_exited_has_not_failed():
    ranks = [rank(0, Outcome.STOPPED, 0), rank(1, Outcome.STOPPED, -15)]
    text = summarize(result(attempt(ranks, STOPPED, signal=15), code=143))
    assert "ascend-session: the job was stopped. The launcher was stopped by SIGTERM.\n" in text
    assert "failed" not in text
    assert facts(text)["Stopped"] == ["ranks 0-1"]


def test_what_failed_while_the_job_was_stopped_stands_in_the_verdict_with_its_log():
    ranks = [rank(number, Outcome.STOPPED, -9) for number in range(4)]
    for each in ranks[:2]:
        each.stop_failure = f"Rank {each.rank} raised OSError: no space."
    ranks[2].stop_failure = "Rank 2 had not exited after 10 s and was killed."
    text = summarize(result(attempt(ranks, STOPPED, signal=15), code=143))
    verdict = (
        "ascend-session: the job failed while stopping. The launcher was stopped by SIGTERM. "
        "Rank 0 raised OSError: no space.\n"
    )
    assert verdict in text
    found = facts(text)
    assert found["When stopped"] == [
        "ranks 0-1: raised OSError: no space.",
        ranks[0].stderr,
        "rank 2: had not exited after 10 s and was killed.",
        ranks[2].stderr,
    ]
    assert found["Stopped"] == ["rank 3"]
    assert found["Exit code"] == ["143, after 12.3 s"]


def test_ranks_that_failed_too_are_described_without_the_exceptions_of_an_exit():
    kinds = ("ascend_session.session.signals.Terminated", "SystemExit")
    errors = [ErrorRecord(kind, "143", "", 0.0, 1, 143) for kind in kinds]
    others = [rank(number, Outcome.FAILED, 143, error=e) for number, e in enumerate(errors, 2)]
    found = facts(summarize(failed(CAUSE, *others)))
    assert found["Failed too"] == ["rank 2, by SIGTERM", "rank 3, exit code 143"]
