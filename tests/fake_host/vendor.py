"""The vendor's packages on a fake host: for child processes, and inside the test process."""

import contextlib
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional

import psutil

from tests.fake_host.chips import a2_chips
from tests.fake_host.npu_smi import npu_smi_answers
from tests.fake_host.tree import FakeHost

__all__ = [
    "Loaded",
    "end_orphans",
    "environment",
    "known_faults",
    "live_host",
    "loaded",
    "loaded_on",
    "recorded",
    "run_on",
]

_PACKAGES = Path(__file__).resolve().parent / "packages"
_REPOSITORY = Path(__file__).resolve().parents[2]


class Loaded:
    """The vendor's packages as they are in this process.

    Attributes:
        host: The host that they see.
    """

    def __init__(self, host: FakeHost) -> None:
        self.host = host
        self._entries: List[Dict[str, Any]] = importlib.import_module("fake_ge").record()

    @property
    def record(self) -> List[Dict[str, Any]]:
        """What was done, in order."""
        return list(self._entries)

    @property
    def calls(self) -> List[str]:
        """The names alone, in order."""
        return [str(entry["call"]) for entry in self._entries]

    def of(self, call: str) -> List[Dict[str, Any]]:
        """The entries of one name."""
        return [entry for entry in self._entries if entry["call"] == call]


class LiveHost(FakeHost):
    """A host on which processes run that hold its devices."""

    def close(self) -> None:
        """Ends what programs and faults left behind."""
        super().close()
        end_orphans(self)


def live_host(folder: Path, chips: int = 8) -> FakeHost:
    """A host with everything: nodes, ``npu-smi``, versions, operators, and the real ``/proc``.

    Args:
        folder: An empty folder, or one that is not there yet.
        chips: Number of devices.
    """
    host = LiveHost(folder / "host")
    host.live_proc()
    host.nodes(range(chips))
    host.npu_smi(npu_smi_answers("910B", a2_chips(chips)))
    host.driver()
    host.toolkit()
    host.operators(_fake("operators").SUPPORTED)
    (host.root / "fake_ge").mkdir()
    return host


def environment(
    host: FakeHost,
    faults: str = "",
    fatal_sleep: float = 0.0,
    variables: Optional[Mapping[str, str]] = None,
) -> Dict[str, str]:
    """What a child process needs in its environment besides this process's own.

    Args:
        host: The host that it sees.
        faults: As in ``FAKE_GE_FAULTS``; the names are in `fake_ge.faults`.
        fatal_sleep: Seconds that the adapter sleeps before it aborts; 3 on a real host.
        variables: Further variables.

    Raises:
        ValueError: If there is no such fault.
    """
    _fake("faults").parse(faults)
    paths = [str(_PACKAGES), str(_REPOSITORY), os.environ.get("PYTHONPATH", "")]
    return {
        "ASCEND_SESSION_HOST_ROOT": str(host.root),
        "ASCEND_OPP_PATH": str(host.root / "usr/local/Ascend/opp"),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        # Below those that Linux gives to anybody who asks for any.
        "HCCL_IF_BASE_PORT": "16700",
        "FAKE_GE_RECORD": str(_record_file(host)),
        "FAKE_GE_FAULTS": faults,
        "FAKE_GE_FATAL_SLEEP": str(fatal_sleep),
        **(variables or {}),
    }


@contextlib.contextmanager
def loaded(host: FakeHost, **settings: Any) -> Iterator[Loaded]:
    """Makes ``npu_bridge`` and ``hccl`` importable in this process; undoes everything at the end.

    Args:
        host: The host that they see.
        settings: Those of `environment`.
    """
    before, path = dict(os.environ), list(sys.path)
    given = environment(host, **settings)
    del given["PYTHONPATH"]
    os.environ.update(given)
    sys.path.insert(0, str(_PACKAGES))
    importlib.invalidate_caches()
    try:
        yield Loaded(host)
    finally:
        importlib.import_module("fake_ge").uninstall()
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(before)
        end_orphans(host)


@contextlib.contextmanager
def loaded_on(folder: Path, chips: int) -> Iterator[Loaded]:
    """The same on a host of its own, see `live_host`."""
    host = live_host(folder, chips)
    with loaded(host) as ge:
        yield ge
    host.close()


def run_on(host: FakeHost, program: str, *arguments: str, **settings: Any) -> Any:
    """Runs the text of a Python program on the host, to its end.

    Args:
        host: The host that it sees.
        program: Its text.
        arguments: What it finds in ``sys.argv``.
        settings: Those of `environment`.
    """
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *arguments],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **environment(host, **settings)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def recorded(host: FakeHost) -> List[Dict[str, Any]]:
    """What all processes of the host did, in order; each entry has its ``pid``."""
    file = _record_file(host)
    text = file.read_text() if file.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def known_faults() -> Dict[str, str]:
    """The names of the faults, and what each does."""
    return dict(_fake("faults").KNOWN)


def end_orphans(host: FakeHost) -> None:
    """Ends the processes that the fault ``orphan`` left on this host."""
    for entry in recorded(host):
        if entry["call"] == "orphan":
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(entry["orphan"])
                if " ".join(process.cmdline()) == entry["command"]:
                    process.kill()
                    process.wait(10)


def _record_file(host: FakeHost) -> Path:
    return host.root / "fake_ge" / "record.jsonl"


def _fake(module: str) -> Any:
    """A module of fake_ge that is read, not used: nothing of it stays in the process."""
    kept = {name for name in sys.modules if name.partition(".")[0] == "fake_ge"}
    sys.path.insert(0, str(_PACKAGES))
    try:
        return importlib.import_module(f"fake_ge.{module}")
    finally:
        sys.path.remove(str(_PACKAGES))
        for name in [n for n in sys.modules if n.partition(".")[0] == "fake_ge"]:
            if name not in kept:
                del sys.modules[name]
