"""How jobs end: `explain` says it from the folder alone as their launcher did."""

import dataclasses
import json
import os
import shutil
import signal
from pathlib import Path
from types import MappingProxyType
from typing import Any, Dict, Mapping, NamedTuple, Optional

import psutil
import pytest

from ascend_session import LaunchConfig, LaunchResult, launch
from tests.launcher.supervised import PATIENCE, Gate
from tests.waiting import wait_until

_BEGIN = """
import json, os, signal, subprocess, sys, time
from ascend_session import channel
from ascend_session.rank_folder import write_record
rank = int(os.environ["RANK_ID"])
folder = os.environ["ASCEND_SESSION_RANK_FOLDER"]
def die(number):
    os.kill(os.getpid(), number)
    signal.pause()
def after_rank_0():
    if rank == 0:
        open("written", "w").close()
    while not os.path.exists("written"):
        time.sleep(0.01)
def once(path):
    if os.path.exists(path):
        return False
    open(path, "w").close()
    return True
def say(*lines, file=sys.stderr):
    for line in lines:
        file.buffer.write(line if isinstance(line, bytes) else line.encode())
        file.buffer.write(b"\\n")
    file.flush()
def hold(models, error=None):
    values = dict(notes=[], late_shares=[], slow_rank=None)
    channel.send("models", is_one_model=models, error=error, **values)
"""
_UNLISTED = (
    "EX0099: [PID: 7] 2026-03-02-11:57:54.167.645 The flux capacitor is not aligned.",
    "        Possible Cause: It was moved.",
    "        Solution: Align it.",
)
_UNSUPPORTED = "EZ3002: [PID: 2] Optype [A] of Ops kernel [B] is unsupported."
_WAITS = "EI0006: [PID: 1] Getting socket times out. dst_rank[1]-remoteUserrank[1]"


class Ending(NamedTuple):
    """How a job of two ranks ends.

    Attributes:
        code: What both ranks run.
        said: A part of the launcher's sentence; None for a success.
        rank: The rank that the sentence is about.
        adds: What the logs add.
        options: More options of the launch.
    """

    code: str
    said: Optional[str] = None
    rank: Optional[int] = 1
    adds: str = ""
    options: Mapping[str, Any] = MappingProxyType({})


_CATCH_AND_GO_ON = f"say({_UNSUPPORTED!r}, 'so without it')"
_HEADING = """
class ConfigError(Exception): pass
if rank:
    raise ConfigError("1 error for Train:\\n  rate is no number")
"""
_CHAINED = """
if rank:
    try:
        {}['loss']
    except KeyError as error:
        raise RuntimeError('no loss') from error
"""
_FOLLOWS = """
if rank:
    with open("pid.part", "w") as file:
        file.write(str(os.getpid()))
    os.rename("pid.part", "pid")
    die(9)
while not os.path.exists("pid") or os.path.exists(f"/proc/{open('pid').read()}"):
    time.sleep(0.01)
error = RuntimeError('The job cannot continue: rank 1 has exited (its connection broke).')
say(str(error))
write_record(error, folder, failed_rank=1, ends_program=True)
raise error
"""
_LEAVES = """
command = [sys.executable, '-c', 'import signal; signal.pause()']
if rank:
    subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
"""
_KILLED_ONCE = "if rank and once('first'): die(9)"
_MODELS = "the 2 ranks hold 2 different models: `w` differs first"
_AGAIN = {"max_restarts": 1}

