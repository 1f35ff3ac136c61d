"""``--events FILE``: JSON lines, as things happen, whatever becomes of the file."""

import json
import os
from pathlib import Path
from typing import List

import pytest

from ascend_session.errors import ConfigError
from ascend_session.launcher.events import EventFile
from ascend_session.launcher.job.events import Ended, Started
from ascend_session.launcher.show.screen import Notices

_STARTED = Started(3, 4711, 1.5)


class Said:
    """Notices, and what came of them."""

    def __init__(self) -> None:
        self.sentences: List[str] = []
        self.notices = Notices(self.sentences.append)


@pytest.fixture
def said() -> Said:
    return Said()


def test_each_event_is_a_line_that_is_there_at_once(tmp_path: Path, said: Said) -> None:
    path = tmp_path / "events.jsonl"
    with EventFile(str(path)) as events:
        events.write(_STARTED, said.notices)
        assert path.read_text() == '{"event":"start","time":1.5,"rank":3,"pid":4711}\n'
        events.write(Ended(3, -9, 2.5), said.notices)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[1] == {"event": "exit", "time": 2.5, "rank": 3, "exit_code": None, "signal": 9}
    assert said.sentences == []


def test_what_an_earlier_launch_left_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("old\n")
    with EventFile(str(path)):
        assert path.read_text() == ""


def test_a_file_that_another_process_empties_is_written_from_its_beginning(
    tmp_path: Path, said: Said
) -> None:
    path = tmp_path / "events.jsonl"
    with EventFile(str(path)) as events:
        events.write(_STARTED, said.notices)
        os.truncate(str(path), 0)
        events.write(_STARTED, said.notices)
    assert path.read_text().startswith('{"event"')


@pytest.mark.parametrize(
    ("name", "reason"),
    [("missing/events", "No such file or directory"), ("", "Is a directory")],
)
def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    path = f"{tmp_path}/{name}"
    with pytest.raises(ConfigError) as refused:
        EventFile(path)
    assert refused.value.message == f"events={path!r} cannot be written: {reason}."
    assert [problem.option for problem in refused.value.problems] == ["events"]


def test_a_named_pipe_that_nobody_reads_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(str(path))
    with pytest.raises(ConfigError):
        EventFile(str(path))


def test_a_full_disk_is_said_once(said: Said) -> None:
    with EventFile("/dev/full") as events:
        for _ in range(3):
            events.write(_STARTED, said.notices)
    (sentence,) = said.sentences
    assert sentence.startswith("The file of events /dev/full misses some of them: No space left")


def test_a_reader_that_takes_nothing_holds_nobody_up_and_gets_whole_lines_later(
    tmp_path: Path, said: Said
) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(str(path))
    reader = os.open(str(path), os.O_RDONLY | os.O_NONBLOCK)
    with EventFile(str(path)) as events:
        for _ in range(5000):  # far more than a pipe holds
            events.write(_STARTED, said.notices)
        taken = os.read(reader, 1 << 20)
        events.write(Ended(1, 0, 2.0), said.notices)
        taken += os.read(reader, 1 << 20)
    os.close(reader)
    assert len(said.sentences) == 1
    assert json.loads(taken.splitlines()[-1])["event"] == "exit"
    assert json.loads(taken.splitlines()[0])["event"] == "start"


def test_ranks_do_not_inherit_it(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with EventFile(str(path)):
        (fd,) = [int(fd) for fd in os.listdir("/proc/self/fd") if _names(fd, path)]
        assert not os.get_inheritable(fd)
    assert not any(_names(fd, path) for fd in os.listdir("/proc/self/fd"))


def _names(fd: str, path: Path) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{fd}") == str(path)
    except OSError:  # the descriptor that listed them
        return False
