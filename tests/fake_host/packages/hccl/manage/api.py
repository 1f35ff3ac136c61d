"""Ranks and groups, with the vendor's checks and sentences (hccl/manage/api.py).

That file comes with HCCL, not with the adapter; it is public since 2025, and the checks, their
order and their sentences are its own ("get rank id error" is the vendor's).
Before HCCL is up each call fails (guides/facts/failures.md#calls-before-the-system-is-up).
"""

from typing import Any

from fake_ge import hcom

MAX_GROUP_NAME_LEN = 127


def check_group(group: Any) -> None:
    """Refuses what is no name of a group: a text of 1 to 127 characters."""
    if not isinstance(group, str):
        raise ValueError("group must be a python str")
    if len(group) > MAX_GROUP_NAME_LEN:
        raise ValueError("group name is invalid. group: " + group[:MAX_GROUP_NAME_LEN])
    if not group:
        raise ValueError("group name is empty.")


def check_rank_num(rank_num: Any) -> None:
    """Refuses what is no number of ranks."""
    if not isinstance(rank_num, int):
        raise ValueError("rank_num must be a python int")
    if rank_num <= 0:
        raise ValueError(f"rank_num[{rank_num}] is less than 0 or equal to 0")


def check_rank_id(rank_id: Any) -> None:
    """Refuses what is no rank."""
    if not isinstance(rank_id, int):
        raise ValueError("rank_id must be a python int")
    if rank_id < 0:
        raise ValueError(f"rank_id[{rank_id}] is less than 0")


def create_group(group: Any, rank_num: Any, rank_ids: Any) -> None:
    """Makes a group of world ranks."""
    check_group(group)
    check_rank_num(rank_num)
    if not isinstance(rank_ids, list):
        raise ValueError("rank_ids must be a python list")
    if rank_num != len(rank_ids):
        raise ValueError(f"rank_num[{rank_num}] not equal to rank_ids len[{len(rank_ids)}].")
    for rank_id in rank_ids:
        check_rank_id(rank_id)
    try:
        hcom.create(group, rank_ids)
    except hcom.HcclError:
        raise ValueError("create group error:" + group) from None


def destroy_group(group: Any) -> None:
    """Ends a group."""
    check_group(group)
    try:
        hcom.destroy(group)
    except hcom.HcclError:
        raise ValueError("destroy group error :" + group) from None


def get_rank_size(group: Any = "hccl_world_group") -> int:
    """The number of ranks."""
    return len(_asked("get_rank_size", "get rank size", group)[1])


def get_rank_id(group: Any = "hccl_world_group") -> int:
    """This process's rank in the group."""
    place, members = _asked("get_rank_id", "get rank id", group)
    return _place_in(members, place.rank, "get rank id")


def get_local_rank_size(group: Any = "hccl_world_group") -> int:
    """How many of the group's ranks are on this server."""
    place, members = _asked("get_local_rank_size", "get local rank size", group)
    return len([rank for rank in members if rank in place.neighbours])


def get_local_rank_id(group: Any = "hccl_world_group") -> int:
    """This process's place among the group's ranks of this server."""
    place, members = _asked("get_local_rank_id", "get local rank id", group)
    neighbours = [rank for rank in members if rank in place.neighbours]
    return _place_in(neighbours, place.rank, "get local rank id")


def get_world_rank_from_group_rank(group: Any, group_rank_id: Any) -> int:
    """The world rank of a rank of the group."""
    check_group(group)
    check_rank_id(group_rank_id)
    what = "get world rank from group rank"
    members = _asked("get_world_rank_from_group_rank", what, group)[1]
    if group_rank_id >= len(members):
        raise ValueError(f"{what} error. ret[1]")
    return int(members[group_rank_id])


def get_group_rank_from_world_rank(world_rank_id: Any, group: Any) -> int:
    """The rank in the group of a world rank."""
    check_group(group)
    check_rank_id(world_rank_id)
    what = "get group rank from world rank"
    return _place_in(_asked("get_group_rank_from_world_rank", what, group)[1], world_rank_id, what)


def _asked(call: str, what: str, group: Any) -> Any:
    check_group(group)
    try:
        return hcom.ask(call, group)
    except hcom.HcclError as error:
        # api.py: "get rank id error. ret[{}]"
        raise ValueError(f"{what} error. ret[{error.args[0]}]") from None


def _place_in(members: Any, rank: int, what: str) -> int:
    if rank not in members:
        raise ValueError(f"{what} error. ret[1]")
    return int(members.index(rank))
