"""What is said when a launch is over: a line if it went well, else why not and what to do.

The verdict comes last, below the last lines of the rank that it is about, for that is what stands
on the screen then. Paths are never folded, so that they can be copied.
"""

import os
import textwrap
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import typer

from ascend_session.launcher.process import signal_name
from ascend_session.launcher.result import Attempt, Cause, LaunchResult, Outcome, RankResult

__all__ = ["Style", "rank_list", "summary"]

# What a class means for whoever reads this; `failures.FailureClass` has the words for programs.
_CLASSES = {
    "transient": "transient: it is known to pass, so another attempt may succeed",
    "secondary": "secondary: something else failed first, and this is what came of it",
    "permanent": "permanent: it fails the same way until something is changed",
    "hardware": "hardware: an administrator has to look at the device",
    "ambiguous": "ambiguous: see who holds the device, then try once more",
}


class Style(NamedTuple):
    """How it is written.

    Attributes:
        width: Columns at which sentences are folded; None means nowhere, as in files and pipes.
        is_coloured: Whether there is emphasis.
    """

    width: Optional[int] = None
    is_coloured: bool = False


def summary(result: LaunchResult, said: Sequence[str] = (), style: Style = Style()) -> str:  # noqa: B008
    """The text, with an end of line at its end.

    Args:
        result: What became of the launch.
        said: Notes that were shown already; after a success they are not said again.
        style: How it is written.
    """
    emphasis = _emphasis(style)
    if result.ok:
        new = [note for note in result.notes if note not in said]
        blocks = [_success(result), *_grid(_swept_and_left(result), style), *new]
        return "\n".join(blocks) + "\n"
    cause = result.cause
    lines: List[str] = []
    if cause is not None and cause.tail:
        whose = "" if cause.rank is None else f" of rank {cause.rank}"
        lines += ["", emphasis(f"Last lines{whose}:", "dim")]
        lines += [f"  {line}" for line in cause.tail]
    why = "It is not known why." if cause is None else cause.said
    lines += ["", emphasis(f"ascend-session: the job failed. {why}", "bad")]
    return "\n".join([*lines, *_grid(list(_facts(result)), style)]) + "\n"


def rank_list(ranks: Sequence[int]) -> str:
    """Ranks as they are given to ``--show``: ``0,4-7``."""
    parts: List[List[int]] = []
    for rank in sorted(ranks):
        if parts and parts[-1][-1] == rank - 1:
            parts[-1][1:] = [rank]
        else:
            parts.append([rank])
    return ",".join("-".join(map(str, part)) for part in parts)


def _success(result: LaunchResult) -> str:
    count = len(result.ranks)
    who = "the rank" if count == 1 else f"all {count} ranks"
    tries = len(result.attempts)
    again = "" if tries == 1 else f" at attempt {tries}"
    return (
        f"ascend-session: {who} succeeded{again} in {_duration(result)}; logs in {_folder(result)}"
    )


def _facts(result: LaunchResult) -> Iterator[Tuple[str, str]]:
    cause = result.cause
    if cause is not None:
        yield from _advice(cause)
        yield from _logs(cause, result.ranks)
    yield "Exit code", _exit_code(result)
    yield from _others(cause, result.ranks)
    if len(result.attempts) > 1:
        yield from _labelled("Attempts", list(_attempts(result.attempts)))
    yield from _swept_and_left(result)
    yield from _labelled("Notes", result.notes)
    yield "All logs", _folder(result)


def _advice(cause: Cause) -> Iterator[Tuple[str, str]]:
    if cause.advice:
        yield "What to do", cause.advice
    elif cause.rank is not None and cause.tail:
        yield "What to do", f"Read what rank {cause.rank} says, in the logs below."
    elif cause.rank is not None:
        yield "What to do", f"Rank {cause.rank} wrote nothing: run its program alone, and look."
    if cause.failure_class is not None:
        code = "" if cause.failure is None else f"{cause.failure.code}, "
        kind = cause.failure_class.value
        yield "Failure", f"{code}{_CLASSES.get(kind, kind)}"


def _logs(cause: Cause, ranks: Sequence[RankResult]) -> List[Tuple[str, str]]:
    if cause.rank is None:
        return []
    rank = ranks[cause.rank - ranks[0].rank]
    paths = [f"{path}{_emptiness(path)}" for path in (rank.stderr, rank.stdout)]
    return _labelled(f"Rank {cause.rank}", [*paths, *cause.plogs])


def _emptiness(path: str) -> str:
    try:
        return "" if os.path.getsize(path) else " (empty)"
    except OSError:
        return " (not there)"


def _exit_code(result: LaunchResult) -> str:
    cause = result.cause
    if cause is not None and cause.exit_code != result.code:
        return f"{result.code}, because the launcher was told to end before it tried again"
    return f"{result.code}, after {_duration(result)}"


