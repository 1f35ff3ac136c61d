"""Collectives between processes: everyone sends to everyone, and each computes its own result.

Source: hicann/hccl, docs/en/user_guide/fault_diagnosis/param_link_stage.md (EI0005, EI0006) and
task_exec_stage.md (EI0002); guides/facts/launch.md#hccl-timeouts.

ASSUMED: what a rank calls is compared each time, not only when it links up; everyone waits for
everyone, also where less would do.
"""

from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Set

from fake_ge import hcom, limits
from fake_ge.engine import ENGINE
from fake_ge.journal import note
from fake_ge.links import UnreachableError
from fake_ge.messages import nested
from fake_ge.turns import Turn

__all__ = ["FailedError", "Group", "different", "exchange", "group_of", "invalid"]

_linked: Set[Any] = set()


class FailedError(Exception):
    """HCCL's answer is an error; its text is in `Run.failure`."""


class Group(NamedTuple):
    """A group, as one of its ranks sees it.

    Attributes:
        name: Its name.
        ranks: The world ranks in it, by their rank in the group.
        own: This process's rank in it.
    """

    name: str
    ranks: Sequence[int]
    own: int


def group_of(turn: Turn, name: str) -> Group:
    """The group of this name; of one rank where there are no collectives.

    Raises:
        FailedError: If there is no such group, or this rank is not in it.
    """
    place = ENGINE.place
    if place is None or not place.addresses:
        return Group(name, [0], 0)
    try:
        ranks = hcom.members(place, name)
    except hcom.HcclError:
        ranks = []
    # The pages of all operators, Restrictions: "The caller rank must be within the range defined by
    # the group argument passed to this API call. Otherwise, the API call fails."
    if place.rank not in ranks:
        raise invalid(turn, f"rank {place.rank} is not in the group [{name}]")
    return Group(name, ranks, list(ranks).index(place.rank))


def exchange(turn: Turn, group: Group, asked: Mapping[str, Any], sent: List[Any]) -> List[Any]:
    """Sends this rank's arrays to the whole group, and gets theirs.

    Args:
        turn: Which execution of which operator this is.
        group: Those who take part.
        asked: What must be the same on all of them, by the names that HCCL has for it.
        sent: The arrays.

    Returns:
        The arrays of each, by rank in the group.

    Raises:
        FailedError: If somebody does not come in time, or comes with something else.
    """
    if len(group.ranks) == 1:
        return [sent]
    place = ENGINE.place
    assert place is not None
    links, own = ENGINE.linked(), place.rank
    variable, code = _stage(group)
    # hccl_timeout is an option of GE (guides/facts/options.md#time-limits)
    until = limits.until(variable, ENGINE.options.get("hccl_timeout") if code == "EI0002" else None)
    others = [rank for rank in group.ranks if rank != own]
    message = (dict(asked), [(one.shape, one.tobytes()) for one in sent])
    try:
        for rank in others:
            links.send(place.addresses[rank], (turn.number, own), message, until)
    except UnreachableError:
        raise _late(turn, code, rank, links.gone(place.addresses[rank])) from None
    found = links.wait(
        [(turn.number, rank) for rank in others], until, lambda: turn.run.failure is not None
    )
    arrived = {key[1]: one for key, one in found.items()}
    for _, (theirs, _) in sorted(arrived.items()):
        _compare(turn, asked, theirs)
    if turn.run.failure is not None:
        raise FailedError
    for rank in others:
        if rank not in arrived:
            raise _late(turn, code, rank, links.gone(place.addresses[rank]))
    _linked.add((ENGINE.age, tuple(group.ranks)))
    note("Hcom", asked=dict(asked), group=group.name, ranks=list(group.ranks))
    return _in_order(group, own, sent, arrived)


def _in_order(group: Group, own: int, sent: List[Any], arrived: Dict[int, Any]) -> List[Any]:
    import numpy as np

    def array(place: int, shape: Any, data: bytes) -> Any:
        return np.ndarray(shape, sent[place].dtype, bytearray(data))

    return [
        sent if rank == own else [array(n, *one) for n, one in enumerate(arrived[rank][1])]
        for rank in group.ranks
    ]


def _stage(group: Group) -> Any:
    """The time limit of what comes next, and HCCL's code when it is over."""
    # param_link_stage.md: "When a communication operator is invoked, HCCL creates socket
    # connections", EI0006 after HCCL_CONNECT_TIMEOUT; task_exec_stage.md: afterwards EI0002
    if (ENGINE.age, tuple(group.ranks)) in _linked:
        return "HCCL_EXEC_TIMEOUT", "EI0002"
    return "HCCL_CONNECT_TIMEOUT", "EI0006"


def _compare(turn: Turn, own: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    for name, local in own.items():
        remote = theirs.get(name)
        if remote != local and turn.run.failure is None:
            raise different(turn, own["tag"], name, local, remote)


def invalid(turn: Turn, reason: str) -> FailedError:
    """The failure of a call that is wrong by itself."""
    return _failed(turn, nested("EI0003", reason))


def different(turn: Turn, tag: str, name: str, local: Any, remote: Any) -> FailedError:
    """The failure of calls that do not fit each other."""
    # EI0005; the wording is that of a post (tests/failures/data/messages.yaml)
    text = f" tag [{tag}], parameter [{name}], local [{local}], remote [{remote}]"
    return _failed(turn, nested("EI0005", values=text))


def _late(turn: Turn, code: str, rank: int, gone: bool) -> FailedError:
    if code == "EI0006":
        return _failed(turn, nested(code, f"Remote Rank [{rank}] did not send the data in time"))
    reason = f"The Notify register has not received the Notify record from remote rank [{rank}]"
    # task_exec_stage.md, Cluster Heartbeat Mechanism: "No heartbeat packet received from the remote
    # end within 30 seconds"; what is said then is that of the error code's page, EI0002
    lost = "Heartbeat Lost Occurred, Possible Reason:1. Process has exited, 2. Network Disconnected"
    return _failed(turn, nested(code, f"{reason}. {lost}" if gone else reason))


def _failed(turn: Turn, text: str) -> FailedError:
    if turn.run.failure is None:
        turn.run.failure = text
    if ENGINE.links is not None:
        ENGINE.links.stir()
    return FailedError(text)
