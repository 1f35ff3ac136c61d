"""The program ``ascend-session``: it parses, calls the rooms below and draws what they return.

Every command is a module of its own and imports its room only when it runs, so that ``--help`` is
quick and never loads TensorFlow.
"""

import contextlib
import os
import sys

__all__ = ["main"]


def main() -> None:
    """Runs the program with the arguments of this process; the console script.

    Raises:
        SystemExit: Always. 0 is success, 2 a wrong call, 1 means that what was asked about is
            not in order.
    """
    from ascend_session.cli.app import run

    try:
        run()
    except SystemExit as end:
        if sys.argv[1:2] == ["launch"]:
            _leave(end)
        raise


def _leave(end: SystemExit) -> None:
    """Ends the process without taking apart what it has loaded, which takes longer than a rank."""
    for stream in (sys.stdout, sys.stderr):
        # The caller had closed it, it is closed by now, or nobody reads.
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))
