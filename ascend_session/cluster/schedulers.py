"""Who this process is, from all who say it: the adapter's own variables, and schedulers.

They may all speak, as long as they say the same. Where two of them differ, nothing is guessed.
"""

from typing import List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ascend_session.cluster.claims import (
    FIELDS,
    Claim,
    SourcedNumber,
    is_below_mpirun_daemon,
    read_open_mpi,
    read_pmix,
    read_slurm,
    read_sourced,
    refuse_slurm_shell,
)
from ascend_session.cluster.variables import read_number, read_size
from ascend_session.errors import JobError

CHOICE = "ASCEND_SESSION_SCHEDULER"
"""Whom to go by where several speak: ``slurm``, ``open-mpi``, ``pmix``, or ``none`` of them."""

# In the order in which what only one of them says is taken.
_SCHEDULERS = {"open-mpi": read_open_mpi, "slurm": read_slurm, "pmix": read_pmix}

_QUESTIONS = {"rank": "which rank this process is", "size": "how many ranks the job has"}
_LOCAL_QUESTION = "which place this process has on its node"


class Identity(NamedTuple):
    """What is known of this process's place; None for what nobody says.

    Attributes:
        rank: Number of the process, and who says so; likewise the others.
        size: Number of processes.
        local_rank: Number of the process on its node.
        local_size: Number of processes on its node.
        claims: Whose words these are, whoever counts first at the front.
    """

    rank: Optional[SourcedNumber] = None
    size: Optional[SourcedNumber] = None
    local_rank: Optional[SourcedNumber] = None
    local_size: Optional[SourcedNumber] = None
    claims: Tuple[Claim, ...] = ()

    @property
    def scheduler(self) -> Optional[Claim]:
        """The first scheduler among them."""
        return next((claim for claim in self.claims if claim.key), None)

    @property
    def reason(self) -> str:
        """Who says it, with the variables; for logs."""
        numbers = [number for number in self[:4] if number is not None]
        if not numbers:
            return "no variable says anything of a job"
        sources = [claim.name for claim in self.claims if set(claim.numbers) & set(numbers)]
        return f"{' and '.join(sources)}: {', '.join(map(str, numbers))}"


def read_identity(environ: Mapping[str, str]) -> Identity:
    """Read the environment of a process that is, or may be, a rank.

    Raises:
        JobError: If two sources say different things; if `CHOICE` names no scheduler; or if this
            process was started from a shell that stands for several (see `refuse_slurm_shell`).
    """
    own = _read_own(environ)
    return _merge([*([] if own is None else [own]), *_read_claims(environ)])


def read_schedulers(environ: Mapping[str, str]) -> Identity:
    """Read what schedulers alone say, for a process that starts ranks and is none itself.

    Raises:
        JobError: As from `read_identity`.
    """
    return _merge(_read_claims(environ))


def has_scheduler(environ: Mapping[str, str]) -> bool:
    """Whether a scheduler has started this process or one before it, whoever was chosen."""
    return any(read(environ) is not None for read in _SCHEDULERS.values())


def _read_own(environ: Mapping[str, str]) -> Optional[Claim]:
    """Read what the adapter reads (ge_plugin.cc), and the launcher's LOCAL_RANK and LOCAL_SIZE."""
    size, rank = read_size(environ), read_number(environ, "RANK_ID")
    if rank is None and size is None:
        return None
    size_name = "RANK_SIZE" if read_number(environ, "RANK_SIZE") else "CM_WORKER_SIZE"
    return Claim(
        source="this environment",
        rank=None if rank is None else SourcedNumber(rank, "RANK_ID"),
        size=None if size is None else SourcedNumber(size, size_name),
        local_rank=read_sourced(environ, "LOCAL_RANK"),
        local_size=read_sourced(environ, "LOCAL_SIZE"),
    )


def _read_claims(environ: Mapping[str, str]) -> List[Claim]:
    """Read what each scheduler says that has started this process, or the one that was chosen."""
    choice = environ.get(CHOICE, "")
    if choice not in ("", "none", *_SCHEDULERS):
        known = ", ".join((*_SCHEDULERS, "none"))
        raise JobError(f"{CHOICE}={choice!r} is no scheduler.", hint=f"Known are {known}.")
    chosen = [read for key, read in _SCHEDULERS.items() if choice in ("", key)]
    claims = [claim for claim in (read(environ) for read in chosen) if claim is not None]
    if choice:
        return claims
    if is_below_mpirun_daemon(environ):
        claims = _leave_out_daemons(claims)
    if [claim.key for claim in claims] == ["slurm"]:
        refuse_slurm_shell(environ, claims[0])
    return claims


def _leave_out_daemons(claims: Sequence[Claim]) -> List[Claim]:
    """Name the Slurm step of Open MPI's daemons in what their ranks say, and count it no more."""
    steps = [claim.where for claim in claims if claim.key == "slurm"]
    kept = []
    for claim in claims:
        if claim.key == "open-mpi" and steps:
            daemons = f"below daemons that are Slurm's {steps[0]}"
            claim = claim._replace(where=", ".join(filter(None, [claim.where, daemons])))
        if claim.key != "slurm":
            kept.append(claim)
    return kept


def _merge(claims: Sequence[Claim]) -> Identity:
    """Take each number from the first who says it; all who do have to agree."""
    numbers = {}
    for field in FIELDS:
        saying = [(getattr(claim, field), claim) for claim in claims]
        saying = [(number, claim) for number, claim in saying if number is not None]
        for number, claim in saying[1:]:
            if number.value != saying[0][0].value:
                raise _disagreement(saying[0][1], claim, field)
        numbers[field] = saying[0][0] if saying else None
    return Identity(**numbers, claims=tuple(claims))


def _disagreement(first: Claim, other: Claim, field: str) -> JobError:
    question = _QUESTIONS.get(field, _LOCAL_QUESTION)
    says = [f"{getattr(claim, field)} ({claim.name})" for claim in (first, other)]
    if first.key:
        hint = (
            f"export {CHOICE}={first.key} to go by {first.source}, {CHOICE}={other.key} to go by "
            f"{other.source}; with mpirun: mpirun -x {CHOICE}={first.key} ..."
        )
    else:
        names = [number.variable for number in first.numbers if number is not None]
        hint = (
            f"unset {' '.join(names)} to go by {other.source}, or export {CHOICE}=none to go by "
            f"{' and '.join(names)}."
        )
    return JobError(f"Two say different things of {question}: {says[0]} and {says[1]}.", hint=hint)
