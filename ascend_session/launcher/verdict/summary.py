"""The summary of a launch: a line if it went well, else why not and what to do.

The verdict comes last, below the last lines of the rank that it is about, for that is what stands
on the screen then. Paths are never folded, so that they can be copied.
"""

import os
import signal
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ascend_session.launcher.job.attempt import Attempt, Cause
from ascend_session.launcher.job.signals import signal_name
from ascend_session.launcher.plan.rank import LaunchRank, Outcome
from ascend_session.launcher.verdict.training import describe_pace
from ascend_session.text import format_duration, label_first, label_ranks

_CODES = {"bold": "\x1b[1m", "dim": "\x1b[2m", "red": "\x1b[31m", "yellow": "\x1b[33m"}
_WIDEST_LABEL = 12  # a longer one pushes on its own line only


class _Style(NamedTuple):
    """How the summary is written."""

    width: Optional[int]
    is_coloured: bool

    def emphasize(self, text: str, *looks: str) -> str:
        """Put codes of a terminal around a text, if there are any here."""
        codes = "".join(_CODES[look] for look in looks)
        return f"{codes}{text}\x1b[0m" if self.is_coloured else text

    def fold(self, text: str, indent: int) -> List[str]:
        """Fold a text that stands behind ``indent`` columns."""
        lines = text.split("\n")
        if self.width is None:
            return lines
        import textwrap

        # What has no blank in it, such as a path, stays whole.
        wrapper = textwrap.TextWrapper(
            max(20, self.width - indent), break_long_words=False, break_on_hyphens=False
        )
        return [part for line in lines for part in wrapper.wrap(line) or [""]]


def summarize(
    code: int,
    attempts: Sequence[Attempt],
    notes: Sequence[str] = (),
    known: Sequence[str] = (),
    width: Optional[int] = None,
    is_coloured: bool = False,
) -> str:
    """Write the summary, with an end of line at its end.

    Args:
        code: The exit code of the launch.
        attempts: Its attempts, in order.
        notes: What the user should know besides, in sentences.
        known: Notes that were shown already; after a success they are not repeated.
        width: At which sentences are folded; None for files and pipes.
        is_coloured: Whether codes of a terminal are in it.
    """
    style = _Style(width, is_coloured)
    if code == 0:
        new = [note for note in notes if note not in known]
        pace = attempts[-1].pace
        lines = [_describe_success(attempts)]
        lines += [] if pace is None else [f"Pace: {describe_pace(pace)}."]
        lines += [*_grid(_list_processes(attempts), style), *new]
        return "\n".join(lines) + "\n"
    cause, ranks = attempts[-1].cause, attempts[-1].ranks
    lines = []
    if cause is not None and cause.place:
        first, *more = cause.place
        lines += ["", style.emphasize(first, "bold"), *more]
    if cause is not None and cause.tail and not _is_explained(cause, attempts[-1]):
        whose = "" if cause.rank is None else f" of rank {cause.rank}"
        lines += ["", style.emphasize(f"Last lines{whose}:", "dim")]
        lines += [f"  {line}" for line in cause.tail]
    why = "The cause is unknown." if cause is None else cause.said
    fate, color = "failed", "red"
    stop_failures = [rank.stop_failure for rank in ranks if rank.stop_failure]
    if stop_failures:
        fate, why = "failed while stopping", f"{why} {stop_failures[0]}"
    elif cause is not None and cause.rank is None:
        if cause.exit_code == 128 + signal.SIGINT:
            fate, color = "was interrupted", "yellow"
        elif attempts[-1].signal is not None:
            fate, color = "was stopped", "yellow"
    verdict = f"ascend-session: the job {fate}. {why}"
    lines += ["", style.emphasize(verdict, color, "bold")]
    return "\n".join([*lines, *_grid(list(_list_facts(code, attempts, notes)), style)]) + "\n"


