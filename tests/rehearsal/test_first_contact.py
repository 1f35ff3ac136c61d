"""``python -m hardware_tests`` on fake hosts: a whole one, faulty ones, one without a device."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple

import psutil
import pytest

from tests.fake_host import FakeHost
from tests.fake_host.vendor import environment, live_host

_LIMIT_S = 240
_HAS_ADAPTER = sys.version_info < (3, 8)
with_adapter = pytest.mark.skipif(not _HAS_ADAPTER, reason="the adapter is for TensorFlow 1.15")


class Contact(NamedTuple):
    """How the command ended.

    Attributes:
        code: Its exit code.
        text: What it printed.
        page: What it wrote as JSON.
        folder: The folder of its run.
        cwd: The folder that it was started in.
    """

    code: int
    text: str
    page: Dict[str, Any]
    folder: Path
    cwd: Path

    def outcomes(self) -> List[Any]:
        return [(step["name"], step["devices"], step["outcome"]) for step in self.page["steps"]]

    def error(self, name: str) -> str:
        """The error of the last step of that name."""
        return str([step["error"] for step in self.page["steps"] if step["name"] == name][-1])


def make_contact(host: FakeHost, tmp_path: Path, *options: str, faults: str = "") -> Contact:
    cwd, folder, file = tmp_path / "cwd", tmp_path / "run", tmp_path / "page.json"
    cwd.mkdir()
    kept = {name: text for name, text in os.environ.items() if not name.startswith("ASCEND_")}
    given = {**kept, **environment(host, faults), "TF_CPP_MIN_LOG_LEVEL": "2"}
    # Would make this process a part of a job.
    given.update(RANK_ID="3", RANK_SIZE="8")
    command = [sys.executable, "-m", "hardware_tests", "--folder", str(folder), "--json", str(file)]
    ended = subprocess.run(
        [*command, *options],
        cwd=str(cwd),
        env=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert file.exists(), ended.stdout
    return Contact(ended.returncode, ended.stdout, json.loads(file.read_text()), folder, cwd)


@contextlib.contextmanager
def made_host(folder: Path, chips: int) -> Iterator[FakeHost]:
    host = live_host(folder, chips)
    try:
        yield host
    finally:
        host.close()


ONE = [(name, "0") for name in ("initialise", "graph", "shutdown")]
BOTH = [(name, "0-1") for name in ("initialise", "graph", "allreduce", "shutdown")]


def ended(steps: List[Any], outcome: str) -> List[Any]:
    return [(*step, outcome) for step in steps]


@with_adapter
def test_on_a_whole_host_all_steps_pass_on_one_card_and_then_on_all(tmp_path: Path) -> None:
    with made_host(tmp_path, 2) as host:
        contact = make_contact(host, tmp_path)
    assert contact.outcomes() == [
        ("presence", "0-1", "passed"),
        *ended(ONE, "passed"),
        *ended(BOTH, "passed"),
    ], contact.text
    assert contact.code == 0
    assert contact.page["ok"]
    facts = contact.page["machine"]["doctor"]["facts"]
    assert (facts["driver"], facts["firmware"]) == ("24.1.rc2", "7.1.0.6.220")
    assert (facts["toolkit"], facts["npu_bridge"]) == ("8.0.RC2", "v1.15.0")
    for words in ("24.1.rc2", "7.1.0.6.220", "8.0.RC2", "v1.15.0", "910B3", "All 8 steps passed"):
        assert words in contact.text
    (allreduce,) = [one for one in contact.page["steps"] if one["name"] == "allreduce"]
    assert set(allreduce["times"]) == {
        "importing TensorFlow",
        "initialise",
        "allreduce",
        "shutdown",
    }
    assert (contact.folder / "page.txt").read_text() == contact.text
    assert json.loads((contact.folder / "page.json").read_text()) == contact.page
    assert list(contact.cwd.iterdir()) == []


@with_adapter
def test_after_an_initialisation_that_aborts_nothing_else_is_run(tmp_path: Path) -> None:
    with made_host(tmp_path, 2) as host:
        contact = make_contact(host, tmp_path, faults="parser")
    assert contact.outcomes() == [
        ("presence", "0-1", "passed"),
        ("initialise", "0", "failed"),
        *ended([*ONE[1:], *BOTH], "not run"),
    ], contact.text
    assert contact.code == 1
    assert "SIGABRT" in contact.error("presence") + contact.page["steps"][1]["error"]
    assert "Initialize parser failed" in contact.text
    assert "Failed: initialise on 0." in contact.page["verdict"]


@with_adapter
def test_a_shutdown_that_the_adapter_only_logs_as_failed_fails_its_step(tmp_path: Path) -> None:
    with made_host(tmp_path, 1) as host:
        contact = make_contact(host, tmp_path, faults="finalize")
    assert contact.outcomes() == [
        ("presence", "0", "passed"),
        ("initialise", "0", "failed"),
        *ended(ONE[1:], "not run"),
        *ended([(name, "0") for name, _ in BOTH], "not run"),
    ], contact.text
    assert "[GePlugin] GE finalize failed, ret : 4294967295" in contact.text
    assert "EE9999: Inner Error!" in contact.text
    assert "look with 'npu-smi info' whether a process holds the device" in contact.text
    assert contact.code == 1


@with_adapter
def test_an_initialisation_that_hangs_is_ended_and_leaves_no_process(tmp_path: Path) -> None:
    with made_host(tmp_path, 2) as host:
        contact = make_contact(host, tmp_path, "--time-limit", "20", faults="hang")
    assert contact.code == 1
    error = contact.page["steps"][1]["error"]
    assert error == "It did not end within 20 s, and was ended. It was at: initialise."
    assert [one for one in psutil.process_iter(["cmdline"]) if is_of(one, contact.folder)] == []


def is_of(process: Any, folder: Path) -> bool:
    return any(str(folder) in word for word in process.info["cmdline"] or ())


@with_adapter
def test_an_allreduce_that_is_wrong_fails_its_step_alone(tmp_path: Path) -> None:
    with made_host(tmp_path, 2) as host:
        contact = make_contact(host, tmp_path, faults="hccl-forgets")
    assert contact.outcomes()[-4:] == [
        ("initialise", "0-1", "passed"),
        ("graph", "0-1", "passed"),
        ("allreduce", "0-1", "failed"),
        ("shutdown", "0-1", "not run"),
    ], contact.text
    assert "The allreduce gave [0.0, 1.0, 2.0, 3.0], not [1.0, 3.0, 5.0, 7.0]." in contact.text
    assert contact.code == 1


@with_adapter
def test_a_graph_that_stays_on_the_cpu_fails(tmp_path: Path) -> None:
    with made_host(tmp_path, 1) as host:
        contact = make_contact(host, tmp_path, faults="no-offload")
    assert contact.outcomes()[2] == ("graph", "0", "failed")
    assert "The graph stayed on the CPU" in contact.text


@with_adapter
def test_a_card_that_is_held_is_left_alone(tmp_path: Path) -> None:
    with made_host(tmp_path, 2) as host:
        node = str(host.root / "dev/davinci0")
        program = "import sys; open(sys.argv[1]); print(flush=True); sys.stdin.read()"
        holder = subprocess.Popen(
            [sys.executable, "-c", f"file = None\n{program.replace('open', 'file = open')}", node],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert holder.stdout
            holder.stdout.readline()
            contact = make_contact(host, tmp_path)
        finally:
            holder.communicate()
    assert contact.outcomes() == [
        ("presence", "0-1", "passed"),
        *ended([(name, "1") for name, _ in ONE], "passed"),
        *ended(BOTH, "not run"),
    ], contact.text
    assert f"process {holder.pid} (" in contact.error("allreduce")
    assert "holds device 0" in contact.error("allreduce")
    assert contact.code == 1


def test_without_a_device_it_says_so_and_runs_nothing(tmp_path: Path) -> None:
    with made_host(tmp_path, 0) as host:
        contact = make_contact(host, tmp_path)
    assert contact.text == (
        "Nothing was run: there is no /dev/davinci<N>. "
        "Run this on a machine with an Ascend device.\n"
    )
    assert contact.code == 3
    assert contact.page["steps"] == []
    assert not contact.page["ok"]
    assert not contact.folder.exists()


@pytest.mark.skipif(_HAS_ADAPTER, reason="the adapter is for this TensorFlow")
def test_an_adapter_for_another_tensorflow_is_named_before_anything_starts(tmp_path: Path) -> None:
    with made_host(tmp_path, 2) as host:
        contact = make_contact(host, tmp_path)
    assert contact.outcomes() == [("presence", "0-1", "failed")]
    assert "npu_bridge is for TensorFlow 1.15" in contact.error("presence")
    assert contact.code == 1
