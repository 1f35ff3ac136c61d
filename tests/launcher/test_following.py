"""What real programs write reaches the reader from their log files, whatever they and it do."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import List

import psutil
import pytest

from ascend_session.errors import JobError
from ascend_session.rank_folder import write_record
from tests.launcher.showing import PATIENCE, Job, Shown, plan_ranks
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
_FLOOD = "import os\nfor _ in range(2000): os.write(1, b'flooding text\\n' * 1000)"
# A child outlives its rank and has the rank's log files.
_LEAVES_A_CHILD = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-S", "-c", {child!r}], stdin=subprocess.PIPE)
os.write(1, b"child %d\\nlast words" % child.pid)
os._exit(0)
"""


def test_no_line_of_eight_ranks_is_torn_or_lost(tmp_path: Path) -> None:
    codes = [_TORN.format(rank=rank) for rank in range(8)]
    with Shown().begin() as shown:
        with Job(shown, codes, tmp_path) as job:
            pass
        got = shown.text().decode().splitlines()
    for rank in range(8):
        wanted = [f"line {number} of {rank} 数据🙂" for number in range(2000)]
        assert [line[4:] for line in got if line.startswith(f"[{rank}] ")] == wanted
        assert job.log(rank).read_text(encoding="utf-8").splitlines() == wanted
        assert job.log(rank, "stderr").read_bytes() == b""
    assert len(got) == 8 * 2000


def test_the_screen_gets_no_bytes_to_obey(tmp_path: Path) -> None:
    code = (
        "import os, sys\nout, err = sys.stdout.buffer, sys.stderr.buffer\n"
        "out.write(bytes(range(256)) * 4000); err.write(b'\\r 1%\\r 2%\\x1b[31mred\\x1b[A')"
    )
    with Shown().begin() as shown:
        with Job(shown, [code], tmp_path) as job:
            pass
        text = shown.text()
    assert job.log(0).read_bytes() == bytes(range(256)) * 4000
    assert job.log(0, "stderr").read_bytes() == b"\r 1%\r 2%\x1b[31mred\x1b[A"
    assert b"[0]  2%red\n" in text
    assert not set(text.decode("utf-8")) & {chr(code) for code in range(32) if code not in (9, 10)}


def test_ranks_that_are_not_shown_are_logged_and_their_last_words_known(tmp_path: Path) -> None:
    with Shown().begin() as shown:
        with Job(shown, ["print('one ' * 1000)", "print('two')"], tmp_path, show={1}) as job:
            pass
        assert shown.text() == b"[1] two\n"
    assert job.log(0).read_bytes() == b"one " * 1000 + b"\n"
    latest = job.output.latest(0)
    assert latest is not None
    assert latest.text.endswith(b"one \n")


def test_a_line_of_200_mb_is_shown_in_part_and_costs_no_memory(tmp_path: Path) -> None:
    code = "import os\nfor _ in range(3200): os.write(1, b'x' * 65536)\nos.write(1, b'\\nend\\n')"
    before = psutil.Process().memory_info().rss
    with Shown().begin() as shown:
        with Job(shown, [code], tmp_path) as job:
            job.programs[0].wait(PATIENCE)
            grown = psutil.Process().memory_info().rss - before
        first, second = shown.text().splitlines()
    assert re.fullmatch(
        rb"\[0\] x+ \[cut: \d+ bytes more in this line; .+stdout.log has .+\]", first
    )
    assert second == b"[0] end"
    assert grown < 50e6


def test_a_terminal_that_takes_nothing_holds_up_no_rank(tmp_path: Path) -> None:
    codes = [_FLOOD, "for _ in range(100): print('quiet')"]
    with Shown() as shown, Job(shown, codes, tmp_path) as job:
        for program in job.programs:
            assert program.wait(PATIENCE) == 0
        assert job.log(0).stat().st_size == 2000 * 14000
        shown.begin()
        job.finish()
        text = shown.text()
        assert text.count(b"[0] flooding text\n") == 2000 * 1000
        assert text.count(b"[1] quiet\n") == 100


