"""Writing: all of a file or none of it, nothing overwritten unasked, names that say the content."""

import os
import stat
import tempfile
from pathlib import Path
from typing import List

import pytest

from ascend_session import ConfigError
from ascend_session.option_files import OpPrecision

ONE = OpPrecision({"Relu": "high_precision"})
OTHER = OpPrecision({"Relu": "high_performance"})


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    ONE.write(tmp_path / "a.ini")
    with pytest.raises(ConfigError, match="already exists"):
        OTHER.write(tmp_path / "a.ini")
    assert OpPrecision.read(tmp_path / "a.ini") == ONE
    OTHER.write(tmp_path / "a.ini", force=True)
    assert OpPrecision.read(tmp_path / "a.ini") == OTHER
    assert os.listdir(str(tmp_path)) == ["a.ini"]


def test_a_link_that_leads_nowhere_is_something_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "a.ini").symlink_to("b.ini")
    with pytest.raises(ConfigError, match="already exists"):
        ONE.write(tmp_path / "a.ini")


def test_force_follows_a_link_and_keeps_the_permissions(tmp_path: Path) -> None:
    ONE.write(tmp_path / "real.ini")
    (tmp_path / "real.ini").chmod(0o640)
    (tmp_path / "link.ini").symlink_to("real.ini")
    OTHER.write(tmp_path / "link.ini", force=True)
    assert (tmp_path / "link.ini").is_symlink()
    assert stat.S_IMODE((tmp_path / "real.ini").stat().st_mode) == 0o640
    assert OpPrecision.read(tmp_path / "real.ini") == OTHER


@pytest.mark.parametrize("name", ["nowhere/a.ini", "folder", "a\0b"])
def test_what_cannot_be_written_is_refused_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match=r"cannot be written|is not a file name"):
        ONE.write(os.path.join(str(tmp_path), name), force=True)
    assert os.listdir(str(tmp_path)) == ["folder"]


def test_content_and_name_of_a_file_are_on_disk_when_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: List[int] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        fsync(descriptor)
        synced.append(stat.S_IFMT(os.fstat(descriptor).st_mode))

    monkeypatch.setattr(os, "fsync", record)
    ONE.write(tmp_path / "a.ini")
    assert synced == [stat.S_IFREG, stat.S_IFDIR]


def test_the_same_content_is_stored_once_under_one_name(tmp_path: Path) -> None:
    path = ONE.store(tmp_path / "new" / "folder")
    before = os.stat(path)
    assert ONE.store(tmp_path / "new" / "folder") == path
    assert os.stat(path).st_ino == before.st_ino
    assert OpPrecision.read(path) == ONE
    assert os.path.isabs(path)
    assert os.path.basename(path).startswith("op_precision-")
    assert path.endswith(".ini")
    assert OTHER.store(tmp_path / "new" / "folder") != path


def test_a_damaged_stored_file_is_replaced(tmp_path: Path) -> None:
    path = ONE.store(tmp_path)
    whole = Path(path).read_text()
    for damaged in ("half", "#" + whole[1:]):
        Path(path).write_text(damaged)
        assert ONE.store(tmp_path) == path
        assert Path(path).read_text() == whole


def test_a_stored_file_that_cannot_be_read_is_left_to_its_owner() -> None:
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as folder:  # tmp_path is closed to other users
        os.chmod(folder, 0o777)
        path = ONE.store(folder)
        os.chmod(path, 0)
        before = os.stat(path).st_ino
        if user == 0:
            os.seteuid(65534)
        try:
            with pytest.raises(ConfigError, match="cannot be written: Permission denied"):
                ONE.store(folder)
        finally:
            os.seteuid(user)
        assert os.stat(path).st_ino == before


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        ONE.store(tmp_path / "file" / "folder")
