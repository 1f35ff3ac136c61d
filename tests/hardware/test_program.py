"""Programs that answer, hang, die, flood, and print all kinds of dirt."""

import os
import signal
import time
from pathlib import Path
from typing import Any, Iterator, List, Optional

import pytest

from ascend_session.hardware.npu_smi import NpuSmi
from ascend_session.hardware.program import (
    Program,
    clean_lines,
    explain_failures,
    find_program,
    parse_decimal,
    parse_number,
    parse_pairs,
    quote_first_line,
    run_program,
)
from tests.fake_host import FakeHost, Reply, install
from tests.fake_host.program import are_gone, calls_of, end_children


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("a\nb", ["a", "b"]),
        ("a\r\nb\r\n", ["a", "b", ""]),
        ("a\rb", ["a", "b"]),
        ("\x1b[1;31mAlarm\x1b[0m", ["Alarm"]),
        ("\x1b]0;title\x07OK", ["OK"]),
        ("a\x00b\x07", ["ab"]),
        ("a   ", ["a"]),
        ("x" * 1001, []),
        ("x" * 1000, ["x" * 1000]),
    ],
)
def test_lines_are_clean(text: str, clean: List[str]) -> None:
    assert clean_lines(text) == clean


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        (" 65536 ", 65536),
        ("007", 7),
        ("NA", None),
        ("-", None),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("\u0661", None),
        ("9" * 9, 999999999),
        ("9" * 10, None),
        ("9" * 10000, None),
    ],
)
def test_a_number_is_at_most_nine_ascii_digits(text: str, value: Optional[int]) -> None:
    assert parse_number(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("91.3", 91.3), ("-5", -5.0), ("0", 0.0), ("NA", None), ("-", None), ("1e5", None)],
)
def test_a_decimal_number_has_no_exponent(text: str, value: Optional[float]) -> None:
    assert parse_decimal(text) == value


def test_pairs_have_lower_case_keys_and_either_colon() -> None:
    text = "\tNPU   ID    : 0\nHealth\uff1aOK\nno pair\n: 3\nipv6_address:fd00::7\nEmpty :\n"
    assert list(parse_pairs(text)) == [
        ("npu id", "0"),
        ("health", "OK"),
        ("ipv6_address", "fd00::7"),
        ("empty", ""),
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "nothing"),
        ("\n  \n", "nothing"),
        ("\n  first \nsecond", "'first'"),
        ("x" * 130, repr("x" * 120 + "...")),
    ],
)
def test_a_quotation_is_the_first_line_that_says_something(text: str, shown: str) -> None:
    assert quote_first_line(text) == shown


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "dcmi model initialized failed, because the device is used. ret is -8020",
            ["-8020", "another container", "mounts"],
        ),
        ("dcmi module initialize failed. ret is -8005", ["-8005", "driver", "mounted"]),
        (
            "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)",
            ["libraries", "/usr/local/Ascend/driver", "LD_LIBRARY_PATH"],
        ),
        ("dcmi module initialize failed. ret is -9005", ["-9005"]),
        (
            "npu-smi: error while loading shared libraries: libc_sec.so: cannot open",
            ["libc_sec.so", "LD_LIBRARY_PATH"],
        ),
        ("NPU 0 does not support querying proc-mem.", ["proc-mem"]),
        ("There is no NPU card on this server.", ["no NPU card"]),
        (
            "[WARNING]The driver package may not be completely installed, which may cause",
            ["completely installed"],
        ),
    ],
)
def test_a_known_text_becomes_one_sentence(text: str, words: List[str]) -> None:
    (said,) = explain_failures(f"\x1b[31m{text}\x1b[0m\r\n")
    assert said.endswith(".")
    assert all(word in said for word in words)


def test_two_texts_become_two_sentences() -> None:
    text = (
        "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n"
        "dcmi model initialized failed, because the device is used. ret is -8020\n"
    )
    assert len(explain_failures(text)) == 2


@pytest.mark.parametrize("text", ["", "all is well", "ret is -80201", "DrvMngGetConsoleLogLevel"])
def test_anything_else_is_not_known(text: str) -> None:
    assert explain_failures(text) == []


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Path]:
    """Where the test's program is to be; what it leaves behind is ended."""
    yield tmp_path / "npu-smi"
    end_children(tmp_path / "npu-smi")


def test_it_is_asked_in_english_with_its_own_environment_and_no_input(program: Path) -> None:
    install(program, {"info -m": Reply("out \xfc", "err", 0)})
    answer = run_program([str(program), "info", "-m"], {"LC_ALL": "zh_CN.UTF-8"})
    assert answer == ("out \xfc", "err", None, False)
    (call,) = calls_of(program)
    assert (call.arguments, call.lc_all, call.stdin) == ("info -m", "C", "")
    assert call.group == call.pid != os.getpgid(0)


