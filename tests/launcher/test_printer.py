"""What is seen of several ranks, and what becomes of a screen that takes no more."""

import itertools
import os
import select
import time
from types import SimpleNamespace
from typing import List

import pytest

from ascend_session.launcher.job.signals import Signals
from ascend_session.launcher.show import following
from ascend_session.launcher.show.following import Output
from ascend_session.launcher.show.screen import Notices, Screen
from tests.launcher.showing import PATIENCE, Shown


def test_each_line_begins_with_its_rank() -> None:
    with Shown().begin() as shown:
        output = shown.output(8, range(8))
        output.feed(3, "stdout", b"one\n\ntw")
        output.feed(4, "stderr", b"err\n")
        output.feed(3, "stdout", b"o\nrest")
        output.end(3, "stdout")
        output.end(3, "stderr")
        got = shown.text().splitlines()
    of_rank_3 = [line for line in got if line != b"[4] err"]
    assert of_rank_3 == [b"[3] one", b"[3] ", b"[3] two", b"[3] rest"]
    assert b"[4] err" in got


@pytest.mark.parametrize(
    ("size", "rank", "prefix"),
    [(1, 0, "[0] "), (10, 9, "[9] "), (11, 9, "[ 9] "), (16, 12, "[12] "), (256, 7, "[  7] ")],
)
def test_the_number_is_as_wide_as_the_highest_rank(size: int, rank: int, prefix: str) -> None:
    with Shown().begin() as shown:
        shown.output(size, range(size)).feed(rank, "stdout", b"text\n")
        assert shown.text().decode() == prefix + "text\n"


def test_timestamps_say_when_lines_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 86400.75)
    with Shown().begin() as shown:
        output = shown.output(2, {1}, timestamps=True)
        output.feed(1, "stdout", b"a\nb\n")
        output.say("from the launcher")
        first, second, third = shown.text().decode().splitlines()
    stamp, text = first.split(" [1] ")
    assert text == "a"
    assert stamp.startswith("1970-01-0")
    assert stamp.endswith(":00.750")
    assert second == f"{stamp} [1] b"
    assert third == f"{stamp} ascend-session: from the launcher"


def test_a_warning_of_the_package_is_shown_of_the_first_shown_rank_that_writes_it() -> None:
    warning = b"a.py:1: AscendConfigWarning: wrong\n  line()\n"
    with Shown().begin() as shown:
        output = shown.output(4, range(1, 4))
        for rank in range(4):
            output.feed(rank, "stderr", warning)
            output.feed(rank, "stdout", warning if rank == 3 else b"")
        got = shown.text()
    first = b"[1] a.py:1: AscendConfigWarning: wrong\n[1]   line()\n"
    assert got == first + first.replace(b"[1]", b"[3]")


def test_ranks_that_are_not_shown_are_not_shown() -> None:
    with Shown().begin() as shown:
        output = shown.output(3, {2})
        for rank in range(3):
            output.feed(rank, "stdout", b"text\n")
            output.end(rank, "stdout")
        assert shown.text() == b"[2] text\n"


def test_there_is_room_again_when_somebody_reads() -> None:
    block = b"x" * 1023 + b"\n"
    with Shown() as shown:  # nobody reads
        puts = _fill(shown, block)
        assert not shown.screen.wait_for_room(0.01)
        shown.begin()
        assert shown.screen.wait_for_room(PATIENCE)
        assert len(shown.text()) == puts * len(block)


def _fill(shown: Shown, lines: bytes) -> int:
    """Puts lines until there is no room; returns how many times."""
    puts = 0
    while shown.screen.wait_for_room(0.05):
        shown.screen.put(0, lines)
        puts += 1
        assert puts < 10000
    return puts


def test_a_closed_terminal_is_said_once_and_holds_nobody_up() -> None:
    with Shown() as shown:
        _fill(shown, b"text\n" * 1000)
        shown.hang_up()
        assert shown.screen.wait_for_room(PATIENCE)
        for _ in range(1000):
            shown.screen.put(0, b"text\n" * 1000)
        assert shown.screen.wait_for_room(0)
        (said,) = shown.troubles
    assert "no longer shown: Broken pipe" in said
    assert "The job continues" in said


def test_a_terminal_that_takes_nothing_does_not_hold_up_the_end() -> None:
    with Shown() as shown:
        _fill(shown, b"text\n" * 1000)
        assert not shown.screen.close(0.05)
        assert not shown.troubles


@pytest.mark.parametrize("is_read", [True, False])
def test_the_end_waits_for_whoever_reads_slowly_but_not_for_nobody(
    monkeypatch: pytest.MonkeyPatch, is_read: bool
) -> None:
    read, write = os.pipe()
    shown = Output(write, 1, {0}, timestamps=False, colour=False)
    screen, now = shown._screens[0], itertools.count(step=20)

    def read_a_block_in_20_s() -> float:
        before = screen.written
        while is_read and screen.written == before < 10 * len(block):
            if select.select([read], [], [], 0.1)[0]:  # what was read last may not be counted yet
                os.read(read, 1 << 16)
        return next(now)

    monkeypatch.setattr(following, "time", SimpleNamespace(monotonic=read_a_block_in_20_s))
    block = "x" * 100_000 + "\n"
    for _ in range(10):
        shown.say(block.rstrip())
    with Signals() as signals:
        shown.close(signals.noted)
    assert ["nothing was reading it" in text for text in shown.troubles] == (
        [] if is_read else [True]
    )
    os.close(read)  # which ends the thread that writes
    assert screen.close(PATIENCE)
    os.close(write)


def test_a_descriptor_that_does_not_block_is_waited_for() -> None:
    with Shown() as shown:
        os.set_blocking(shown.write, False)
        puts = _fill(shown, b"text\n" * 1000)
        shown.begin()
        assert shown.text() == b"text\n" * 1000 * puts
        assert not shown.troubles


def test_who_waits_until_it_is_written_finds_all_in_the_pipe() -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    screen = Screen(write, Notices(pytest.fail))
    for number in range(100):
        screen.put(0, b"text %d\n" % number)
        screen.wait_until_written(PATIENCE)
        assert os.read(read, 100) == b"text %d\n" % number
    assert screen.close(PATIENCE)
    os.close(read)
    os.close(write)


def test_nobody_waits_for_ever_until_it_is_written() -> None:
    with Shown() as shown:
        _fill(shown, b"text\n" * 1000)
        shown.screen.wait_until_written(0.1)
        shown.begin()
        shown.screen.wait_until_written(PATIENCE)
        assert shown.text().startswith(b"text\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_behind_a_screen_is_said_once() -> None:
    troubles: List[str] = []
    fd = os.open("/dev/full", os.O_WRONLY)
    screen = Screen(fd, Notices(troubles.append))
    screen.put(0, b"text\n")
    screen.put(0, b"text\n")
    assert screen.close(PATIENCE)
    os.close(fd)
    (said,) = troubles
    assert "no longer shown: No space left on device" in said
