"""The hardware tests, rehearsed on a fake host: they pass on a whole one, and fail on a faulty one.

That they pass here says nothing about a device; that they can fail says that they look, and that
without their assertions they do not fail says that it is the assertions which look.
"""

import contextlib
import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple

import psutil
import pytest

from tests.rehearsal.fault import Fault
from tests.rehearsal.faults import FAULTS, RAISING

_REPOSITORY = Path(__file__).resolve().parents[2]
_LIMIT_S = 550  # for a run, and less than tests/time_limit.py gives its test
# What begins so may be read by the product or by pytest, and is not for the rehearsal.
_LEFT_OUT = ("ASCEND_", "RANK_", "CM_", "HCCL_", "DEVICE_ID", "TF_CONFIG", "PROFILING_", "PYTEST_")
_REQUIRED = ["hardware_tests", "--require-npu"]
# With programs of their own, which take long; both parts run at the same time.
_SLOW = "life_cycle or recovery"
_HOLDERS = ("another process", "this process")

# The vendor's adapter is built for TensorFlow 1.15, which only that Python has. On others the suite
# is rehearsed, but not whether it finds faults: it is the same code that would find them.
_PLANTED = FAULTS if sys.version_info < (3, 8) else []

# The programs are forked, see forked.py; here they are started as they are on a device.
_ANEW = "whole, programs anew"


class Run(NamedTuple):
    """What is wrong, as in `Fault`, and the arguments of pytest."""

    arguments: List[str]
    hole: str = ""
    engine: str = ""


RUNS = {
    _ANEW: Run([*_REQUIRED, "-k", "interrupted or stays_held or (OnTwo and world)"]),
    "whole, slow": Run([*_REQUIRED, "-k", _SLOW]),
    "whole, rest": Run([*_REQUIRED, "-k", f"not ({_SLOW})"]),
    "collected": Run(["hardware_tests", "--collect-only"]),
    "no device": Run(["hardware_tests"], "no_device"),
    "no device, but required": Run(_REQUIRED, "no_device"),
    "no package": Run(["hardware_tests", "-k", "offload or presence"], "no_vendor_package"),
    "one device": Run(["hardware_tests", "-k", "fan_out"], "one_device"),
    "hidden": Run([*_REQUIRED, "-k", "held_by_this or stays_held"], "processes_are_hidden"),
    "four devices": Run(["hardware_tests", "-k", "ends_well"], "four_devices"),
    "a table": Run([*_REQUIRED, "-k", "OnTwo and world"], "a_rank_table_is_given"),
    "another product": Run(["hardware_tests", "-k", "OnTwo and world"], "another_product"),
    "no npu-smi": Run(["hardware_tests", "-k", "OnTwo and world"], "no_npu_smi"),
    "Atlas training": Run(["hardware_tests", "-k", "OnTwo and sum"], "atlas_training"),
    "one collective": Run(
        ["hardware_tests", "-k", "OnTwo and (int32 or float32 or ends_well)"],
        engine="hccl-fails=HcomReduce/float32",
    ),
    "files": Run(["hardware_tests", "-k", "offload"], "the_adapter_writes_files"),
    "stopped": Run(["hardware_tests", "-x", "-k", "presence"], "a_control_node_is_gone"),
    "ended": Run([*_REQUIRED, "-k", "offload or follow or one_session"], engine="init=EJ0001"),
}


class Result(NamedTuple):
    """What became of a run.

    Attributes:
        code: The exit code.
        chosen: The tests that were to run.
        outcomes: ``passed``, ``failed``, ``skipped`` or ``error in ...`` for each that did.
        texts: What pytest says of those that did not pass.
        output: What was printed.
    """

    code: int
    chosen: List[str]
    outcomes: Dict[str, str]
    texts: Dict[str, str]
    output: str

    @property
    def summary(self) -> str:
        lines = [line for line in self.output.splitlines() if line.startswith("hardware: ")]
        assert len(lines) == 1, self.output
        return lines[0]


def node(test: str) -> str:
    """The id in pytest of a name in the table of faults."""
    module, _, rest = test.partition("::")
    return f"hardware_tests/test_{module}.py::{rest}"


