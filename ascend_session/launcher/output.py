"""What is shown and logged of a job's ranks; one for all attempts."""

import contextlib
import os
from typing import Callable, Collection, List, Optional, Sequence, Tuple

from ascend_session.launcher.guarding import RankPipes
from ascend_session.launcher.log_file import LogFile
from ascend_session.launcher.notices import Notices
from ascend_session.launcher.outlet import Outlet
from ascend_session.launcher.printer import Latest, Printer
from ascend_session.launcher.pump import Pump, Source
from ascend_session.launcher.rank import Rank

__all__ = ["Output"]

# How long whoever reads what is shown may take nothing before the launcher gives up on it.
_PATIENCE = 30.0
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
        """Shows lines of the launcher itself; never waits."""
        self.printer.say(f"ascend-session: {text}")

    def latest(self, rank: int) -> Optional[Latest]:
        """The end of what a rank has written since there is a footer; from any thread."""
        return self.printer.latest(rank)

    def set_footer(self, footer: Optional[Callable[[], bytes]]) -> None:
        """Keeps a line below the ranks' lines; see `Outlet.set_footer`."""
        self.printer.keep_latest()
        self._outlet.set_footer(footer)

    def pump(self, ranks: Sequence[Rank]) -> Tuple[Pump, List[RankPipes]]:
        """Makes the pipes and folders of an attempt, and a pump that is not started yet.

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

    def finish(self, pump: Pump) -> None:
        """Reads what the ranks of an attempt have written, and ends the pump."""
        pump.stop(_PATIENCE)
        pump.join()

    def close(self) -> None:
        """Waits until everything is shown, unless whoever reads it takes nothing for long."""
        is_shown = self._outlet.close(_PATIENCE)
        if self._words is not self._outlet:
            is_shown = self._words.close(_PATIENCE) and is_shown
        if not is_shown:
            self.troubles.append(
                "Not everything that the ranks said could be shown: nobody takes it. Their log "
                "files have it all."
            )

    def _make_folders(self, rank: Rank) -> None:
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
