"""What stands for the ranks' Python leaves no rank behind whose stand-in was killed."""

import array
import json
import os
import re
import select
import socket
from pathlib import Path
from typing import Iterator, Tuple

import pytest


@pytest.fixture
def link(forking_python: str) -> Iterator[socket.socket]:
    """A connection as a stand-in has it."""
    found = re.search(r"ranks/[0-9]+", Path(forking_python).read_text())
    assert found is not None
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(f"\0{found[0]}")
        yield link


@pytest.fixture
def pipe() -> Iterator[Tuple[int, int]]:
    """The end from which a rank's output is read, and the one that `_send` gives away."""
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)


def _send(link: socket.socket, writing: int, request: bytes, length: int) -> None:
    """Send a request of a rank that has the pipe, and let nobody else have it."""
    rights = array.array("i", [writing] * 3)
    link.sendmsg([length.to_bytes(8, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    link.sendall(request)
    os.close(writing)


def _assert_closed(reading: int) -> None:
    assert select.select([reading], [], [], 20)[0], "somebody still has the pipe open"
    assert os.read(reading, 1) == b""


def test_a_stand_in_that_dies_while_it_sends_leaves_nothing(
    link: socket.socket, pipe: Tuple[int, int]
) -> None:
    _send(link, pipe[1], b"{", 100)
    link.close()
    _assert_closed(pipe[0])


def test_a_stand_in_that_dies_while_its_rank_is_forked_takes_it_along(
    link: socket.socket, pipe: Tuple[int, int], tmp_path: Path
) -> None:
    script = tmp_path / "waits.py"
    script.write_text("import signal\nsignal.pause()\n")
    asked = {"words": [str(script)], "pid": os.getpid(), "env": dict(os.environ)}
    request = json.dumps({**asked, "cwd": str(tmp_path)}).encode()
    _send(link, pipe[1], request, len(request))
    link.close()
    _assert_closed(pipe[0])
