"""Running programs that answer, hang, die and flood."""

import os
import signal
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from ascend_session.hardware.command import ask, find
from tests.fake_host import Reply, install
from tests.fake_host.program import are_gone, calls_of, end_children


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Path]:
    """Where the test's program is to be; what it leaves behind is ended."""
    yield tmp_path / "npu-smi"
    end_children(tmp_path / "npu-smi")


def test_it_is_asked_in_english_with_its_own_environment_and_no_input(program: Path) -> None:
    install(program, {"info -m": Reply("out \xfc", "err", 0)})
    answer = ask([str(program), "info", "-m"], {"LC_ALL": "zh_CN.UTF-8"})
    assert answer == ("out \xfc", "err", None, False)
    (call,) = calls_of(program)
    assert (call.arguments, call.lc_all, call.stdin) == ("info -m", "C", "")
    assert call.group == call.pid != os.getpgid(0)


def test_what_is_no_text_is_replaced(program: Path) -> None:
    install(program, {"": Reply(b"a\xff\xfeb".decode("utf-8", "surrogateescape"))})
    assert ask([str(program)], {}).text == "a\ufffd\ufffdb"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply("one\ntwo", "", 3), "'npu-smi info' ended with exit code 3 and said 'one'."),
        (Reply("one", "why", 3), "'npu-smi info' ended with exit code 3 and said 'why'."),
        (Reply("", "", 3), "'npu-smi info' ended with exit code 3 and said nothing."),
        (Reply("x", then="signal"), "'npu-smi info' was ended by SIGSEGV and said 'x'."),
    ],
)
def test_a_failure_is_said_with_its_first_words(program: Path, reply: Reply, said: str) -> None:
    install(program, {"": reply})
    answer = ask([str(program), "info"], {})
    assert (answer.text, answer.problem, answer.hung) == (reply.out, said, False)


def test_silence_ends_in_time_with_all_children(program: Path) -> None:
    install(program, {"": Reply("half an ans", then="hang")})
    begun = time.monotonic()
    answer = ask([str(program), "info"], {}, timeout=2.0)
    assert time.monotonic() - begun < 5
    assert answer.text == "half an ans"
    assert answer.problem == "'npu-smi info' did not answer within 2 s and was ended."
    assert answer.hung
    calls = calls_of(program)
    assert [call.arguments for call in calls] == ["info", "child"]
    assert are_gone([call.pid for call in calls])


def test_a_flood_is_dammed(program: Path) -> None:
    install(program, {"": Reply(then="flood")})
    answer = ask([str(program), "info"], {}, timeout=30.0)
    assert answer.problem == "'npu-smi info' printed more than 4 MB and was ended."
    assert not answer.hung
    assert len(answer.text) < 5 * 1024 * 1024
    assert are_gone([call.pid for call in calls_of(program)])


def test_an_answer_counts_though_a_child_holds_the_output_open(program: Path) -> None:
    install(program, {"": Reply("whole", then="orphan")})
    begun = time.monotonic()
    assert ask([str(program)], {}, timeout=30.0) == ("whole", "", None, False)
    assert time.monotonic() - begun < 15


def test_a_program_that_cannot_be_listened_to_is_ended_and_a_problem(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left() -> None:
        raise OSError(24, "Too many open files")

    install(program, {"": Reply(then="hang")})
    monkeypatch.setattr("selectors.DefaultSelector", none_left)
    answer = ask([str(program), "info"], {}, timeout=600.0)
    assert answer == (
        "",
        "",
        "'npu-smi info' could not be listened to: [Errno 24] Too many open files.",
        False,
    )
    assert are_gone([call.pid for call in calls_of(program)])


def _is_lost_in(frame: Any) -> bool:
    """Whether a destructor or a weak reference runs, from which no error gets out."""
    while frame is not None and frame.f_code.co_name not in ("_remove", "__del__"):
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
        ask([str(program), "info"], {}, timeout=600.0)

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
    answer = ask([str(program), "info"], {})
    assert (answer.text, answer.hung) == ("", False)
    assert answer.problem is not None
    assert answer.problem.startswith("'npu-smi info' could not be started: ")


def test_an_environment_that_no_program_can_have_is_a_problem(program: Path) -> None:
    install(program, {"": Reply("x")})
    problem = ask([str(program)], {"NAME": "a\x00b"}).problem
    assert problem is not None
    assert "could not be started" in problem


def executable(folder: Path) -> str:
    return str(install(folder / "tool", {}))


def test_on_this_host_the_path_comes_first(tmp_path: Path) -> None:
    first, second = executable(tmp_path / "a"), executable(tmp_path / "b")
    places = [second.lstrip("/").rpartition("/")[0]]
    assert find("tool", {"PATH": str(tmp_path / "a")}, "/", places) == first
    assert find("tool", {"PATH": "/nowhere"}, "/", places) == second
    assert find("tool", {}, "/", places) == second


def test_on_another_host_its_own_folders_come_first(tmp_path: Path) -> None:
    first, second = executable(tmp_path / "a"), executable(tmp_path / "host" / "b")
    host = str(tmp_path / "host")
    assert find("tool", {"PATH": str(tmp_path / "a")}, host, ["b"]) == second
    assert find("tool", {"PATH": str(tmp_path / "a")}, host, ["c"]) == first


def test_nothing_is_found_without_a_path(tmp_path: Path) -> None:
    executable(tmp_path / "a")
    assert find("tool", {}, str(tmp_path), ["b"]) is None


def test_what_is_not_executable_is_not_found(tmp_path: Path) -> None:
    Path(executable(tmp_path / "a")).chmod(0o644)
    assert find("tool", {}, str(tmp_path), ["a"]) is None
