"""What real programs write reaches the log files and the reader, whatever they and it do."""

import os
import re
import signal
import time
from pathlib import Path
from typing import Dict, List

import psutil
import pytest

from ascend_session.launcher.pump import LogFile, Pump, Source
from tests.launcher.showing import PATIENCE, Job, Shown
from tests.waiting import wait_until

# Writes lines in pieces that end anywhere, also within a character.
_TORN = """
import os
text = "".join("line %d of {rank} 数据🙂\\n" % number for number in range(2000)).encode()
at = 0
while at < len(text):
    size = 1 + (at * 7 + {rank}) % 97
    os.write(1, text[at:at + size])
    at += size
"""
_WAITS = "import os; os.write(1, b'ready\\n'); os.read(0, 1)"
# A child outlives its rank and holds the rank's pipes.
_LEAVES_A_CHILD = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-S", "-c", {child!r}], stdin=subprocess.PIPE)
os.write(1, b"child %d\\nlast words" % child.pid)
os._exit(0)
"""


def test_no_line_of_eight_ranks_is_torn_or_lost(tmp_path: Path) -> None:
    codes = [_TORN.format(rank=rank) for rank in range(8)]
    with Shown().begin() as shown:
        with Job(shown, codes, tmp_path):
            pass
        got = shown.text().decode().splitlines()
    for rank in range(8):
        wanted = [f"line {number} of {rank} 数据🙂" for number in range(2000)]
        assert [line[4:] for line in got if line.startswith(f"[{rank}] ")] == wanted
        log = (tmp_path / f"{rank}.stdout").read_text(encoding="utf-8")
        assert log.splitlines() == wanted
        assert (tmp_path / f"{rank}.stderr").read_bytes() == b""
    assert len(got) == 8 * 2000


def test_log_files_get_the_bytes_untouched_and_the_screen_gets_none_to_obey(tmp_path: Path) -> None:
    code = (
        "import os, sys\nout, err = sys.stdout.buffer, sys.stderr.buffer\n"
        "out.write(bytes(range(256)) * 4000); err.write(b'\\r 1%\\r 2%\\x1b[31mred\\x1b[A')"
    )
    with Shown().begin() as shown:
        with Job(shown, [code], tmp_path):
            pass
        text = shown.text()
    assert (tmp_path / "0.stdout").read_bytes() == bytes(range(256)) * 4000
    assert (tmp_path / "0.stderr").read_bytes() == b"\r 1%\r 2%\x1b[31mred\x1b[A"
    assert b"[0]  2%red\n" in text
    assert not set(text.decode("utf-8")) & {chr(code) for code in range(32) if code not in (9, 10)}


def test_ranks_that_are_not_shown_are_logged(tmp_path: Path) -> None:
    with Shown().begin() as shown:
        with Job(shown, ["print('one')", "print('two')"], tmp_path, show={1}):
            pass
        assert shown.text() == b"[1] two\n"
    assert (tmp_path / "0.stdout").read_bytes() == b"one\n"


def test_a_line_of_200_mb_is_logged_whole_and_shown_in_part(tmp_path: Path) -> None:
    code = "import os\nfor _ in range(3200): os.write(1, b'x' * 65536)\nos.write(1, b'\\nend\\n')"
    before = psutil.Process().memory_info().rss
    with Shown().begin() as shown:
        with Job(shown, [code], tmp_path) as job:
            job.programs[0].wait(PATIENCE)
            grown = psutil.Process().memory_info().rss - before
        first, second = shown.text().splitlines()
    assert re.fullmatch(rb"\[0\] x+ \[cut: \d+ bytes more in this line; .+0.stdout has .+\]", first)
    assert second == b"[0] end"
    assert (tmp_path / "0.stdout").stat().st_size == 3200 * 65536 + 5
    assert grown < 50e6


def test_on_a_terminal_that_takes_nothing_only_the_flooding_rank_waits(tmp_path: Path) -> None:
    flood = "import os\nfor _ in range(2000): os.write(1, b'flooding text\\n' * 1000)"
    quiet = "for _ in range(100): print('quiet')"
    with Shown() as shown, Job(shown, [flood, quiet, quiet], tmp_path) as job:
        for program in job.programs[1:]:
            assert program.wait(PATIENCE) == 0
        for rank in (1, 2):
            log = tmp_path / f"{rank}.stdout"
            wait_until(lambda log=log: log.read_bytes() == b"quiet\n" * 100)
        # What the log has is what was read: about a queue, a pipe and a write.
        assert (tmp_path / "0.stdout").stat().st_size < 1e6
        assert job.programs[0].poll() is None
        wait_until(lambda: _counts_as_writing(job.pump, 0))
        shown.begin()
        assert job.programs[0].wait(PATIENCE) == 0
        assert job.pump.join(PATIENCE)
        text = shown.text()
        assert text.count(b"[0] flooding text\n") == 2000 * 1000
        assert text.count(b"[1] quiet\n") == text.count(b"[2] quiet\n") == 100


def test_a_rank_that_dies_before_a_terminal_that_takes_nothing_is_logged_whole(
    tmp_path: Path,
) -> None:
    flood = "import os\nwhile True: os.write(1, b'flooding text\\n' * 1000)"
    with Shown() as shown, Job(shown, [flood], tmp_path) as job:
        log = tmp_path / "0.stdout"
        wait_until(lambda: _counts_as_writing(job.pump, 0))
        program = psutil.Process(job.programs[0].pid)
        wait_until(lambda: program.status() == psutil.STATUS_SLEEPING)  # the pipe is full
        read = log.stat().st_size
        job.programs[0].kill()
        assert job.programs[0].wait(PATIENCE) == -signal.SIGKILL
        assert not job.pump.join(0.05)
        job.pump.stop()
        assert job.pump.join(PATIENCE)
        assert log.stat().st_size >= read + 4096  # what was in the pipe


def test_a_closed_terminal_does_not_hold_up_the_ranks(tmp_path: Path) -> None:
    flood = "import os\nfor _ in range(500): os.write(1, b'flooding text\\n' * 1000)"
    with Shown() as shown:
        with Job(shown, [flood, flood], tmp_path) as job:
            wait_until(lambda: job.pump.wrote_at(0) is not None)
            shown.hang_up()
        assert [program.returncode for program in job.programs] == [0, 0]
        assert len(shown.troubles) == 1
    assert (tmp_path / "0.stdout").stat().st_size == 500 * 1000 * 14


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_is_said_once_and_the_screen_goes_on(tmp_path: Path) -> None:
    for rank in range(2):
        for stream in ("stdout", "stderr"):
            (tmp_path / f"{rank}.{stream}").symlink_to("/dev/full")
    code = "import os\nfor _ in range(100): os.write(1, b'a\\n'), os.write(2, b'b\\n')"
    with Shown().begin() as shown:
        with Job(shown, [code, code], tmp_path):
            pass
        assert len(shown.text().splitlines()) == 400
        (said,) = shown.troubles
    assert "No space left on device" in said


def test_pipes_that_a_child_holds_open_are_given_up_when_it_is_stopped(tmp_path: Path) -> None:
    code = _LEAVES_A_CHILD.format(child="import signal\nsignal.pause()")
    with Shown().begin() as shown, Job(shown, [code], tmp_path) as job:
        assert job.programs[0].wait(PATIENCE) == 0
        assert not job.pump.join(0.05)
        job.pump.stop()
        assert job.pump.join(PATIENCE)
        child, last = shown.text().splitlines()
        assert last == b"[0] last words"
        _end_orphan(child)


def test_a_child_that_floods_for_ever_does_not_keep_it_from_stopping() -> None:
    child = "import os\nwhile True: os.write(1, b'more\\n')"
    with Shown().begin() as shown, Job(shown, [_LEAVES_A_CHILD.format(child=child)]) as job:
        assert job.programs[0].wait(PATIENCE) == 0
        job.pump.stop()
        assert job.pump.join(PATIENCE)
        text = shown.text()
        _end_orphan(re.search(rb"child \d+", text)[0])  # type: ignore[index]


def test_it_sleeps_while_nothing_is_written() -> None:
    with Shown().begin() as shown, Job(shown, [_WAITS]) as job:
        wait_until(lambda: job.pump.wrote_at(0) is not None)
        begin = time.process_time()
        assert not job.pump.join(2.0)
        assert time.process_time() - begin < 1.0


def test_a_pseudo_terminal_ends_like_a_pipe() -> None:
    read, write = os.openpty()
    with Shown().begin() as shown:
        pump = Pump(
            [Source(read, 0, "stdout", LogFile(os.devnull, shown.notices))], shown.output(1, {0})
        ).start()
        os.write(write, b"text\nmore")
        os.close(write)
        assert pump.join(PATIENCE)
        pump.stop()  # after its end this does nothing
        assert shown.text() == b"[0] text\n[0] more\n"


def test_a_flooding_rank_gets_no_more_than_its_turn(tmp_path: Path) -> None:
    flood = "import os\nwhile True: os.write(1, b'flooding text\\n' * 5000)"
    lines = "import os\nfor _ in range(2000): os.write(1, b'line\\n')"
    with Shown().begin() as shown, Job(shown, [flood, lines], show={0}) as job:
        wait_until(lambda: job.pump.wrote_at(0) is not None)
        assert job.programs[1].wait(PATIENCE) == 0
        job.programs[0].kill()
        assert job.programs[0].wait(PATIENCE) == -signal.SIGKILL
        assert job.pump.join(PATIENCE)
        assert b"[0] flooding text\n" in shown.text()


def test_256_ranks_are_read_at_once() -> None:
    ends: Dict[int, int] = {}
    sources: List[Source] = []
    with Shown().begin() as shown:
        for rank in range(256):
            read, ends[rank] = os.pipe()
            sources.append(Source(read, rank, "stdout", LogFile(os.devnull, shown.notices)))
        pump = Pump(sources, shown.output(256, range(256))).start()
        for rank, end in ends.items():
            os.write(end, b"text of %d\n" % rank)
        for end in ends.values():
            os.close(end)
        assert pump.join(PATIENCE)
        assert sorted(shown.text().splitlines()) == sorted(
            b"[%3d] text of %d" % (rank, rank) for rank in range(256)
        )


def test_it_closes_everything_that_it_was_given_or_opened(tmp_path: Path) -> None:
    before = psutil.Process().num_fds()
    with Shown().begin() as shown:
        with Job(shown, ["print('text')"] * 3, tmp_path):
            pass
        shown.text()
    del shown
    assert psutil.Process().num_fds() == before


def _counts_as_writing(pump: Pump, rank: int) -> bool:
    """Whether it waits for the terminal, and so was heard of whenever one asks."""
    return all(_is_heard_now(pump, rank) for _ in range(100))


def _is_heard_now(pump: Pump, rank: int) -> bool:
    begin = time.monotonic()
    heard = pump.wrote_at(rank)
    return heard is not None and heard >= begin


def _end_orphan(said: bytes) -> None:
    """Ends a child by the number in the line that named it."""
    pid = int(said.split()[-1])
    os.kill(pid, signal.SIGKILL)
