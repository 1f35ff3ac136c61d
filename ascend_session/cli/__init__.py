"""The program ``ascend-session``: parses arguments, calls other packages, prints results.

Each command is a module that is loaded when it is called, and imports its package when it runs. So
`launch` starts fast, and ``--help`` loads no more than click and the command's own module.
"""

import os
import sys
from typing import Any, Tuple

COMPLETION_VARIABLE = "_ASCEND_SESSION_COMPLETE"  # which a shell sets to complete a command line


def main() -> None:
    """Run the program with the arguments of this process; the console script.

    Raises:
        SystemExit: Always. 0 is success, 2 a wrong call, 1 a negative result.
    """
    _open_closed_streams()
    streams: Tuple[Any, ...] = (sys.stdout, sys.stderr)
    for stream in streams:
        # A file name or value that the terminal cannot show is no reason to fail.
        stream.reconfigure(errors="backslashreplace")
    from ascend_session.cli._program import run

    run()


def _open_closed_streams() -> None:
    """Open /dev/null for standard streams that the caller closed, as ``>&-`` does.

    Otherwise the next opened file would take the descriptor, and get the stream's output.
    """
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number: fd
        if getattr(sys, name) is None:
            mode = "w" if fd else "r"
            setattr(sys, name, open(fd, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
