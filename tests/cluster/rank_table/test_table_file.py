"""Files and texts that are no rank table: each is one error, with its place."""

import json
import os
import time

import pytest

from ascend_session import JobError, RankTable
from ascend_session.cluster.rank_table.table_file import find_name_fault
from tests.cluster.rank_table.tables import parsed, v1_0

GOOD = json.dumps(v1_0())


@pytest.fixture
def file(tmp_path):
    """Makes a file of bytes."""

    def file(content, name="hccl.json"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return file


def refused(path):
    with pytest.raises(JobError) as caught:
        RankTable.read(path)
    return caught.value


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", ": is empty."),
        (b" \n\t", ": is empty."),
        (b"[]", ": is a list; a rank table is an object"),
        (b"null", ": is null; a rank table is an object"),
        (b'"x"', ": is the text 'x'; a rank table is an object"),
        (b"3", ": is the number 3; a rank table is an object"),
        (b'{"a": 1,}', ":1:"),
        (b"{'a': 1}", ":1:2: this is not JSON"),
        (b'{"a":\n  NaN}', ":2:3: this is not JSON: a value is needed"),
        (b'{"a": "\x01"}', ":1:8: this is not JSON: Invalid control character"),
        (b'{"a": "\xff"}', ":1: is not UTF-8 text (byte 7)"),
        (b"\n\n\xc3\x28", ":3: is not UTF-8 text (byte 2)"),
        (GOOD.encode("utf-16"), ": is UTF-16, not UTF-8 text"),
        (b"\x1f\x8b\x08\x00", ": is compressed, not UTF-8 text"),
        (b"\x00\x00\x00", ": this is not JSON"),
        (b'{"a": "\\ud800"}', "half a surrogate pair"),
        (b'{"status": 1, // x\n}', ":1:15: this is a comment, and JSON has none."),
        (b"# x\n{}", ":1:1: this is a comment, and JSON has none."),
    ],
)
def test_what_is_no_table_is_told_with_its_place(file, content, said):
    path = file(content)
    message = refused(path).message
    assert message.startswith(f"{path}:")
    assert said in message


@pytest.mark.parametrize("end", range(1, len(GOOD), 7))
def test_a_file_that_was_cut_off_is_called_that(file, end):
    assert "the file ends in the middle of its JSON" in refused(file(GOOD[:end])).message


def test_nesting_without_end_is_an_error_and_no_traceback(file):
    for content in (b"[" * 200000, b'{"a":' * 200000):
        message = refused(file(content)).message
        assert "is nested too deeply" in message or "ends in the middle" in message
    deep = '{"status": "completed", "x": ' + "[" * 5000 + "]" * 5000 + "}"
    message = refused(file(deep)).message
    assert "nested too deeply" in message or "has no version" in message


def test_a_number_of_very_many_digits_is_an_error_of_its_field_or_no_json(file):
    content = GOOD.replace('"rank_id": "0"', f'"rank_id": {"9" * 308}')
    assert "rank_id: is the number" in refused(file(content)).message
    unread = GOOD.replace('"status"', f'"x": {"9" * 309}, "status"')
    assert "this number is too large" in refused(file(unread)).message
    assert RankTable.read(file(unread.replace("9" * 309, "1" + "0" * 308))).size == 4


def test_directories_pipes_devices_and_missing_files_are_refused_at_once(tmp_path):
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    began = time.monotonic()
    assert f"{tmp_path}: is a folder, not a file" in refused(str(tmp_path)).message
    assert f"{pipe}: is a pipe or a device, not a file" in refused(str(pipe)).message
    assert "/dev/zero: is a pipe or a device" in refused("/dev/zero").message
    assert "does not exist." in refused(str(tmp_path / "none.json")).message
    assert "is not a file name" in refused("a\0b").message
    assert "cannot be read: Not a directory" in refused(f"{pipe}/y.json").message
    assert time.monotonic() - began < 60


def test_a_hundred_megabytes_are_not_read(tmp_path):
    path = tmp_path / "huge.json"
    with open(path, "wb") as stream:
        stream.truncate(100 << 20)
    error = refused(str(path))
    assert error.message.startswith(
        f"{path}: has 100 MiB, and at most 64 MiB of a rank table are read here"
    )
    assert error.hint == "Check that this is the right file."


def test_what_hccl_takes_and_others_do_not_is_a_warning():
    text = "\ufeff" + GOOD.replace('"status"', '"server_count": "7", "status"') + "\ntrailing"
    table = RankTable.from_text(text)
    said = {(one.severity, one.place, one.message[:30]) for one in table.findings()}
    assert said == {
        ("warning", "", "The file begins with a byte or"),
        ("warning", "", "The key 'server_count' occurs "),
        ("warning", "", "From line 2 on, 'trailing' fol"),
    }
    assert table.problems() == []


def test_a_key_that_stands_twice_is_found_where_it_is():
    text = GOOD.replace('"rank_id": "3"', '"rank_id": "9", "rank_id": "3"')
    table = RankTable.from_text(text)
    assert table == parsed(v1_0())
    [only] = table.findings()
    assert (only.severity, only.place) == ("warning", "server_list[1].device[1]")


def test_a_name_that_hccl_does_not_take_is_a_problem_but_can_be_read(file, tmp_path):
    for name in ("hccl.txt", "hccl.json.bak", "a.json.json"):
        table = RankTable.read(file(GOOD, name))
        [only] = table.problems()
        assert "HCCL takes a name that ends in .json" in only.message
    assert find_name_fault("hccl")  # a relative one
    assert not find_name_fault("a.json")
    (tmp_path / "x.json.d").mkdir()
    assert RankTable.read(file(GOOD, "x.json.d/hccl.json")).problems()
    for name, problems in (("link", 1), ("link.json", 0)):
        link = tmp_path / name
        link.symlink_to(file(GOOD))
        assert len(RankTable.read(str(link)).problems()) == problems


def test_the_target_of_a_link_is_a_warning_because_tensorflow_goes_by_the_link(file, tmp_path):
    link = tmp_path / "hccl.json"
    link.symlink_to(file(GOOD, "noext"))
    table = RankTable.read(str(link))
    assert table.problems() == []
    [only] = table.findings()
    assert only.severity == "warning"
    assert f"{tmp_path}/noext is its whole name" in only.message
    with pytest.raises(JobError, match="whole name"):
        table.write(str(link), force=True)


def test_paths_are_paths(file):
    from pathlib import Path

    assert RankTable.read(Path(file(GOOD))).size == 4


@pytest.mark.parametrize("blank", [b" ", b"x"])
def test_blanks_do_not_count_for_what_hccl_takes_at_most(tmp_path, blank):
    path = tmp_path / "large.json"
    text = json.dumps(v1_0()).encode()
    path.write_bytes(text + b"\n" + blank * (41 << 20))
    if blank == b" ":
        assert RankTable.read(str(path)).size == 4
    else:
        assert "has 41.0 MiB without its blanks; HCCL takes" in refused(str(path)).message


def test_a_name_that_hccl_does_not_take_is_one_to_change(tmp_path):
    path = tmp_path / "rank_table"
    path.write_text(json.dumps(v1_0()))
    [only] = RankTable.read(str(path)).problems()
    assert only.hint == "Rename it: hccl.json, for example."
