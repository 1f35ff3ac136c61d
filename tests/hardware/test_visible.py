"""``ASCEND_RT_VISIBLE_DEVICES``, read as the runtime reads it (launch_facts.md, B3)."""

from typing import Optional, Tuple

import pytest

from ascend_session.hardware.visible import read_visible


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (None, (0, 1, 2, 3, 4, 5, 6, 7)),
        ("0", (0,)),
        ("0,1,2", (0, 1, 2)),
        ("3,4,5,6,7", (3, 4, 5, 6, 7)),
        ("1,", (1,)),
        ("1, ", (1,)),
        ("1,2 ", (1, 2)),
        ("007", (7,)),
        ("0,1,2,3,4,5,6,7", (0, 1, 2, 3, 4, 5, 6, 7)),
    ],
)
def test_a_good_list_has_no_traps(text: Optional[str], ids: Tuple[int, ...]) -> None:
    assert read_visible(text, 8) == (ids, ())


@pytest.mark.parametrize(
    ("text", "ids", "because"),
    [
        ("1, 2,3", (1,), "' 2,3'"),
        ("1,3,8", (1, 3), "'8', which is not one of 0 to 7"),
        ("1,8,3", (1,), "'8'"),
        ("0-3", (0,), "'-3'"),
        ("1,,2", (1,), "',,2'"),
        ("1;2", (1,), "';2'"),
        ("1,x", (1,), "'x'"),
        ("1,-1", (1,), "'-1'"),
        ("1,99999999999999999999", (1,), "'99999999999999999999'"),
        ("0,1,2,3,4,5,6,7,7", tuple(range(8)), "8, the number of devices"),
        ("0,1,2,3,4,5,6,7,0", tuple(range(8)), "8, the number of devices"),
        ("1\u0662", (1,), "'\u0662'"),
    ],
)
def test_it_stops_without_a_word(text: str, ids: Tuple[int, ...], because: str) -> None:
    found = read_visible(text, 8)
    assert found.ids == ids
    (trap,) = found.traps
    assert f"ASCEND_RT_VISIBLE_DEVICES={text!r}" in trap
    assert "because it stops" in trap
    assert because in trap


@pytest.mark.parametrize("text", ["", " ", " 0", ",0", "-1", "8", "void", "NoDevFiles", "all"])
def test_no_usable_beginning_is_no_device(text: str) -> None:
    found = read_visible(text, 8)
    assert found.ids == ()
    (trap,) = found.traps
    assert f"ASCEND_RT_VISIBLE_DEVICES={text!r}" in trap
    assert "no device" in trap


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("1,0", "0 comes after 1"),
        ("5,4,3,6,7", "4 comes after 5"),
        ("3,4,6,5,7", "5 comes after 6"),
        ("1,1", "1 is given twice"),
        ("0,1,2,1", "1 comes after 2"),
    ],
)
def test_a_list_that_does_not_ascend_is_dropped_as_a_whole(text: str, because: str) -> None:
    found = read_visible(text, 8)
    assert found.ids == ()
    (trap,) = found.traps
    assert because in trap
    assert "this process gets no device" in trap


def test_what_comes_after_the_stop_is_not_looked_at() -> None:
    assert read_visible("2, 1,1", 8).ids == (2,)


def test_the_text_is_cut_at_128_characters() -> None:
    text = ",".join(map(str, range(64)))
    found = read_visible(text, 64)
    assert len(text[:128].split(",")) == 47
    assert found.ids == tuple(range(46))
    assert "128 characters" in found.traps[0]


def test_the_cut_may_go_through_a_number() -> None:
    text = "00" + ",".join(map(str, range(64)))
    assert text[:128].endswith(",44,4")
    found = read_visible(text, 64)
    assert found.ids == ()
    assert "4 comes after 44" in found.traps[0]


def test_a_cut_between_two_numbers_is_said() -> None:
    text = ",".join(map(str, range(10, 64)))
    found = read_visible(text, 64)
    assert found.ids == tuple(range(10, 53))
    assert "128 characters" in found.traps[0]


@pytest.mark.parametrize(("text", "traps"), [(None, 0), ("0", 1), ("", 1)])
def test_without_devices_nothing_is_visible(text: Optional[str], traps: int) -> None:
    found = read_visible(text, 0)
    assert found.ids == ()
    assert len(found.traps) == traps
