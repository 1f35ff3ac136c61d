"""Bytes in any chunks become whole lines that are fit to be shown."""

import random
import re
import tracemalloc
from typing import Iterable, List

import pytest

from ascend_session.launcher.show import lines
from ascend_session.launcher.show.lines import LineSplitter, WarningFold


def fed(splitter: LineSplitter, chunks: Iterable[bytes]) -> bytes:
    shown = b"".join(map(splitter.feed, chunks))
    return shown + splitter.end()


def single(text: bytes) -> List[bytes]:
    return [text[at : at + 1] for at in range(len(text))]


def test_a_line_comes_out_whole_and_only_when_it_is_whole() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"one\ntw") == b"one\n"
    assert splitter.feed(b"o") == b""
    assert splitter.feed(b"\nthree\nfo") == b"two\nthree\n"
    assert splitter.end() == b"fo\n"
    assert splitter.end() == b""


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"", b""),
        (b"\n\n", b"\n\n"),
        (b"plain\ttext\n", b"plain\ttext\n"),
        ("数据 ünï 🙂\n".encode(), "数据 ünï 🙂\n".encode()),
        (b"bad \xff\xe6\x95 bytes\n", b"bad \\xff\\xe6\\x95 bytes\n"),
        (b"a surrogate \xed\xa0\x80\n", b"a surrogate \\xed\\xa0\\x80\n"),
        (b"ends early \xe6\x95", b"ends early \\xe6\\x95\n"),
        (
            b"NUL \x00 bell \x07 back \x08 DEL \x7f\n",
            b"NUL  bell  back  DEL \n",
        ),
        (b"windows\r\nlines\r\r\n", b"windows\nlines\n"),
        (b"\r 1%\r 50%\r100%\nnext\n", b"100%\nnext\n"),
        (b" 1%\r100%\r\nnext\n", b"100%\nnext\n"),
        (b"100%\r      \r\n", b"100%\n"),
        (b"100%\r\x1b[K\n", b"100%\n"),
        (b"100%\r     \rafter the bar\n", b"after the bar\n"),
        (b"\r 1%\r 2%", b" 2%\n"),
        (b"\r 1%\r 2%\r", b" 2%\n"),
        (b"\r\r\n\n", b"\n\n"),
        (b"\x1b[31mred\x1b[0m\n", b"red\n"),
        (b"\x1b[2J\x1b[3;1Hhome \x1b]0;title\x07\x1b[A\x1b(Bend\n", b"home end\n"),
        (b"lone \x1b\n", b"lone \n"),
        ("C1 \u009b2J and \u00e9\n".encode(), "C1 2J and \u00e9\n".encode()),
    ],
)
def test_what_is_shown_does_not_depend_on_the_chunks(written: bytes, shown: bytes) -> None:
    chance = random.Random(4)
    assert fed(LineSplitter(), [written]) == shown
    assert fed(LineSplitter(), single(written)) == shown
    for _ in range(20):
        cut = sorted(chance.choices(range(len(written) + 1), k=2))
        chunks = [written[: cut[0]], written[cut[0] : cut[1]], written[cut[1] :]]
        assert fed(LineSplitter(), chunks) == shown


def test_a_colour_that_is_kept_ends_with_its_line() -> None:
    text = b"\x1b[1;31mred\x1b[0m\n\x1b[32mgreen\nplain \x1b[2Jend\n"
    kept = b"\x1b[1;31mred\x1b[0m\n\x1b[32mgreen\x1b[0m\nplain end\n"
    assert fed(LineSplitter(colour=True), single(text)) == kept
    assert fed(LineSplitter(colour=True), [b"lone \x1b\x1b[\n"]) == b"lone \n"
    assert fed(LineSplitter(), single(text)) == b"red\ngreen\nplain end\n"


def test_random_bytes_lose_nothing_that_a_terminal_could_obey() -> None:
    chance = random.Random(5)
    text = bytes(chance.getrandbits(8) for _ in range(100000))
    shown = fed(LineSplitter(colour=True), [text])
    assert shown == fed(LineSplitter(colour=True), single(text))
    shown.decode("utf-8")
    rest = re.sub(rb"\x1b\[[0-9;:]*m", b"", shown)
    assert not set(rest) & {*range(9), *range(11, 32), 127}


def test_a_bar_shows_its_state_now_and_then_and_its_last_one_once() -> None:
    now = 0.0
    splitter = LineSplitter(clock=lambda: now)
    seen = []
    for second in range(26):
        now = second
        seen.append(splitter.feed(b"\r%3d%%" % (4 * second)))
    # A state is complete when the next one begins, here a second later.
    assert b"".join(seen) == b" 40%\n 80%\n"
    assert splitter.feed(b"\ndone\n") == b"100%\ndone\n"