def test_what_is_no_text_is_replaced(program: Path) -> None:
    install(program, {"": Reply(b"a\xff\xfeb".decode("utf-8", "surrogateescape"))})
    assert run_program([str(program)], {}).text == "a\ufffd\ufffdb"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply("one\ntwo", "", 3), "'npu-smi info' exited with code 3 and printed 'one'."),
        (Reply("one", "why", 3), "'npu-smi info' exited with code 3 and printed 'why'."),
        (Reply("", "", 3), "'npu-smi info' exited with code 3 and printed nothing."),
        (Reply("x", then="signal"), "'npu-smi info' was killed by SIGSEGV and printed 'x'."),
    ],
)
def test_a_failure_is_said_with_its_first_words(program: Path, reply: Reply, said: str) -> None:
    install(program, {"": reply})
    answer = run_program([str(program), "info"], {})
    assert (answer.text, answer.problem, answer.hung) == (reply.out, said, False)


def test_silence_ends_in_time_with_all_children(program: Path) -> None:
    install(program, {"": Reply("half an ans", then="hang")})
    begun = time.monotonic()
    answer = run_program([str(program), "info"], {}, timeout_s=2.0)
    assert time.monotonic() - begun < 100
    assert answer.text == "half an ans"
    assert answer.problem == "'npu-smi info' did not answer within 2 s and was killed."
    assert answer.hung
    calls = calls_of(program)
    assert [call.arguments for call in calls] == ["info", "child"]
    assert are_gone([call.pid for call in calls])


def test_a_flood_is_dammed(program: Path) -> None:
    install(program, {"": Reply(then="flood")})
    answer = run_program([str(program), "info"], {}, timeout_s=30.0)
    assert answer.problem == "'npu-smi info' printed more than 4 MB and was killed."
    assert not answer.hung
    assert len(answer.text) < 5 * 1024 * 1024
    assert are_gone([call.pid for call in calls_of(program)])


def test_an_answer_counts_though_a_child_holds_the_output_open(program: Path) -> None:
    install(program, {"": Reply("whole", then="orphan")})
    begun = time.monotonic()
    assert run_program([str(program)], {}, timeout_s=200.0) == ("whole", "", None, False)
    assert time.monotonic() - begun < 100
    calls = calls_of(program)
    assert are_gone([call.pid for call in calls])


def test_a_child_without_output_does_not_outlive_its_program(program: Path, tmp_path: Path) -> None:
    program.write_text("#!/bin/sh\nsleep 600 >/dev/null 2>&1 &\necho $!\n")
    program.chmod(0o755)
    answer = run_program([str(program)], dict(os.environ))
    assert (answer.problem, answer.hung) == (None, False)
    assert are_gone([int(answer.text)])


def test_a_program_that_has_ended_is_one_although_nobody_waits_for_children(program: Path) -> None:
    install(program, {"": Reply("x")})
    previous = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert run_program([str(program)], {}).text == "x"
    finally:
        signal.signal(signal.SIGCHLD, previous)


def test_what_stands_in_the_errors_alone_is_quoted(program: Path) -> None:
    install(program, {"": Reply("\n")})
    program.write_text("#!/bin/sh\necho driver is being upgraded >&2\n")
    asked = NpuSmi({"PATH": str(program.parent)})
    assert asked.mapping() == ()
    assert asked.notes == [
        "'npu-smi info -m' printed nothing that could be read: 'driver is being upgraded'."
    ]