def covers(test: str, nodeid: str) -> bool:
    """Whether a name in the table of faults stands for this test."""
    begin = node(test).rstrip(":")
    return nodeid == begin or nodeid.startswith((f"{begin}[", f"{begin}::"))


class Rehearsals:
    """A process that does the runs which tests ask for, each once.

    It has TensorFlow imported, and each run is a fork of it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._results: Dict[str, Result] = {}
        self._runs = {run["name"]: run for run in _all_runs()}
        self._log = folder / "log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.rehearsal.host", str(folder)],
                cwd=str(_REPOSITORY),
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
            )

    def __getitem__(self, name: str) -> Result:
        """What became of a run; it is done now, unless another test has looked at it."""
        if name not in self._results:
            self._do(self._runs[name])
            self._results[name] = _result(self._folder / name)
        return self._results[name]

    def _do(self, run: Dict[str, Any]) -> None:
        assert self._process.stdin
        assert self._process.stdout
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(run).encode() + b"\n")
        ended, _, _ = select.select([self._process.stdout], [], [], _LIMIT_S)
        assert ended, f"{run['name']!r} takes longer than {_LIMIT_S} s"
        # Nothing if the process is gone.
        assert os.read(self._process.stdout.fileno(), 1) == b"\n", self._log.read_text()

    def close(self) -> None:
        """End the process, with a run that has not ended."""
        for child in psutil.Process(self._process.pid).children(recursive=True):
            child.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def results(tmp_path_factory: Any) -> Iterator[Rehearsals]:
    """What became of each run."""
    rehearsals = Rehearsals(tmp_path_factory.mktemp("rehearsal"))
    yield rehearsals
    rehearsals.close()


def without_assertions(fault: Fault) -> str:
    """The name of the run with a fault in which the tests have no assertions."""
    return f"{fault.name}, without assertions"


def _all_runs() -> Iterator[Dict[str, Any]]:
    """Each with its name; whether programs start anew, assertions go, and a process tries first.

    With a fault none tries first: that takes as long as a test, and the other runs show it.
    """
    for name, run in RUNS.items():
        how = {"name": name, "anew": name == _ANEW, "stripped": False, "tried": True}
        yield {**run._asdict(), **how}
    for fault in FAULTS:
        run = Run(["--require-npu", *map(node, fault.tests)], fault.hole, fault.engine)
        for name, stripped in ((fault.name, False), (without_assertions(fault), True)):
            how = {"name": name, "anew": False, "stripped": stripped, "tried": False}
            yield {**run._asdict(), **how}


def _environment() -> Dict[str, str]:
    """This process's, without what is read by the product, and with the repository."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_LEFT_OUT)}
    return {**kept, "PYTHONPATH": str(_REPOSITORY), "TF_CPP_MIN_LOG_LEVEL": "2"}


def _result(folder: Path) -> Result:
    output = (folder / "output").read_text(errors="replace")
    file = folder / "result.json"
    assert file.exists(), f"the run has no result:\n{output}"
    return Result(output=output, **json.loads(file.read_text()))


@pytest.mark.parametrize("run", [_ANEW, "whole, slow", "whole, rest"])
def test_on_a_whole_host_every_test_runs_and_passes(results: Rehearsals, run: str) -> None:
    result = results[run]
    assert result.outcomes == dict.fromkeys(result.chosen, "passed"), result.output
    assert result.summary == (
        f"hardware: {len(result.chosen)} ran, 0 could not run, on 8 x 910B3, driver 24.1.rc2, "
        "CANN 8.0.RC2"
    )
    assert result.code == 0


@pytest.mark.parametrize("run", ["collected"])
def test_each_hardware_test_has_a_fault_that_its_own_assertion_finds(
    results: Rehearsals, run: str
) -> None:
    chosen = results[run].chosen
    raising = {(row.fault, row.test) for row in RAISING}
    named = [(fault.name, test) for fault in FAULTS for test in fault.tests]
    judged = [test for name, test in named if (name, test) not in raising]
    assert chosen
    assert [one for one in chosen if not any(covers(test, one) for test in judged)] == []
    assert [test for _, test in named if not any(covers(test, one) for one in chosen)] == []