ENDINGS = {
    "success": Ending(""),
    "success with one model": Ending("rank or hold(True)"),
    "success that leaves a process": Ending(_LEAVES),
    "success after a failure that was caught": Ending(_CATCH_AND_GO_ON, adds="Also  EZ3002: "),
    "success after a restart": Ending(_KILLED_ONCE, options=_AGAIN),
    "failure after a restart": Ending(
        f"{_KILLED_ONCE}\nif rank: sys.exit(3)", "exited with code 3", options=_AGAIN
    ),
    "killed twice": Ending("if rank: die(9)", "by SIGKILL", options=_AGAIN),
    "SIGKILL": Ending("if rank: die(9)", "Rank 1 was killed by SIGKILL"),
    "SIGSEGV": Ending("if rank: die(11)", "SIGSEGV"),
    "SIGBUS": Ending("if rank: die(7)", "SIGBUS"),
    "SIGTERM from outside": Ending("if rank: die(15)", "SIGTERM"),
    "abort": Ending("if rank: os.abort()", "SIGABRT"),
    "os._exit": Ending("if rank: os._exit(7)", "Rank 1 exited with code 7"),
    "a number": Ending("if rank: sys.exit(3)", "exited with code 3"),
    "a reason": Ending("if rank: sys.exit('no data')", "no data"),
    "an exception": Ending("if rank: raise ValueError('no data')", "ValueError: no data"),
    "an exception of rank 0": Ending("rank or {}['x']", "KeyError: 'x'", rank=0),
    "a number of all": Ending("sys.exit(3)", "exited with code 3", rank=None),
    "an exception of all": Ending("raise ValueError('no data')", "ValueError: no data", rank=None),
    "an exception behind a heading": Ending(_HEADING, "1 error for Train: rate is no number"),
    "a chained exception": Ending(_CHAINED, "RuntimeError: no loss"),
    "no memory": Ending("if rank: raise MemoryError()", "MemoryError"),
    "NaN": Ending(
        "if rank: raise RuntimeError('NaN loss during training.')", "NaN loss", adds="Where   "
    ),
    "a syntax error": Ending("if rank: exec('x = = 1')", "SyntaxError"),
    "a rank that follows another's end": Ending(_FOLLOWS, "Rank 1 was killed by SIGKILL"),
    "a known code": Ending(
        f"if rank: say({_UNSUPPORTED!r}); sys.exit(1)", "It reported EZ3002", adds="Where   "
    ),
    "a code of one that waited": Ending(
        f"say({_UNSUPPORTED!r} if rank else {_WAITS!r}); after_rank_0(); sys.exit(rank)",
        "It reported EZ3002",
        adds="Also    EI0006: ",
    ),
    "a code that nobody knows": Ending(
        f"if rank: say(*{_UNLISTED}); sys.exit(1)", "The flux capacitor is not aligned"
    ),
    "a code that nobody knows on another rank": Ending(
        f"rank or say(*{_UNLISTED})\nafter_rank_0()\nif rank: raise KeyError('x')",
        "KeyError: 'x'",
        adds="Also  EX0099: The flux capacitor is not aligned",
    ),
    "different models": Ending(
        f"rank or hold(False, {_MODELS!r})", "different models", None, "Source  "
    ),
    "different models in silence": Ending("rank or hold(None)"),
    "CRLF": Ending("if rank: say('no data\\r', '\\r'); sys.exit(1)", "no data"),
    "another encoding": Ending("if rank: say(b'caf\\xe9 \\x00\\x1b[31m'); sys.exit(1)", "caf"),
    "a huge line": Ending("if rank: say('x' * 3000000); sys.exit(1)", "exited with code 1"),
    "no output": Ending("os.close(1), os.close(2)\nif rank: os._exit(9)", "exited with code 9"),
    "a stall": Ending(
        "while rank: signal.pause()", "stall", rank=None, options={"stall_timeout": 1.5}
    ),
}


def _write(folder: Path, code: str) -> None:
    (folder / "train.py").write_text(_BEGIN + code)


def _launch(folder: Path, **options: Any) -> LaunchResult:
    config = LaunchConfig(
        script="train.py",
        cwd=str(folder),
        processes=2,
        backend="stub",
        log_dir=str(folder / "logs"),
        **options,
    )
    with open(os.devnull, "w") as null:
        return launch(config, output=null.fileno())


def _check(call: Any, job: Path, ending: Ending, values: Dict[str, Any], text: str) -> None:
    """Compare what `explain` prints with what the launcher did, also after the job was moved."""
    shown = call("explain", str(job))
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith(text)
    added = shown.out[len(text) :].strip("\n")
    assert added.startswith("What the logs add:") if ending.adds else not added
    assert ending.adds in added
    read = json.loads(call("explain", str(job), "--json").out)
    assert read["launches"] == [values]
    cause = values["attempts"][-1]["cause"]
    if ending.said is None:
        assert read["cause"] is cause is None
    else:
        assert ending.said in cause["said"]
        assert ending.said in text
        assert ending.rank in (None, cause["rank"])
        found = {name: read["cause"][name] for name in ("rank", "said", "class")}
        kind = cause["failure_class"]
        assert found == {"rank": cause["rank"], "said": cause["said"], "class": kind}
    moved = job.parent.parent / "moved"
    shutil.move(str(job), str(moved))
    again = call("explain", str(moved))
    assert again.out.replace(str(moved), str(job)) == shown.out


@pytest.mark.parametrize("name", ENDINGS)
def test_explain_says_what_the_launcher_said(call: Any, tmp_path: Path, name: str) -> None:
    ending = ENDINGS[name]
    _write(tmp_path, ending.code)
    result = _launch(tmp_path, **ending.options)
    assert result.ok is (ending.said is None)
    values = json.loads(json.dumps(result.as_dict()))
    _check(call, (tmp_path / "logs" / "latest").resolve(), ending, values, str(result))


_WAIT = """
def tell():
    with open("gate", "w") as gate:
        gate.write(str(rank) + chr(10))
def end(number, frame):
    raise SystemExit(0)
signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGINT, end)
tell()
signal.pause()
"""
_FAILS_TO_SAVE = _WAIT.replace("raise SystemExit(0)", "raise OSError('the disk is full')")


def _find_guardian(launcher: int) -> psutil.Process:
    (guardian,) = psutil.Process(launcher).children()
    return guardian


