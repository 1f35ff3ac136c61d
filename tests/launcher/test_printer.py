"""What is seen of several ranks, and what becomes of a stream or log file that takes no more."""

import itertools
import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import List

import pytest

from ascend_session.launcher import output
from ascend_session.launcher.output import Outlet, Output
from ascend_session.launcher.pump import LogFile, Notices
from ascend_session.launcher.signals import Signals
from tests.launcher.showing import PATIENCE, Shown

_QUEUE_BYTES = 256 * 1024  # of a rank, after which it waits


def test_each_line_begins_with_its_rank() -> None:
    with Shown().begin() as shown:
        output = shown.output(8, range(8))
        assert output.feed(3, "stdout", b"one\n\ntw")
        assert output.feed(4, "stderr", b"err\n")
        assert output.feed(3, "stdout", b"o\nrest")
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


def test_ranks_that_are_not_shown_are_not_shown() -> None:
    with Shown().begin() as shown:
        output = shown.output(3, {2})
        for rank in range(3):
            assert output.feed(rank, "stdout", b"text\n")
            output.end(rank, "stdout")
        assert shown.text() == b"[2] text\n"


def test_a_rank_is_told_when_its_queue_is_full_and_when_there_is_room() -> None:
    block = b"x" * 1023 + b"\n"
    with Shown() as shown:  # nobody reads
        puts = 1
        while shown.outlet.put(0, block):
            puts += 1
            assert puts < 10000
        assert puts * len(block) >= _QUEUE_BYTES
        room = threading.Event()
        shown.outlet.on_room = room.set
        assert shown.outlet.put(1, block)  # another rank need not wait
        assert not room.is_set()
        shown.begin()
        assert room.wait(PATIENCE)
        assert len(shown.text()) == (puts + 1) * len(block)


def test_a_quiet_rank_is_not_behind_all_that_a_flooding_one_has_queued() -> None:
    flood = b"[0] flood\n" * 1000
    with Shown() as shown:
        while shown.outlet.put(0, flood):
            pass
        shown.outlet.put(1, b"[1] quiet\n")
        shown.begin()
        text = shown.text()
    # Ahead of it: what the pipe and one write hold, and not the rest of the queue.
    assert text.index(b"[1] quiet\n") < 65536 * 2 + 2 * len(flood)
    assert len(text) > _QUEUE_BYTES


def test_a_closed_terminal_is_said_once_and_holds_nobody_up() -> None:
    with Shown() as shown:
        while shown.outlet.put(0, b"text\n" * 1000):
            pass
        room = threading.Event()
        shown.outlet.on_room = room.set
        shown.hang_up()
        assert room.wait(PATIENCE)
        assert shown.outlet.close(PATIENCE)
        assert all(shown.outlet.put(0, b"text\n" * 1000) for _ in range(1000))
        (said,) = shown.troubles
    assert "no longer shown: Broken pipe" in said
    assert "The job goes on" in said


def test_a_terminal_that_takes_nothing_does_not_hold_up_the_end() -> None:
    with Shown() as shown:
        while shown.outlet.put(0, b"text\n" * 1000):
            pass
        assert not shown.outlet.close(0.05)
        assert not shown.troubles


@pytest.mark.parametrize("is_read", [True, False])
def test_the_end_waits_for_whoever_reads_slowly_but_not_for_nobody(
    monkeypatch: pytest.MonkeyPatch, is_read: bool
) -> None:
    read, write = os.pipe()
    shown = Output(write, 1, {0}, timestamps=False, colour=False)
    outlet, now = shown._outlets[0], itertools.count(step=20)

    def read_a_block_in_20_s() -> float:
        before = outlet.written
        while is_read and outlet.written == before < 10 * len(block):
            if select.select([read], [], [], 0.1)[0]:  # what was read last may not be counted yet
                os.read(read, 1 << 16)
        return next(now)

    monkeypatch.setattr(output, "time", SimpleNamespace(monotonic=read_a_block_in_20_s))
    block = "x" * 100_000 + "\n"
    for _ in range(10):
        shown.say(block.rstrip())
    with Signals() as signals:
        shown.close(signals)
    assert ["nothing reads it" in text for text in shown.troubles] == ([] if is_read else [True])
    os.close(read)  # which ends the thread that writes
    assert outlet.close(PATIENCE)
    os.close(write)


