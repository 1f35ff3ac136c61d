"""An option that is set from outside is as good as one that is edited into the script."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest
from click.testing import CliRunner

from ascend_session import AscendConfig, ascend_session
from ascend_session.cli.compare import compare
from ascend_session.config.option import options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.errors import ConfigError
from ascend_session.witness import SET_VARIABLE
from tests.compat.public_scripts import RANKS, SCRIPTS, STEPS
from tests.compat.run_scripts import PREFACE, environment, run_script
from tests.launched import launched

ENTRY = (
    PREFACE
    + """
from npu_bridge.npu_init import *
with tf.Session(config=options(**OPTIONS)) as session:
    session.run(tf.no_op())
    entry = session._config.graph_options.rewrite_options.custom_optimizers[0]
    print(sorted((k, str(v)) for k, v in entry.parameter_map.items()))
"""
)

TWENTY: Dict[str, Any] = {
    "precision_mode": "force_fp32",
    "hcom_parallel": True,
    "graph_run_mode": 1,
    "iterations_per_loop": 1,
    "enable_data_pre_proc": True,
    "mix_compile_mode": False,
    "graph_memory_max_size": "1073741824",
    "variable_memory_max_size": "1073741824",
    "stream_max_parallel_num": "AIcoreEngine:10",
    "dynamic_input": False,
    "enable_small_channel": 1,
    "op_select_implmode": "high_precision",
    "optypelist_for_implmode": "Pooling,SoftmaxV2",
    "hccl_timeout": 1200,
    "op_wait_timeout": 120,
    "op_execute_timeout": 120,
    "deterministic": 1,
    "external_weight": False,
    "enable_exception_dump": 1,
    "static_memory_policy": 0,
}
OF_SCRIPT = {"precision_mode": "allow_mix_precision", "hcom_parallel": False, "use_off_line": True}


@pytest.mark.parametrize("name", SCRIPTS)
def test_twenty_options_are_as_if_the_script_was_edited(
    tmp_path: Path, forking_python: str, name: str
) -> None:
    assert len(TWENTY) == 20
    planted = random.randint(1, STEPS)
    sessions, records = [], []
    for options, settings, env in (
        ({**OF_SCRIPT, **TWENTY}, {}, {}),
        (OF_SCRIPT, TWENTY, {}),
        (OF_SCRIPT, TWENTY, {"PLANTED": str(planted)}),
    ):
        folder = tmp_path / str(len(records))
        folder.mkdir()
        (folder / "train.py").write_text(f"OPTIONS = {options!r}\n{SCRIPTS[name]}")
        result = launched(
            str(folder / "train.py"),
            RANKS[name],
            folder,
            python=forking_python,
            set=settings,
            record=str(folder / "record.jsonl"),
            env=env,
        )
        log = Path(result.ranks[0].stderr).read_text()
        if "no estimators" in log or "no attribute 'set_session'" in log:
            pytest.skip("this TensorFlow has none")
        assert result.ok, log
        assert not result.notes, result.notes
        files = sorted(folder.glob("ascend-logs/job_*/attempt_1/rank_*/sessions.json"))
        sessions.append([json.loads(file.read_text())["sessions"] for file in files])
        records.append(str(folder / "record.jsonl"))
    assert len(sessions[0]) == RANKS[name]
    assert "force_fp32" in json.dumps(sessions[0])
    for rank in sessions[1]:
        for session in rank:
            session["notes"] = [each for each in session["notes"] if "outside" not in each]
    assert sessions[0] == sessions[1]
    same = CliRunner().invoke(compare, [*records[:2], "--rtol", "0"])
    assert (same.exit_code, same.output.count("\n")) == (0, 1), same.output
    assert f"All {STEPS} recorded steps" in same.output
    differ = CliRunner().invoke(compare, records[1:])
    assert differ.exit_code == 1
    assert differ.output.startswith(f"Step {planted}, rank 0: "), (planted, differ.output)


def test_the_report_names_what_came_from_outside_and_what_it_replaced(
    tmp_path: Path, forking_python: str
) -> None:
    overlay = {"precision_mode": None, "hcom_parallel": True, "deterministic": 1}
    ended = run_script(
        tmp_path,
        f"OPTIONS = {OF_SCRIPT!r}\n{ENTRY}",
        python=forking_python,
        variables={SET_VARIABLE: json.dumps(overlay)},
    )
    assert ended.returncode == 0, ended.stderr
    assert "Session 1: Set from outside: " in ended.stderr
    assert ended.stderr.count("Set from outside") == 1
    for words in (
        "precision_mode= (in the script 'allow_mix_precision')",
        "hcom_parallel=true (in the script False)",
        "deterministic=1 (in the script not set)",
    ):
        assert words in ended.stderr
    assert "precision_mode" not in ended.stdout


def test_what_a_device_would_refuse_in_the_script_is_refused_from_outside(
    tmp_path: Path, forking_python: str
) -> None:
    ended = run_script(
        tmp_path,
        f"OPTIONS = {OF_SCRIPT!r}\n{ENTRY}",
        python=forking_python,
        variables={SET_VARIABLE: '{"dump_config.enable_dump": true}'},
    )
    assert ended.returncode == 1
    assert "enable_dump=True needs dump_path" in ended.stderr
    assert "options): the session was refused\n" in ended.stderr


def test_a_refusal_names_what_came_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SET_VARIABLE, '{"dump_config.enable_dump": true}')
    said = "^With dump_config.enable_dump=true set from outside: enable_dump=True needs dump_path"
    with pytest.raises(ConfigError, match=said):
        ascend_session(AscendConfig(precision_mode="force_fp32"))


LOOPS = (
    PREFACE
    + """
