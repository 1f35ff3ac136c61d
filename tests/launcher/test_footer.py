"""A line below the others: never torn, never left behind, and no concern of a pipe."""

import os
import select
import threading
from typing import List, Optional, Tuple

import pytest

from ascend_session.launcher.output import Outlet, Output
from ascend_session.launcher.process import Signals
from ascend_session.launcher.pump import Notices

_ERASE = b"\r\x1b[2K"


class Bench:
    """An outlet into a pipe that is read here."""

    def __init__(self) -> None:
        self.read, self.write = os.pipe()
        self.said: List[str] = []
        self.outlet = Outlet(self.write, Notices(self.said.append))

    def next(self) -> bytes:
        """What one write brings."""
        assert select.select([self.read], [], [], 60.0)[0], "nothing was written"
        return os.read(self.read, 1 << 20)

    def close(self) -> bytes:
        """Ends it; returns what that writes."""
        self.outlet.close()
        os.close(self.write)
        with os.fdopen(self.read, "rb") as rest:
            return rest.read()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_footer_is_drawn_at_once_and_erased_at_the_end(bench: Bench) -> None:
    bench.outlet.set_footer(lambda: b"footer")
    assert bench.next() == b"footer"
    assert bench.close() == _ERASE


def test_lines_appear_above_it(bench: Bench) -> None:
    bench.outlet.set_footer(lambda: b"footer")
    bench.next()
    bench.outlet.put(0, b"line\n")
    assert bench.next() == _ERASE + b"line\nfooter"
    bench.outlet.put(0, b"last\n")
    assert bench.next() + bench.close() == _ERASE + b"last\nfooter" + _ERASE


def test_it_is_drawn_again_by_itself_when_it_has_changed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ascend_session.launcher.output._FOOTER_EVERY_S", 0.1)
    texts = iter([b"one", b"two", b"two", b"three"])
    bench.outlet.set_footer(lambda: next(texts, b"three"))
    shown = [bench.next() for _ in range(3)]
    assert shown == [b"one", _ERASE + b"two", _ERASE + b"three"]
    assert bench.close() == _ERASE


def test_taking_it_away_erases_it(bench: Bench) -> None:
    bench.outlet.set_footer(lambda: b"footer")
    bench.next()
    bench.outlet.set_footer(None)
    assert bench.next() == _ERASE
    bench.outlet.put(0, b"line\n")
    assert bench.next() == b"line\n"
    assert bench.close() == b""


def test_taking_it_away_while_it_is_made_erases_it_too(bench: Bench) -> None:
    asked, goes_on = threading.Event(), threading.Event()

    def slow() -> bytes:
        asked.set()
        assert goes_on.wait(60)
        return b"footer"

    bench.outlet.set_footer(slow)
    assert asked.wait(60)
    bench.outlet.set_footer(None)
    goes_on.set()
    shown = bench.next()
    while not shown.endswith(_ERASE):
        shown += bench.next()
    assert shown == b"footer" + _ERASE
    assert bench.close() == b""


def test_an_empty_one_writes_nothing(bench: Bench) -> None:
    called = threading.Event()

    def empty() -> bytes:
        called.set()
        return b""

    bench.outlet.set_footer(empty)
    assert called.wait(60)
    bench.outlet.put(0, b"line\n")
    assert bench.next() == b"line\n"
    assert bench.close() == b""


def test_one_that_fails_is_taken_away_and_lines_go_on(bench: Bench) -> None:
    def failing() -> bytes:
        raise ZeroDivisionError("a mistake")

    bench.outlet.set_footer(failing)
    bench.outlet.put(0, b"line\n")
    assert bench.next() == b"line\n"
    assert bench.close() == b""
    assert bench.said == ["The status line is switched off: ZeroDivisionError('a mistake')."]


def test_a_flood_does_not_make_it_anew_for_each_write(bench: Bench) -> None:
    made: List[int] = []

    def footer() -> bytes:
        made.append(1)
        return b"footer"

    bench.outlet.set_footer(footer)
    bench.next()
    for number in range(50):
        bench.outlet.put(0, b"line %d\n" % number)
        bench.next()
    assert len(made) < 25
    bench.close()


@pytest.mark.parametrize("shown", [(0, 1), ()], ids=["shown", "hidden"])
def test_the_end_of_what_a_rank_wrote_is_kept(shown: Tuple[int, ...]) -> None:
    (read, write) = os.pipe()
    output = Output(write, 2, shown)
    assert output.latest(1) is None
    output.feed(1, "stdout", b"one\n")
    output.feed(1, "stderr", b"tw")
    first = _text(output.latest(1))
    output.feed(1, "stdout", b"x" * 5000 + b"end")
    assert (first, len(_text(output.latest(1)))) == (b"one\ntw", 512)
    assert _text(output.latest(1)).endswith(b"xend")
    assert output.latest(0) is None
    output.close(Signals())
    _all(read, write)


def _text(latest: Optional[object]) -> bytes:
    return bytes(getattr(latest, "text", b""))


def test_what_the_launcher_says_goes_to_its_own_stream() -> None:
    (read, write), (other_read, other_write) = os.pipe(), os.pipe()
    output = Output(write, 1, [0], False, False, other_write)
    output.feed(0, "stdout", b"line\n")
    output.say("a word")
    output.close(Signals())
    assert _all(read, write) == b"[0] line\n"
    assert _all(other_read, other_write) == b"ascend-session: a word\n"


def test_two_streams_that_are_one_pipe_have_one_writer() -> None:
    before = threading.active_count()
    read, write = os.pipe()
    words = os.dup(write)
    output = Output(write, 1, [0], False, False, words)
    assert threading.active_count() == before + 1
    output.say("a word")
    output.close(Signals())
    os.close(words)
    assert _all(read, write) == b"ascend-session: a word\n"


def _all(read: int, write: int) -> bytes:
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        return pipe.read()