@pytest.mark.parametrize(
    ("code", "number", "to_guardian", "said"),
    [
        (_WAIT, signal.SIGINT, False, "SIGINT"),
        (_WAIT, signal.SIGTERM, False, "SIGTERM"),
        (_WAIT, signal.SIGHUP, False, "SIGHUP"),
        (_FAILS_TO_SAVE, signal.SIGTERM, False, "SIGTERM"),
        (_WAIT, signal.SIGKILL, True, "guardian"),
        (_WAIT, signal.SIGKILL, False, "The launcher was killed."),
    ],
    ids=["Ctrl-C", "SIGTERM", "SIGHUP", "a rank fails then", "guardian killed", "launcher killed"],
)
def test_explain_says_who_ended_the_job(
    call: Any, start: Any, tmp_path: Path, code: str, number: int, to_guardian: bool, said: str
) -> None:
    _write(tmp_path, f"os.chdir({str(tmp_path)!r})\n{code}")
    gate, logs = Gate(tmp_path), tmp_path / "logs"
    options = ["--log-dir", str(logs), "--backend", "stub", "-n", "2"]
    launcher = start("launch", *options, str(tmp_path / "train.py"))
    gate.lines(2)
    process = _find_guardian(launcher.pid) if to_guardian else psutil.Process(launcher.pid)
    process.send_signal(number)
    _, err = launcher.communicate(timeout=PATIENCE)
    gate.close()
    job = (logs / "latest").resolve()
    wait_until(lambda: (job / "result.json").exists(), PATIENCE)
    text = call("explain", str(job)).out.strip("\n")
    if said != "The launcher was killed.":
        assert err.decode().rstrip("\n").endswith(text)
    _check(call, job, Ending("", said, None), json.loads((job / "result.json").read_text()), text)


def test_what_ranks_of_the_stub_have_told_each_other_is_not_told_again(
    call: Any, tmp_path: Path
) -> None:
    code = """
import tensorflow.compat.v1 as tf
from ascend_session import ascend_system, hccl
tf.disable_eager_execution()
with ascend_system() as system, system.session() as sess:
    total = hccl.allreduce([1.0], "sum")
    sess.run(total)
    if rank: os._exit(7)
    sess.run(total)
"""
    _write(tmp_path, code)
    result = _launch(tmp_path)
    values = json.loads(json.dumps(result.as_dict()))
    ending = Ending(code, "Rank 1 exited with code 7")
    _check(call, (tmp_path / "logs" / "latest").resolve(), ending, values, str(result))


@pytest.mark.parametrize(
    ("content", "code", "found"),
    [
        (b"step 1\r\n" + _UNSUPPORTED.encode() + b"\r\nend\r\n", "EZ3002", 2),
        (b"caf\xe9\n" + _UNSUPPORTED.encode() + b" \xff\n", "EZ3002", 2),
        (b"x" * 3_000_000 + _UNSUPPORTED.encode() + b"y" * 3_000_000, None, None),
        (b"x" * 3_000_000 + b"\n" + _UNSUPPORTED.encode() + b"y" * 3_000_000, "EZ3002", 2),
        ("\r\n".join(_UNLISTED).encode(), "EX0099", 1),
    ],
)
def test_logs_of_other_programs_have_an_answer(
    call: Any, tmp_path: Path, content: bytes, code: Optional[str], found: Optional[int]
) -> None:
    (tmp_path / "slurm-7.out").write_bytes(content)
    (tmp_path / "result.json").write_text('{"accuracy": 0.9}')
    shown = call("explain", str(tmp_path), "--json")
    assert shown.code == (1 if code is None else 0)
    cause = json.loads(shown.out)["cause"]
    assert (cause and (cause["code"], cause["line"])) == (code and (code, found))


@pytest.mark.parametrize("own", ["a", "b"])
def test_of_several_nodes_the_one_whose_own_rank_failed_explains_the_job(
    call: Any, tmp_path: Path, own: str
) -> None:
    code = "import sys; sys.exit('no data')"
    asked = LaunchConfig(
        program="python", args=["-c", code], processes=1, backend="stub", show="none"
    )
    folder = tmp_path / "logs"
    launch(dataclasses.replace(asked, log_dir=str(folder), job_id="job"))
    for node in "abc":
        made = folder / f"x.node_{'abc'.index(node)}"
        shutil.copytree(str(folder / "job"), str(made))
        values = json.loads((made / "result.json").read_text())
        cause = values["attempts"][0]["cause"]
        if node == "c":
            values["code"], values["attempts"][0]["cause"] = 0, None
        elif node != own:
            cause.update(elsewhere=7, said="Rank 7 is the reason, on another node.")
        (made / "result.json").write_text(json.dumps(values))
    shutil.rmtree(str(folder / "job"))
    cause = json.loads(call("explain", "--json", str(folder)).out)["cause"]
    assert cause["said"].endswith("no data.")
    shown = call("explain", str(folder)).out
    assert shown.index("no data.") < shown.index("Rank 7 is the reason")
