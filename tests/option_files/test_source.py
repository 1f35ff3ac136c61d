"""What is no text file: refused with file, line, column and rule, quickly and without a hang."""

import os
from pathlib import Path

import pytest

from ascend_session import ConfigError, JobError
from ascend_session.option_files import CustomDtypes, OpPrecision
from ascend_session.option_files.source import Kind, Places, decoded, read_content

KIND = Kind("a table", "HCCL", JobError, most_bytes=1 << 20)


def refusal(path):
    with pytest.raises(ConfigError) as caught:
        OpPrecision.read(path)
    return str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert f"{tmp_path}/a.ini: is not there" in refusal(tmp_path / "a.ini")


def test_a_directory_is_refused(tmp_path: Path) -> None:
    assert "is a directory, not a file" in refusal(tmp_path)


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(str(tmp_path / "pipe"))
    assert "is a pipe or a device" in refusal(tmp_path / "pipe")


def test_a_device_that_never_ends_is_refused() -> None:
    assert "is a pipe or a device" in refusal("/dev/zero")


def test_a_name_that_no_file_can_have_is_refused() -> None:
    assert "is no file name" in refusal("a\0b")


def test_a_file_of_100_megabytes_is_refused_without_reading_it(tmp_path: Path) -> None:
    with open(str(tmp_path / "big.ini"), "wb") as file:
        file.truncate(100 << 20)
    message = refusal(tmp_path / "big.ini")
    assert "has 100 MiB" in message
    assert "at most 4 MiB" in message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.ini").write_text("Relu=high_precision\n")
    (tmp_path / "a.ini").chmod(0)
    assert "cannot be read" in refusal(tmp_path / "a.ini")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf_16_is_named(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.ini").write_bytes("\ufeffRelu=high_precision\n".encode(encoding))
    assert "a.ini:1:1: is UTF-16, not UTF-8 text" in refusal(tmp_path / "a.ini")


def test_the_error_is_of_the_kinds_type_and_names_line_and_column() -> None:
    with pytest.raises(JobError) as caught:
        decoded("hccl.json", "eins\nzwö".encode() + b"\xff", KIND)
    assert "hccl.json:2:4: is not UTF-8 text (byte 9)" in str(caught.value)


def test_a_large_file_is_refused_in_the_words_of_its_kind(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(JobError, match="at most 1 MiB of a table"):
        read_content(str(tmp_path / "t"), KIND)
    (tmp_path / "t").write_bytes(b"x" * (1 << 20))
    assert len(read_content(str(tmp_path / "t"), KIND)) == 1 << 20


def test_places_count_from_one() -> None:
    places = Places("ab\n\ncd")
    assert [places.of(at) for at in range(6)] == [(1, 1), (1, 2), (1, 3), (2, 1), (3, 1), (3, 2)]


def test_of_a_thousand_faults_twenty_are_told_and_nothing_is_read_behind_them() -> None:
    with pytest.raises(ConfigError) as caught:
        CustomDtypes.parse("\n" * 4_000_000)
    assert "has at least 980 more such faults" in str(caught.value)
    assert len(caught.value.problems) == 21
