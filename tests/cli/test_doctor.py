"""``ascend-session doctor``: with devices, without, as JSON."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.checks.healthy import Healthy, table
from tests.cli.conftest import ROOT


@pytest.fixture
def healthy(tmp_path, monkeypatch):
    """A healthy host, at which the commands of this process look."""
    made = Healthy(tmp_path)
    for name, value in made.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    yield made
    made.host.close()


def _doctor(call, healthy, *more):
    return call("doctor", "--python", str(healthy.python), *more)


def test_the_report_says_what_is_here_what_was_looked_at_and_a_verdict(call, healthy):
    called = _doctor(call, healthy, "--rank-table", str(healthy.table))
    assert called.code == 0
    assert "driver          24.1.rc2\n" in called.out
    assert re.search(r"^ok +health +npu-smi reports OK for device\(s\) 0-3\.$", called.out, re.M)
    assert called.out.endswith(" checks: 0 errors, 0 warnings, 0 not checked.\n")
    assert called.err == ""


def test_an_error_comes_last_with_what_to_do_and_the_code_is_one(call, healthy):
    healthy.host.process(4321, "python3 train.py", devices=[1])
    called = _doctor(call, healthy)
    assert called.code == 1
    *_, said, hint, _, verdict = called.out.splitlines()
    assert said.split()[:2] == ["error", "holders"]
    assert "Stop it (kill 4321), wait until it is free (--wait-for-devices=10m)" in hint
    assert verdict.endswith(": 1 error, 0 warnings, 0 not checked.")


def test_json_has_every_finding(call, healthy):
    called = _doctor(call, healthy, "--json")
    found = json.loads(called.out)
    assert found["ok"] is True
    assert found["backend"] == "npu"
    assert found["facts"]["toolkit"] == "8.0.RC2"
    assert {one["check"] for one in found["findings"]} >= {"health", "ports", "tls", "operators"}
    assert set(found["findings"][0]) == {"check", "severity", "said", "hint"}


def test_without_a_device_it_says_so(call, healthy, tmp_path, monkeypatch):
    (tmp_path / "nothing").mkdir()
    monkeypatch.setenv("ASCEND_SESSION_HOST_ROOT", str(tmp_path / "nothing"))
    called = _doctor(call, healthy)
    assert called.code == 0
    assert "runs on the stub: no Ascend processor is present" in called.out
    assert "This machine has no Ascend processor: there is no /dev/davinci<N>" in called.out


def test_a_driver_without_a_device_is_odd(call, healthy):
    for node in (healthy.host.root / "dev").iterdir():
        node.unlink()
    (healthy.host.root / "usr/local/bin/npu-smi").unlink()
    called = _doctor(call, healthy)
    assert "It has a driver (/usr/local/Ascend/driver/version.info)" in called.out
    assert "pass the nodes in with --device" in called.out


@pytest.mark.parametrize("given", ["x", "10x", "-1", "nan", "1m2m", ""])
def test_a_time_that_is_none_is_a_wrong_call(call, healthy, given):
    called = call("doctor", f"--timeout={given}")
    assert called.code == 2
    assert "is not a time; write 90s, 10m or 1h30m." in called.err


@pytest.mark.parametrize("option", ["--timeout", "--imports"])
def test_no_time_at_all_is_a_wrong_call(call, healthy, option):
    called = call("doctor", option, "0s")
    assert called.code == 2
    assert "is too short" in called.err


def test_a_name_of_a_backend_that_is_none_is_an_error(call, healthy, monkeypatch):
    monkeypatch.setenv("ASCEND_SESSION_BACKEND", "gpu")
    called = _doctor(call, healthy)
    assert called.code == 1
    assert "ASCEND_SESSION_BACKEND='gpu' is not a backend." in called.out


def test_a_folder_that_has_been_removed_is_said(healthy, tmp_path):
    (tmp_path / "gone").mkdir()
    words = f"cd {tmp_path}/gone; rmdir ../gone; exec"
    for command, code in ((f"doctor --python {healthy.python}", 1), ("launch -n 1 a.py", 2)):
        (tmp_path / "gone").mkdir(exist_ok=True)
        called = subprocess.run(
            ["sh", "-c", f"{words} {sys.executable} -m ascend_session.cli {command}"],
            env={**os.environ, "PYTHONPATH": str(ROOT), **healthy.environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert called.returncode == code
        assert "has been removed." in called.stdout


def test_on_a_terminal_it_is_a_table_that_fits(on_terminal, healthy):
    healthy.host.process(4321, "python3 train.py", devices=[1])
    words = ["doctor", "--python", str(healthy.python)]
    called = on_terminal(*words, columns=70, **healthy.environ)
    assert (called.code, called.err) == (1, "")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", called.out)
    assert max(map(len, plain.splitlines())) <= 70
    assert "\x1b[1;31merror" in called.out
    assert "checks: 1 error" in plain


def _several_servers(healthy, own):
    """A table of two servers, of which the second one has the addresses of this one's cards."""
    first = table(range(4))["server_list"][0]
    other = json.loads(json.dumps(first).replace("192.168.100.", "192.168.99."))
    for number, device in enumerate(first["device"]):
        device["rank_id"] = str(4 + number)
        if not own:
            device["device_ip"] = f"192.168.98.{number}"
    servers = [{**other, "server_id": "node_1"}, first]
    made = {**table(range(4)), "server_count": "2", "server_list": servers}
    healthy.table.write_text(json.dumps(made))


def test_this_server_is_found_in_a_table_of_several_by_its_cards(call, healthy):
    _several_servers(healthy, own=True)
    called = _doctor(call, healthy, "--rank-table", str(healthy.table))
    assert called.code == 0, called.out
    assert "has 8 rank(s) on 2 server(s)" in called.out
    assert "The devices that the table gives this host are here." in called.out
    (healthy.host.root / "dev" / "davinci2").unlink()
    called = _doctor(call, healthy, "--rank-table", str(healthy.table))
    assert called.code == 1
    assert "is 2, but this host has 0, 1, 3." in called.out


def test_a_table_in_which_this_server_is_not_found_is_not_guessed_at(call, healthy):
    _several_servers(healthy, own=False)
    called = _doctor(call, healthy, "--rank-table", str(healthy.table))
    assert "not checked  rank table" in called.out
    assert "This host was not found in the table" in called.out
