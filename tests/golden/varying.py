"""Take out of an output what differs from run to run, and from machine to machine."""

import re
import socket
import sys
from pathlib import Path
from typing import Any, List, Tuple

from tests.fake_host import USER

__all__ = ["FOLDER", "normalize"]

FOLDER = "/tmp/golden-xxxxxxxx"
"""What stands for the folder of a case, which has a name of the same length: columns stay."""

_REPOSITORY = str(Path(__file__).resolve().parents[2])


_PATTERNS: List[Tuple[str, Any]] = [
    # How a Python writes an error.
    (rf"(File \\?(?:\"|u0022)){FOLDER}/", r"\1"),
    (rf"{FOLDER}/(fail\.py)\b", r"\1"),
    (r"(No such file or directory: ('.*'))(?:: \2)", r"\1"),
    # Times and durations.
    (r"\b\d{10}\.\d+\b", "<time>"),
    (r"(?<=job_)\d{8}_\d{6}_[0-9a-f]{8}\b", "<date>_<number>"),
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b", "<date>"),
    (r"\b(in|after) \d+\.\d s\b", r"\1 <time> s"),
    (r"\(\d+ (?:s|min|h|d)(?: \d+ (?:min|h))?\)", "(<age>)"),
    # Numbers that the system gives.
    (r'("pid": ?)\d+', r"\1<pid>"),
    (r'(ASCEND_SESSION_RENDEZVOUS(?:=|": "))[0-9a-f]{32}', r"\1<number>"),
    (r"(nodes are rehearsed on this machine, )[^:]+:", r"\1<host>:"),
    # The machine.
    (r"Linux \S+ \w+", "Linux <release>"),
    (r"(may have )(?:\d+|any number of)( files open)", r"\1<number>\2"),
    (r"\(process \d+\)", "(process <pid>)"),
    # How a Python names its argument.
    (rf"(can't open file '){FOLDER}/", r"\1"),
    # This package.
    (r'(ascend[-_]session"?:? +"?)\d+\.\d+\.\d+\b', r"\1<version>"),
]


def normalize(text: str, folder: str, python: str, base_port: int = 0) -> str:
    """Replace what varies by what stands for it.

    Args:
        text: An output.
        folder: That of the case.
        python: What runs ranks in this case.
        base_port: The first of HCCL's 32 ports; 0 for a case that has none.
    """
    for varying, name in [
        (folder, FOLDER),
        (python, "<python>"),
        (sys.executable, "<python>"),
        (_REPOSITORY, "<repository>"),
    ]:
        text = text.replace(varying, name)
    text = re.sub(rf"(?<![\w/.-]){re.escape(socket.gethostname())}(?![\w/-])", "<host>", text)
    text = re.sub(rf'(of user |"user": "){re.escape(USER)}\b', r"\1<user>", text)
    for pattern, name in _PATTERNS:
        text = re.sub(pattern, name, text)
    # Last, for a number that varies may happen to be a port's.
    for offset in range(32 if base_port else 0):
        text = re.sub(rf"\b{base_port + offset}\b", f"<port {offset}>", text)
    return text
