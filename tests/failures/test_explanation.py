"""What logs say long after a failure: the cause among several, whom they name, which are read."""

import json
import os
from pathlib import Path
from typing import Any, Dict, List

import pytest

from ascend_session.failures.explanation import Log, explain_logs, find_logs, read_logs
from ascend_session.failures.peers import Peer

WAITS = "EI0006: [PID: 1] {} Getting socket times out. dst_rank[5]-remoteUserrank[5]\n"
UNSUPPORTED = "EZ3002: [PID: 2] {} Optype [A] of Ops kernel [B] is unsupported.\n"


def codes_of(texts: Dict[str, str]) -> List[str]:
    """The codes of an explanation, that of the cause first."""
    explanation = explain_logs(
        [Log(path, text, 1000.0 + number) for number, (path, text) in enumerate(texts.items())]
    )
    findings = [explanation.cause, *explanation.others] if explanation.cause else []
    return [finding.failure.code for finding in findings if finding.failure]


def write(folder: Path, **texts: str) -> None:
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / f"{name}.log").write_text(text)


def write_record(folder: Path, kind: str, message: str, **more: Any) -> None:
    record = {"type": kind, "message": message, "traceback": f"{kind}: {message}"}
    numbers = {"time": 1000.0, "pid": 1, "exit_code": 1, "frames": [["train.py", 3, "step"]]}
    (folder / "error.json").write_text(json.dumps({**record, **numbers, **more}))


def test_a_failure_of_a_ranks_own_explains_those_that_waited_for_it() -> None:
    early, late = "2026-03-02-10:00:00.000.000", "2026-03-02-10:00:09.000.000"
    assert codes_of({"a": WAITS.format(early), "b": UNSUPPORTED.format(late)})[0] == "EZ3002"


def test_of_failures_that_explain_as_much_the_earliest_is_the_cause() -> None:
    late, early = "2026-03-02-10:00:09.000.000", "2026-03-02-10:00:00.000.000"
    texts = {"a": UNSUPPORTED.format(late), "b": f"E30003: {early} too many\n"}
    assert codes_of(texts)[0] == "E30003"


def test_the_time_of_a_failure_may_stand_on_a_line_before_it() -> None:
    early, late = "2026-03-02-10:00:01.000.000", "2026-03-02-10:02:01.000.000"
    texts = {
        "a": f"E {late} EI0003: [PID: 1] a\n",
        "b": f"E {early} geop\nError Message is :\nEI0005: [PID: 2] {'x' * 400}\n",
    }
    assert codes_of(texts)[0] == "EI0005"


def test_the_vendors_times_are_read_to_the_microsecond() -> None:
    text = "E 2026-03-02-10:00:00.000.{} EI000{}: [PID: 1] a\n"
    assert codes_of({"a": text.format("100", 3), "b": text.format("050", 5)})[0] == "EI0005"


def test_an_exact_code_is_believed_before_one_that_only_says_where_it_failed() -> None:
    text = "E40021: [PID: 1] Failed to compile Op\nE90003: Compile operator failed\n"
    assert codes_of({"a": text}) == ["E90003", "E40021"]


def test_the_line_of_a_failure_is_counted() -> None:
    cause = explain_logs([Log("a", "one\ntwo\n" + UNSUPPORTED, 0.0)]).cause
    assert cause is not None
    assert cause.line_number == 3


def test_the_other_end_that_most_logs_name_comes_first() -> None:
    other = WAITS.replace("[5]", "[2]")
    texts = [other, WAITS, WAITS.replace("EI0006", "EI0009")]
    logs = [Log(str(number), text, 0.0) for number, text in enumerate(texts)]
    assert explain_logs(logs).peers == ((Peer(5), 2), (Peer(2), 1))


def test_a_cause_that_has_nothing_to_do_with_other_ranks_names_none() -> None:
    logs = [Log("a", WAITS, 0.0), Log("b", UNSUPPORTED, 0.0)]
    assert explain_logs(logs).peers == ()


def test_an_exception_of_the_program_is_the_cause_where_others_only_waited(tmp_path: Path) -> None:
    write(tmp_path / "rank_0", stderr=WAITS)
    write(tmp_path / "rank_1", stderr="nothing known\n")
    write_record(tmp_path / "rank_1", "KeyError", "'loss'")
    cause = explain_logs(read_logs(find_logs(str(tmp_path)))).cause
    assert cause is not None
    assert cause.failure is None
    assert cause.log.record is not None
    assert (cause.log.record.name, cause.log.record.message) == ("KeyError", "'loss'")


