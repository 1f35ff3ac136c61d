"""Groups and ranks: what is refused without a system, and what HCCL is asked in one."""

from typing import Any, Callable, Dict, List, Tuple

import pytest

from ascend_session import CollectiveError, LifecycleError, ascend_system, hccl
from tests.hccl.ranks import job_of

ASKED: Dict[str, Callable[[], Any]] = {
    "create_group": lambda: hccl.create_group("odd", 1, [1]),
    "destroy_group": lambda: hccl.destroy_group("odd"),
    "rank": hccl.rank,
    "size": hccl.size,
    "local_rank": hccl.local_rank,
    "local_size": hccl.local_size,
    "world_rank": lambda: hccl.world_rank("hccl_world_group", 0),
    "group_rank": lambda: hccl.group_rank(0, "hccl_world_group"),
}


@pytest.mark.parametrize("name", ASKED)
def test_without_a_system_nobody_has_a_rank(either: str, name: str) -> None:
    with pytest.raises(LifecycleError, match=f"hccl.{name} was called, but no Ascend") as refused:
        ASKED[name]()
    assert "with ascend_system()" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("build", "error", "said"),
    [
        (lambda: hccl.create_group("", 1, [0]), ValueError, "this one is empty"),
        (lambda: hccl.create_group("g" * 128, 1, [0]), ValueError, "1 to 127 bytes"),
        (lambda: hccl.create_group(3, 1, [0]), TypeError, "group must be a str"),
        (lambda: hccl.create_group("hccl_world_group", 1, [0]), ValueError, "group of all ranks"),
        (lambda: hccl.create_group("g", 2, [0]), ValueError, "rank_num=2, but rank_ids has 1"),
        (lambda: hccl.create_group("g", 0, []), ValueError, "at least one rank"),
        (lambda: hccl.create_group("g", 2, [0, 0]), ValueError, r"names \[0\] more than once"),
        (lambda: hccl.create_group("g", 1, [-1]), ValueError, "is not a rank"),
        (lambda: hccl.create_group("g", 1, ["0"]), TypeError, "must be an int, this is '0'"),
        (lambda: hccl.create_group("g", "1", [0]), TypeError, "rank_num must be an int"),
        (lambda: hccl.create_group("g", 1, "0"), TypeError, "must be a list of ranks"),
        (lambda: hccl.create_group("g", 1, {0}), TypeError, "must be a list of ranks"),
        (lambda: hccl.destroy_group("hccl_world_group"), ValueError, "group of all ranks"),
        (lambda: hccl.destroy_group(""), ValueError, "this one is empty"),
        (lambda: hccl.rank("g" * 128), ValueError, "1 to 127 bytes"),
        (lambda: hccl.size(None), TypeError, "group must be a str"),
        (lambda: hccl.local_rank(1), TypeError, "group must be a str"),
        (lambda: hccl.local_size(""), ValueError, "this one is empty"),
        (lambda: hccl.world_rank("g", -1), ValueError, "group_rank=-1 is not a rank"),
        (lambda: hccl.group_rank(0.5, "g"), TypeError, "world_rank must be an int"),
    ],
)
def test_what_can_be_no_group_is_refused_first(
    ge: Any, monkeypatch: Any, build: Callable[[], Any], error: type, said: str
) -> None:
    with job_of(ge.host, 2, 1, monkeypatch), ascend_system():
        before = len(ge.calls)
        with pytest.raises(error, match=said):
            build()
        assert ge.calls[before:] == []


def test_ranks_and_groups_are_hccls(ge: Any, monkeypatch: Any) -> None:
    with job_of(ge.host, 2, 1, monkeypatch), ascend_system():
        assert (hccl.rank(), hccl.size(), hccl.local_rank(), hccl.local_size()) == (1, 2, 1, 2)
        hccl.create_group("odd", 1, (1,))
        assert (hccl.rank("odd"), hccl.size("odd")) == (0, 1)
        assert (hccl.local_rank("odd"), hccl.local_size("odd")) == (0, 1)
        assert (hccl.world_rank("odd", 0), hccl.group_rank(1, "odd")) == (1, 0)
        hccl.destroy_group("odd")
        hccl.create_group("odd", 2, [0, 1])


def test_groups_outlast_the_sessions_of_a_system(tf: Any, ge: Any, monkeypatch: Any) -> None:
    """The last session takes HCCL with it; the next one finds the groups again, and so do calls."""
    with job_of(ge.host, 2, 1, monkeypatch), ascend_system() as system:
        hccl.create_group("odd", 1, [1])
        hccl.create_group("gone", 1, [1])
        hccl.destroy_group("gone")
        summed = hccl.allreduce(tf.constant(3.0), "sum", group="odd")
        for _ in range(2):
            with system.session() as sess:
                assert sess.run(summed) == 3
        assert (hccl.rank(), hccl.size("odd")) == (1, 1)
        with pytest.raises(CollectiveError, match="'gone'"):
            hccl.size("gone")
    assert len(ge.of("GEFinalize")) == 3


def test_what_hccl_refuses_is_said_with_advice(ge: Any, monkeypatch: Any) -> None:
    with job_of(ge.host, 2, 1, monkeypatch), ascend_system():
        hccl.create_group("odd", 1, [1])
        refused: List[Tuple[Callable[[], Any], str]] = [
            (lambda: hccl.create_group("odd", 1, [1]), r"create_group\('odd', 1, \[1\]\): create"),
            (lambda: hccl.create_group("far", 2, [1, 7]), "create group error:far"),
            (lambda: hccl.destroy_group("none"), "destroy group error :none"),
            (lambda: hccl.rank("none"), r"get_rank_id\('none'\): get rank id error. ret\[1\]"),
            (lambda: hccl.world_rank("odd", 1), "get world rank from group rank error"),
            (lambda: hccl.group_rank(0, "odd"), "get group rank from world rank error"),
        ]
        for build, said in refused:
            with pytest.raises(CollectiveError, match=f"HCCL refused .*{said}") as no:
                build()
            assert "from hccl.create_group to hccl.destroy_group" in str(no.value.hint)
            assert isinstance(no.value.__cause__, ValueError)


def test_a_process_in_no_job_is_told_how_to_be_in_one(ge: Any) -> None:
    with ascend_system():
        with pytest.raises(CollectiveError, match=r"get rank id error. ret\[2\]") as refused:
            hccl.rank()
    assert "`ascend-session launch -n 1`" in str(refused.value.hint)
    assert "system.rank" in str(refused.value.hint)
