"""The last moment of a system: what is noted, forked or written then."""

import signal
from pathlib import Path

from tests.running import Host


def test_that_all_is_closed_is_noted_after_the_shutdown(programs: Host, tmp_path: Path) -> None:
    ended = programs.run("last_moment", "note", str(tmp_path))
    assert (ended.code, ended.lines) == (0, ["open", "closed"]), ended.log


def test_a_child_that_is_forked_while_a_thread_closes_does_not_wait_for_it(
    programs: Host,
) -> None:
    ended = programs.run("last_moment", "fork")
    assert (ended.code, ended.lines) == (0, ["child ended 0"]), ended.log


def test_what_was_not_flushed_is_written_before_a_signal_ends_the_process(programs: Host) -> None:
    ended = programs.run("last_moment", "write")
    assert (ended.code, ended.lines) == (-signal.SIGINT, ["not flushed"]), ended.log
