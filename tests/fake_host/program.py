"""Executable fakes: small Python programs that print what they were told, hang, die or flood."""

import contextlib
import json
import sys
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple

import psutil

__all__ = ["Call", "Reply", "calls_of", "end_children", "install"]

_PROGRAM = """#!{python} -SE
import json, os, signal, sys
with open({answers!r}) as file:
    answers = json.load(file)
arguments = " ".join(sys.argv[1:])
call = [arguments, os.environ.get("LC_ALL"), sys.stdin.read(), os.getpid(), os.getpgid(0)]
with open({calls!r}, "a") as file:
    file.write(json.dumps(call) + "\\n")
reply = answers.get(arguments, answers.get("", {{}}))
sys.stdout.buffer.write(bytes.fromhex(reply.get("out", "")))
sys.stdout.flush()
sys.stderr.write(reply.get("err", ""))
sys.stderr.flush()
then = reply.get("then", "")
child = None
if then in ("hang", "orphan"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = os.fork()
if child:
    with open({calls!r}, "a") as file:
        file.write(json.dumps(["child", "", "", child, os.getpgid(0)]) + "\\n")
while then == "hang" or child == 0:
    signal.pause()
while then == "flood":
    os.write(1, b"|" * 65536)
if then == "signal":
    os.kill(os.getpid(), signal.SIGSEGV)
sys.exit(reply.get("code", 0))
"""


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
    files = {name: str(path) + "." + name for name in ("answers", "calls")}
    Path(files["answers"]).write_text(json.dumps({key: _plain(answers[key]) for key in answers}))
    path.write_text(_PROGRAM.format(python=sys.executable, **files))
    path.chmod(0o755)
    return path


def calls_of(path: Path) -> List[Call]:
    """How the program was called, in order."""
    try:
        text = Path(str(path) + ".calls").read_text()
    except FileNotFoundError:
        return []
    return [Call(*json.loads(line)) for line in text.splitlines()]


def end_children(path: Path) -> None:
    """Ends what a program left behind: only processes that it reported and that still run it."""
    for call in calls_of(path):
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(call.pid)
            if str(path) in process.cmdline():
                process.kill()


def _plain(reply: Reply) -> Dict[str, Any]:
    # Hexadecimal, so that garbage can be any bytes.
    return {**reply._asdict(), "out": reply.out.encode("utf-8", "surrogateescape").hex()}
