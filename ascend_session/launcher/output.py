"""What is shown and logged of a job's ranks; one for all attempts."""

import contextlib
import os
import time
from typing import Callable, Collection, List, Optional, Sequence, Tuple

from ascend_session.launcher.plan import RankPlan
from ascend_session.launcher.printer import Latest, Notices, Outlet, Printer
from ascend_session.launcher.process import Signals
from ascend_session.launcher.pump import LogFile, Pump, RankPipes, Source

__all__ = ["Output"]

# How long whoever reads what is shown may take nothing before the launcher gives up on it: as a
# rule, and when it was told to end. How long an open pipe may be silent when no rank lives.
_PATIENCE, _HURRY, _QUIET = 30.0, 1.0, 1.0
_SLICE = 0.1
_STREAMS = ("stdout", "stderr")


class Output:
    """Where the lines of all ranks go.

    Args:
        fd: The file descriptor to which lines are written.
        size: Number of ranks.
        show: The ranks that are shown.
        timestamps: Whether lines begin with the time.
        colour: Whether the ranks' colours stay.
        words: The file descriptor to which the launcher's own lines are written; None means
            ``fd``.
    """

    def __init__(
        self,
        fd: int,
        size: int,
        show: Collection[int],
        timestamps: bool,
        colour: bool,
        words: Optional[int] = None,
    ) -> None:
        self.fd = fd
        self.troubles: List[str] = []
        notices = Notices(self._trouble)
        self.notices = notices
        self._outlet = Outlet(fd, notices)
        self._words = self._outlet
        # Two writers to one pipe or terminal would tear each other's lines.
        if words is not None and not os.path.sameopenfile(fd, words):
            self._words = Outlet(words, notices, "What the launcher says")
        self.printer = Printer(self._outlet, size, show, timestamps, colour, words=self._words)

    def say(self, text: str) -> None:
        """Show lines of the launcher itself, without waiting."""
        self.printer.say(f"ascend-session: {text}")

    def latest(self, rank: int) -> Optional[Latest]:
        """Give the end of what a rank has written since there is a footer; from any thread."""
        return self.printer.latest(rank)

    def set_footer(self, footer: Optional[Callable[[], bytes]]) -> None:
        """Keep a line below the ranks' lines; see `Outlet.set_footer`."""
        self.printer.keep_latest()
        self._outlet.set_footer(footer)

    def pump(self, ranks: Sequence[RankPlan]) -> Tuple[Pump, List[RankPipes]]:
        """Make the pipes and folders of an attempt, and a pump that is not started yet.

        A folder that cannot be made is said once; the job goes on without its log files.
        """
        sources: List[Source] = []
        pipes: List[RankPipes] = []
        for rank in ranks:
            self._make_folders(rank)
            ends = []
            for stream, path in zip(_STREAMS, (rank.stdout, rank.stderr)):
                read, write = os.pipe()
                ends.append(write)
                sources.append(Source(read, rank.rank, stream, LogFile(path, self.notices)))
            pipes.append(RankPipes(*ends))
        return Pump(sources, self.printer), pipes

    def finish(self, pump: Pump, signals: Signals) -> None:
        """Read what the ranks of an attempt have written, and end the pump.

        No rank lives. A pipe that is still open and empty is held by a process outside of the job,
        and one that is left alone waits for whoever reads what is shown.
        """
        patience = _Patience((self._outlet,), signals)
        while not pump.join(_SLICE):
            if patience.is_over(_PATIENCE if pump.waits_for_reader else _QUIET):
                pump.stop()
                pump.join()

    def close(self, signals: Signals) -> None:
        """Wait until everything is shown, unless whoever reads it takes nothing for long."""
        outlets = list(dict.fromkeys((self._outlet, self._words)))
        patience = _Patience(outlets, signals)
        while not all(outlet.close(_SLICE) for outlet in outlets):
            if not patience.is_over(_PATIENCE):
                continue
            self.troubles.append(
                "Not everything that the ranks said could be shown: nobody takes it. Their log "
                "files have it all."
            )
            return

    def _make_folders(self, rank: RankPlan) -> None:
        for folder in (rank.folder, rank.plog, rank.work):
            try:
                os.makedirs(folder, exist_ok=True)
            except OSError as failure:
                self.notices.once(
                    "folder",
                    f"The folder {folder} cannot be made: {failure.strerror}. The job goes on "
                    "without the files that belong there.",
                )

    def _trouble(self, sentence: str) -> None:
        self.troubles.append(sentence)
        with contextlib.suppress(AttributeError):  # the outlet itself was in trouble at once
            self.say(sentence)


class _Patience:
    """Waits for whoever reads, from now on and anew each time that something was taken."""

    def __init__(self, outlets: Sequence[Outlet], signals: Signals) -> None:
        self._outlets = outlets
        self._signals = signals
        self._written = -1
        self._since = time.monotonic()

    def is_over(self, seconds: float) -> bool:
        """Tell whether nothing was taken for so long.

        Less counts after a signal, and nothing after two.
        """
        now, written = time.monotonic(), sum(outlet.written for outlet in self._outlets)
        if written != self._written:
            self._written, self._since = written, now
        signal_count = len(self._signals.noted)
        limit = 0.0 if signal_count > 1 else min(seconds, _HURRY) if signal_count else seconds
        return now - self._since >= limit
