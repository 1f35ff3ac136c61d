"""What HCCL answers about ranks and groups, once it is up.

Source: guides/facts/failures.md#calls-before-the-system-is-up;
guides/facts/rank_tables.md#rules-for-a-rank-table for what a world of ranks is. That a group is a
list of world ranks, each once, under a name that is free, is hccl/manage/api.py; that it is made on
its own ranks only, and numbers them in ascending order, is hicann/hcomm, hcom.cc, GetRankList. That
the world group cannot be made or ended, and which code each refusal has, is ASSUMED.
"""

from typing import List, Tuple

from fake_ge import turns
from fake_ge.engine import ENGINE
from fake_ge.faults import fault
from fake_ge.journal import note
from fake_ge.ranks import Place

__all__ = ["WORLD", "HcclError", "ask", "create", "destroy", "members"]

# HcclResult in hccl_types.h: HCCL_E_PTR (nothing is there yet) and HCCL_E_PARA (wrong parameter)
_NOT_UP = 2
_WRONG = 1
WORLD = "hccl_world_group"


class HcclError(Exception):
    """HCCL's answer is an error; its code is the argument."""


def ask(call: str, group: str) -> Tuple[Place, List[int]]:
    """This process's place, and the world ranks in the group.

    Raises:
        HcclError: If collectives are not up, or there is no such group.
    """
    note(call, group=group)
    place = ENGINE.place
    # guides/facts/failures.md#calls-before-the-system-is-up
    if place is None:
        raise HcclError(_NOT_UP)
    found = members(place, WORLD if fault("hccl-groups") is not None else group)
    if fault("hccl-phantom") is not None:
        found = [place.size, *found]
        place = place._replace(servers=[[place.size, *place.servers[0]], *place.servers[1:]])
    return place, found


def members(place: Place, group: str) -> List[int]:
    """The world ranks in a group."""
    if group == WORLD:
        return sorted(rank for ranks in place.servers for rank in ranks)
    if group not in ENGINE.groups:
        raise HcclError(_WRONG)
    return ENGINE.groups[group]


def create(group: str, rank_ids: List[int]) -> None:
    """Makes a group."""
    place, world = ask("create_group", WORLD)
    ranks = set(rank_ids)
    if (
        group == WORLD
        or group in ENGINE.groups
        or len(ranks) < len(rank_ids)
        or ranks - set(world)
        or place.rank not in ranks
    ):
        raise HcclError(_WRONG)
    ENGINE.groups[group] = sorted(rank_ids)


def destroy(group: str) -> None:
    """Ends a group."""
    ask("destroy_group", group)
    if group == WORLD:
        raise HcclError(_WRONG)
    if fault("hccl-kept") is None:
        ENGINE.groups.pop(group, None)
        turns.forget(group)
