"""``ascend-session aoe``: the conditions of a tuning run, and the run itself."""

import json
import re
import signal

import pytest

from ascend_session.aoe import AoePlan
from ascend_session.aoe.conditions import TuningCondition
from tests.aoe.samples import OPERATOR_TASK, task
from tests.fake_host import a2_chips, npu_smi_answers

# What the adapter and AOE do, as far as one sees it: manual of AOE and geop_npu.cc.
_TUNES = """
import os, sys, json
folder = os.path.join(os.environ["ASCEND_PROCESS_LOG_PATH"], "debug", "plog")
os.makedirs(folder)
with open(os.path.join(folder, "plog-1_2.log"), "w") as log:
    log.write("[GEOP] in tune mode, training graph handled by tools.\\n")
names = ["AOE_MODE", "TUNE_BANK_PATH", "ASCEND_DEVICE_ID", "RANK_SIZE"]
print(*map(os.environ.get, names), sys.argv[1:])
name = os.path.join(os.environ["ASCEND_WORK_PATH"], "aoe_result_opat_20261121_1.json")
with open(name, "w") as file:
    json.dump({"report_1": json.loads(os.environ["TASK"])}, file)
sys.exit(int(os.environ.get("CODE", "0")))
"""
_WAITS = """
import signal
print("here", flush=True)
signal.pause()
"""