def test_a_descriptor_that_does_not_block_is_waited_for() -> None:
    with Shown() as shown:
        os.set_blocking(shown.write, False)
        puts = 1
        while shown.outlet.put(0, b"text\n" * 1000):
            puts += 1
        shown.begin()
        assert shown.text() == b"text\n" * 1000 * puts
        assert not shown.troubles


def test_who_waits_until_it_is_written_finds_all_in_the_pipe() -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    outlet = Outlet(write, Notices(pytest.fail))
    for number in range(100):
        outlet.put(0, b"text %d\n" % number)
        outlet.wait_until_written(PATIENCE)
        assert os.read(read, 100) == b"text %d\n" % number
    assert outlet.close(PATIENCE)
    os.close(read)
    os.close(write)


def test_nobody_waits_for_ever_until_it_is_written() -> None:
    with Shown() as shown:
        while shown.outlet.put(0, b"text\n" * 1000):
            pass
        shown.outlet.wait_until_written(0.1)
        shown.begin()
        shown.outlet.wait_until_written(PATIENCE)
        assert shown.text().startswith(b"text\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_is_said_once_for_all_log_files_and_the_outlet() -> None:
    troubles: List[str] = []
    notices = Notices(troubles.append)
    logs = [LogFile("/dev/full", notices) for _ in range(3)]
    for log in logs * 2:
        log.write(b"text")
    for log in logs:
        log.close()
        log.close()
    (said,) = troubles
    assert said.startswith("The log file /dev/full is not complete: No space left on device.")
    fd = os.open("/dev/full", os.O_WRONLY)
    outlet = Outlet(fd, notices)
    outlet.put(0, b"text\n")
    assert outlet.close(PATIENCE)
    os.close(fd)
    assert len(troubles) == 2
    assert "no longer shown: No space left on device" in troubles[1]


def test_a_log_file_that_cannot_be_opened_is_said_and_takes_nothing(tmp_path: Path) -> None:
    troubles: List[str] = []
    log = LogFile(str(tmp_path / "missing" / "0.log"), Notices(troubles.append))
    log.write(b"text")
    log.close()
    (said,) = troubles
    assert "0.log cannot be opened: No such file or directory." in said


def test_a_log_file_that_was_copied_and_truncated_goes_on_at_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"of an earlier launch")
    log = LogFile(str(path), Notices(print))
    log.write(b"one\n")
    os.truncate(str(path), 0)  # as logrotate's copytruncate
    log.write(b"two\n")
    log.close()
    assert path.read_bytes() == b"two\n"


# A limit on the size of files stands for a disk that is full and then has room again.
_ROOM_AGAIN = """
import resource, signal, sys
from ascend_session.launcher.pump import LogFile, Notices
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
log = LogFile(sys.argv[1], Notices(print))
resource.setrlimit(resource.RLIMIT_FSIZE, (6, hard))
log.write(b"1234")
log.write(b"5678")
log.write(b"9")
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
log.write(b"abc\\n")
log.close()
"""


def test_a_log_file_says_what_it_misses_when_there_is_room_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    command = [sys.executable, "-c", _ROOM_AGAIN, str(path)]
    root = Path(__file__).resolve().parents[2]
    said = subprocess.check_output(command, cwd=str(root), timeout=PATIENCE)
    missing = b"\n[3 bytes are missing here: they could not be written]\n"
    assert path.read_bytes() == b"123456" + missing + b"abc\n"
    assert said.count(b"is not complete: File too large") == 1
