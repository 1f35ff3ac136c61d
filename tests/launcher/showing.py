"""Pipes, ranks and a reader for the tests of what ranks say."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Collection, List, Optional, Sequence

from ascend_session.launcher.output import Outlet, Output
from ascend_session.launcher.pump import LogFile, Notices, Pump, Source

PATIENCE = 60.0


class Shown:
    """A reader of what is shown, at the other end of a real pipe."""

    def __init__(self) -> None:
        self.troubles: List[str] = []
        self.notices = Notices(self.troubles.append)
        self._read, self.write = os.pipe()
        self.outlet = Outlet(self.write, self.notices)
        self._got: List[bytes] = []
        self._thread: Optional[threading.Thread] = None

    def __enter__(self) -> "Shown":
        return self

    def __exit__(self, *failure: Any) -> None:
        self.hang_up()
        assert self.outlet.close(PATIENCE)
        os.close(self.write)
        if self._thread is not None:
            self._thread.join(PATIENCE)

    def output(self, size: int, show: Collection[int], **options: Any) -> Output:
        """What is seen of so many ranks, in the place of the outlet alone."""
        assert self.outlet.close(PATIENCE)
        output = Output(self.write, size, show, **options)
        output.troubles = self.troubles
        self.outlet = output._outlets[0]
        return output

    def begin(self) -> "Shown":
        """Reads from now on; without it this is a terminal that takes nothing more."""
        self._thread = threading.Thread(target=self._collect, args=[self._read])
        self._thread.start()
        return self

    def text(self) -> bytes:
        """All that is shown until the outlet has written everything."""
        assert self.outlet.close(PATIENCE)
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


class Job:
    """Real programs, one for each rank, whose output is pumped; the block ends with their ends."""

    def __init__(
        self, shown: Shown, codes: Sequence[str], logs: Optional[Path] = None, **options: Any
    ) -> None:
        size = len(codes)
        output = shown.output(size, options.pop("show", range(size)), **options)
        self.programs: List[Any] = []
        sources = []
        for rank, code in enumerate(codes):
            command = [sys.executable, "-S", "-c", code]
            out, err = os.pipe(), os.pipe()
            self.programs.append(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out[1], stderr=err[1])
            )
            for stream, (read, write) in (("stdout", out), ("stderr", err)):
                os.close(write)
                path = str(logs / f"{rank}.{stream}") if logs else os.devnull
                sources.append(Source(read, rank, stream, LogFile(path, shown.notices)))
        self.pump = Pump(sources, output).start()

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *failure: Any) -> None:
        for program in self.programs:
            if failure[0] is not None:
                program.kill()
            program.stdin.close()
            program.wait(PATIENCE)
        if failure[0] is not None:
            self.pump.stop()
        assert self.pump.join(2 * PATIENCE)
