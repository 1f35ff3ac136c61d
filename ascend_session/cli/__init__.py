"""The program ``ascend-session``: parses arguments, calls other packages, prints results.

Each command is a module that is loaded when it is called, and imports its package when it runs. So
`launch` starts fast, and ``--help`` and ``--version`` do not even load click.
"""

import io
import os
import select
import sys
from typing import Any, List

COMPLETION_VARIABLE = "_ASCEND_SESSION_COMPLETE"  # which a shell sets to complete a command line


def main() -> None:
    """Run the program with the arguments of this process; the console script.

    Raises:
        SystemExit: Always. 0 is success, 2 a wrong call, 1 a negative result.
    """
    _open_closed_streams()
    sys.stdout, sys.stderr = _open_output(sys.stdout), _open_output(sys.stderr)
    text = "" if COMPLETION_VARIABLE in os.environ else _answer_at_once(sys.argv[1:])
    if not text:
        from ascend_session.cli._program import run

        run()
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as failure:
        from ascend_session.cli._program import end_by_failure

        end_by_failure(failure)
    sys.exit(0)


def _answer_at_once(words: List[str]) -> str:
    """Return the output of ``--help`` and ``--version``; empty for any other call."""
    if words == ["--version"]:
        from ascend_session import __version__

        return f"ascend-session {__version__}\n"
    if words in ([], ["-h"], ["--help"]):
        from ascend_session.cli._help import format_program

        return format_program()
    return ""


class OutputError(OSError):
    """The output of the program cannot be written."""


class _Output(io.FileIO):
    """A standard stream that raises `OutputError`, to tell its failures from others."""

    def write(self, data: Any) -> int:
        """Write some of the bytes; wait where the other end has no room for any."""
        try:
            written = super().write(data)
            while written is None:
                select.select([], [self], [])
                written = super().write(data)
        except BrokenPipeError:
            raise  # nobody reads, which is no failure
        except OSError as failure:
            raise OutputError(failure.errno, failure.strerror) from failure
        return written


def _open_output(stream: Any) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(_Output(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        # A file name or value that the terminal cannot show is no reason to fail.
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


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