def test_an_exception_that_passes_on_what_the_device_said_is_that_failure(tmp_path: Path) -> None:
    write(tmp_path / "rank_0", stderr=WAITS)
    write_record(tmp_path / "rank_0", "RuntimeError", "run failed")
    write(tmp_path / "rank_1", stderr=UNSUPPORTED)
    write_record(tmp_path / "rank_1", "RuntimeError", "run failed")
    cause = explain_logs(read_logs(find_logs(str(tmp_path)))).cause
    assert cause is not None
    assert cause.failure is not None
    assert cause.failure.code == "EZ3002"


def test_a_rank_that_others_have_ended_is_no_cause(tmp_path: Path) -> None:
    for rank, more in enumerate(({"exit_code": 143}, {"failed_rank": 0})):
        write(tmp_path / f"rank_{rank}", stderr="nothing known\n")
        write_record(tmp_path / f"rank_{rank}", "RuntimeError", "ended", **more)
    assert explain_logs(read_logs(find_logs(str(tmp_path)))).cause is None


def test_where_nothing_is_known_the_last_exception_is_given() -> None:
    text = "Traceback (most recent call last):\nKeyError: 1\n\nValueError: empty batch\nend\n"
    explanation = explain_logs([Log("a", text, 0.0)])
    assert explanation.cause is None
    assert explanation.raised == "ValueError: empty batch"


def test_the_last_exception_is_given_with_what_stands_behind_its_heading() -> None:
    text = "config.ConfigError: 1 validation error for Train\nrate\n  is no number\n"
    lines = [*(f"[0]: {line}" for line in text.splitlines()), "[1]: step 1"]
    raised = "config.ConfigError: 1 validation error for Train: rate: is no number"
    assert explain_logs([Log("a", "\n".join(lines), 0.0)]).raised == raised


def test_of_a_folder_what_may_be_a_log_is_read(tmp_path: Path) -> None:
    write(tmp_path / "debug" / "plog", **{"plog-1_2026": UNSUPPORTED})
    for name in ("train.py", "slurm-7.out", "model.npy", "nohup", "stacks.log"):
        (tmp_path / name).write_text("x")
    os.mkfifo(str(tmp_path / "pipe.log"))
    names = sorted(os.path.basename(path) for path in find_logs(str(tmp_path)))
    assert names == ["nohup", "plog-1_2026.log", "slurm-7.out"]


def test_a_log_that_was_rotated_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "train.log.1").write_text("EZ3002: [PID: 1]\n")
    assert [os.path.basename(path) for path in find_logs(str(tmp_path))] == ["train.log.1"]


def test_a_file_without_text_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"\0" * 100 + b"EZ3002: x")
    assert read_logs([str(tmp_path / "data"), str(tmp_path / "missing")]) == []


def test_of_a_very_large_log_the_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large.log"
    filling = "a line that says nothing\n" * ((17 << 20) // 25)
    path.write_text(f"EZ3003: at the begin\n{filling}EZ3002: at the end\n")
    (log,) = read_logs([str(path)])
    assert not log.is_whole
    cause = explain_logs([log]).cause
    assert cause is not None
    assert cause.failure is not None
    assert (cause.failure.code, cause.line_number) == ("EZ3002", None)


def test_a_peer_that_a_rank_names_in_several_files_is_named_by_one_rank() -> None:
    names = ["rank_0/stdout.log", "rank_0/stderr.log", "rank_0/plog.log"]
    logs = [Log(name, WAITS, 0.0) for name in names]
    other = WAITS.replace("[5]", "[2]")
    logs += [Log(f"rank_{rank}/stderr.log", other, 0.0) for rank in (1, 3)]
    assert explain_logs(logs).peers == ((Peer(2), 2), (Peer(5), 1))


DEADLOCK = (
    "The job cannot continue: the ranks wait for different collectives: rank 0 waits in "
    '"HcomAllReduce"; rank 1 waits in "HcomBroadcast". Look for what only some ranks do.'
)


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        (DEADLOCK, "permanent"),
        ("The job cannot continue: rank 1 failed: KeyError: 'x'", "secondary"),
    ],
)
def test_a_sentence_about_all_ranks_is_the_jobs_own_failure(sentence: str, kind: str) -> None:
    text = f"{{{{function_node f}}}} CollectiveError: {sentence}\n{'frame' * 100}"
    cause = explain_logs([Log("a", text, 0.0)]).cause
    assert cause is not None
    assert cause.failure is not None
    assert (cause.failure.line, cause.failure.failure_class.value) == (sentence, kind)
    assert cause.line_number == 1