def test_a_bar_that_stands_still_is_not_repeated() -> None:
    now = 0.0
    splitter = LineSplitter(clock=lambda: now)
    assert splitter.feed(b"50%\r") == b""
    now = 100.0
    assert splitter.feed(b"\r") == b"50%\n"
    now = 200.0
    assert splitter.feed(b"50%\r") == b""
    assert splitter.feed(b"\nnext\n") == b"next\n"


@pytest.mark.parametrize("step", [1, 7, 64])
def test_a_line_that_is_too_long_is_cut_and_says_so(step: int) -> None:
    text = b"a" * 100 + b"b" * 50 + b"\nshort\n" + b"c" * 100 + b"\n" + b"d" * 101
    chunks = [text[at : at + step] for at in range(0, len(text), step)]
    shown = fed(LineSplitter(limit=100, whole_in="rank.log"), chunks).split(b"\n")
    assert shown[0] == b"a" * 100 + (b" [cut: 50 bytes more in this line; rank.log has all of it]")
    assert shown[1:3] == [b"short", b"c" * 100]
    assert shown[3:] == [
        b"d" * 100 + b" [cut: 1 bytes more in this line; rank.log has all of it]",
        b"",
    ]


def test_a_bar_of_200_mb_is_held_as_one_state() -> None:
    splitter = LineSplitter(clock=lambda: 0.0)
    chunk = b"".join(b"\r%5d of 99999" % number for number in range(4000))
    size = 0
    while size < 200e6:
        assert splitter.feed(chunk) == b""
        size += len(chunk)
    assert splitter.feed(b"\n") == b" 3999 of 99999\n"


def test_a_line_of_200_mb_takes_little_memory() -> None:
    splitter, chunk = LineSplitter(), b"x" * 65536
    tracemalloc.start()
    try:
        for _ in range(3200):
            assert splitter.feed(chunk) == b""
        shown = splitter.feed(b"\n")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    more = 3200 * 65536 - lines.LIMIT
    assert shown == b"x" * lines.LIMIT + b" [cut: %d bytes more in this line]\n" % more
    assert peak < 8 * lines.LIMIT


_WARNED = b"""before
train.py:3: AscendConfigWarning: `w` is never averaged.
  hint: average it
  train(w)
after
"""


def test_a_warning_of_several_ranks_stands_once_with_all_other_lines() -> None:
    fold = WarningFold()
    assert fold.fold(1, _WARNED) == _WARNED
    assert fold.fold(0, _WARNED) == b"before\nafter\n"
    shown = [fold.fold(2, line) for line in _WARNED.splitlines(keepends=True)]
    assert b"".join(shown) == b"before\nafter\n"


def test_a_rank_may_repeat_its_own_warning() -> None:
    fold = WarningFold()
    assert fold.fold(1, _WARNED) + fold.fold(1, _WARNED) == 2 * _WARNED


@pytest.mark.parametrize(
    "other",
    [
        _WARNED.replace(b"`w`", b"`v`"),
        _WARNED.replace(b"train.py:3", b"train.py:4"),
        b"train.py:3: UserWarning: this is no concern of the package\n  train(w)\n",
        b"ascend_session.errors.AscendConfigWarning: `w` is never averaged.\n",
        b"  train(w)\n",
    ],
)
def test_other_lines_are_no_repeated_warning(other: bytes) -> None:
    fold = WarningFold()
    fold.fold(0, _WARNED)
    assert fold.fold(1, other) == other


def test_lines_of_its_own_below_a_known_warning_are_shown() -> None:
    fold = WarningFold()
    fold.fold(0, _WARNED)
    own = _WARNED.replace(b"train(w)", b"train(w)\n  loss 3")
    assert fold.fold(1, own) == b"before\n  loss 3\nafter\n"


@pytest.mark.parametrize("limit", range(1, 13))
def test_a_line_is_cut_between_characters_and_what_is_missing_is_counted_in_bytes(
    limit: int,
) -> None:
    line = "a\u00e9\u4e2d\U0001f600z"  # of 1, 2, 3, 4 and 1 bytes
    splitter = LineSplitter(limit=limit)
    for byte in line.encode():
        assert splitter.feed(bytes([byte])) == b""
    shown, _, rest = splitter.feed(b"\n").decode().partition(" [cut: ")
    assert line.startswith(shown.rstrip("\n"))
    missing = int(rest.partition(" ")[0] or 0)
    assert len(shown.rstrip("\n").encode()) + missing == 11
    assert missing < 11 - limit + 4


def test_of_a_line_that_is_cut_bytes_that_are_no_character_stay() -> None:
    splitter = LineSplitter(limit=3)
    splitter.feed(b"ab\xff")
    splitter.feed(b"cd")
    assert splitter.feed(b"\n") == b"ab\\xff [cut: 2 bytes more in this line]\n"