def test_who_writes_while_the_terminal_takes_nothing_is_known(tmp_path: Path) -> None:
    code = "import os\nfor _ in range(99): os.write(1, b'flood\\n' * 9999)\nos.read(0, 1)\nprint(1)"
    with Shown() as shown, Job(shown, [code], tmp_path) as job:
        wait_until(lambda: job.log(0).stat().st_size == 99 * 6 * 9999)
        time.sleep(0.5)  # the last of it has been noticed
        before = job.output.latest(0)
        assert before is not None
        job.programs[0].communicate(b"x")
        wait_until(lambda: job.output.latest(0) != before)
        shown.begin()


def test_how_long_a_rank_has_written_is_known(tmp_path: Path) -> None:
    code = "import os\nfor line in b'one two three'.split():\n    os.write(1, line); os.read(0, 1)"
    with Shown().begin() as shown, Job(shown, [code], tmp_path) as job:
        seen = []
        for line in (b"one", b"onetwo", b"onetwothree"):
            wait_until(lambda: getattr(job.output.latest(0), "text", b"") == line)  # noqa: B023
            seen.append(job.output.latest(0))
            job.programs[0].stdin.write(b"x")
            job.programs[0].stdin.flush()
        times = [(each.began, each.time) for each in seen if each is not None]
        assert len({began for began, _ in times}) == 1
        assert times[0][0] <= times[0][1] < times[1][1] < times[2][1]


def test_a_quiet_rank_is_not_behind_all_that_a_flooding_one_has_written(tmp_path: Path) -> None:
    with Shown() as shown, Job(shown, [_FLOOD, "print('quiet')"], tmp_path) as job:
        for program in job.programs:
            assert program.wait(PATIENCE) == 0
        shown.begin()
        job.finish()
        text = shown.text()
        assert text.index(b"[1] quiet\n") < 1e6 < len(text)


def test_a_closed_terminal_does_not_hold_up_the_ranks(tmp_path: Path) -> None:
    with Shown() as shown:
        with Job(shown, [_FLOOD, _FLOOD], tmp_path) as job:
            wait_until(lambda: job.output.latest(0) is not None)
            shown.hang_up()
        assert [program.returncode for program in job.programs] == [0, 0]
        assert len(shown.troubles) == 1
    assert job.log(0).stat().st_size == 2000 * 1000 * 14


def test_the_last_words_of_a_rank_are_shown_when_it_has_exited(tmp_path: Path) -> None:
    codes = ["import os; os.write(1, b'last words')", _WAITS]
    with Shown().begin() as shown, Job(shown, codes, tmp_path) as job:
        assert job.programs[0].wait(PATIENCE) == 0
        job.output.end_rank(0)
        wait_until(lambda: b"[0] last words\n" in b"".join(shown._got))


def test_a_line_that_is_ended_while_the_follower_looks_is_shown_whole(tmp_path: Path) -> None:
    code = "import os; os.write(1, b'one '); os.read(0, 1); os.write(1, b'line\\n')"
    with Shown().begin() as shown, Job(shown, [code], tmp_path) as job:
        wait_until(lambda: job.log(0).read_bytes() == b"one ")
        admits_all, rank = job.output.filter.admits_all, job.programs[0]

        def end_rank_after_look() -> bool:
            if rank.poll() is None and job.output.latest(0) is not None:
                rank.communicate(b"x", PATIENCE)
                job.output.end_rank(0)
            return admits_all()

        job.output.filter.admits_all = end_rank_after_look
        wait_until(lambda: job.programs[0].poll() is not None)
        job.finish()
        assert shown.text() == b"[0] one line\n"


def test_a_child_that_floods_for_ever_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    child = "import os\nwhile True: os.write(1, b'more\\n')"
    codes = [_LEAVES_A_CHILD.format(child=child)]
    with Shown().begin() as shown, Job(shown, codes, tmp_path) as job:
        assert job.programs[0].wait(PATIENCE) == 0
        job.finish()
        text = shown.text()
        pid = re.search(rb"child (\d+)", text)
        assert pid is not None
        os.kill(int(pid[1]), signal.SIGKILL)


def test_it_sleeps_while_nothing_is_written(tmp_path: Path) -> None:
    with Shown().begin() as shown, Job(shown, [_WAITS], tmp_path) as job:
        wait_until(lambda: job.output.latest(0) is not None)
        begin = time.process_time()
        time.sleep(2.0)
        assert time.process_time() - begin < 0.5