@pytest.fixture
def dry_run(call, host, monkeypatch, tmp_path):
    """Calls ``aoe run --dry-run`` on an empty host."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def dry_run(*words):
        return call("aoe", "run", "--dry-run", *words)

    return dry_run


@pytest.fixture
def device(host):
    """The host, with a device in it, which AOE needs."""
    host.nodes([0])
    return host


@pytest.fixture
def run(program, device, tmp_path):
    """Runs ``aoe run`` of a script on the device of the fake host."""

    def run(text, *words, arguments=(), **environ):
        (tmp_path / "train.py").write_text(text)
        script = str(tmp_path / "train.py")
        settings = ("--log-dir", str(tmp_path / "logs"), "--work-path", str(tmp_path / "my work"))
        environ = {"TASK": json.dumps(OPERATOR_TASK), **environ}
        return program("aoe", "run", *settings, *words, script, *arguments, **environ)

    return run


def _conditions(called):
    return {one["name"]: one for one in json.loads(called.out)["conditions"]}


def test_conditions_are_a_table_with_what_to_do_and_a_verdict(dry_run, host):
    host.nodes([0])
    host.npu_smi(npu_smi_answers("910B", a2_chips(1)))
    called = dry_run("--mode", "subgraph")
    assert called.code == 1
    assert called.out.startswith("subgraph tuning\n\nCONDITION ")
    assert "\nset_env.sh, fails: No set_env.sh was found" in called.out
    assert "\nproduct, fails: The device is A2 (910B)." in called.out
    assert called.out.rstrip().splitlines()[-1].endswith(" fail.")


def test_without_a_device_three_lines_say_what_is_missing_and_what_to_do(dry_run):
    called = dry_run("--tuning-parallel-num", "64")
    assert (called.code, called.err) == (1, "")
    first, second, third = called.out.splitlines()
    assert first == "operator tuning needs an Ascend device, and this machine has none."
    assert second.startswith("Other conditions that fail on this machine: ")
    assert third == "  hint: Run this on the machine that will tune."


def test_without_a_device_the_configuration_is_still_corrected(dry_run, write):
    called = dry_run("--config", write("memory_config:\n  static_memory_policy: 2\n"))
    assert "static memory, fails: static_memory_policy=2 would spoil the result.\n" in called.out
    assert "  hint: Set static_memory_policy to 0 for this run" in called.out


def test_a_terminal_gets_colours_and_folded_lines(on_terminal, host):
    host.nodes([0])
    host.npu_smi(npu_smi_answers("910B", a2_chips(1)))
    called = on_terminal("aoe", "run", "--dry-run", columns=70, **host.environ)
    assert (called.code, called.err) == (1, "")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", called.out)
    assert max(map(len, plain.splitlines())) <= 70
    assert "\x1b[1;31mfails" in called.out


def test_json_has_numbers_in_bytes(dry_run, write):
    called = dry_run("--config", write("memory_config:\n  static_memory_policy: 2\n"), "--json")
    assert called.code == 1
    found = _conditions(called)
    assert found["home disk"]["needed"] == 20 * 2**30
    assert found["static memory"]["verdict"] == "fails"


def test_what_cannot_be_measured_is_supplied_by_options(dry_run):
    words = ("--training-memory", "1MiB", "--tuning-parallel-num", "2", "--device-cores", "8")
    more = ("--operator-cores", "8", "--static-operators", "--device-memory", "1GB")
    found = _conditions(dry_run("--json", *words, *more))
    assert found["memory"]["needed"] == 2 * 2**20
    assert found["device memory"]["needed"] == 10**9
    assert [found[n]["verdict"] for n in ("device cores", "operators")] == ["ok", "ok"]


def test_processes_count_in_the_formula(dry_run):
    one, three = (
        _conditions(dry_run("--json", "--tuning-parallel-num", "8", "--processes", n))["CPUs"]
        for n in ("1", "3")
    )
    cores = one["measured"]
    assert one["needed"] == -(-(8 + 8 + min(cores / 2, 8) + 50) // 1)
    assert three["needed"] == -(-3 * (8 + 8 + min(cores / 2, 8) + 50) // 1)


def test_everything_else_is_measured_though_the_configuration_is_wrong(dry_run, write):
    text = "aoe_mode: '2'\nmemory_config:\n  static_memory_policy: 2\n"
    called = dry_run("--config", write(text), "--json")
    assert called.code == 1
    found = _conditions(called)
    said = found["configuration"]["said"]
    assert "static_memory_policy: 2 cannot be used while AOE tunes" in said
    assert found["home disk"]["verdict"] in ("ok", "fails")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--config", "none.yaml"], "there is no file none.yaml"),
        (["--mode", "3"], "mode='3' is not a mode of AOE"),
        (["--training-memory", "much"], "'much' is not a size"),
        (["--training-memory", "0"], "'0' is not a size"),
        (["--processes", "0"], "processes=0 is not a whole number of 1 or more"),
        (["--tuning-parallel-num", "65"], "--tuning-parallel-num=65 is more than 64"),
    ],
)
def test_a_wrong_call_is_two(dry_run, words, said):
    called = dry_run(*words)
    assert (called.code, called.out) == (2, "")
    assert said in called.err


@pytest.mark.parametrize("text", ["aoe_mode: '2'\nmemory_config: {static_memory_policy: 2}\n", "{"])
def test_a_configuration_that_was_given_is_not_asked_for(dry_run, write, text):
    found = _conditions(dry_run("--config", write(text), "--json"))
    for name in ("static memory", "profiling"):
        assert (found[name]["todo"], found[name]["asks"]) == (
            "Correct the configuration first.",
            [],
        )


def test_a_dry_run_makes_nothing_and_needs_no_folder_that_the_run_makes(dry_run, tmp_path):
    words = ("--work-path", "work", "--bank", "new/bank", "--static-operators")
    called = dry_run("--json", *words, "none.py", "--steps", "1")
    found = _conditions(called)
    assert (found["result folder"]["verdict"], found["repository"]["verdict"]) == ("ok", "ok")
    assert found["result folder"]["measured"] == str(tmp_path / "work")
    assert found["repository"]["measured"].startswith(str(tmp_path / "new" / "bank"))
    assert found["mode"]["verdict"] == "ok"
    assert not any((tmp_path / name).exists() for name in ("work", "new", "ascend-logs"))


def test_a_dry_run_finds_a_folder_that_cannot_be_made(dry_run, tmp_path):
    (tmp_path / "file").write_text("")
    found = _conditions(dry_run("--json", "--work-path", "file/work", "--bank", "file"))
    for name in ("result folder", "repository"):
        assert found[name]["verdict"] == "fails"
        assert f"{tmp_path / 'file'}" in found[name]["said"]
        assert "is not a folder" in found[name]["said"]


def test_a_dry_run_says_that_the_stub_was_chosen_though_a_device_is_here(dry_run, host):
    host.nodes([0])
    called = dry_run("--backend", "stub")
    assert (called.code, called.out) == (2, "")
    assert "AOE tunes only on a device, but this would run on the stub" in called.err


@pytest.mark.parametrize("size", ["1", "8"])
def test_gradients_are_checked_as_a_job_of_several_ranks(dry_run, monkeypatch, size):
    monkeypatch.setenv("RANK_SIZE", size)
    found = _conditions(dry_run("--json", "--mode", "gradient"))
    assert found["devices"]["verdict"] == ("ok" if size == "8" else "fails")


def test_json_needs_a_dry_run(call, device):
    called = call("aoe", "run", "--json", "train.py")
    assert (called.code, called.out) == (2, "")
    assert "needs --dry-run." in called.err


def test_a_run_is_followed_and_ends_with_its_result_files(run, tmp_path):
    bank = ("--bank", str(tmp_path / "bank"))
    called = run(_TUNES, "--no-preflight", *bank, arguments=["--steps", "1"])
    assert called.code == 0, called.err
    assert called.out.startswith(f"[0] 2 {tmp_path / 'bank'} 0 1 ['--steps', '1']\n")
    assert "2 operators: 75.491 us before, 42.586 us after, 32.905 us saved" in called.out
    result = tmp_path / "my work" / "aoe_result_opat_20261121_1.json"
    for said in (
        "The adapter has handed graph 1 to AOE.",
        f"{result.name}: 1 task, 2 operators added or updated so far.",
        f"result file: {result}\n  hint: ascend-session aoe report '{result}'\n",
        f"cfg.for_verifying('operator') and TUNE_BANK_PATH={tmp_path / 'bank'}",
    ):
        assert called.err.count(said) == 1


def test_the_exit_code_is_that_of_the_script(run):
    called = run(_TUNES, "--no-preflight", "--mode", "subgraph", CODE="7")
    assert called.code == 7
    assert called.out.startswith("[0] 1 None 0 1 []\n")
    assert "result file: " in called.err
    assert "for_verifying" not in called.err


def test_a_tuning_that_failed_is_in_the_report_and_the_exit_code(run):
    failed = task(outcome="tuning failed", failed=["conv1"])
    called = run(_TUNES, "--no-preflight", TASK=json.dumps(failed))
    assert called.code == 1
    assert "conv1" in called.out
    assert "for_verifying" not in called.err


def test_a_run_that_leaves_no_result_is_not_in_order(run, device, tmp_path):
    device.nodes([0, 1, 2, 3])
    show = "import os; print(os.environ['ASCEND_DEVICE_ID'], os.environ['RANK_SIZE'])"
    called = run(show, "--no-preflight", ASCEND_DEVICE_ID="3", RANK_SIZE="8")
    assert (called.code, called.out) == (1, "[0] 3 1\n")
    assert f"AOE left no result file in {tmp_path / 'my work'} or " in called.err


def test_a_result_of_an_earlier_run_is_none_of_this(run, tmp_path):
    (tmp_path / "my work").mkdir()
    (tmp_path / "my work" / "aoe_result_opat_1_1.json").write_text("{}")
    assert run("print('trained')", "--no-preflight").code == 1


def test_a_signal_ends_the_run_and_is_its_code(start, device, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(_WAITS)
    folders = ("--log-dir", str(tmp_path / "logs"), "--work-path", str(tmp_path / "work"))
    process = start("aoe", "run", "--no-preflight", *folders, "--", str(script))
    assert process.stdout.readline() == b"[0] here\n"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert b"AOE left no result file in" in err


@pytest.mark.parametrize(
    ("words", "environ", "why"),
    [
        ([], {}, "no Ascend processor is present"),
        (["--backend", "stub"], {}, "--backend=stub is set"),
        ([], {"ASCEND_SESSION_BACKEND": "stub"}, "ASCEND_SESSION_BACKEND=stub is set"),
    ],
)
def test_on_the_stub_it_refuses_whatever_else_is_asked(
    call, host, tmp_path, monkeypatch, words, environ, why
):
    if why.startswith("-") or environ:
        host.nodes([0])
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    bank = tmp_path / "bank"
    called = call("aoe", "run", "--no-preflight", "--bank", str(bank), *words, "train.py")
    assert (called.code, called.out) == (2, "")
    assert f"AOE tunes only on a device, but this would run on the stub: {why}" in called.err
    assert not bank.exists()


def test_while_conditions_are_measured_ctrl_c_ends_it(call, device, monkeypatch):
    def interrupted(*arguments, **known):
        raise KeyboardInterrupt

    monkeypatch.setattr(AoePlan, "measure", interrupted)
    called = call("aoe", "run", "train.py")
    assert (called.code, called.out) == (128 + signal.SIGINT, "")
    assert called.err == "ascend-session: Interrupted before anything was started.\n"


@pytest.mark.parametrize("text", ["\u00b2", "-1", "x", "9" * 5000])
def test_a_device_that_is_none_fails_and_is_no_crash(call, device, tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASCEND_DEVICE_ID", text)
    called = call("aoe", "run", "train.py")
    assert called.code == 1
    assert "Nothing was started." in called.err


@pytest.mark.parametrize(
    ("failing", "waits", "starts"),
    [
        ([], False, True),
        (["one user"], False, False),
        (["one user"], True, True),
        (["one user", "device memory"], True, True),  # which the others may hold
        (["one user", "CPUs"], True, False),
        (["device memory"], True, False),
    ],
)
def test_who_waits_for_the_device_is_not_refused_because_it_is_held(
    call, device, tmp_path, monkeypatch, failing, waits, starts
):
    monkeypatch.chdir(tmp_path)
    names = ("one user", "device memory", "CPUs")
    verdicts = ((name, "fails" if name in failing else "ok") for name in names)
    found = (TuningCondition(name, verdict, None, None, "") for name, verdict in verdicts)
    plan = AoePlan("operator", tuple(found))
    monkeypatch.setattr(AoePlan, "measure", lambda *arguments, **known: plan)
    waiting = ["--wait-for-devices", "1s"] if waits else []
    called = call("aoe", "run", *waiting, "none.py")
    said = "No other condition fails" if failing else "No condition fails"
    assert (said in called.err) is starts
    assert ("There is no script " in called.err) is starts
    assert ("Nothing was started." in called.err) is not starts


def test_nothing_is_started_if_a_condition_fails(call, device, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("raise SystemExit('started')")
    called = call("aoe", "run", "train.py")
    assert called.code == 1
    assert called.out.startswith("operator tuning\n")
    assert "AOE_MODE, fails" not in called.out
    assert "Nothing was started." in called.err
    assert not (tmp_path / "ascend-logs").exists()


def test_the_mode_is_that_of_the_configuration(call, device, tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    called = call("aoe", "run", "--config", write("aoe_mode: '1'\n"), "train.py")
    assert called.out.startswith("subgraph tuning\n")


@pytest.mark.parametrize(
    ("variable", "words", "folder"),
    [("", [], "tune"), ("given", [], "given"), ("given", ["--work-path", "asked"], "asked")],
)
def test_results_go_where_the_option_says_the_variable_or_the_configuration(
    call, device, tmp_path, monkeypatch, write, variable, words, folder
):
    monkeypatch.chdir(tmp_path)
    for name in ("tune", "given"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("ASCEND_WORK_PATH", variable)
    config = write("aoe_mode: '2'\nwork_path: tune\n")
    called = call("aoe", "run", "--config", config, *words, "train.py")
    (row,) = (line for line in called.out.splitlines() if line.startswith("result folder"))
    assert row.split()[3] == str(tmp_path / folder)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--mode", "gradient", "x.py"], "gradient tuning needs several ranks"),
        (["--mode", "x", "x.py"], "is not a mode of AOE"),
        (["--config", "none.yaml", "x.py"], "there is no file none.yaml"),
        (["--no-preflight", "none.py"], "There is no script "),
        ([], "Missing argument"),
    ],
)
def test_a_run_that_cannot_be_is_a_wrong_call(call, device, words, said):
    called = call("aoe", "run", *words)
    assert called.code == 2
    assert said in called.err


def test_a_folder_that_cannot_be_made_is_a_wrong_call(call, device, tmp_path):
    (tmp_path / "file").write_text("")
    called = call("aoe", "run", "--bank", str(tmp_path / "file"), "x.py")
    assert called.code == 2
    assert "cannot be created: File exists" in called.err


def test_the_help_names_every_command(call):
    called = call("aoe")
    assert called.code == 0
    assert " run " in called.out
    assert " report " in called.out
