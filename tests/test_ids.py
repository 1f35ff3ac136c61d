"""Two kinds of device numbers that are never mixed up."""

import copy
import pickle
from typing import Any

import pytest

from ascend_session.ids import LogicalDeviceId, PhysicalDeviceId

KINDS = pytest.mark.parametrize("kind", [LogicalDeviceId, PhysicalDeviceId])


@KINDS
def test_an_id_is_its_number(kind: Any) -> None:
    assert kind(3) == 3
    assert kind(3) == kind(3)
    assert kind(3) != kind(4)
    assert sorted([kind(2), kind(0)]) == [0, 2]
    assert [10, 20, 30][kind(1)] == 20
    assert {kind(3): "three"}[3] == "three"


def test_an_id_never_equals_one_of_the_other_kind() -> None:
    assert LogicalDeviceId(3) != PhysicalDeviceId(3)
    assert PhysicalDeviceId(3) != LogicalDeviceId(3)
    assert len({LogicalDeviceId(3), PhysicalDeviceId(3)}) == 2


@pytest.mark.parametrize(
    ("kind", "other"),
    [(LogicalDeviceId, PhysicalDeviceId), (PhysicalDeviceId, LogicalDeviceId)],
)
def test_one_kind_is_not_cast_into_the_other(kind: Any, other: Any) -> None:
    with pytest.raises(TypeError, match="translate it, do not cast it"):
        kind(other(3))
    assert kind(kind(3)) == kind(3)


@KINDS
def test_it_is_written_as_a_number_and_shown_with_its_kind(kind: Any) -> None:
    assert repr(kind(3)) == f"{kind.__name__}(3)"
    assert f"/dev/davinci{kind(3)}" == "/dev/davinci3"
    assert "%s %d" % (kind(3), kind(3)) == "3 3"  # noqa: UP031
    assert str(kind(3)) == "3"


@KINDS
def test_a_negative_number_is_no_device(kind: Any) -> None:
    with pytest.raises(ValueError, match="0 or more, not -1"):
        kind(-1)


@KINDS
@pytest.mark.parametrize("value", [True, "3", 3.0, None])
def test_only_an_int_is_a_device(kind: Any, value: Any) -> None:
    with pytest.raises(TypeError, match="is an int, not"):
        kind(value)


@KINDS
def test_it_survives_copies_and_pickles(kind: Any) -> None:
    for again in (copy.deepcopy(kind(3)), pickle.loads(pickle.dumps(kind(3)))):
        assert (type(again), again) == (kind, 3)