def _is_explained(cause: Cause, attempt: Attempt) -> bool:
    """Tell whether the exception says why, so that the last lines of the log need not."""
    error = None if cause.rank is None else attempt.of(cause.rank).error
    return bool(cause.place) and error is not None and error.type != "SystemExit"


def _describe_success(attempts: Sequence[Attempt]) -> str:
    first, last = attempts[0], attempts[-1]
    count = len(last.ranks)
    who = "the rank" if count == 1 else f"all {count} ranks"
    tries = len(attempts)
    again = "" if tries == 1 else f" at attempt {tries}{_describe_start(last)}"
    took = _format_seconds(last.ended - first.started)
    model = ""
    if last.is_one_model:
        model = " and hold one model" if count > 1 else ", and the ranks below it hold one model,"
    return (
        f"ascend-session: {who} succeeded{again}{model} in {took}; logs in {_folder_of(attempts)}"
    )


def _describe_start(attempt: Attempt) -> str:
    return f" from step {attempt.first_step}" if attempt.first_step else ""


def _list_facts(
    code: int, attempts: Sequence[Attempt], notes: Sequence[str]
) -> Iterator[Tuple[str, str]]:
    cause, ranks = attempts[-1].cause, attempts[-1].ranks
    if cause is not None:
        rank = None if cause.rank is None else attempts[-1].of(cause.rank)
        if cause.advice:
            yield "What to do", cause.advice
        elif cause.rank is not None and cause.tail and not _is_explained(cause, attempts[-1]):
            yield "What to do", f"Read what rank {cause.rank} wrote, in the logs below."
        elif rank is not None and not cause.place and rank.stderr:
            yield "What to do", f"Rank {cause.rank} wrote nothing: run its program alone, and look."
        if cause.failure is not None and cause.failure_class is not None:
            reaction = cause.failure.definition.describe(cause.failure_class)
            yield "Failure", f"{cause.failure.code}, {reaction}"
        if rank is not None:
            streams = [path for path in (rank.stderr, rank.stdout) if path]
            paths = [f"{path}{_describe_size(path)}" for path in streams]
            paths += [cause.stacks] if cause.stacks else []
            yield from label_first(f"Rank {cause.rank}", [*paths, *cause.plogs])
    if cause is not None and cause.exit_code != code:
        end = "because the launcher was stopped before it tried again"
    else:
        end = f"after {_format_seconds(attempts[-1].ended - attempts[0].started)}"
    yield "Exit code", f"{code}, {end}"
    if attempts[-1].pace is not None:
        yield "Pace", describe_pace(attempts[-1].pace)
    yield from _list_stop_failures(ranks)
    yield from _list_others(cause, [rank for rank in ranks if not rank.stop_failure])
    if len(attempts) > 1:
        yield from label_first("Attempts", _list_attempts(attempts))
    yield from _list_processes(attempts)
    yield from label_first("Notes", notes)
    yield "All logs", _folder_of(attempts)


def _list_stop_failures(ranks: Sequence[LaunchRank]) -> List[Tuple[str, str]]:
    """List what went wrong in ranks after a signal had stopped the job, and their logs."""
    groups: Dict[str, List[LaunchRank]] = {}
    for rank in ranks:
        if rank.stop_failure:
            text = rank.stop_failure.replace(f"Rank {rank.rank} ", "", 1)
            groups.setdefault(text, []).append(rank)
    items = []
    for text, alike in groups.items():
        items.append(f"{label_ranks([rank.rank for rank in alike], ',')}: {text}")
        items += [rank.stderr for rank in alike[:1] if rank.stderr]
    return label_first("When stopped", items)


def _describe_size(path: str) -> str:
    try:
        return "" if os.path.getsize(path) else " (empty)"
    except OSError:
        return " (not there)"


