"""Log files, ranks and a reader for the tests of what ranks write."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Collection, List, Optional, Sequence

from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.plan.plan import plan_job
from ascend_session.launcher.plan.rank import LaunchRank
from ascend_session.launcher.show.following import Output
from ascend_session.launcher.show.screen import Notices, Screen

PATIENCE = 60.0


class Shown:
    """A reader of what is shown, at the other end of a real pipe."""

    def __init__(self) -> None:
        self.troubles: List[str] = []
        self.notices = Notices(self.troubles.append)
        self._read, self.write = os.pipe()
        self.screen = Screen(self.write, self.notices)
        self._got: List[bytes] = []
        self._thread: Optional[threading.Thread] = None

    def __enter__(self) -> "Shown":
        return self

    def __exit__(self, *failure: Any) -> None:
        self.hang_up()
        assert self.screen.close(PATIENCE)
        os.close(self.write)
        if self._thread is not None:
            self._thread.join(PATIENCE)

    def output(self, size: int, show: Collection[int], **options: Any) -> Output:
        """What is seen of so many ranks, in the place of the screen alone."""
        assert self.screen.close(PATIENCE)
        output = Output(self.write, size, show, **options)
        output.troubles = self.troubles
        self.screen = output._screens[0]
        return output

    def begin(self) -> "Shown":
        """Reads from now on; without it this is a terminal that takes nothing more."""
        self._thread = threading.Thread(target=self._collect, args=[self._read])
        self._thread.start()
        return self

    def text(self) -> bytes:
        """All that is shown until the screen has written everything."""
        assert self.screen.close(PATIENCE)
        assert self._thread is not None
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self.write)  # the only end for writing is closed, and the number stays taken
        os.close(null)
        self._thread.join(PATIENCE)
        return b"".join(self._got)

    def hang_up(self) -> None:
        """Closes the end for reading, as a closed terminal or ``head`` does."""
        if self._read >= 0 and self._thread is None:
            os.close(self._read)
        self._read = -1

    def _collect(self, fd: int) -> None:
        while True:
            data = os.read(fd, 65536)
            if not data:
                break
            self._got.append(data)
        os.close(fd)


def plan_ranks(folder: Path, size: int, **options: Any) -> Sequence[LaunchRank]:
    """Plans a job of so many ranks, with its log files below the folder."""
    what = {"program": sys.executable, "backend": "stub", "log_dir": str(folder / "logs")}
    config = LaunchConfig(**{**what, "processes": size, "job_id": "job", **options})
    return plan_job(config, dict(os.environ)).ranks


class Job:
    """Real programs, one for each rank, whose log files are shown; the block ends with theirs."""

    def __init__(self, shown: Shown, codes: Sequence[str], folder: Path, **options: Any) -> None:
        size = len(codes)
        self.output = shown.output(size, options.pop("show", range(size)), **options)
        self.ranks = plan_ranks(folder, size)
        self.programs: List[Any] = []
        self.output.follow(self.ranks)
        for rank, code in zip(self.ranks, codes):
            command = [sys.executable, "-S", "-c", code]
            with open(rank.stdout, "ab") as stdout, open(rank.stderr, "ab") as stderr:
                self.programs.append(
                    subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stdout, stderr=stderr)
                )

    def log(self, rank: int, stream: str = "stdout") -> Path:
        """The file with what a rank has written."""
        return Path(getattr(self.ranks[rank], stream))

    def finish(self) -> None:
        """Shows what the ranks have written."""
        self.output.finish()

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *failure: Any) -> None:
        for program in self.programs:
            if failure[0] is not None:
                program.kill()
            program.stdin.close()
            program.wait(PATIENCE)
        self.finish()
