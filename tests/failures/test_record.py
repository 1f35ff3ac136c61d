"""What a rank left behind is read whatever the files hold."""

import json
import os
from pathlib import Path
from typing import Any, Dict

import pytest

from ascend_session.failures.record import ErrorRecord, read_record, read_stacks
from ascend_session.rank_folder import write_record
from ascend_session.session.signals import Terminated

WRITTEN: Dict[str, Any] = {
    "type": "ValueError",
    "message": "bad",
    "traceback": "ValueError: bad\n",
    "time": 12.5,
    "pid": 7,
    "exit_code": 1,
}


def write(folder: Path, data: bytes) -> None:
    (folder / "error.json").write_bytes(data)


def test_a_record_is_read(tmp_path: Path) -> None:
    write(tmp_path, json.dumps({**WRITTEN, "added": "later"}).encode())
    assert read_record(str(tmp_path)) == ErrorRecord(**WRITTEN)


def test_what_the_rank_writes_is_what_is_read(tmp_path: Path) -> None:
    text = 'ü "quoted" \\ \n\t\x00 \ud83d\ude00 \udcff'
    write_record(ValueError(text), str(tmp_path))
    found = read_record(str(tmp_path))
    assert found is not None
    assert found.message == text.encode("utf-8", "backslashreplace").decode()
    assert (found.type, found.pid, found.exit_code) == ("ValueError", os.getpid(), 1)
    assert os.listdir(str(tmp_path)) == ["error.json"]


def test_a_long_record_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    write_record(ValueError("begin" + "x" * 10_000_000 + "end"), str(tmp_path))
    found = read_record(str(tmp_path))
    assert found is not None
    assert len(found.message) < 20_000
    assert len(found.traceback) < 70_000
    for text in (found.message, found.traceback.strip()):
        assert "begin" in text[:50]
        assert text.endswith("end")


def test_the_frames_of_an_exception_are_read_the_innermost_last(tmp_path: Path) -> None:
    try:
        Path("no", "such", "file").read_text()
    except OSError as error:
        write_record(error, str(tmp_path), ends_program=True)
    found = read_record(str(tmp_path))
    assert found is not None
    assert found.ends_program
    assert found.frames[0].path == __file__
    assert found.frames[0].function == "test_the_frames_of_an_exception_are_read_the_innermost_last"
    assert "pathlib" in found.frames[-1].path


@pytest.mark.parametrize("frames", [None, 3, [["a.py", "1", "f"]], [["a.py", 1]], ["a.py"]])
def test_frames_of_another_kind_are_none(tmp_path: Path, frames: Any) -> None:
    write(tmp_path, json.dumps({**WRITTEN, "frames": frames}).encode())
    found = read_record(str(tmp_path))
    assert found is not None
    assert found.frames == ()


def test_what_raises_with_the_reason_heard_before_follows_from_that_rank(tmp_path: Path) -> None:
    folder = str(tmp_path)
    assert write_record(RuntimeError('rank 3 failed: "x"'), folder, failed_rank=3) == 3
    heard = read_record(folder)
    raised = ValueError('in TensorFlow: rank 3 failed: "x", in operator 1')
    assert write_record(raised, folder, ends_program=True) == 3
    found = read_record(folder)
    assert heard is not None
    assert found is not None
    assert (found.type, found.failed_rank, found.time) == ("ValueError", 3, heard.time)


@pytest.mark.parametrize("error", [ValueError("its own"), KeyboardInterrupt("rank 3 failed")])
def test_what_raises_with_another_text_follows_from_nobody(
    tmp_path: Path, error: BaseException
) -> None:
    write_record(RuntimeError("rank 3 failed"), str(tmp_path), failed_rank=3)
    assert write_record(error, str(tmp_path), ends_program=True) is None
    found = read_record(str(tmp_path))
    assert found is not None
    assert found.failed_rank is None


def test_who_is_told_to_end_before_it_can_raise_what_it_has_heard_follows_from_that_rank(
    tmp_path: Path,
) -> None:
    write_record(RuntimeError("rank 3 failed"), str(tmp_path), failed_rank=3)
    assert write_record(Terminated(15), str(tmp_path), ends_program=True) == 3
    found = read_record(str(tmp_path))
    assert found is not None
    assert found.failed_rank == 3


def test_who_is_told_to_end_and_has_heard_nothing_follows_from_nobody(tmp_path: Path) -> None:
    assert write_record(Terminated(15), str(tmp_path), ends_program=True) is None


def test_a_failure_of_its_own_is_not_replaced_by_that_of_another_rank(tmp_path: Path) -> None:
    write_record(ValueError("its own"), str(tmp_path))
    write_record(RuntimeError("rank 3 failed"), str(tmp_path), failed_rank=3)
    found = read_record(str(tmp_path))
    assert found is not None
    assert found.message == "its own"


def test_a_folder_that_takes_no_record_is_left_alone(tmp_path: Path) -> None:
    write_record(ValueError(), str(tmp_path / "nowhere"))
    (tmp_path / "error.json").mkdir()
    write_record(ValueError(), str(tmp_path))
    assert os.listdir(str(tmp_path)) == ["error.json"]


@pytest.mark.parametrize("missing", sorted(WRITTEN))
def test_a_record_that_misses_something_is_none(tmp_path: Path, missing: str) -> None:
    write(tmp_path, json.dumps({**WRITTEN, missing: None}).encode())
    assert read_record(str(tmp_path)) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"type": "Val',
        b"\xff\xfe",
        b"[1]",
        b"null",
        b"[" * 100_000,
        json.dumps({**WRITTEN, "time": float("nan")}).encode(),
        json.dumps({**WRITTEN, "pid": True}).encode(),
        json.dumps({**WRITTEN, "message": "x" * (2 << 20)}).encode(),
    ],
    ids=["empty", "torn", "bytes", "list", "null", "deep", "nan", "bool", "huge"],
)
def test_a_foreign_file_is_no_record(tmp_path: Path, data: bytes) -> None:
    write(tmp_path, data)
    assert read_record(str(tmp_path)) is None


def test_what_is_no_file_is_no_record(tmp_path: Path) -> None:
    assert read_record(str(tmp_path)) is None
    os.mkfifo(str(tmp_path / "error.json"))
    os.mkfifo(str(tmp_path / "stacks.log"))
    assert read_record(str(tmp_path)) is None
    assert read_stacks(str(tmp_path)) == ""


def test_the_end_of_long_stacks_is_read(tmp_path: Path) -> None:
    assert read_stacks(str(tmp_path)) == ""
    (tmp_path / "stacks.log").write_bytes(b"x" * 1_000_000 + b"\xffend")
    found = read_stacks(str(tmp_path))
    assert len(found) < 300_000
    assert found.endswith("\\xffend")