def _list_others(cause: Optional[Cause], ranks: Sequence[LaunchRank]) -> Iterator[Tuple[str, str]]:
    """List the ranks that are not the cause, by what became of them."""
    groups: Dict[Tuple[str, str], List[int]] = {}
    failed = [rank.rank for rank in ranks if rank.outcome == Outcome.FAILED]
    why = ""
    if cause is not None and cause.rank in failed:
        why = f", because rank {cause.rank} failed"
    elif cause is not None and cause.rank in cause.left:
        why = f", because rank {cause.rank} left early"
    for rank in ranks:
        if cause is None or rank.rank != cause.rank:
            end = why if rank.outcome == Outcome.STOPPED else _describe_end(rank)
            groups.setdefault((rank.outcome, end), []).append(rank.rank)
    labels = {
        Outcome.FAILED: "Failed too",
        Outcome.LEFT: "Left early",
        Outcome.NOT_STARTED: "Not started",
        Outcome.STOPPED: "Stopped",
        Outcome.SUCCEEDED: "Succeeded",
    }
    for outcome, label in labels.items():
        yield from label_first(
            label,
            (
                f"{label_ranks(numbers, ',')}{end}"
                for (ended, end), numbers in groups.items()
                if ended == outcome
            ),
        )


def _describe_end(rank: LaunchRank) -> str:
    """Say why a rank failed; how each obeyed when it was stopped is of no interest."""
    if rank.outcome == Outcome.NOT_STARTED:
        # What the label and the list of ranks say already goes; then equal troubles are one group.
        why = rank.trouble.replace(f"Rank {rank.rank} ", "", 1)
        why = why.replace("was not started, because ", "", 1)
        return f": {why}" if why else ""
    if rank.outcome == Outcome.LEFT and rank.status == 0:
        return ", exit code 0"
    if rank.outcome != Outcome.FAILED or rank.status is None:
        return ""
    if rank.error is not None and rank.error.is_termination:
        return ", by SIGTERM"
    if rank.error is not None and rank.error.type == "SystemExit":
        return f", exit code {rank.error.exit_code}"
    if rank.error is not None:  # the launcher may have ended it before it could end by itself
        return f", exit code {rank.error.exit_code} ({rank.error.type})"
    if rank.status < 0:
        return f", by {signal_name(-rank.status)}"
    return f", exit code {rank.status}"


def _list_attempts(attempts: Sequence[Attempt]) -> Iterator[str]:
    """List each attempt, why it failed, and how long the next one waited."""
    following: List[Optional[Attempt]] = [*attempts[1:], None]
    for attempt, after in zip(attempts, following):
        why = "it succeeded." if attempt.cause is None else attempt.cause.said
        took = _format_seconds(attempt.ended - attempt.started)
        text = f"{attempt.number}{_describe_start(attempt)} ({took}): {why}"
        if after is not None:
            text += f" Tried again {_format_seconds(after.started - attempt.ended)} later."
        yield text


def _list_processes(attempts: Sequence[Attempt]) -> List[Tuple[str, str]]:
    """List the processes that ranks left behind, and those that could not be ended."""
    swept = [name for attempt in attempts for name in attempt.swept]
    left = [name for attempt in attempts for name in attempt.left]
    return [
        *label_first("Left behind by ranks, stopped", swept),
        *label_first("STILL RUNNING, could not be stopped", left),
    ]


def _folder_of(attempts: Sequence[Attempt]) -> str:
    """Give the folder of the launch, or of its only attempt."""
    last = attempts[-1].folder
    return last if len(attempts) == 1 else os.path.dirname(last)


def _format_seconds(seconds: float) -> str:
    if seconds < 100:
        return f"{max(0.0, seconds):.1f} s"
    return format_duration(seconds)


def _grid(facts: Sequence[Tuple[str, str]], style: _Style) -> List[str]:
    """Put labels and texts below each other, the texts aligned."""
    widths = [len(label) for label, _ in facts if len(label) <= _WIDEST_LABEL]
    width = max(widths, default=0)
    lines: List[str] = []
    for label, text in facts:
        first, *more = style.fold(text, width + 4)
        name = style.emphasize(f"{label:<{width}}", "bold")
        lines.append(f"  {name}  {first}".rstrip())
        lines += [f"{'':{width + 4}}{line}" for line in more]
    return lines
