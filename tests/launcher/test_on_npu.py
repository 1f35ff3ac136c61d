"""A job on the devices of a fake host: each rank is who it should be, and all end well."""

import json
import os
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest

from ascend_session.launcher.api import launch_within
from ascend_session.launcher.job.guardian_process import GuardianProcess
from ascend_session.launcher.job.signals import Signals
from ascend_session.launcher.plan.config import LaunchConfig
from ascend_session.launcher.plan.plan import plan_job
from ascend_session.launcher.verdict.result import LaunchResult
from tests.fake_host.tree import FakeHost
from tests.fake_host.vendor import environment, live_host, recorded

_SCRIPT = """
import sys, warnings
warnings.simplefilter("ignore")
from ascend_session import ascend_system
with ascend_system() as system:
    print(system.backend, system.rank, system.size, system.device_id)
    if system.rank in map(int, sys.argv[1:]):
        raise ValueError("this rank fails")
"""
# With an argument, the ranks begin with the same variable.
_TRAINING = """
import sys, warnings
warnings.simplefilter("ignore")
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
from ascend_session import ascend_system, training
with ascend_system() as system:
    w = tf.get_variable("w", initializer=[3.0, 4.0 + system.rank])
    optimizer = training.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.1))
    step = optimizer.minimize(tf.reduce_sum(w * w), tf.train.get_or_create_global_step())
    hooks = [training.CheckRanksHook(every=2)]
    if len(sys.argv) > 1:
        hooks.append(training.BroadcastGlobalVariablesHook(0))
    with tf.train.MonitoredTrainingSession(
        system.target, config=system.session_config(), hooks=hooks
    ) as session:
        for _ in range(4):
            session.run(step)
    print("trained")
"""
# What rank 1 does between two runs is the argument.
_UNEVEN = """
import sys, time, warnings
warnings.simplefilter("ignore")
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
from ascend_session import ascend_system, hccl, training
how = sys.argv[1]
with ascend_system() as system:
    loss = tf.constant(1.0)
    total = hccl.allreduce([1.0], "sum")
    if how == "saves":
        w = tf.get_variable("w", initializer=[1.0])
    with system.session() as session:
        if how == "saves":
            session.run(tf.global_variables_initializer())
            saver = tf.train.Saver()
        is_it = system.rank == 1
        for step in range(60):
            time.sleep(0.02 + 0.05 * (is_it and how == "sleeps"))
            if is_it and how == "evaluates" and step % 10 == 5:
                time.sleep(0.2)
                session.run(loss)
            if is_it and how == "saves" and step % 10 == 5:
                saver.save(session, "model/ck", step)
            if is_it and how == "begins late" and step < 3:
                time.sleep(1.0)
            session.run(total)
            training.note_step(step + 1, of=60, samples=16)
"""
RANKS = 2


@pytest.fixture
def host(tmp_path: Path) -> Iterator[FakeHost]:
    made = live_host(tmp_path)
    yield made
    made.close()


def _table(folder: Path, physical: List[int]) -> str:
    devices = [
        {"device_id": str(node), "device_ip": f"192.168.1.{node}", "rank_id": str(rank)}
        for rank, node in enumerate(physical)
    ]
    table = {
        "version": "1.0",
        "status": "completed",
        "server_count": "1",
        "server_list": [{"server_id": "node_0", "device": devices}],
    }
    (folder / "table.json").write_text(json.dumps(table))
    return str(folder / "table.json")


def _launch(
    host: FakeHost,
    folder: Path,
    python: str,
    *arguments: str,
    script: str = _SCRIPT,
    **settings: Any,
) -> LaunchResult:
    (folder / "train.py").write_text(script)
    environ: Dict[str, str] = {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "2",
        **environment(host, **settings),
    }
    config = LaunchConfig(
        script="train.py",
        python=python,
        args=list(arguments),
        devices=[2, 3],
        rank_table=_table(folder, [2, 3]),
        cwd=str(folder),
    )
    first = plan_job(config, environ)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        with Signals() as signals:
            return launch_within(first, GuardianProcess(config), signals, null, lambda event: None)
    finally:
        os.close(null)


