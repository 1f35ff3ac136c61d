"""Files of others: what cannot be read is said, and nothing waits."""

import os
from pathlib import Path

import pytest

from ascend_session.files import UnreadableError, read_regular_file, replace_file


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xff text")
    assert read_regular_file(str(path), 6) == b"\xff text"


def test_a_file_without_a_size_is_read() -> None:
    assert b"Name:" in read_regular_file("/proc/self/status", 1 << 20)


def test_what_is_not_there_may_come(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"^does not exist$") as caught:
        read_regular_file(str(tmp_path / "missing"), 1 << 20)
    assert caught.value.is_missing


@pytest.mark.parametrize("name", ["pipe", "folder", "bad\0name", "large"])
def test_what_is_no_small_file_is_refused_at_once(tmp_path: Path, name: str) -> None:
    os.mkfifo(str(tmp_path / "pipe"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "large").write_bytes(b"x" * (3 << 20))
    said = {
        "pipe": "is a pipe or a device, not a file",
        "folder": "is a folder, not a file",
        "bad\0name": "is not a file name",
        "large": "has 3 MiB, and at most 1 MiB of such a file are read here",
    }
    open_before = os.listdir("/proc/self/fd")
    with pytest.raises(UnreadableError) as caught:
        read_regular_file(str(tmp_path / name), 1 << 20)
    assert str(caught.value) == said[name]
    assert os.listdir("/proc/self/fd") == open_before


def test_a_file_is_replaced_and_nothing_else_left(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    replace_file(str(path), b"new")
    assert path.read_text() == "new"
    assert os.listdir(str(tmp_path)) == ["file"]


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_file(str(tmp_path / "folder"), b"new")
    assert os.listdir(str(tmp_path)) == ["folder"]
