"""Preflight of ``ascend-session launch`` on a fake host: refused, skipped, waited for."""

import json
import shutil
import signal

import psutil
import pytest

from tests.checks.healthy import Healthy
from tests.cluster.rank_table.tables import lab, template_2
from tests.waiting import wait_until


@pytest.fixture
def healthy(tmp_path):
    made = Healthy(tmp_path)
    yield made
    made.host.close()


def _words(healthy, *more):
    words = ["--rank-table", str(healthy.table), "--cwd", str(healthy.folder), *more]
    return ["launch", *words, "--no-python", "/bin/true"]


def test_a_launch_that_is_refused_leaves_nothing_behind(program, healthy):
    healthy.host.process(4321, "python3 train.py", devices=[1])
    (healthy.host.root / "dev" / "hisi_hdc").unlink()
    before = sorted(healthy.folder.iterdir())
    called = program(*_words(healthy), **healthy.environ)
    assert called.code == 1
    assert called.out == ""
    first, *points, hint = called.err.splitlines()
    assert first == "ascend-session: error: 2 things stand in the way of this job:"
    assert points[0].startswith("  1. There is no /dev/hisi_hdc, without which")
    assert points[1].startswith("  2. Device 1 (/dev/davinci1) is held by process 4321")
    assert "(--wait-for-devices=10m)" in points[1]
    assert "launch with --no-preflight" in hint
    assert sorted(healthy.folder.iterdir()) == before


def test_no_preflight_starts_the_job_all_the_same(program, healthy):
    healthy.host.process(4321, "python3 train.py", devices=[1])
    called = program(*_words(healthy, "--no-preflight"), **healthy.environ)
    assert called.code == 0, called.err
    assert "all 4 ranks succeeded" in called.err


def test_a_warning_is_a_note(program, healthy):
    healthy.host.npu_smi({})
    (healthy.host.root / "usr/local/bin/npu-smi").unlink()
    called = program(*_words(healthy), **healthy.environ)
    assert called.code == 0, called.err
    assert "ascend-session: Not checked. The health of device(s) 0-3: npu-smi, which" in called.err


@pytest.mark.parametrize("made", [lab, template_2])
@pytest.mark.parametrize("backend", ["npu", "stub"])
def test_a_job_with_a_table_of_a_former_layout_starts_with_one_note(
    program, healthy, made, backend
):
    healthy.table.write_text(json.dumps(made()))
    words = _words(healthy, "-n", "4", "--backend", backend)
    called = program(*words, **healthy.environ)
    assert called.code == 0, called.err
    (note,) = (line for line in called.err.splitlines() if "table.json" in line)
    assert note.startswith("ascend-session: Not checked. ")
    assert note.endswith("launch a job of several servers with --nnodes and --node-rank.")


@pytest.mark.parametrize(("time", "seconds"), [("10m", 600), ("1h2m3s", 3723)])
def test_the_wait_ends_when_the_devices_are_free(start, healthy, time, seconds):
    healthy.host.process(4321, "python3 train.py", devices=[1])
    words = _words(healthy, "--wait-for-devices", time)
    with start(*words, **healthy.environ) as process:
        line = process.stderr.readline().decode()
        shutil.rmtree(str(healthy.host.root / "proc" / "4321"))
        rest = process.stderr.read().decode()
        assert process.wait() == 0, rest
    assert line.startswith(
        f"ascend-session: Waiting for at most {seconds} s: device 1 (/dev/davinci1) is held by proc"
    )
    assert "all 4 ranks succeeded" in rest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_wait_and_nothing_is_left(start, healthy, number):
    healthy.host.process(4321, "python3 train.py", devices=[1])
    before = sorted(healthy.folder.iterdir())
    words = _words(healthy, "--wait-for-devices", "10m")
    with start(*words, **healthy.environ) as process:
        assert b"Waiting" in process.stderr.readline()
        process.send_signal(number)
        rest = process.stderr.read()
        assert process.wait() == 128 + number
    assert b"Traceback" not in rest
    assert sorted(healthy.folder.iterdir()) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_guardian_is_left_of_a_launch_that_is_ended_while_it_waits(start, healthy, number):
    healthy.host.process(4321, "python3 train.py", devices=[1])
    with start(*_words(healthy, "--wait-for-devices", "10m"), **healthy.environ) as process:
        assert b"Waiting" in process.stderr.readline()
        (guardian,) = psutil.Process(process.pid).children()
        process.send_signal(number)
        process.wait()
    assert psutil.wait_procs([guardian], timeout=60)[1] == []


def test_a_guardian_that_is_killed_while_the_launch_waits_is_named(start, healthy):
    healthy.host.process(4321, "python3 train.py", devices=[1])
    with start(*_words(healthy, "--wait-for-devices", "10m"), **healthy.environ) as process:
        assert b"Waiting" in process.stderr.readline()
        (guardian,) = psutil.Process(process.pid).children()
        guardian.kill()
        wait_until(lambda: guardian.status() == psutil.STATUS_ZOMBIE)
        shutil.rmtree(str(healthy.host.root / "proc" / "4321"))
        rest = process.stderr.read().decode()
        assert process.wait() == 128 + signal.SIGKILL, rest
    assert "The launcher's guardian, the parent of the ranks, was killed" in rest


def test_a_dry_run_says_all_that_is_wrong_with_the_call(program, healthy):
    called = program(*_words(healthy, "--dry-run", "-n", "9", "--show", "x"), **healthy.environ)
    assert called.code == 2
    assert "this launch needs 9" in called.err


def test_a_refusal_is_an_object_on_stdout_with_json(program, healthy):
    healthy.host.process(4321, "python3 train.py", devices=[1])
    called = program(*_words(healthy, "--json"), **healthy.environ)
    found = json.loads(called.out)
    assert (called.code, found["code"]) == (1, 1)
    (one,) = found["findings"]
    assert (one["check"], one["severity"]) == ("holders", "error")
    assert one["said"] == found["refused"]
    assert "Stop it (kill 4321)" in one["hint"]
    wrong = program(*_words(healthy, "--json", "-n", "9", "--show", "x"), **healthy.environ)
    assert json.loads(wrong.out)["code"] == wrong.code == 2


def test_one_thing_in_the_way_has_no_number(program, healthy):
    healthy.host.process(4321, "python3 train.py", devices=[1])
    healthy.host.npu_smi({})
    (healthy.host.root / "usr/local/bin/npu-smi").unlink()
    called = program(*_words(healthy), **healthy.environ)
    first, point, besides, *_ = called.err.splitlines()
    assert first == "ascend-session: error: One thing stands in the way of this job:"
    assert point.startswith("  Device 1 (/dev/davinci1) is held by process 4321")
    assert besides == "Besides:"