def test_lines_come_soon_after_a_long_silence_also_without_reports_of_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ascend_session.launcher.show.following.watch_growth", lambda paths: None)
    code = "import os; os.read(0, 1); os.write(1, b'now\\n'); os.read(0, 1)"
    with Shown().begin() as shown, Job(shown, [code], tmp_path) as job:
        time.sleep(1.0)
        job.programs[0].stdin.write(b"x")
        job.programs[0].stdin.flush()
        wait_until(lambda: b"[0] now\n" in b"".join(shown._got))


def test_no_line_of_standard_output_is_within_a_traceback(tmp_path: Path) -> None:
    code = """
import os, time
os.write(2, b"Traceback (most recent call last):\\n  File one\\n")
for number in range(5):
    os.write(1, b"step %d\\n" % number)
    time.sleep(0.05)
os.write(2, b"  File two\\nValueError: no data\\n")
"""
    with Shown().begin() as shown:
        with Job(shown, [code], tmp_path):
            pass
        lines = shown.text().splitlines()
    begin = lines.index(b"[0] Traceback (most recent call last):")
    assert lines[begin + 1 : begin + 4] == [
        b"[0]   File one",
        b"[0]   File two",
        b"[0] ValueError: no data",
    ]
    assert sum(b"step" in line for line in lines) == 5


def test_lines_from_before_a_failure_are_shown_however_slow_the_terminal_is(tmp_path: Path) -> None:
    early = "import os\nfor _ in range(99): os.write(2, b'before\\n' * 9999)\n"
    early += "os.read(0, 1)\nos.write(2, b'after\\n')"
    with Shown() as shown, Job(shown, ["", early], tmp_path) as job:
        wait_until(lambda: job.log(1, "stderr").stat().st_size == 99 * 7 * 9999)
        time.sleep(0.5)  # it has looked
        write_record(ValueError("no data"), job.ranks[0].folder, ends_program=True)
        job.programs[1].communicate(b"x")
        shown.begin()
        job.finish()
        text = shown.text()
        assert text.count(b"[1] before\n") == 99 * 9999
        assert b"after" not in text


def test_of_a_line_that_a_failure_cuts_no_part_is_shown_later(tmp_path: Path) -> None:
    code = "import os\nos.write(1, b'half a '); os.read(0, 1); os.write(1, b'line\\nafter\\n')"
    with Shown().begin() as shown:
        with Job(shown, ["", code], tmp_path) as job:
            wait_until(lambda: getattr(job.output.latest(1), "text", b"") == b"half a ")
            write_record(ValueError("no data"), job.ranks[0].folder, ends_program=True)
            job.programs[1].communicate(b"x")
        assert b"[1]" not in shown.text()


def test_a_log_file_that_was_copied_and_truncated_goes_on_at_its_beginning(tmp_path: Path) -> None:
    code = "import os\nos.write(1, b'one\\n' * 9)\nos.read(0, 1)\nos.write(1, b'two\\n')"
    with Shown().begin() as shown:
        with Job(shown, [code], tmp_path) as job:
            wait_until(lambda: b"".join(shown._got).count(b"one") == 9)
            os.truncate(str(job.log(0)), 0)  # as logrotate's copytruncate
            job.programs[0].communicate(b"x")
        text = shown.text()
    assert job.log(0).read_bytes() == b"two\n"
    assert text.count(b"[0] one\n") == 9
    assert text.count(b"[0] two\n") == 1
    (said,) = shown.troubles
    assert f"{job.log(0)} was truncated" in said


def test_what_is_in_a_truncated_log_file_after_a_failure_was_not_there_before(
    tmp_path: Path,
) -> None:
    code = "import os\nos.write(1, b'before\\n' * 9)\nos.read(0, 1)\nos.write(1, b'after\\n')"
    with Shown().begin() as shown:
        with Job(shown, ["", code], tmp_path) as job:
            wait_until(lambda: b"".join(shown._got).count(b"before") == 9)
            write_record(ValueError("no data"), job.ranks[0].folder, ends_program=True)
            os.truncate(str(job.log(1)), 0)
            job.programs[1].communicate(b"x")
        text = shown.text()
    assert text.count(b"[1] before\n") == 9
    assert b"after" not in text


