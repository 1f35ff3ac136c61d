"""A table that somebody else still fills in is waited for, in sight and not for ever."""

import json

import pytest

from ascend_session import JobError, RankTable
from tests.cluster.rank_table.tables import parsed, v1_0


def steps(path, *contents):
    """A `tell` that writes the next content each time it is called, and what it was told."""
    told, left = [], list(contents)

    def tell(now):
        told.append(now)
        content = left.pop(0) if left else None
        if content is not None:
            path.write_text(content)

    return tell, told


def test_a_completed_table_is_read_at_once(tmp_path):
    path = tmp_path / "hccl.json"
    path.write_text(json.dumps(v1_0()))
    tell, told = steps(path)
    assert RankTable.wait_for(str(path), 60, tell) == parsed(v1_0())
    assert told == []


def test_a_file_that_comes_empty_half_and_initializing_is_waited_for(tmp_path):
    path = tmp_path / "hccl.json"
    whole = json.dumps(v1_0())
    initializing = json.dumps({"version": "1.0", "status": "initializing", "server_list": []})
    cut = whole[:-20] + "tru"
    tell, told = steps(path, "", whole[:50], cut, initializing, whole)
    assert RankTable.wait_for(str(path), 600, tell).size == 4
    assert [now.why for now in told] == [
        "it does not exist",
        "it is empty",
        "its JSON is not complete",
        "it is not JSON",
        "its status is 'initializing'",
    ]
    assert all(600 >= a.left > b.left > 0 for a, b in zip(told, told[1:]))


def test_the_wait_has_a_limit_and_says_what_was_missing(tmp_path):
    path = tmp_path / "hccl.json"
    path.write_text(json.dumps({**v1_0(), "status": "initializing"}))
    tell, told = steps(path)
    with pytest.raises(JobError) as caught:
        RankTable.wait_for(str(path), 0.2, tell)
    assert caught.value.message == f"{path}: its status is 'initializing', and 0.2 s have passed."
    assert "1800 s" in caught.value.hint
    assert told


def test_no_time_means_one_look(tmp_path):
    tell, told = steps(tmp_path / "x")
    with pytest.raises(JobError, match="it does not exist, and 0 s have passed"):
        RankTable.wait_for(str(tmp_path / "x.json"), 0, tell)
    assert told == []


def test_what_can_never_be_a_table_is_not_waited_for(tmp_path):
    path = tmp_path / "hccl.json"
    for content, words in (("[]", "is a list"), ('{"version": "2.0"}', "has version 2.0")):
        path.write_text(content)
        with pytest.raises(JobError, match=words):
            RankTable.wait_for(str(path), 600)
    with pytest.raises(JobError, match="is a folder"):
        RankTable.wait_for(str(tmp_path), 600)


def test_a_completed_table_with_wrong_fields_is_refused_at_once(tmp_path):
    path = tmp_path / "hccl.json"
    path.write_text(json.dumps({**v1_0(), "server_count": 2}))
    with pytest.raises(JobError, match="server_count: is the number 2"):
        RankTable.wait_for(str(path), 600)


def test_without_waiting_half_a_file_is_an_error_as_it_is_for_hccl(tmp_path):
    path = tmp_path / "hccl.json"
    path.write_text(json.dumps(v1_0())[:50])
    with pytest.raises(JobError, match="ends in the middle") as caught:
        RankTable.read(str(path))
    assert "HCCL fails at once on such a file" in caught.value.hint


@pytest.mark.parametrize("seconds", [-1, float("nan"), "10", None, []])
def test_a_time_that_is_none_is_an_error(seconds):
    with pytest.raises(JobError, match="seconds must be a number, 0 or more, not "):
        RankTable.wait_for("x.json", seconds)


def test_a_file_that_ends_within_a_letter_is_waited_for(tmp_path):
    path = tmp_path / "hccl.json"
    content = json.dumps({**v1_0(), "who": "é"}, ensure_ascii=False).encode()
    path.write_bytes(content[: content.index("é".encode()) + 1])
    whys = []

    def tell(now):
        whys.append(now.why)
        path.write_bytes(content)

    assert RankTable.wait_for(str(path), 600, tell).size == 4
    assert whys == ["it is not UTF-8 text"]
