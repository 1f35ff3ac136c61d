"""``ascend-session launch``: real jobs of real programs, as they are started from a shell."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_session.text import format_ranges
from tests.cli.conftest import ROOT
from tests.waiting import wait_until

# Says who it is and what it got, and ends with what it is told.
_ECHO = """
import os, sys
print("rank", os.environ["RANK_ID"], sys.argv[1:], flush=True)
print("to stderr", file=sys.stderr, flush=True)
sys.exit(int(os.environ.get("CODE_" + os.environ["RANK_ID"], "0")))
"""
_PYTHON = ("--no-python", sys.executable, "-c")


@pytest.fixture
def launch(program, tmp_path):
    """Runs a launch on the stub to its end."""

    def launch(*words, **settings):
        return program("launch", *_settings(tmp_path), *words, **settings)

    return launch


@pytest.fixture
def begin(start, tmp_path):
    """Starts a launch on the stub; what is still open of it is closed in the end."""
    begun = []

    def begin(*words, **settings):
        begun.append(start("launch", *_settings(tmp_path), *words, **settings))
        return begun[-1]

    yield begin
    for process in begun:
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        process.wait()


def _settings(tmp_path):
    return ("--backend", "stub", "--log-dir", str(tmp_path / "logs"))


def _nothing_started(tmp_path):
    return not (tmp_path / "logs").exists()


def test_a_broken_rank_table_is_refused_before_anything_is_started(launch, tmp_path):
    table = tmp_path / "table.json"
    table.write_text('{"server_list": [}')
    called = launch("-n", "2", "--rank-table", str(table), *_PYTHON, _ECHO)
    assert called.code == 1
    assert f"error: {table}:1:18: this is not JSON" in called.err
    assert _nothing_started(tmp_path)


def test_ranks_speak_on_stdout_and_the_launcher_on_stderr(launch, tmp_path):
    called = launch("-n", "2", "--independent", *_PYTHON, _ECHO)
    assert called.code == 0
    said = sorted(called.out.splitlines())
    assert said == ["[0] rank 0 []", "[0] to stderr", "[1] rank 1 []", "[1] to stderr"]
    first, last = called.err.splitlines()
    assert last.startswith("ascend-session: all 2 ranks succeeded in ")
    folder = last.partition("logs in ")[2]
    assert first.endswith(f"; logs in {folder}")
    assert Path(folder, "rank_1", "stdout.log").read_text() == "rank 1 []\n"


@pytest.mark.parametrize(
    "words", [["--help"], ["-n", "9"], ["--json", "-m"], ["--", "x"], ["-1", "--devices=7"], [""]]
)
def test_all_words_after_the_script_are_the_scripts(launch, words):
    called = launch("-n", "1", *_PYTHON, _ECHO, *words)
    assert called.code == 0
    assert f"[0] rank 0 {words}\n" in called.out


def test_scripts_and_modules_are_run_by_python(launch, tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "part.py").write_text(_ECHO)
    (tmp_path / "script.py").write_text(_ECHO)
    for words in (["script.py", "a"], ["-m", "package.part", "a"]):
        called = launch("-n", "1", "--cwd", str(tmp_path), *words)
        assert called.code == 0, called.err
        assert "[0] rank 0 ['a']\n" in called.out


def test_the_code_is_the_one_of_the_rank_that_failed(launch, tmp_path):
    called = launch("-n", "2", "--env", "CODE_1=7", *_PYTHON, _ECHO)
    assert called.code == 7
    assert "ascend-session: the job failed." in called.err
    assert "rank_1/stderr.log" in called.err


def test_a_rank_that_a_signal_ended_gives_128_and_its_number(launch):
    code = "import os; os.kill(os.getpid(), 9)"
    assert launch("-n", "1", *_PYTHON, code).code == 137


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_job_and_is_told_by_the_code(begin, number):
    code = "import signal; print('begun', flush=True); signal.pause()"
    process = begin("-n", "1", *_PYTHON, code)
    assert process.stdout.readline() == b"[0] begun\n"
    process.send_signal(number)
    err = process.communicate()[1]
    assert process.returncode == 128 + number
    assert f"{number.name}: stopping all ranks" in err.decode()
    assert b"Traceback" not in err


def test_json_has_stdout_to_itself(launch):
    called = launch("-n", "2", "--json", "--env", "CODE_0=3", "--env", "CODE_1=3", *_PYTHON, _ECHO)
    result = json.loads(called.out)
    assert called.code == result["code"] == 3
    assert [rank["rank"] for rank in result["attempts"][0]["ranks"]] == [0, 1]
    assert "] to stderr\n" in called.err
    assert "the job failed" in called.err


def test_a_reader_that_goes_ends_neither_job_nor_launcher(begin, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(str(gate))
    code = f"print('first', flush=True); open({str(gate)!r}).read(); print('x' * 300000)"
    process = begin("-n", "1", *_PYTHON, code)
    assert process.stdout.readline() == b"[0] first\n"
    process.stdout.close()
    open(str(gate), "w").close()
    err = process.stderr.read().decode()
    assert process.wait() == 0
    said = "ascend-session: The ranks' output is no longer shown: Broken pipe (file descriptor 1)."
    assert err.count(said) == 1
    assert err.splitlines()[-1].startswith("ascend-session: the rank succeeded in ")
    (log,) = (tmp_path / "logs").glob("job_*/attempt_1/rank_0/stdout.log")
    assert len(log.read_text()) == len("first\n") + 300001


def test_a_closed_stderr_ends_nothing_and_the_code_is_right(begin):
    process = begin("-n", "1", "--env", "CODE_0=5", *_PYTHON, _ECHO)
    process.stderr.close()
    out = process.stdout.read()
    assert (process.wait(), b"[0] rank 0 []\n" in out) == (5, True)


@pytest.mark.parametrize("closing", [">&-", "2>&-", ">&- 2>&- <&-"])
@pytest.mark.parametrize("words", [(), ("--json",)], ids=["text", "json"])
def test_streams_that_were_never_open_are_no_trouble(tmp_path, closing, words):
    command = [sys.executable, "-m", "ascend_session.cli", "launch", *_settings(tmp_path), *words]
    shell = ["/bin/sh", "-c", f'exec "$@" {closing}', "sh", *command, "-n", "1"]
    ran = subprocess.run(
        [*shell, "--env", "CODE_0=6", *_PYTHON, _ECHO],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
    )
    assert ran.returncode == 6
    assert b"Traceback" not in ran.stderr + ran.stdout
    logs = (tmp_path / "logs").glob("job_*/attempt_1/rank_0/std*.log")
    assert {log.read_text() for log in logs} == {"rank 0 []\n", "to stderr\n"}


def test_a_full_disk_behind_stdout_is_said_once(begin):
    with open("/dev/full", "w") as full:
        process = begin("-n", "2", *_PYTHON, _ECHO, stdout=full)
        err = process.communicate()[1].decode()
    assert process.returncode == 0
    assert err.count("No space left on device (file descriptor 1)") == 1


def test_a_result_that_cannot_be_written_is_said(begin):
    with open("/dev/full", "w") as full:
        process = begin("--json", "-n", "2", *_PYTHON, _ECHO, stdout=full)
        err = process.communicate()[1].decode()
    assert process.returncode == 0
    said = "The result is no longer shown: No space left on device (file descriptor 1).\n"
    assert err.endswith(said)


def test_nobody_reading_the_summary_holds_up_the_end_only_until_a_signal(tmp_path):
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b"full" * 1024)
    except BlockingIOError:
        os.set_blocking(write, True)
    events = tmp_path / "events"
    settings = [*_settings(tmp_path), "--events", str(events)]
    words = [*settings, "-n", "1", *_PYTHON, "import sys; sys.exit(4)"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ascend_session.cli", "launch", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=write,
    )
    os.close(write)
    wait_until(lambda: events.exists() and '"summary"' in events.read_text())
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 4
    os.close(read)


def test_only_the_ranks_asked_for_are_shown_and_all_are_logged(launch, tmp_path):
    called = launch("-n", "3", "--show", "1", "--timestamps", *_PYTHON, _ECHO)
    assert [line.split(" ", 2)[2] for line in called.out.splitlines() if "rank" in line] == [
        "[1] rank 1 []"
    ]
    logs = (tmp_path / "logs").glob("job_*/attempt_1/rank_*/stdout.log")
    assert sorted(log.read_text() for log in logs) == [f"rank {rank} []\n" for rank in range(3)]


def test_notes_of_the_plan_are_said_at_the_start_in_the_words_of_the_command(launch):
    called = launch("-n", "1", "--no-rank-table", *_PYTHON, _ECHO)
    _, first, *others = called.err.splitlines()
    assert first == (
        "ascend-session: --no-rank-table has no effect on the stub, which has no chief."
    )
    assert len(others) == 1


def test_the_others_are_told_to_end_when_one_has_failed(launch):
    code = "import os, signal, sys; os.environ['RANK_ID'] == '1' and sys.exit(9); signal.pause()"
    called = launch("-n", "3", "--grace", "30", *_PYTHON, code)
    assert called.code == 9
    said = "Rank 1 exited with code 9. The others get SIGTERM now, and SIGKILL in 30 s."
    assert f"ascend-session: {said}\n" in called.err


def test_events_are_written_as_json_lines(launch, tmp_path):
    path = tmp_path / "events"
    called = launch("-n", "2", "--events", str(path), *_PYTHON, _ECHO)
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert called.code == 0
    kinds = [event["event"] for event in events]
    assert kinds[0] == "plan"
    assert sorted(kinds[1:5]) == ["exit", "exit", "start", "start"]
    assert kinds[5:] == ["over", "summary"]
    assert events[-1]["result"]["code"] == 0


def test_a_dry_run_prints_the_plan_and_starts_nothing(launch, tmp_path):
    events = tmp_path / "events"
    called = launch(
        *("--dry-run", "-n", "2", "--devices", "3,5", "--env", "A=b c", "--events", str(events)),
        *("--no-python", "/bin/false", "--help"),
        RANK_TABLE_FILE="/tables/x.json",
    )
    assert called.code == 0
    assert _nothing_started(tmp_path)
    assert not events.exists()
    assert "Ranks     2 on stub: " in called.out
    assert "Command   /bin/false --help\n" in called.out
    assert "  A='b c'\n" in called.out
    assert "Rank 0 on device 3\n" in called.out
    assert "Rank 1 on device 5\n  ASCEND_DEVICE_ID=5\n" in called.out
    assert "Not inherited by the ranks\n  RANK_TABLE_FILE: " in called.out


def test_a_dry_run_shows_that_ranks_are_independent(launch):
    words = ("--dry-run", "--independent", "-n", "2", "--no-python", "/bin/false")
    called = launch(*words)
    assert "  ASCEND_SESSION_INDEPENDENT=1\n" in called.out
    assert "exchanged nothing" not in called.err
    for rank in json.loads(launch("--json", *words).out)["ranks"]:
        assert rank["changed"]["ASCEND_SESSION_INDEPENDENT"] == "1"


def test_whether_ranks_are_independent_is_an_option_and_no_variable_of_ranks(launch):
    called = launch("-n", "2", "--env", "ASCEND_SESSION_INDEPENDENT=1", "--no-python", "/bin/true")
    assert called.code == 2
    assert "Give --independent, or export it before the launch." in called.err


def test_ranks_that_exchange_nothing_are_noted_once_at_the_end(launch):
    words = ("-n", "2", "--no-python", "/bin/true")
    note = (
        "The ranks exchanged nothing; if they train, they train 2 models. `ascend-session guide "
        "training` shows how to train one; --independent is for several."
    )
    called = launch(*words)
    assert called.code == 0
    assert called.err.splitlines()[2:] == [note]
    assert len(launch("--independent", *words).err.splitlines()) == 2


def test_a_dry_run_names_no_logs_of_a_rank_that_gets_the_terminal(launch):
    called = launch("--dry-run", "-n", "3", "--attach", "1", "--no-python", "/bin/false")
    assert "  on the terminal\n\nRank 2 on device 2\n" in called.out
    assert "rank_0/stdout.log\n" in called.out
    assert "rank_1/stdout.log" not in called.out


def test_a_dry_run_of_one_rank_has_no_empty_headline(launch):
    called = launch("--dry-run", "-n", "1", "--no-python", "/bin/false")
    assert "Ports" not in called.out
    assert "In every rank's environment" not in called.out
    assert "Rank 0 on device 0\n  ASCEND_DEVICE_ID=0\n" in called.out


def test_a_dry_run_shows_the_cpus_of_each_rank(launch):
    cpus = sorted(os.sched_getaffinity(0))
    words = ("--dry-run", "-n", "1", "--no-python", "/bin/false")
    called = launch("--bind", "even", *words)
    count = "1 CPU" if len(cpus) == 1 else f"{len(cpus)} CPUs"
    assert f"CPUs      each an equal part of {count}\n" in called.out
    assert f"Rank 0 on device 0, CPUs {format_ranges(cpus, ',')}\n" in called.out
    if len(cpus) > 1:
        called = launch("--bind", "even", "--dry-run", "-n", "2", "--no-python", "/bin/false")
        assert "Rank {0..1} on device {0..1}\n" in called.out
        assert f"  rank 0: CPUs {cpus[0]}" in called.out
    # On the stub nobody is bound who does not ask for it.
    called = launch(*words)
    assert "CPUs      not pinned, because the ranks are on the stub (--bind=even " in called.out
    assert "Rank 0 on device 0\n" in called.out


def test_no_other_binding_is_a_wrong_call(launch):
    called = launch("--bind", "numa", "--dry-run", "--no-python", "/bin/false")
    assert called.code == 2
    assert "--bind takes 'auto', 'even' or 'none', not 'numa'." in called.err


def test_a_dry_run_shows_where_ranks_would_meet_and_opens_no_port(call, tmp_path):
    words = ("launch", *_settings(tmp_path), "--dry-run", "-n", "8", "--no-python", "/bin/false")
    before = len(os.listdir("/proc/self/fd"))
    said, found = call(*words).out, json.loads(call(*words[:1], "--json", *words[1:]).out)
    assert len(os.listdir("/proc/self/fd")) == before
    assert "ports" not in said.lower()
    assert "  ASCEND_SESSION_RENDEZVOUS=" in said.partition("Rank 0 on device 0")[0]
    assert "ASCEND_SESSION_COORDINATOR" not in said
    names = {rank["changed"]["ASCEND_SESSION_RENDEZVOUS"] for rank in found["ranks"]}
    assert len(names) == 1


def test_a_failure_of_an_earlier_launch_of_that_job_id_is_not_the_cause(launch, tmp_path):
    script = tmp_path / "x.py"
    for text in ("raise ValueError('the first')", "import os; os.kill(os.getpid(), 9)"):
        script.write_text(text)
        called = launch("-n", "1", "--job-id", "same", str(script))
    assert called.code == 137
    assert "the job failed. Rank 0 was killed by SIGKILL" in called.err
    first = tmp_path / "logs" / "same" / "attempt_1" / "rank_0" / "stderr.log"
    assert "ValueError: the first" in first.read_text()


def test_a_dry_run_as_json_is_the_plan_without_the_whole_environment(launch, tmp_path):
    called = launch("--dry-run", "--json", "-n", "2", *_PYTHON, "pass", SECRET="hidden")
    found = json.loads(called.out)
    assert called.code == 0
    assert (found["size"], found["ranks"][1]["changed"]["RANK_ID"]) == (2, "1")
    assert "hidden" not in called.out
    assert _nothing_started(tmp_path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "error: Missing argument 'SCRIPT'."),
        (["--nope", "x"], "error: No such option"),
        (["-n", "two", "x"], "error: Invalid value for '-n' / '--processes'"),
        (
            ["-m", "--no-python", "x"],
            "error: Invalid value for --no-python: cannot be combined with -m",
        ),
        (["--env", "A", "x"], "error: Invalid value for --env: 'A' has no =;"),
        (["-n", "0", "x.py"], "--processes takes a number of processes, 1 to 10000, not 0.\n"),
        (["--grace", "nan", "x.py"], "--grace takes a number of seconds, 0 or more, not nan.\n"),
        (["-n", "1", "x.py"], "There is no script "),
        (["-n", "1", "-m", "x.py"], "hint: Give a path as SCRIPT."),
        (["-n", "1", "-m", "a/x.py"], "-m takes a module's name, such as package.module, not 'a"),
        (["-n", "2", "--devices", "0-2", "x.py"], "--processes=2, but --devices=0-"),
        (["--no-python", "/nope/x"], "--no-python /nope/x: /nope/x does not exist or is not "),
        (["-n", "1", "--show", "3", "--no-python", "true"], "--show=3: there is no rank 3"),
        (["--backend", "gpu", "--no-python", "true"], "--backend=gpu is not a backend."),
        (
            ["-n", "1", "--events", "/nope/x", "--no-python", "true"],
            "--events=/nope/x cannot be written",
        ),
        (
            ["--rank-table", "/tables/rank_table.json", "--no-rank-table", "x.py"],
            "--rank-table=/tables/rank_table.json and --no-rank-table are both given.\n",
        ),
        (
            ["--python", "python", "--no-python", "true"],
            "--python=python is given, but a program is started without Python.\n"
            "  hint: Leave --python or --no-python out.\n",
        ),
        (
            ["--stall-timeout", "0", "x.py"],
            "--stall-timeout takes a number of seconds above 0, not 0.0.\n"
            "  hint: Leave --stall-timeout out for no limit.\n",
        ),
        (
            ["--env", "RANK_ID=1", "x.py"],
            "  hint: A rank's number and device follow from --processes and",
        ),
        (["--job-id", "", "x.py"], "--job-id takes a text that is not empty, not ''.\n"),
        (
            ["--chief-port", "7", "--max-restarts", "-1", "x.py"],
            "--max-restarts takes a number of restarts, 0 or more, not -1.\n",
        ),
    ],
)
def test_a_wrong_call_is_two_in_the_words_of_the_command(launch, tmp_path, words, said):
    called = launch(*words)
    assert (called.code, called.out) == (2, "")
    assert said in called.err
    assert "Traceback" not in called.err
    assert _nothing_started(tmp_path)


def test_help_says_what_the_options_take(call):
    called = call("launch", "--help")
    assert called.code == 0
    assert called.out.startswith("Usage: ascend-session launch [OPTIONS] SCRIPT [ARGS]...\n")
    assert "  -n, --processes N " in called.out


def test_the_way_to_the_first_rank_loads_nothing_heavy(program, tmp_path):
    # With --json, what ranks say is on stderr, too: what stands before it was loaded before it.
    words = [*_settings(tmp_path), "-n", "1", "--json", "--no-python", "echo", "begun"]
    called = program("launch", *words, python=["-X", "importtime"])
    assert called.code == 0
    before = called.err.partition("[0] begun\n")[0]
    loaded = {line.rpartition("|")[2].strip() for line in before.splitlines()}
    assert {"ascend_session.launcher.plan.plan", "ascend_session.launcher.supervisor"} <= loaded
    heavy = {"tensorflow", "numpy", "yaml", "psutil", "tenacity", "rich.console"}
    heavy |= {"ascend_session.hardware.device_report", "ascend_session.config.ascend_config"}
    heavy |= {"attr", "ctypes", "secrets", "ascend_session.user_code"}
    needed_after_a_failure = {"failure", "peers", "reason", "scanner", "table"}
    heavy |= {f"ascend_session.failures.{name}" for name in needed_after_a_failure}
    heavy |= {f"ascend_session.launcher.verdict.{name}" for name in ("cause", "descriptions")}
    assert loaded & heavy == set()
