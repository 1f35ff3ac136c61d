"""What a terminal shows: equal lines once, and a line below the others that is never torn."""

import io
import os
import random
import re
import select
import threading
import time
from typing import List, Optional, Tuple

import pytest

from ascend_session.launcher.show.following import Output
from ascend_session.launcher.show.screen import LAUNCHER, Block, Notices, Screen, TerminalRenderer

_ERASE = b"\r\x1b[2K"


class Bench:
    """A screen into a pipe that is read here."""

    def __init__(self) -> None:
        self.read, self.write = os.pipe()
        self.said: List[str] = []
        notices = Notices(self.said.append)
        self.screen = Screen(self.write, notices, renderer=TerminalRenderer(1, 1, notices))

    def next(self) -> bytes:
        """What one write brings."""
        assert select.select([self.read], [], [], 60.0)[0], "nothing was written"
        return os.read(self.read, 1 << 20)

    def close(self) -> bytes:
        """Ends it; returns what that writes."""
        self.screen.close()
        os.close(self.write)
        with os.fdopen(self.read, "rb") as rest:
            return rest.read()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_footer_is_drawn_at_once_and_erased_at_the_end(bench: Bench) -> None:
    bench.screen.set_status(lambda: b"footer")
    assert bench.next() == b"footer"
    assert bench.close() == _ERASE


def test_lines_appear_above_it(bench: Bench) -> None:
    bench.screen.set_status(lambda: b"footer")
    bench.next()
    bench.screen.put(0, b"line\n")
    assert bench.next() == _ERASE + b"[0] line\nfooter"
    bench.screen.put(0, b"last\n")
    assert bench.next() + bench.close() == _ERASE + b"[0] last\nfooter" + _ERASE


def test_it_is_drawn_again_by_itself_when_it_has_changed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ascend_session.launcher.show.screen._STATUS_EVERY_S", 0.1)
    texts = iter([b"one", b"two", b"two", b"three"])
    bench.screen.set_status(lambda: next(texts, b"three"))
    shown = [bench.next() for _ in range(3)]
    assert shown == [b"one", _ERASE + b"two", _ERASE + b"three"]
    assert bench.close() == _ERASE


def test_an_empty_one_writes_nothing(bench: Bench) -> None:
    called = threading.Event()

    def empty() -> bytes:
        called.set()
        return b""

    bench.screen.set_status(empty)
    assert called.wait(60)
    bench.screen.put(0, b"line\n")
    assert bench.next() == b"[0] line\n"
    assert bench.close() == b""


def test_one_that_fails_is_taken_away_and_lines_go_on(bench: Bench) -> None:
    def failing() -> bytes:
        raise ZeroDivisionError("a mistake")

    bench.screen.set_status(failing)
    bench.screen.put(0, b"line\n")
    assert bench.next() == b"[0] line\n"
    assert bench.close() == b""
    assert bench.said == ["The status line is switched off: ZeroDivisionError('a mistake')."]


def test_a_flood_does_not_make_it_anew_for_each_write(bench: Bench) -> None:
    made: List[int] = []

    def footer() -> bytes:
        made.append(1)
        return b"footer"

    bench.screen.set_status(footer)
    bench.next()
    for number in range(50):
        bench.screen.put(0, b"line %d\n" % number)
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
    output.close()
    _all(read, write)


def _text(latest: Optional[object]) -> bytes:
    return bytes(getattr(latest, "text", b""))


def test_what_the_launcher_says_goes_to_its_own_stream() -> None:
    (read, write), (other_read, other_write) = os.pipe(), os.pipe()
    output = Output(write, 1, [0], False, False, other_write)
    output.feed(0, "stdout", b"line\n")
    output.say("a word")
    output.close()
    assert _all(read, write) == b"[0] line\n"
    assert _all(other_read, other_write) == b"ascend-session: a word\n"


def test_two_streams_that_are_one_pipe_have_one_writer() -> None:
    before = threading.active_count()
    read, write = os.pipe()
    words = os.dup(write)
    output = Output(write, 1, [0], False, False, words)
    assert threading.active_count() == before + 1
    output.say("a word")
    output.close()
    os.close(words)
    assert _all(read, write) == b"ascend-session: a word\n"


def _all(read: int, write: int) -> bytes:
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        return pipe.read()