from npu_bridge.npu_init import *
for config in (NPURunConfig(iterations_per_loop=4), NPURunConfig(4), NPURunConfig()):
    print(config.iterations_per_loop, end=" ")
"""
)


@pytest.mark.parametrize(("value", "shown"), [(10, "10 10 10 "), (None, "1 1 1 ")])
def test_loops_of_an_estimator_are_those_from_outside(
    tmp_path: Path, forking_python: str, value: Any, shown: str
) -> None:
    ended = run_script(
        tmp_path,
        LOOPS,
        python=forking_python,
        variables={SET_VARIABLE: json.dumps({"iterations_per_loop": value})},
    )
    if "UnsupportedError" in ended.stderr:
        pytest.skip("this TensorFlow has no estimators")
    assert ended.stdout == shown, ended.stderr


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        ((), {"deterministic": 1}),
        (("precision_mode=force_fp32",), {"precision_mode": "force_fp32"}),
        (("precision_mode=", "deterministic=0"), {"precision_mode": None, "deterministic": 0}),
    ],
)
def test_what_is_typed_replaces_what_the_environment_sets(
    tmp_path: Path, typed: Any, given: Dict[str, Any]
) -> None:
    (tmp_path / "train.py").write_text(f"import os; print(os.environ[{SET_VARIABLE!r}])")
    words = [word for setting in typed for word in ("--set", setting)]
    ended = subprocess.run(
        [sys.executable, "-m", "ascend_session", "run", *words, "train.py"],
        cwd=str(tmp_path),
        env=environment(**{SET_VARIABLE: json.dumps({"deterministic": 1})}),
        stdout=subprocess.PIPE,
        check=True,
    )
    assert json.loads(ended.stdout.decode()) == given


OWN = """
import json, os
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
from ascend_session import AscendConfig, ascend_session, ascend_system
cfg = AscendConfig(precision_mode="allow_mix_precision").replace(hcom_parallel=False)
def show(session):
    print(AscendConfig.from_config_proto(session._config).parameter_map())
with ascend_system(cfg, backend="stub") as system:
    print(system.parameters)
    with ascend_session(cfg) as session:
        show(session)
    with ascend_session(cfg.replace(op_wait_timeout=10)) as session:
        show(session)
    with tf.Session(system.target, config=system.session_config()) as session:
        show(session)
with ascend_session(session_config=cfg.to_config_proto(), backend="stub") as session:
    show(session)
with ascend_session(backend="stub") as session:
    show(session)
