"""Who this process is, from all who say it: the adapter's own variables, and schedulers.

They may all speak, as long as they say the same. Where two of them differ, nothing is guessed.
"""

from typing import List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.cluster import open_mpi, slurm
from ascend_session.cluster.claim import FIELDS, Claim, Said, said
from ascend_session.cluster.variables import number, size_given
from ascend_session.errors import JobError

__all__ = ["CHOICE", "IDENTITY", "Detected", "claims", "detected", "is_claimed", "scheduled"]

CHOICE = "ASCEND_SESSION_SCHEDULER"
"""Whom to go by where several speak: ``slurm``, ``open-mpi``, ``pmix``, or ``none`` of them."""

IDENTITY = (*slurm.IDENTITY, *open_mpi.IDENTITY)
"""Variables by which a scheduler numbers one process, and not those that this one starts."""

_OWN = "this environment"
# In the order in which what only one of them says is taken.
_SCHEDULERS = {"open-mpi": open_mpi.claim, "slurm": slurm.claim, "pmix": open_mpi.pmix_claim}


class Detected(NamedTuple):
    """What is known of this process's place; None for what nobody says.

    Attributes:
        rank: Number of the process, and who says so; likewise the others.
        size: Number of processes.
        local_rank: Number of the process on its node.
        local_size: Number of processes on its node.
        claims: Whose words these are, whoever counts first at the front.
    """

    rank: Optional[Said]
    size: Optional[Said]
    local_rank: Optional[Said]
    local_size: Optional[Said]
    claims: Tuple[Claim, ...]

    @property
    def scheduler(self) -> Optional[Claim]:
        """The first scheduler among them."""
        return next((claim for claim in self.claims if claim.key), None)

    @property
    def reason(self) -> str:
        """Who says it, with the variables; for logs."""
        values = [getattr(self, field) for field in FIELDS]
        used = [value for value in values if value is not None]
        if not used:
            return "no variable says anything of a job"
        who = [claim for claim in self.claims if any(_says(claim, value) for value in used)]
        named = " and ".join(claim.name for claim in who)
        return f"{named}: {', '.join(map(str, used))}"


def detected(environ: Mapping[str, str]) -> Detected:
    """Reads the environment of a process that is, or may be, a rank.

    Raises:
        JobError: If two sources say different things, and as `claims` does.
    """
    own = _own(environ)
    return _agreed([*([] if own is None else [own]), *claims(environ)])


def scheduled(environ: Mapping[str, str]) -> Detected:
    """What schedulers alone say, for a process that starts ranks and is none itself.

    Raises:
        JobError: If two of them say different things, and as `claims` does.
    """
    return _agreed(claims(environ))


def claims(environ: Mapping[str, str]) -> List[Claim]:
    """What each scheduler says that has started this process, or the one that was chosen.

    Raises:
        JobError: If `CHOICE` names none, or if this process was started from a shell that stands
            for several (see `slurm.refuse_shell`).
    """
    choice = environ.get(CHOICE, "")
    if choice not in ("", "none", *_SCHEDULERS):
        known = ", ".join((*_SCHEDULERS, "none"))
        raise JobError(f"{CHOICE}={choice!r} is no scheduler.", hint=f"Known are {known}.")
    if choice:
        chosen = None if choice == "none" else _SCHEDULERS[choice](environ)
        return [] if chosen is None else [chosen]
    found = [claim for claim in (read(environ) for read in _SCHEDULERS.values()) if claim]
    if open_mpi.is_below(environ):
        found = _without_daemons(found)
    if [claim.key for claim in found] == ["slurm"]:
        slurm.refuse_shell(environ, found[0])
    return found


def is_claimed(environ: Mapping[str, str]) -> bool:
    """Whether a scheduler has started this process or one before it, whoever was chosen."""
    return any(read(environ) is not None for read in _SCHEDULERS.values())


def _without_daemons(found: Sequence[Claim]) -> List[Claim]:
    """Of Open MPI, its ranks' Slurm step is that of its daemons: it is named and counts no more."""
    steps = [claim.where for claim in found if claim.key == "slurm"]
    kept = []
    for claim in found:
        if claim.key == "open-mpi" and steps:
            daemons = f"below daemons that are Slurm's {steps[0]}"
            claim = claim._replace(where=", ".join(filter(None, [claim.where, daemons])))
        if claim.key != "slurm":
            kept.append(claim)
    return kept


def _own(environ: Mapping[str, str]) -> Optional[Claim]:
    """What the adapter reads (ge_plugin.cc), and the launcher's LOCAL_RANK and LOCAL_SIZE."""
    size, rank = size_given(environ), number(environ, "RANK_ID")
    if rank is None and size is None:
        return None
    size_name = "RANK_SIZE" if number(environ, "RANK_SIZE") else "CM_WORKER_SIZE"
    return Claim(
        source=_OWN,
        rank=None if rank is None else Said(rank, "RANK_ID"),
        size=None if size is None else Said(size, size_name),
        local_rank=said(environ, "LOCAL_RANK"),
        local_size=said(environ, "LOCAL_SIZE"),
    )


def _says(claim: Claim, value: Said) -> bool:
    return any(getattr(claim, field) == value for field in FIELDS)


def _agreed(found: Sequence[Claim]) -> Detected:
    values = []
    for field in FIELDS:
        first: Optional[Claim] = None
        for claim in found:
            value = getattr(claim, field)
            if value is None:
                continue
            if first is None:
                first = claim
            elif getattr(first, field).value != value.value:
                raise _disagreement(first, claim, field)
        values.append(None if first is None else getattr(first, field))
    rank, size, local_rank, local_size = values
    return Detected(rank, size, local_rank, local_size, tuple(found))


def _disagreement(one: Claim, other: Claim, field: str) -> JobError:
    words = {"rank": "which rank this process is", "size": "how many ranks the job has"}
    what = words.get(field, "which place this process has on its node")
    says = [f"{getattr(claim, field)} ({claim.name})" for claim in (one, other)]
    if one.key:
        hint = (
            f"export {CHOICE}={one.key} to go by {one.source}, {CHOICE}={other.key} to go by "
            f"{other.source}; with mpirun: mpirun -x {CHOICE}={one.key} ..."
        )
    else:
        named = [getattr(one, field).variable for field in FIELDS if getattr(one, field)]
        hint = (
            f"unset {' '.join(named)} to go by {other.source}, or export {CHOICE}=none to go by "
            f"{' and '.join(named)}."
        )
    return JobError(f"Two say different things of {what}: {says[0]} and {says[1]}.", hint=hint)