def test_a_program_that_cannot_be_listened_to_is_ended_and_a_problem(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left() -> None:
        raise OSError(24, "Too many open files")

    install(program, {"": Reply(then="hang")})
    monkeypatch.setattr("selectors.DefaultSelector", none_left)
    answer = run_program([str(program), "info"], {}, timeout_s=600.0)
    assert answer == (
        "",
        "",
        "'npu-smi info' could not be read from: [Errno 24] Too many open files.",
        False,
    )
    assert are_gone([call.pid for call in calls_of(program)])


def _is_lost_in(frame: Any) -> bool:
    """Whether an error would not get out: of a destructor, a weak reference, or a `Condition`.

    That one releases its lock behind the error although it does not hold it yet, a RuntimeError.
    """
    lost = ("_remove", "__del__", "_acquire_restore", "_release_save")
    while frame is not None and frame.f_code.co_name not in lost:
        frame = frame.f_back
    return frame is not None


@pytest.mark.parametrize("seconds", [*(0.0002 * 1.4**number for number in range(16)), 2.0])
def test_an_interruption_ends_the_program_too(program: Path, seconds: float) -> None:
    install(program, {"": Reply(then="hang")})

    def interrupt(number: int, frame: Any) -> None:
        if _is_lost_in(frame):
            signal.setitimer(signal.ITIMER_REAL, 0.001)
        else:
            raise KeyboardInterrupt

    def interrupted() -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        run_program([str(program), "info"], {}, timeout_s=600.0)

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert len(calls_of(program)) in {0, 1, 2}
    assert are_gone([call.pid for call in calls_of(program)])


@pytest.mark.parametrize("text", ["", "#!/nowhere/python\n", "\x7fELF"])
def test_what_cannot_be_started_is_a_problem(program: Path, text: str) -> None:
    program.write_text(text)
    answer = run_program([str(program), "info"], {})
    assert (answer.text, answer.hung) == ("", False)
    assert answer.problem is not None
    assert answer.problem.startswith("'npu-smi info' could not be started: ")


def test_an_environment_that_no_program_can_have_is_a_problem(program: Path) -> None:
    install(program, {"": Reply("x")})
    problem = run_program([str(program)], {"NAME": "a\x00b"}).problem
    assert problem is not None
    assert "could not be started" in problem


def executable(folder: Path) -> str:
    return str(install(folder / "tool", {}))


def test_on_this_host_the_path_comes_first(tmp_path: Path) -> None:
    first, second = executable(tmp_path / "a"), executable(tmp_path / "b")
    places = [second.lstrip("/").rpartition("/")[0]]
    assert find_program("tool", {"PATH": str(tmp_path / "a")}, "/", places) == first
    assert find_program("tool", {"PATH": "/nowhere"}, "/", places) == second
    assert find_program("tool", {}, "/", places) == second


def test_on_another_host_its_own_folders_come_first(tmp_path: Path) -> None:
    first, second = executable(tmp_path / "a"), executable(tmp_path / "host" / "b")
    host = str(tmp_path / "host")
    assert find_program("tool", {"PATH": str(tmp_path / "a")}, host, ["b"]) == second
    assert find_program("tool", {"PATH": str(tmp_path / "a")}, host, ["c"]) == first


def test_nothing_is_found_without_a_path(tmp_path: Path) -> None:
    executable(tmp_path / "a")
    assert find_program("tool", {}, str(tmp_path), ["b"]) is None


def test_what_is_not_executable_is_not_found(tmp_path: Path) -> None:
    Path(executable(tmp_path / "a")).chmod(0o644)
    assert find_program("tool", {}, str(tmp_path), ["a"]) is None


def words(text: str) -> List[str]:
    return text.split()


class AskedProgram(Program):
    name = "npu-smi"
    places = ("usr/local/bin",)


def asked_program(host: FakeHost, timeout: float = 30.0) -> Program:
    return AskedProgram(host.environ, str(host.root), timeout)


def test_answers_are_parsed(host: FakeHost) -> None:
    host.npu_smi({"a": Reply("one two"), "b -c": Reply("three")})
    asked = asked_program(host)
    assert asked.ask(words, "a") == ["one", "two"]
    assert asked.ask(words, "b", "-c") == ["three"]
    assert (asked.answers, asked.notes) == (True, [])


def test_without_the_program_nothing_is_parsed(host: FakeHost) -> None:
    asked = asked_program(host)
    assert asked.ask(words, "a") == []
    assert (asked.answers, asked.notes) == (False, [])


def test_an_empty_answer_is_a_note_unless_it_may_be(host: FakeHost) -> None:
    host.npu_smi({"": Reply(" \n")})
    asked = asked_program(host)
    assert asked.ask(words, "a", may_be_empty=True) == []
    assert asked.notes == []
    assert asked.ask(words, "a", "-b") == []
    assert asked.notes == ["'npu-smi a -b' printed nothing that could be read: nothing."]


def test_a_failure_does_not_throw_away_what_was_said(host: FakeHost) -> None:
    host.npu_smi({"": Reply("one", "broken", 7)})
    asked = asked_program(host)
    assert asked.ask(words, "a") == ["one"]
    assert asked.notes == ["'npu-smi a' exited with code 7 and printed 'broken'."]


def test_notes_are_said_once(host: FakeHost) -> None:
    asked = asked_program(host)
    given: List[Optional[str]] = ["x", None, "", "y", "x"]
    for note in given:
        asked.note(note)
    assert asked.notes == ["x", "y"]