"""


def test_our_own_api_takes_them_for_the_device_and_for_each_session(
    tmp_path: Path, forking_python: str
) -> None:
    overlay = {"precision_mode": "force_fp32", "hcom_parallel": None, "op_wait_timeout": 600}
    ended = run_script(
        tmp_path, OWN, python=forking_python, variables={SET_VARIABLE: json.dumps(overlay)}
    )
    assert ended.returncode == 0, ended.stderr
    shown = [eval(line) for line in ended.stdout.splitlines()]
    assert shown == [{"precision_mode": "force_fp32", "op_wait_timeout": 600}] * 6
    assert "precision_mode=force_fp32 (in the script 'allow_mix_precision')" in ended.stderr


def test_a_launch_gives_them_to_every_rank_and_its_result_names_them(
    tmp_path: Path, forking_python: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"OPTIONS = {OF_SCRIPT!r}\n{ENTRY}")
    settings = {"precision_mode": "force_fp32", "deterministic": 1}
    result = launched(str(script), 2, tmp_path, python=forking_python, set=settings)
    assert result.ok, result
    assert result.as_dict()["set"] == settings
    assert sorted(result.replaced) == [
        ("deterministic", 1, None),
        ("precision_mode", "force_fp32", "allow_mix_precision"),
    ]
    for log in tmp_path.glob("ascend-logs/job_*/attempt_1/rank_*/stdout.log"):
        assert "force_fp32" in log.read_text()


HOST = PREFACE + "with tf.Session() as session:\n    session.run(tf.no_op())\n"
NO_EFFECT = "precision_mode=force_fp32 (set from outside) had no effect: no session of "


@pytest.mark.parametrize("imported", ["", "from npu_bridge.estimator import npu_ops\n"])
def test_a_run_says_that_they_had_no_effect(
    tmp_path: Path, forking_python: str, imported: str
) -> None:
    variables = {SET_VARIABLE: '{"precision_mode": "force_fp32"}'}
    ended = run_script(tmp_path, imported + HOST, python=forking_python, variables=variables)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count(f"{NO_EFFECT}this process has an NpuOptimizer entry.") == 1
    failed = run_script(tmp_path, "1 / 0", python=forking_python, variables=variables)
    assert "no effect" not in failed.stderr


def test_a_launch_says_that_they_had_no_effect_unless_it_fails(
    tmp_path: Path, forking_python: str
) -> None:
    script = tmp_path / "train.py"
    for text, notes in (
        (HOST, [f"{NO_EFFECT}rank 0 has an NpuOptimizer entry."]),
        (f"{HOST}1 / 0", []),
        # What the script has as well is used, too.
        (f"OPTIONS = {{'precision_mode': 'force_fp32'}}\n{ENTRY}", []),
    ):
        script.write_text(text)
        settings = {"precision_mode": "force_fp32"}
        result = launched(str(script), 1, tmp_path, python=forking_python, set=settings)
        assert list(result.notes) == notes, result
        assert result.as_dict()["set"] == settings
        assert result.replaced == ()


def call(folder: Path, *words: str) -> Any:
    return subprocess.run(
        [sys.executable, "-m", "ascend_session.cli", *words],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("command", ["run", "launch"])
def test_a_wrong_setting_starts_nothing(tmp_path: Path, command: str) -> None:
    (tmp_path / "train.py").write_text("open('started', 'w')")
    ended = call(tmp_path, command, "--set", "precision_mod=x", "train.py")
    assert ended.returncode == 2
    assert "Did you mean precision_mode?" in ended.stderr
    assert {each.name for each in tmp_path.iterdir()} == {"train.py"}


def test_a_dry_run_names_them(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    words = ("launch", "-n", "2", "--backend", "stub", "--dry-run", "--set", "deterministic=1")
    assert "Set       deterministic=1\n" in call(tmp_path, *words, "train.py").stdout
    planned = json.loads(call(tmp_path, *words, "--json", "train.py").stdout)
    assert planned["set"] == {"deterministic": 1}


def test_the_keys_of_this_test_are_the_adapters() -> None:
    assert set(TWENTY) <= set(options_by_key(AdapterOptions))