class Held:
    """A renderer of a terminal of three ranks, with a clock that stands still."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ranks: int = 3) -> None:
        self.now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        self.renderer = TerminalRenderer(1, ranks, Notices(print))

    def draw(self, *blocks: Tuple[int, bytes], after_s: float = 0.0, is_open: bool = True) -> bytes:
        self.now += after_s
        return self.renderer.render([Block(*block) for block in blocks], is_open)


def test_what_all_ranks_write_at_once_stands_on_a_terminal_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = Held(monkeypatch)
    assert held.draw((0, b"same\n"), (2, b"same\n")) == b""
    assert held.draw((1, b"same\nown\n"), after_s=0.1) == b"[0-2] same\n"
    assert held.renderer.due_s() == pytest.approx(0.2)
    assert held.draw(after_s=0.2) == b"[1] own\n"
    assert held.renderer.due_s() is None


def test_a_line_waits_for_equal_ones_no_longer_than_that(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)
    assert held.draw((0, b"same\n"), (2, b"same\n")) == b""
    assert held.draw(after_s=0.2) == b"[0,2] same\n"
    assert held.draw((1, b"same\n"), is_open=False) == b"[1] same\n"


def test_lines_of_a_rank_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch, ranks=2)
    shown = held.draw((0, b"a\nb\na\n"), (1, b"b\na\nb\n"), is_open=False)
    assert shown == b"[0] a\n[0-1] b\n[0-1] a\n[1] b\n"
    chance = random.Random(3)
    for _ in range(200):
        written = [[chance.choice("abc") for _ in range(6)] for _ in range(3)]
        left = [list(lines) for lines in written]
        held, shown = Held(monkeypatch), b""
        while any(left):
            rank = chance.choice([rank for rank in range(3) if left[rank]])
            block = (rank, f"{left[rank].pop(0)}\n".encode())
            shown += held.draw(block, after_s=chance.choice([0, 0, 0.15]))
        shown += held.draw(is_open=False)
        drawn = re.findall(r"\[([^]]*)\] (\w)", shown.decode())
        for rank, lines in enumerate(written):
            assert [text for ranks, text in drawn if rank in _expand(ranks)] == lines


def _expand(ranks: str) -> List[int]:
    spans = [span.split("-") for span in ranks.split(",")]
    return [rank for span in spans for rank in range(int(span[0]), int(span[-1]) + 1)]


def test_the_launchers_lines_are_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)
    shown = held.draw((0, b"x\n"), (LAUNCHER, b"x\n"), (1, b"x\n"), (LAUNCHER, b"x\n"), after_s=1)
    assert shown + held.draw(after_s=1) == b"[0-1] x\nx\nx\n"


def test_a_flood_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)
    flood = b"".join(b"%d\n" % number for number in range(50_000))
    shown = held.draw((0, flood))
    assert shown.startswith(b"[0] 0\n[0] 1\n")
    rest = held.draw(is_open=False)
    assert (shown + rest).replace(b"[0] ", b"") == flood
    assert len(rest.replace(b"[0] ", b"")) <= 64 * 1024


def test_lines_with_a_time_are_equal_if_their_texts_are(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch, ranks=2)
    blocks = [Block(0, b"text\n", b"12:00 "), Block(1, b"text\n", b"12:01 ")]
    assert held.renderer.render(blocks, True) == b"12:00 [0-1] text\n"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            "2026-11-26 22:44:44.057213: I tensorflow/core x",
            "2026-11-26 22:44:45.000001: I tensorflow/core x",
        ),
        ("[2026-11-26 22:44:44,057] epoch 1", "[2026-11-26 22:44:44,058] epoch 1"),
        ("2026-11-26T22:44:44 epoch 1", "2026-11-26T22:44:45 epoch 1"),
        ("2026-11-26T22:44:44.123Z epoch 1", "2026-11-26T22:44:44.456Z epoch 1"),
        ("2026-11-26 22:44:44, INFO, epoch 1", "2026-11-26 22:44:45, INFO, epoch 1"),
        ("W1126 22:44:44.057213 140 a.py:3] old", "W1126 22:44:44.057214 139 a.py:3] old"),
    ],
)
def test_of_lines_whose_own_times_alone_differ_the_first_is_shown(
    monkeypatch: pytest.MonkeyPatch, first: str, second: str
) -> None:
    held = Held(monkeypatch, ranks=2)
    shown = held.draw((0, f"{first}\n".encode()), (1, f"{second}\n".encode()))
    assert shown.decode() == f"[0-1] {first}\n"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2026-11-26 22:44:44 one", "2026-11-26 22:44:44 two"),
        ("2026-11-26 22:44:44", "2026-11-26 22:44:45"),
        ("W1126 22:44:44.057213 140 a.py:3] x", "E1126 22:44:44.057213 140 a.py:3] x"),
        ("took 12:00:01", "took 12:00:02"),
        # rows of data
        ("2026-01-01 00:00:00 5.0", "2026-01-02 00:00:00 5.0"),
        ("2026-01-01 00:00:00,3.5", "2026-01-01 00:00:00,4.5"),
        ("2026-01-01 00:00:00,35", "2026-01-01 00:00:00,45"),
        ("2026-01-01 00:00:00,1234.5", "2026-01-01 00:00:00,1235.5"),
    ],
)
def test_lines_that_differ_otherwise_are_not_equal(
    monkeypatch: pytest.MonkeyPatch, first: str, second: str
) -> None:
    held = Held(monkeypatch, ranks=2)
    held.draw((0, f"{first}\n".encode()), (1, f"{second}\n".encode()))
    assert held.draw(is_open=False).decode() == f"[0] {first}\n[1] {second}\n"


def test_a_stream_without_a_descriptor_gets_the_lines() -> None:
    stream = io.StringIO()
    output = Output(stream, 2, range(2))
    output.feed(1, "stdout", "größe\nhalf".encode())
    output.end(1, "stdout")
    output.say("a word")
    output.close()
    assert sorted(stream.getvalue().splitlines()) == [
        "[1] größe",
        "[1] half",
        "ascend-session: a word",
    ]


def test_a_stream_that_takes_nothing_more_is_reported() -> None:
    stream = io.StringIO()
    stream.close()
    output = Output(stream, 1, [0])
    output.feed(0, "stdout", b"line\n")
    output.close()
    assert output.troubles == [
        "The ranks' output is no longer shown: I/O operation on closed file (sys.stdout). The job "
        "continues, and so do its log files."
    ]
