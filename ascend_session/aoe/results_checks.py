"""What in a tuning does not add up. None of it is certain to be wrong: it is pointed out.

Source: the manual's description of each count. Added, updated, reserved and unsatisfied are all
there is for a policy, and those that were in the repository before are the ones it was hit with.
The manual's own sample of sub-graphs breaks the first rule by one.
"""

from collections import Counter
from typing import Iterator, Sequence, Tuple, Union

from ascend_session.aoe.results_cursor import word_for
from ascend_session.aoe.results_model import FAILED, OPERATORS, OUTCOMES, Summary, Tuning

__all__ = ["check_tuning"]

_Doubt = Tuple[Tuple[str, ...], str]


def check_tuning(tuning: Tuning) -> Iterator[_Doubt]:
    """Yields what does not add up: the keys that lead to it, and a sentence."""
    yield from _outcome(tuning)
    if tuning.summary is not None:
        yield from _sums(tuning.summary)
        yield from _listed(tuning, tuning.summary)


def _outcome(tuning: Tuning) -> Iterator[_Doubt]:
    if tuning.kind != OPERATORS:
        return
    if tuning.outcome not in OUTCOMES:
        found = f"is {word_for(tuning.outcome)}," if tuning.outcome else "says"
        said = f"opat_tuning_result {found} none of {', '.join(OUTCOMES)}."
        yield ("opat_tuning_result",), said
    elif tuning.failed and tuning.outcome != FAILED:
        said = (
            f"tuning_failed_operators names {_many(len(tuning.failed), 'operator')}, and "
            f"opat_tuning_result says {tuning.outcome!r}."
        )
        yield ("tuning_failed_operators",), said


def _sums(summary: Summary) -> Iterator[_Doubt]:
    parts = (summary.added, summary.updated, summary.reserved, summary.unsatisfied)
    found = _sum(parts)
    if found is not None and summary.total is not None and found != summary.total:
        said = (
            f"total_num is {summary.total}, and added ({summary.added}), updated "
            f"({summary.updated}), reserved ({summary.reserved}) and unsatisfied "
            f"({summary.unsatisfied}) make {found}."
        )
        yield ("repo_summary", "total_num"), said
    found = _sum((summary.updated, summary.reserved))
    if found is not None and summary.hit is not None and found != summary.hit:
        said = (
            f"repo_hit_num is {summary.hit}, and updated ({summary.updated}) and reserved "
            f"({summary.reserved}), which were in the repository before, make {found}."
        )
        yield ("repo_summary", "repo_hit_num"), said


def _listed(tuning: Tuning, summary: Summary) -> Iterator[_Doubt]:
    """Compares the counts with what is listed; an operator may be counted once for all its ways."""
    single = Counter(one.update_mode for one in tuning.subgraphs)
    single += Counter(way.update_mode for one in tuning.operators for way in one.tuned)
    whole = Counter(mode for one in tuning.operators for mode in one.update_modes)
    whole += Counter(one.update_mode for one in tuning.subgraphs)
    for mode, name, count in (
        ("add", "repo_add_num", summary.added),
        ("update", "repo_update_num", summary.updated),
    ):
        if count is not None and count not in (single[mode], whole[mode]):
            said = f"{name} is {count}, and {single[mode]} with update mode {mode!r} are listed."
            yield ("repo_summary", name), said


def _sum(parts: Sequence[Union[int, None]]) -> Union[int, None]:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _many(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