def _said(result: LaunchResult) -> List[str]:
    return [Path(rank.stdout).read_text().strip() for rank in result.ranks]


def test_each_rank_initialises_its_device_and_knows_who_it_is(
    host: FakeHost, tmp_path: Path, forking_python: str
) -> None:
    result = _launch(host, tmp_path, forking_python)
    assert result.code == 0, [Path(rank.stderr).read_text() for rank in result.ranks]
    assert result.backend == "npu"
    assert _said(result) == ["npu 0 2 2", "npu 1 2 3"]
    calls = [entry["call"] for entry in recorded(host)]
    assert calls.count("GEInitialize") == calls.count("GEFinalize") == RANKS
    assert not any("still held" in note for note in result.notes)


def test_a_failing_rank_is_the_cause_and_the_other_shuts_its_device_down(
    host: FakeHost, tmp_path: Path, forking_python: str
) -> None:
    result = _launch(host, tmp_path, forking_python, "1")
    assert result.code == 1
    assert result.cause is not None
    assert result.cause.rank == 1
    assert "ValueError: this rank fails" in result.cause.said


def test_an_initialisation_that_aborts_is_explained_by_its_code(
    host: FakeHost, tmp_path: Path, forking_python: str
) -> None:
    result = _launch(host, tmp_path, forking_python, faults="init=EJ0001")
    assert result.code == 134
    assert result.cause is not None
    assert result.cause.failure is not None
    assert result.cause.failure.code == "EJ0001"
    assert result.cause.failure_class is not None
    assert result.cause.failure_class.value == "transient"


def test_the_hook_is_silent_where_the_ranks_hold_one_model(
    host: FakeHost, tmp_path: Path, forking_python: str
) -> None:
    result = _launch(host, tmp_path, forking_python, "broadcast", script=_TRAINING)
    assert result.code == 0, [Path(rank.stderr).read_text() for rank in result.ranks]
    assert result.backend == "npu"
    assert _said(result) == ["trained"] * RANKS


def test_the_hook_fails_where_the_ranks_hold_different_models(
    host: FakeHost, tmp_path: Path, forking_python: str
) -> None:
    result = _launch(host, tmp_path, forking_python, script=_TRAINING)
    assert result.code == 1
    assert result.cause is not None
    assert (
        "CollectiveError: after step 1 the 2 ranks hold 2 different models: `w` differs first"
        in (result.cause.said)
    )


def test_a_rank_whose_host_is_slow_in_most_steps_gets_a_note(
    host: FakeHost, tmp_path: Path, forking_python: str
) -> None:
    result = _launch(host, tmp_path, forking_python, "sleeps", script=_UNEVEN)
    assert result.code == 0, [Path(rank.stderr).read_text() for rank in result.ranks]
    notes = [note for note in result.notes if "waited" in note]
    assert [note.startswith("The other ranks waited for rank 1 in ") for note in notes] == [True]
    attempt = result.as_dict()["attempts"][0]
    assert attempt["late_shares"][1] > 1 / 3 > attempt["late_shares"][0]
    assert attempt["pace"]["slow_rank"] == 1
    assert "; rank 1 is slow." in str(result)


@pytest.mark.parametrize("how", ["nothing", "evaluates", "saves", "begins late"])
def test_nothing_is_said_about_hosts_of_honest_ranks(
    host: FakeHost, tmp_path: Path, forking_python: str, how: str
) -> None:
    result = _launch(host, tmp_path, forking_python, how, script=_UNEVEN)
    assert result.code == 0, [Path(rank.stderr).read_text() for rank in result.ranks]
    assert not any("waited" in note for note in result.notes)
    attempt = result.as_dict()["attempts"][0]
    assert len(attempt["late_shares"]) == RANKS
    assert attempt["pace"]["slow_rank"] is None
