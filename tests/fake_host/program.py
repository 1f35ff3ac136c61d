"""Executable fakes: small programs that print what they were told, hang, die or flood."""

import contextlib
import os
import shlex
import string
import time
from pathlib import Path
from typing import Iterable, List, Mapping, NamedTuple

import psutil

__all__ = ["Call", "Reply", "are_gone", "calls_of", "end_children", "install"]

_SAFE = frozenset(string.ascii_letters + string.digits + string.punctuation + " \n") - set("%\\'")

# A shell starts in a tenth of a Python's time, and a host is asked a hundred times.
_PROGRAM = """#!/bin/sh
IFS= read -r stdin
read -r _ _ _ _ group _ </proc/$$/stat
tell() {{
    printf '%s\\037%s\\037%s\\037%s\\037%s\\n' "$1" "${{LC_ALL-}}" "$stdin" "$2" "$group" >>{calls}
}}
arguments=$*
tell "$arguments" $$
case $arguments in
{cases}
esac
"""
_HANGING = """trap '' TERM
read -r _ <{never} &
tell child $!
"""
_THEN = {
    "hang": _HANGING + "read -r _ <{never}",
    "orphan": _HANGING,
    "flood": f"while :; do printf '{'|' * 65536}'; done",
    "signal": "kill -SEGV $$",
}


class Reply(NamedTuple):
    """What a fake does when it is asked.

    Attributes:
        out: What it writes to stdout.
        err: What it writes to stderr.
        code: Its exit code.
        then: ``hang``: it never ends (B2: "npu-smi itself can block on a sick card"), ignores
            SIGTERM and has a child that does the same. The others are the worst that any program
            can do: ``flood``: it writes without end; ``signal``: it dies of a signal;
            ``orphan``: it ends and leaves a child that holds its output open.
    """

    out: str = ""
    err: str = ""
    code: int = 0
    then: str = ""


class Call(NamedTuple):
    """One call of a fake, as it saw it; ``child`` stands for the child that it had."""

    arguments: str
    lc_all: str
    stdin: str
    pid: int
    group: int


def install(path: Path, answers: Mapping[str, Reply]) -> Path:
    """Writes the program.

    Args:
        path: Where.
        answers: The reply to each line of arguments; to ``""`` for all others.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for old in path.parent.glob(f"{path.name}.answer*"):
        old.unlink()
    never = Path(f"{path}.never")  # a pipe that nobody writes to
    if not never.exists():
        os.mkfifo(str(never))
    cases = []
    for number, (arguments, reply) in enumerate(sorted(answers.items(), reverse=True)):
        answer = Path(f"{path}.answer{number}")
        answer.write_text(_spoken(reply, never))
        pattern = shlex.quote(arguments) if arguments else "*"  # the last of them
        cases.append(f"{pattern}) . {shlex.quote(str(answer))} ;;")
    calls = shlex.quote(f"{path}.calls")
    path.write_text(_PROGRAM.format(calls=calls, cases="\n".join(cases)))
    path.chmod(0o755)
    return path


def calls_of(path: Path) -> List[Call]:
    """How the program was called, in order."""
    try:
        text = Path(str(path) + ".calls").read_text()
    except FileNotFoundError:
        return []
    fields = [line.split("\037") for line in text.split("\n")[:-1]]
    return [Call(*said, int(pid), int(group)) for *said, pid, group in fields]


def are_gone(pids: Iterable[int], seconds: float = 10.0) -> bool:
    """Whether none runs any more, at the latest then; the dead need not have been waited for."""
    latest = time.monotonic() + seconds
    left = list(pids)
    while left and time.monotonic() < latest:
        left = [pid for pid in left if _runs(pid)]
        os.sched_yield()
    return not left


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).cmdline())  # what is dead has none
    except psutil.Error:
        return False


def end_children(path: Path) -> None:
    """Ends what a program left behind: only processes that it reported and that still run it."""
    for call in calls_of(path):
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(call.pid)
            if str(path) in process.cmdline():
                process.kill()


def _spoken(reply: Reply, never: Path) -> str:
    """The reply as a shell's statements."""
    then = _THEN.get(reply.then, "").format(never=shlex.quote(str(never)))
    said = [f"printf '{_escaped(reply.out)}'", f"printf '{_escaped(reply.err)}' >&2"]
    return "\n".join([*said, then, f"exit {reply.code}", ""])


def _escaped(text: str) -> str:
    """What printf makes the same bytes of; garbage can be any."""
    data = text.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if chr(byte) in _SAFE else f"\\{byte:03o}" for byte in data)