@pytest.mark.parametrize("fault", _PLANTED, ids=lambda fault: fault.name)
def test_with_a_fault_its_tests_fail(results: Rehearsals, fault: Fault) -> None:
    result = results[fault.name]
    expected = "failed" if fault.found_in == "call" else f"error in {fault.found_in}"
    assert result.chosen
    assert result.outcomes == dict.fromkeys(result.chosen, expected), result.output
    assert result.summary
    assert result.code == 1


@pytest.mark.nightly
@pytest.mark.parametrize("fault", _PLANTED, ids=lambda fault: fault.name)
def test_without_their_assertions_they_do_not_fail(results: Rehearsals, fault: Fault) -> None:
    result = results[without_assertions(fault)]
    raising = [row.test for row in RAISING if row.fault == fault.name]
    assert set(raising) <= set(fault.tests)
    assert result.chosen
    assert result.outcomes == {
        one: "failed" if any(covers(test, one) for test in raising) else "passed"
        for one in result.chosen
    }, result.output


def test_what_fails_without_assertions_names_a_fault_and_a_reason() -> None:
    assert {row.fault for row in RAISING} <= {fault.name for fault in FAULTS}
    assert all(row.reason.endswith(".") for row in RAISING)


@pytest.mark.parametrize("run", ["ended"])
def test_an_initialisation_that_ends_its_process_is_said_before_any_test(
    results: Rehearsals, run: str
) -> None:
    result = results[run]
    assert len(result.chosen) > 3
    assert result.outcomes == dict.fromkeys(result.chosen, "error in setup")
    said = "opening the device ends the process (SIGABRT):"
    assert all(text.startswith(said) and "EJ0001" in text for text in result.texts.values())


@pytest.mark.parametrize("run", ["no device"])
def test_without_a_device_every_test_is_skipped(results: Rehearsals, run: str) -> None:
    result = results[run]
    assert result.outcomes == dict.fromkeys(result.chosen, "skipped")
    assert result.summary == (
        f"hardware: 0 ran, {len(result.chosen)} skipped: there is no /dev/davinci<N>"
    )
    assert result.code == 0


@pytest.mark.parametrize("run", ["no device, but required"])
def test_a_required_device_that_is_not_there_fails_every_test(
    results: Rehearsals, run: str
) -> None:
    result = results[run]
    assert result.outcomes == dict.fromkeys(result.chosen, "failed")
    assert set(result.texts.values()) == {"there is no /dev/davinci<N>"}
    assert result.summary == (
        f"hardware: 0 ran, {len(result.chosen)} could not run: there is no /dev/davinci<N>"
    )
    assert result.code == 1


@pytest.mark.parametrize("run", ["no package"])
def test_without_the_packages_only_the_presence_is_tested(results: Rehearsals, run: str) -> None:
    result = results[run]
    skipped = {one for one, outcome in result.outcomes.items() if outcome == "skipped"}
    assert skipped == {one for one in result.chosen if "test_offload" in one}
    assert all("npu_bridge cannot be found by" in result.texts[one] for one in skipped)
    assert result.outcomes[node("presence::test_the_vendor_packages_can_be_imported")] == "failed"


@pytest.mark.parametrize("run", ["one device"])
def test_with_one_device_what_needs_two_is_skipped(results: Rehearsals, run: str) -> None:
    result = results[run]
    assert sorted(result.outcomes.values()) == ["passed", "skipped", "skipped"]
    texts = [text for one, text in result.texts.items() if result.outcomes[one] == "skipped"]
    assert all("this needs 2 devices, and this process gets 1" in text for text in texts)
    assert result.summary.startswith("hardware: 1 ran, 2 skipped, on 1 x 910B3, ")


@pytest.mark.parametrize("run", ["four devices"])
def test_with_four_devices_no_job_of_eight_is_started(results: Rehearsals, run: str) -> None:
    result = results[run]
    (skipped,) = [one for one, outcome in result.outcomes.items() if outcome != "passed"]
    assert "OnEight" in skipped
    assert "this needs 8 devices, and this process gets 4" in result.texts[skipped]
    assert result.summary.startswith("hardware: 2 ran, 1 skipped, on 4 x 910B3, ")