def test_a_hole_in_a_log_file_is_passed_over(tmp_path: Path) -> None:
    code = "import os\nos.ftruncate(1, 1 << 36)\nos.write(1, b'behind\\n')"
    with Shown().begin() as shown:
        with Job(shown, [code], tmp_path):
            pass
        assert shown.text() == b"[0] behind\n"


def test_256_ranks_are_followed_at_once(tmp_path: Path) -> None:
    with Shown().begin() as shown:
        output = shown.output(256, range(256))
        ranks = plan_ranks(tmp_path, 256)
        output.follow(ranks)
        for rank in ranks:
            Path(rank.stdout).write_text(f"text of {rank.rank}\n")
        output.finish()
        assert sorted(shown.text().splitlines()) == sorted(
            b"[%3d] text of %d" % (rank, rank) for rank in range(256)
        )


def test_what_an_earlier_launch_has_left_in_a_log_file_is_gone(tmp_path: Path) -> None:
    (rank,) = plan_ranks(tmp_path, 1)
    os.makedirs(rank.folder)
    Path(rank.stdout).write_text("of an earlier launch")
    with Shown().begin() as shown:
        output = shown.output(1, {0})
        output.follow([rank])
        output.finish()
        assert shown.text() == b""


def test_a_log_file_that_cannot_be_made_is_an_error_before_anything_starts(tmp_path: Path) -> None:
    ranks = plan_ranks(tmp_path, 3)
    os.makedirs(ranks[2].stderr)
    before = psutil.Process().num_fds()
    with Shown().begin() as shown:
        output = shown.output(3, range(3))
        with pytest.raises(
            JobError, match=r"stderr\.log cannot be created: Is a directory"
        ) as refused:
            output.follow(ranks)
        shown.text()
    assert "log_dir" in (refused.value.hint or "")
    del shown, output
    assert psutil.Process().num_fds() == before


def test_it_closes_everything_that_it_has_opened(tmp_path: Path) -> None:
    before = psutil.Process().num_fds()
    with Shown().begin() as shown:
        with Job(shown, ["print('text')"] * 3, tmp_path):
            time.sleep(0.5)  # until the kernel is asked to report
        shown.text()
    del shown
    wait_until(lambda: psutil.Process().num_fds() == before)


# A whole launch


def _launch(folder: Path, *words: str) -> "subprocess.CompletedProcess":
    command = [sys.executable, "-m", "ascend_session.cli", "launch", "--backend", "stub"]
    command += ["--log-dir", str(folder / "logs"), "-n", "1", *words]
    root = str(Path(__file__).resolve().parents[2])
    env = {**os.environ, "PYTHONPATH": root}
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, timeout=PATIENCE)


def _lines(folder: Path, stream: str) -> List[str]:
    (log,) = (folder / "logs").glob("job_*/attempt_1/rank_0")
    return (log / f"{stream}.log").read_text().splitlines()


def test_a_script_writes_into_its_log_file_and_at_its_end(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import os\nprint(os.readlink('/proc/self/fd/1'), flush=True)\n"
        "os.truncate('/proc/self/fd/1', 0)\nprint('two')"
    )
    ended = _launch(tmp_path, str(script))
    assert ended.returncode == 0
    assert ended.stdout.endswith(b"two\n")
    assert _lines(tmp_path, "stdout") == ["two"]


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_shell_that_opens_its_own_output_anew_loses_nothing(tmp_path: Path, stream: str) -> None:
    number = 1 if stream == "stdout" else 2
    code = f"echo one >&{number}; echo a > /dev/{stream}; (echo b > /dev/{stream})"
    ended = _launch(tmp_path, "--no-python", "sh", "-c", f"{code}; echo three >&{number}")
    assert ended.returncode == 0
    assert ended.stdout.splitlines() == [b"[0] one", b"[0] a", b"[0] b", b"[0] three"]
    assert _lines(tmp_path, stream) == ["one", "a", "b", "three"]


def test_all_that_a_program_has_written_is_logged_when_it_has_exited(tmp_path: Path) -> None:
    ended = _launch(tmp_path, "--no-python", "seq", "1", "200000")
    assert len(ended.stdout.splitlines()) == len(_lines(tmp_path, "stdout")) == 200000