def _others(cause: Optional[Cause], ranks: Sequence[RankResult]) -> Iterator[Tuple[str, str]]:
    """The ranks that are not the cause, by what became of them."""
    found: Dict[Tuple[str, str], List[int]] = {}
    for rank in ranks:
        if cause is None or rank.rank != cause.rank:
            found.setdefault((rank.outcome, _how(rank)), []).append(rank.rank)
    labels = (
        (Outcome.FAILED, "Failed too"),
        (Outcome.NOT_STARTED, "Not started"),
        (Outcome.STOPPED, "Stopped"),
        (Outcome.SUCCEEDED, "Succeeded"),
    )
    for outcome, label in labels:
        # Why each rank failed is of interest, but not how each obeyed when it was stopped.
        groups = [(how, who) for (what, how), who in found.items() if what == outcome]
        texts = [f"{_ranks(who)}{how}" for how, who in groups]
        yield from _labelled(label, texts)


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'' if len(ranks) == 1 else 's'} {rank_list(ranks)}"


def _how(rank: RankResult) -> str:
    if rank.outcome == Outcome.NOT_STARTED:
        # What the label and the list of ranks say already goes; then equal troubles are one group.
        why = rank.trouble.replace(f"Rank {rank.rank} ", "", 1)
        why = why.replace("was not started, because ", "", 1)
        return f": {why}" if why else ""
    if rank.outcome != Outcome.FAILED or rank.status is None:
        return ""
    if rank.error is not None:  # the launcher may have ended it before it could end by itself
        return f", exit code {rank.error.exit_code} ({rank.error.type})"
    if rank.status < 0:
        return f", by {signal_name(-rank.status)}"
    return f", exit code {rank.status}"


def _attempts(attempts: Sequence[Attempt]) -> Iterator[str]:
    """Each attempt, why it failed, and how long the next one waited."""
    following: List[Optional[Attempt]] = [*attempts[1:], None]
    for attempt, after in zip(attempts, following):
        why = "it succeeded." if attempt.cause is None else attempt.cause.said
        text = f"{attempt.number} ({_seconds(attempt.ended - attempt.started)}): {why}"
        if after is not None:
            text += f" Tried again {_seconds(after.started - attempt.ended)} later."
        yield text


def _swept_and_left(result: LaunchResult) -> List[Tuple[str, str]]:
    swept = [one for attempt in result.attempts for one in attempt.swept]
    left = [one for attempt in result.attempts for one in attempt.left]
    return [
        *_labelled("Left behind by ranks, ended", swept),
        *_labelled("STILL RUNNING, could not be ended", left),
    ]


def _folder(result: LaunchResult) -> str:
    """The folder of the launch, or of its only attempt."""
    last = result.attempts[-1].folder
    return last if len(result.attempts) == 1 else os.path.dirname(last)


def _duration(result: LaunchResult) -> str:
    return _seconds(result.attempts[-1].ended - result.attempts[0].started)


def _seconds(seconds: float) -> str:
    if seconds < 100:
        return f"{max(0.0, seconds):.1f} s"
    minutes = int(seconds) // 60
    if minutes < 60:
        return f"{minutes} min {int(seconds) % 60} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _labelled(label: str, texts: Sequence[str]) -> List[Tuple[str, str]]:
    """Each text with a label, which stands before the first one only."""
    return [("" if number else label, text) for number, text in enumerate(texts)]


def _grid(facts: Sequence[Tuple[str, str]], style: Style) -> List[str]:
    """Labels and texts below each other, the texts aligned."""
    emphasis = _emphasis(style)
    indent = 2 + max((len(label) for label, _ in facts if len(label) <= 12), default=0) + 2
    lines: List[str] = []
    for label, text in facts:
        begin, *more = _folded(text, style, indent)
        name = f"{label:<{indent - 4}}"
        lines.append(f"  {emphasis(name, 'label')}  {begin}".rstrip())
        lines += [f"{'':{indent}}{line}" for line in more]
    return lines


def _folded(text: str, style: Style, indent: int) -> List[str]:
    lines = text.split("\n")
    if style.width is None:
        return lines
    # What has no blank in it, such as a path, stays whole.
    wrapper = textwrap.TextWrapper(
        max(20, style.width - indent), break_long_words=False, break_on_hyphens=False
    )
    return [part for line in lines for part in wrapper.wrap(line) or [""]]


def _emphasis(style: Style) -> Callable[[str, str], str]:
    looks: Dict[str, Dict[str, object]] = {
        "bad": {"fg": "red", "bold": True},
        "label": {"bold": True},
        "dim": {"dim": True},
    }

    def emphasised(text: str, kind: str) -> str:
        return typer.style(text, **looks[kind]) if style.is_coloured else text  # type: ignore[arg-type]

    return emphasised