@pytest.mark.parametrize("run", ["a table"])
def test_a_rank_table_that_fits_is_used(results: Rehearsals, run: str) -> None:
    assert results[run].outcomes == dict.fromkeys(results[run].chosen, "passed")
    assert results[run].chosen


@pytest.mark.parametrize(
    ("run", "why"),
    [
        ("another product", "A3 needs a rank table"),
        ("no npu-smi", "does not say which product this is; unless it is Atlas training or A2, it"),
    ],
)
def test_a_product_that_needs_a_rank_table_skips_jobs(
    results: Rehearsals, run: str, why: str
) -> None:
    result = results[run]
    assert result.chosen
    assert result.outcomes == dict.fromkeys(result.chosen, "skipped")
    for text in result.texts.values():
        assert why in text
        assert "needs a rank table: name one of 2 ranks in RANK_TABLE_FILE" in text


@pytest.mark.parametrize("run", ["Atlas training"])
def test_types_that_a_product_does_not_have_are_skipped(results: Rehearsals, run: str) -> None:
    result = results[run]
    skipped = {one for one, outcome in result.outcomes.items() if outcome == "skipped"}
    assert skipped == {one for one in result.chosen if "int16]" in one or "bfloat16]" in one}
    assert skipped
    assert set(result.outcomes.values()) == {"passed", "skipped"}


@pytest.mark.parametrize("run", ["hidden"])
def test_a_required_test_that_sees_too_little_fails(results: Rehearsals, run: str) -> None:
    result = results[run]
    reasons = [f"that {who} holds a device cannot be seen here" for who in _HOLDERS]
    assert list(result.outcomes.values()) == ["failed"] * 2
    assert set(result.texts.values()) == set(reasons)
    assert result.summary == f"hardware: 0 ran, 2 could not run: {'; '.join(reasons)}"


@pytest.mark.parametrize("run", ["one collective"])
def test_a_collective_that_fails_fails_its_own_tests(results: Rehearsals, run: str) -> None:
    result = results[run]
    failed = {
        one.split("::")[-1] for one, outcome in result.outcomes.items() if outcome != "passed"
    }
    reductions = ("sum", "prod", "max", "min")
    name = "test_reduce_is_the_reduction_on_the_root"
    assert failed == {
        "test_the_job_ends_well",
        *(f"{name}[reduce {reduction} float32]" for reduction in reductions),
    }
    assert len(result.outcomes) > 30
    assert [
        text for text in result.texts.values() if text and "HcomReduce failed" not in text
    ] == []


@pytest.mark.parametrize("run", ["files"])
def test_files_of_the_adapter_are_in_a_folder_of_the_run(results: Rehearsals, run: str) -> None:
    result = results[run]
    assert result.outcomes == dict.fromkeys(result.chosen, "passed")
    (folder,) = [line for line in result.output.splitlines() if line.startswith("folder ")]
    assert (Path(folder.split()[-1]) / "check_result.tf.json").exists()
    assert not (_REPOSITORY / "check_result.tf.json").exists()


@pytest.mark.parametrize("run", ["one device"])
def test_the_run_ends_with_a_page(results: Rehearsals, run: str) -> None:
    lines = results[run].output.splitlines()
    page = lines[next(n for n, line in enumerate(lines) if "page about this run" in line) :]
    for words in ("driver", "24.1.rc2", "toolkit", "8.0.RC2", "npu_bridge", "v1.15.0", "910B3"):
        assert any(words in line for line in page), page
    assert any(line.startswith("fan_out (1 ran, 2 not run)") for line in page), page
    assert "Tests: 1 ran, 2 skipped." in page


@pytest.mark.parametrize("run", ["stopped"])
def test_the_summary_is_true_of_a_run_that_stops(results: Rehearsals, run: str) -> None:
    result = results[run]
    assert len(result.outcomes) == 2
    assert result.summary.startswith(
        f"hardware: 2 ran (1 failed), 0 skipped, {len(result.chosen) - 2} not reached, on "
    )
