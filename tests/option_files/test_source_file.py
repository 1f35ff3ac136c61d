"""What is no text file: refused with file, line, column and rule, quickly and without a hang."""

import gzip
import os
import random
import tracemalloc
from pathlib import Path

import pytest

from ascend_session import ConfigError
from ascend_session.files import load_file
from ascend_session.findings import TextPlaces
from ascend_session.option_files import AoeConfigFile, CustomDtypes, MixList, OpPrecision
from ascend_session.option_files.source_file import SourceFile, encode
from ascend_session.text import is_writable


def refusal(path):
    with pytest.raises(ConfigError) as caught:
        OpPrecision.read(path)
    return str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert f"{tmp_path}/a.ini: does not exist" in refusal(tmp_path / "a.ini")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert "is a folder, not a file" in refusal(tmp_path)


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(str(tmp_path / "pipe"))
    assert "is a pipe or a device" in refusal(tmp_path / "pipe")


def test_a_device_that_never_ends_is_refused() -> None:
    assert "is a pipe or a device" in refusal("/dev/zero")


def test_a_name_that_no_file_can_have_is_refused() -> None:
    assert "is not a file name" in refusal("a\0b")


def test_a_file_of_100_megabytes_is_refused_without_reading_it(tmp_path: Path) -> None:
    with open(str(tmp_path / "big.ini"), "wb") as file:
        file.truncate(100 << 20)
    message = refusal(tmp_path / "big.ini")
    assert "has 100 MiB" in message
    assert "at most 64 MiB" in message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.ini").write_text("Relu=high_precision\n")
    (tmp_path / "a.ini").chmod(0)
    assert "cannot be read" in refusal(tmp_path / "a.ini")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf_16_is_a_remark_where_ge_only_skips(encoding: str) -> None:
    mark = "" if encoding == "utf-16" else "\ufeff"
    content = f"{mark}Relu=high_precision\n".encode(encoding)
    assert OpPrecision.parse(content) == OpPrecision()
    (found,) = OpPrecision.check_text(content)
    assert str(found).startswith("1:1: This is UTF-16, not UTF-8 text; GE reads an operator")
    assert found.hint == "Save it as UTF-8 without a byte order mark."


def test_compressed_text_is_refused_where_ge_refuses_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(gzip.compress(b"{}"))
    with pytest.raises(ConfigError) as caught:
        MixList.read(tmp_path / "a.json")
    assert "a.json:1:1: This is compressed, not UTF-8 text; GE reads" in str(caught.value)
    assert caught.value.hint == "Unpack it."


def test_a_file_that_is_not_there_is_refused_by_its_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"net\.ini: does not exist"):
        load_file(str(tmp_path / "net.ini"), "a list of modes")


def test_sentences_name_the_reader_as_it_is_called_inside_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "aoe.json").write_bytes(b"\x1f\x8b")
    with pytest.raises(ConfigError, match="not UTF-8 text; AOE reads"):
        AoeConfigFile.check(tmp_path / "aoe.json")


def test_what_is_written_is_read_back_byte_for_byte() -> None:
    rng = random.Random(3)
    for _ in range(500):
        text = "".join(rng.choice("Aä\ufeff\udc80\udcc3\udca4\ud800") for _ in range(4))
        if is_writable(text):
            assert SourceFile("a", encode(text)).text == text
        if is_writable(text, strict=True):
            assert text.encode() == encode(text)
    assert is_writable("\udc80")
    assert not is_writable("\udc80", strict=True)
    assert not is_writable("\udcc3\udca4")  # together they are UTF-8
    assert not is_writable("\ud800")


def test_a_large_file_is_refused_by_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.touch()
    os.truncate(str(path), (64 << 20) + 1)
    with pytest.raises(ConfigError, match="at most 64 MiB of a list of modes"):
        load_file(str(path), "a list of modes")
    os.truncate(str(path), 64 << 20)
    assert len(load_file(str(path), "a list of modes")) == 64 << 20


def test_places_count_from_one() -> None:
    places = TextPlaces("ab\n\ncd")
    assert [str(places.locate(at)) for at in range(6)] == ["1:1", "1:2", "1:3", "2:1", "3:1", "3:2"]
    assert str(TextPlaces("").locate(0)) == "1:1"


def test_places_are_right_in_long_texts() -> None:
    rng = random.Random(4)
    text = "".join(rng.choice("ab\n") for _ in range(3 * 4096))
    places = TextPlaces(text)
    for at in [0, 4095, 4096, 4097, 8192, len(text), *(rng.randrange(len(text)) for _ in "x" * 99)]:
        place = (text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))
        assert places.locate(at)[:2] == place


def test_places_take_little_memory_in_a_text_of_many_lines() -> None:
    places = TextPlaces("\n" * 2_000_000)
    tracemalloc.start()
    try:
        assert str(places.locate(1_500_000)) == "1500001:1"
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


def test_of_a_thousand_faults_twenty_are_told_and_nothing_is_read_behind_them() -> None:
    with pytest.raises(ConfigError) as caught:
        CustomDtypes.parse("\n" * 4_000_000)
    assert "has at least 980 more such faults" in str(caught.value)
    assert len(caught.value.problems) == 21
