"""Ranks of a script that fail before they join a job, or that nobody waits for."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, List, Optional, Tuple

import pytest

from ascend_session import LaunchConfig, LaunchResult, launch
from ascend_session.errors import AscendError
from ascend_session.launcher.events import Event
from ascend_session.launcher.job import events
from ascend_session.launcher.verdict.script_text import read_announced_size

_ROOT = Path(__file__).resolve().parents[2]


def _launch(
    folder: Path,
    script: str,
    processes: int = 1,
    independent: bool = False,
    stall_timeout: Optional[float] = None,
    **more: Any,
) -> LaunchResult:
    (folder / "train.sh").write_text(script)
    env = {"PYTHON": sys.executable, "PYTHONWARNINGS": "ignore"}
    path = {"PYTHONPATH": str(_ROOT)}
    config = LaunchConfig(
        program="bash",
        args=["train.sh"],
        processes=processes,
        backend="stub",
        cwd=str(folder),
        show="none",
        env={**env, **path},
        independent=independent,
        stall_timeout=stall_timeout,
    )
    return launch(config, **more)


_WAITING = "import os\nfrom tests.waiting import wait_until\n"
_TWO = """
export RANK_SIZE=2
for RANK_ID in 0 1; do
    export RANK_ID; $PYTHON train.py > train_$RANK_ID.log 2>&1 &
done
"""
_MEMBER = """
import os, time
from ascend_session.cluster import member
member.join(int(os.environ["RANK_ID"]))
"""
# Goes on when the launch has said that it waits for the ranks.
_UNTIL_AWAITED = f"{_WAITING}wait_until(lambda: os.path.exists('awaited'))\n"
_HEAD = (
    "1 of the 2 ranks that were started below rank 0 ended with an exception or a signal, which "
    "its exit code 0 hides: rank 1 "
)


@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("raise ValueError('no data')", "raised ValueError: no data."),
        ("import a_tensorflow", "raised ModuleNotFoundError: No module named 'a_tensorflow'."),
        ("sys.exit(3)", "exited with code 3."),
        ("sys.exit('no data')", "exited with code 1. It wrote last: no data."),
        ("\n try: sys.exit(3)\n finally: print()", "exited with code 3."),
        ("exit(3)", "exited with code 3."),
        ("raise SystemExit(3)", "exited with code 3."),
        ("raise SystemExit('no data')", "exited with code 1. It wrote last: no data."),
        ("\n try: sys.exit(3)\n except SystemExit as error: raise", "exited with code 3."),
        ("\n try: sys.exit(3)\n except SystemExit: raise SystemExit(4)", "exited with code 4."),
        ("os._exit(3)", "exited with code 3."),
        ("os.closerange(3, 2000); sys.exit(3)", "exited with code 3."),
        ("\n with open('train.py'): sys.exit(3)", "exited with code 3."),
        ("os.kill(os.getpid(), 9)", "exited without an exception, as after a signal."),
    ],
)
def test_a_rank_that_fails_before_it_joins_fails_the_job(
    tmp_path: Path, code: str, end: str
) -> None:
    (tmp_path / "train.py").write_text(f"import os, sys\nif os.environ['RANK_ID'] == '1': {code}")
    result = _launch(tmp_path, _TWO + "wait")
    assert result.code == 1
    assert result.cause is not None
    assert result.cause.said == f"{_HEAD}{end} Its output is in {tmp_path / 'train_1.log'}."


def test_a_rank_that_fails_after_the_vendors_import_fails_the_job(tmp_path: Path) -> None:
    code = "from npu_bridge.npu_init import *; raise ValueError('no data')"
    result = _launch(tmp_path, f'RANK_ID=1 RANK_SIZE=2 $PYTHON -c "{code}" 2> train_1.log; true')
    assert result.code == 1
    assert result.cause is not None
    assert "rank 1 raised ValueError: no data." in result.cause.said
    assert f"Its output is in {tmp_path / 'train_1.log'}." in result.cause.said


def test_a_rank_with_a_name_for_a_number_fails_the_job(tmp_path: Path) -> None:
    code = "from ascend_session import ascend_system\nwith ascend_system(): pass"
    (tmp_path / "train.py").write_text(code)
    result = _launch(tmp_path, "RANK_ID=npu8p RANK_SIZE=8 $PYTHON train.py; true")
    assert result.code == 1
    assert result.cause is not None
    assert "rank npu8p raised " in result.cause.said
    assert "RANK_ID='npu8p'" in result.cause.said


_KILL_RANK_1 = "import os\nif os.environ['RANK_ID'] == '1': os.kill(os.getpid(), {})"


@pytest.mark.parametrize("number", [9, 11, 15])
def test_a_rank_that_is_killed_fails_the_job_although_a_later_program_of_it_succeeds(
    tmp_path: Path, number: int
) -> None:
    (tmp_path / "train.py").write_text(_KILL_RANK_1.format(number))
    (tmp_path / "eval.py").write_text("print('evaluated')")
    evaluate = _TWO.replace("train", "eval")
    result = _launch(tmp_path, f"{_TWO}wait\n{evaluate}wait\n{evaluate}wait")
    assert result.code == 1
    assert result.cause is not None
    assert "rank 1 exited without an exception, as after a signal." in result.cause.said
    assert f"Its output is in {tmp_path / 'train_1.log'}." in result.cause.said


@pytest.mark.parametrize(
    "script",
    [
        "until $PYTHON train.py; do touch again; done",
        "until $PYTHON -u train.py --resume=$i; do touch again; i=1; done",
        "touch fork; until $PYTHON train.py; do touch again; done",
        "$PYTHON wait.py & $PYTHON trained.py; kill $!; wait; $PYTHON trained.py",
    ],
    ids=["tries again", "resumes", "leaves a forked child", "ends its helper"],
)
def test_a_rank_that_is_killed_is_no_failure_if(tmp_path: Path, script: str) -> None:
    (tmp_path / "train.py").write_text("""
import os, signal
if not os.path.exists("again"):
    if os.path.exists("fork") and not os.fork(): signal.pause()
    os.kill(os.getpid(), 9)
""")
    wait = "import signal\nopen('waits', 'w').close()\nsignal.pause()"
    (tmp_path / "wait.py").write_text(wait)
    code = f"{_WAITING}wait_until(lambda: os.path.exists('waits'))"
    (tmp_path / "trained.py").write_text(code if "wait.py" in script else "")
    result = _launch(tmp_path, f"export RANK_ID=1 RANK_SIZE=2\n{script}")
    assert result.ok, result.cause


@pytest.mark.parametrize("code", ["raise SystemExit(3)", "sys.exit(3)", "sys.exit('no data')"])
def test_a_rank_that_exits_with_a_code_after_its_job_fails_the_job(
    tmp_path: Path, code: str
) -> None:
    (tmp_path / "train.py").write_text(f"import sys\n{_MEMBER}member.leave()\n{code}")
    result = _launch(tmp_path, _TWO + "wait")
    assert result.code == 1
    assert result.cause is not None
    end = "code 1. It wrote last: no data." if "data" in code else "exited with code 3."
    assert end in result.cause.said


def test_one_of_several_ranks_with_one_name_that_is_killed_fails_the_job(tmp_path: Path) -> None:
    code = """
import sys
open(f"started_{sys.argv[1]}", "w").close()
wait_until(lambda: all(os.path.exists(f"started_{rank}") for rank in range(4)))
if sys.argv[1] == "2": os.kill(os.getpid(), 9)
"""
    (tmp_path / "train.py").write_text(_WAITING + code)
    start = "for i in 0 1 2 3; do $PYTHON train.py $i > train_$i.log 2>&1 & done; wait"
    result = _launch(tmp_path, f"export RANK_ID=npu4p RANK_SIZE=4; {start}")
    assert result.code == 1
    assert result.cause is not None
    assert "1 of the 4 ranks that were started below rank 0" in result.cause.said
    assert "rank npu4p exited without an exception, as after a signal." in result.cause.said
    assert f"Its output is in {tmp_path / 'train_2.log'}." in result.cause.said


@pytest.mark.parametrize(
    ("code", "end"),
    [
        (
            "os.kill(os.getpid(), 11)",
            "as after a signal. It crashed (Segmentation fault) at train.py:2 (<module>).",
        ),
        ("raise MemoryError('none left')", "rank 1 raised MemoryError: none left."),
    ],
)
@pytest.mark.parametrize(
    "loop", ["for RANK_ID in 0 1", "for ((RANK_ID=0; RANK_ID<2; RANK_ID++))"], ids=["in", "to"]
)
def test_what_runs_below_the_loop_is_not_the_cause(
    tmp_path: Path, loop: str, code: str, end: str
) -> None:
    (tmp_path / "train.py").write_text(f"import os\nif os.environ['RANK_ID'] == '1': {code}")
    (tmp_path / "eval.py").write_text("raise FileNotFoundError('no model was saved')")
    script = _TWO.replace("for RANK_ID in 0 1", loop)
    result = _launch(tmp_path, f"{script}wait\n$PYTHON eval.py 2> eval.log\ntrue")
    assert result.code == 1
    assert result.cause is not None
    assert end in result.cause.said
    assert f"Its output is in {tmp_path / 'train_1.log'}." in result.cause.said


@pytest.mark.parametrize(
    ("ranks", "size", "absent"),
    [("0 1 2 3", 4, 2), ("0 1 2 3", 4, 0), ("0 1 2 3", 4, 3), ("0 1", 2, 1), ("0 1", 2, 0)],
)
def test_a_rank_whose_interpreter_is_not_there_fails_the_job(
    tmp_path: Path, ranks: str, size: int, absent: int
) -> None:
    (tmp_path / "train.py").write_text("print('trained')")
    script = f"""
export RANK_SIZE={size}
for i in {ranks}; do
    export RANK_ID=$i
    python=$PYTHON; [ $i = {absent} ] && python=no_such_python
    $python train.py > train_$i.log 2>&1 &
done
wait
"""
    result = _launch(tmp_path, script)
    assert result.code == 1
    assert result.cause is not None
    assert (
        f"is a script for {size} ranks that exited with code 0, but rank {absent} was not started"
    ) in result.cause.said


@pytest.mark.parametrize(
    "script",
    [
        "export RANK_ID=3 RANK_SIZE=8; $PYTHON prepare.py",
        "for i in 8 9 10 11; do RANK_ID=$i RANK_SIZE=16 $PYTHON prepare.py & done; wait",
        "for i in 0 1 2; do RANK_ID=$i RANK_SIZE=3 $PYTHON prepare.py; done",
        "export RANK_SIZE=2; for i in 0 1; do RANK_ID=$i $PYTHON prepare.py & done; wait\n"
        "RANK_ID=0 RANK_SIZE=8 $PYTHON prepare.py",
        "for RANK_ID in 0 1; do export RANK_ID RANK_SIZE=2; $PYTHON prepare.py; done; sleep 0.1",
        "export RANK_SIZE=1; for i in 0 2; do RANK_ID=$i $PYTHON prepare.py; done",
    ],
    ids=["one", "of one node", "in turn", "two jobs", "and a tool", "alone"],
)
def test_an_honest_script_misses_no_rank(tmp_path: Path, script: str) -> None:
    (tmp_path / "prepare.py").write_text("print('prepared')")
    result = _launch(tmp_path, script)
    assert result.ok, result.cause
    assert result.notes == ()


def test_a_rank_that_hangs_before_it_joins_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\n\ntime.sleep(1000)")
    result = _launch(tmp_path, _TWO + "wait", stall_timeout=3)
    assert result.code == 124
    assert result.cause is not None
    assert "ranks 0-1 are at train.py:3 (<module>)" in result.cause.said


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_a_rank_without_a_record_is_named(tmp_path: Path, option: str) -> None:
    (tmp_path / "train.py").write_text("import time; time.sleep(1)")
    python = f"python=$PYTHON; [ $RANK_ID = 1 ] && python='{sys.executable} {option}'; $python"
    result = _launch(tmp_path, _TWO.replace("$PYTHON", python) + "wait")
    assert result.ok, result.cause
    assert len(result.notes) == 1
    assert "Rank 1 has left no record of how it ended" in result.notes[0]
    assert "known from exit codes alone" in result.notes[0]


def test_a_rank_that_cannot_reach_the_launcher_runs_as_ever_and_is_named(tmp_path: Path) -> None:
    code = "import os, sys, time\ntime.sleep(1)\nsys.exit(3 * int(os.environ['RANK_ID']))"
    (tmp_path / "train.py").write_text(code)
    lost = "export RANK_ID; [ $RANK_ID = 1 ] && export ASCEND_SESSION_CHANNEL=nobody-listens-here;"
    script = _TWO.replace("export RANK_ID;", lost) + "wait $!; echo $? > code; wait"
    result = _launch(tmp_path, script)
    assert (tmp_path / "code").read_text() == "3\n"
    assert (tmp_path / "train_1.log").read_text() == ""
    assert result.ok, result.cause
    assert len(result.notes) == 1
    assert "Rank 1 has left no record of how it ended" in result.notes[0]


def test_a_rank_whose_program_python_cannot_open_fails_the_job(tmp_path: Path) -> None:
    result = _launch(tmp_path, _TWO + "wait")
    assert result.cause is not None
    assert "exited with code 2. It wrote last: " in result.cause.said
    assert "can't open file" in result.cause.said


@pytest.mark.parametrize(
    "code",
    [
        "print('prepared')",
        "try:\n with open('train.py'): sys.exit(3)\n"
        "except SystemExit: print('went on')\nprint('and on')",
        "import subprocess\n"
        "subprocess.call([sys.executable, '-c', 'import os; os.kill(os.getpid(), 9)'])",
        "if not os.fork(): os._exit(3)\nos.wait()",
        "if not os.fork(): raise SystemExit(3)\nos.wait()",
        "raise SystemExit",
        "os.closerange(3, 2000)",
    ],
    ids=["ends", "catches", "a child is killed", "forks", "forks a Python", "exits", "closes all"],
)
def test_a_rank_that_comes_to_its_end_without_a_job_is_none_that_failed(
    tmp_path: Path, code: str
) -> None:
    def main(text: str) -> str:
        lines = "\n".join(f"    {line}" for line in text.split("\n"))
        return f"import os, sys\ndef main():\n{lines}\nmain()\n"

    (tmp_path / "train.py").write_text(main(code))
    result = _launch(tmp_path, _TWO + "wait")
    assert result.ok, result.cause
    assert result.notes == ()
    names = {name.partition("_")[0] for name in os.listdir(result.attempts[0].ranks[0].folder)}
    assert names == {"plog", "stacks", "stderr.log", "stdout.log", "work"}


def _watch(folder: Path, script: str) -> Tuple[LaunchResult, List[Event]]:
    seen: List[Event] = []

    def note(event: Event) -> None:
        seen.append(event)
        if isinstance(event, events.Awaiting):
            (folder / "awaited").touch()

    return _launch(folder, script, on_event=note), seen


_TRAINED = f"{_MEMBER}{_UNTIL_AWAITED}print('trained')\nmember.leave()"


def test_ranks_that_the_script_does_not_wait_for_are_waited_for(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_TRAINED)
    result, seen = _watch(tmp_path, _TWO)
    assert result.ok, result.cause
    assert [(tmp_path / f"train_{rank}.log").read_text() for rank in (0, 1)] == ["trained\n"] * 2
    (awaited,) = [event for event in seen if isinstance(event, events.Awaiting)]
    assert set(awaited.ranks) <= {"0", "1"}


def test_a_script_that_a_comment_names_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "train_8p.sh").write_text("export RANK_SIZE=8 RANK_ID=0")
    result = _launch(tmp_path, "# Then run train_8p.sh.\nmkdir data")
    assert result.ok, result.cause


def test_a_superscript_is_a_name_of_a_rank_and_no_number(tmp_path: Path) -> None:
    script = "export RANK_ID=² RANK_SIZE=2; $PYTHON -c 'import time; time.sleep(1)'"
    result = _launch(tmp_path, script)
    assert result.ok, result.cause


@pytest.mark.parametrize("around", ["timeout 600 $PYTHON train.py", "./run_rank.sh"])
def test_ranks_in_a_program_around_them_are_waited_for(tmp_path: Path, around: str) -> None:
    (tmp_path / "train.py").write_text(_TRAINED)
    (tmp_path / "run_rank.sh").write_text("#!/bin/bash\n$PYTHON train.py\nexit 0\n")
    (tmp_path / "run_rank.sh").chmod(0o755)
    result, _ = _watch(tmp_path, _TWO.replace("$PYTHON train.py", around))
    assert result.ok, result.cause
    assert [(tmp_path / f"train_{rank}.log").read_text() for rank in (0, 1)] == ["trained\n"] * 2


def test_a_rank_that_is_waited_for_fails_the_job(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"{_MEMBER}{_UNTIL_AWAITED}raise ValueError('late')")
    result, _ = _watch(tmp_path, _TWO)
    assert result.code == 1
    assert result.cause is not None
    assert "raised ValueError: late" in result.cause.said


def test_what_has_a_ranks_variables_beside_the_rank_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_MEMBER + "member.leave()")
    board = "$PYTHON -c 'import signal; signal.pause()' &\ntail -f train.sh &\n"
    result, seen = _watch(tmp_path, f"{_TWO}wait\n{board}")
    assert result.ok, result.cause
    assert not [event for event in seen if isinstance(event, events.Awaiting)]
    assert len(result.attempts[0].swept) == 2


def test_a_script_that_replaces_pythonpath_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time; time.sleep(0.3); import npu_bridge")
    result = _launch(tmp_path, "export PYTHONPATH=/nowhere" + _TWO + "wait")
    assert result.code == 1
    assert result.cause is not None
    assert "No module named 'npu_bridge'" in result.cause.said
    assert "script has replaced that" in result.cause.advice


def test_a_script_for_ranks_of_which_none_starts_fails(tmp_path: Path) -> None:
    script = "export RANK_SIZE=8\nfor i in 0 1; do RANK_ID=$i no_such_python train.py & done; wait"
    result = _launch(tmp_path, script)
    assert result.code == 1
    assert result.cause is not None
    assert "is a script for 8 ranks that exited with code 0" in result.cause.said
    assert any("no_such_python" in line for line in result.cause.tail)


@pytest.mark.parametrize(
    "script",
    [
        "",
        "hostname",
        "$PYTHON -c 'print(1)'",
        "mkdir data; touch data/train; ls data",
        "$PYTHON -c 'raise ValueError'; true",
        "# export RANK_SIZE=8 RANK_ID=0\nexport RANK_SIZE=1 RANK_ID=0; $PYTHON -c 'print(1)'",
        "sleep 0.02 & exit 0",
    ],
)
def test_an_innocent_script_succeeds_without_a_note(tmp_path: Path, script: str) -> None:
    result, seen = _watch(tmp_path, script)
    assert result.ok, result.cause
    assert result.notes == ()
    assert not [event for event in seen if isinstance(event, (events.Awaiting, events.LeftBehind))]


_JOIN = """
import os, sys
from ascend_session.backends.stub_job import open_job
from ascend_session.cluster.job import Job
job = Job.detect(os.environ)
if job.rank == 1:
    raise ValueError("no data")
open_job(job, {}, os.environ).close()
"""


def test_the_others_hear_at_once_of_a_rank_that_never_joins(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_JOIN)
    began = time.monotonic()
    result = _launch(tmp_path, _TWO + "wait")
    assert time.monotonic() - began < 100  # of the 140 s that ranks wait for each other
    assert result.cause is not None
    assert "rank 1 raised ValueError: no data. The other was rank 0." in result.cause.said
    text = (tmp_path / "train_0.log").read_text()
    assert "rank 1 exited before it joined the job: ValueError: no data." in text


@pytest.mark.parametrize("absent", [0, 1])
@pytest.mark.parametrize(
    "script",
    [
        "RANK_ID=$i RANK_SIZE=2 $start $PYTHON train.py > train_$i.log 2>&1 &",
        "export RANK_ID=$i RANK_SIZE=2; mkdir d$i; $start $PYTHON train.py 2>&1 |"
        " tee train_$i.log &",
        "RANK_ID=$i RANK_SIZE=2 bash one_rank.sh $start &",
    ],
    ids=["alone", "with a reader", "below a shell"],
)
def test_the_others_hear_soon_of_a_rank_that_is_no_python(
    tmp_path: Path, script: str, absent: int
) -> None:
    (tmp_path / "train.py").write_text(_JOIN.replace("job.rank == 1", "False"))
    (tmp_path / "one_rank.sh").write_text("$1 $PYTHON train.py > train_$RANK_ID.log 2>&1")
    start = f"for i in 0 1; do start=env; [ $i = {absent} ] && start=false; {script} done"
    began = time.monotonic()
    result = _launch(tmp_path, f"{start.replace('; done', ' done')}\nwait")
    assert time.monotonic() - began < 100  # of the 140 s that ranks wait for each other
    assert result.code == 1
    assert result.cause is not None
    text = f"no process is rank {absent}, and nothing is left that could start it"
    assert text in result.cause.said
    assert text in (tmp_path / f"train_{1 - absent}.log").read_text()


# Rank 0 lets go of the pipe that its script waits for when the launcher would long have said that
# nothing can start the other one, or when it has failed.
_LATE = """
import os, threading
from ascend_session.backends.stub_job import open_job
from ascend_session.cluster.job import Job
from ascend_session.launcher.job.script_ranks import _NEXT_PROGRAM_S
over = threading.Event()
def let_go():
    over.wait(1.4 * _NEXT_PROGRAM_S)
    open("gone", "w").close()
    os.close(os.open("go", os.O_WRONLY))
job = Job.detect(os.environ)
if job.rank == 0:
    threading.Thread(target=let_go).start()
try:
    open_job(job, {}, os.environ).close()
finally:
    over.set()
"""
_READ = "open('go').read()"
_SECOND = {
    "waits": "cat go; RANK_ID=1 $PYTHON train.py",
    "computes": "until [ -e gone ]; do for i in {1..20000}; do :; done; read -t 0.2 <> never; done;"
    " cat go; RANK_ID=1 $PYTHON train.py",
    "another Python as this rank": f'RANK_ID=1 $PYTHON -c "{_READ}"; RANK_ID=1 $PYTHON train.py',
    "or as another": f'$PYTHON -c "{_READ}"; RANK_ID=1 $PYTHON train.py',
    "from Python": "$PYTHON spawn.py",
}


def test_a_rank_that_comes_late_is_waited_for(tmp_path: Path) -> None:
    def run(how: str) -> LaunchResult:
        folder = tmp_path / how.replace(" ", "_")
        folder.mkdir()
        (folder / "train.py").write_text(_LATE)
        (folder / "spawn.py").write_text(
            f"import os, subprocess, sys\n{_READ}\nos.environ['RANK_ID'] = '1'\n"
            "subprocess.check_call([sys.executable, 'train.py'])"
        )
        os.mkfifo(str(folder / "go"))
        os.mkfifo(str(folder / "never"))  # to wait at
        second = _SECOND[how]
        return _launch(folder, f"export RANK_SIZE=2\nRANK_ID=0 $PYTHON train.py & {second}\nwait")

    with ThreadPoolExecutor(len(_SECOND)) as pool:  # each waits for longer than the limit
        results = dict(zip(_SECOND, pool.map(run, _SECOND)))
    assert {how: result.cause for how, result in results.items() if not result.ok} == {}


_OF_SEVERAL = """
rank=$RANK_ID
{}
wait
"""


def _launch_each(folder: Path, script: str, processes: int, **more: Any) -> LaunchResult:
    return _launch(folder, _OF_SEVERAL.format(script), processes=processes, **more)


@pytest.mark.parametrize("processes", [2, 3])
def test_a_script_that_starts_the_ranks_is_not_started_for_each_of_them(
    tmp_path: Path, processes: int
) -> None:
    (tmp_path / "train.py").write_text("import signal; signal.pause()")
    began = time.monotonic()
    result = _launch_each(tmp_path, _TWO, processes)
    assert time.monotonic() - began < 200
    assert result.code == 1
    assert result.cause is not None
    assert result.cause.said.startswith(
        f"Each of the {processes} ranks of this launch runs a script that starts the ranks itself: "
        "ranks 0-1 were running below rank "
    )
    assert "Give -n 1" in result.cause.advice


@pytest.mark.parametrize(
    "script",
    [
        "export RANK_ID=$rank RANK_SIZE=2; $PYTHON train.py | cat",
        "export RANK_ID=$((1 - rank)) RANK_SIZE=2; $PYTHON train.py | cat",
        "RANK_ID=0 $PYTHON train.py; $PYTHON train.py & $PYTHON train.py",
        "for RANK_ID in 0 1; do export RANK_ID; $PYTHON train.py; done",
        "export RANK_SIZE=1; for i in 0 1; do RANK_ID=$i $PYTHON train.py & done",
        "RANK_SIZE=1 $PYTHON train.py & RANK_ID=$((1 - rank)) RANK_SIZE=2 $PYTHON train.py",
    ],
    ids=[
        "the same number",
        "another number",
        "a helper",
        "one after the other",
        "jobs of one",
        "a job of one beside it",
    ],
)
def test_a_script_for_one_rank_may_change_its_number(tmp_path: Path, script: str) -> None:
    (tmp_path / "train.py").write_text("import time; time.sleep(1)")
    result = _launch_each(tmp_path, script, 2, independent=True)
    assert result.ok, result.cause
    assert result.notes == ()


def test_a_script_for_one_of_three_ranks_may_have_a_helper_beside_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time; time.sleep(1)")
    result = _launch_each(tmp_path, "RANK_ID=0 $PYTHON train.py & $PYTHON train.py", 3)
    assert result.ok, result.cause


def test_a_program_needs_a_number_of_ranks(tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text("hostname")
    asked = {"backend": "stub", "cwd": str(tmp_path)}
    with pytest.raises(AscendError, match="Nothing says how many ranks"):
        launch(LaunchConfig(program="bash", args=["train.sh"], **asked))
    with pytest.raises(AscendError, match="is a shell script") as caught:
        launch(LaunchConfig(script="train.sh", processes=1, **asked))
    assert "--no-python bash train.sh" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("export RANK_SIZE=8\nexport RANK_ID=$i", 8),
        ("RANK_SIZE='4' RANK_ID=$i python3 train.py", 4),
        ("num=2\nexport RANK_SIZE=${num}\nexport RANK_ID=0", 2),
        ("export RANK_SIZE=1 RANK_ID=0", None),
        ("export RANK_SIZE=8", None),
        ("# export RANK_SIZE=8 RANK_ID=0", None),
        ("export RANK_SIZE=$1 RANK_ID=0", None),
    ],
)
def test_the_text_of_a_script_says_for_how_many_ranks_it_is(
    tmp_path: Path, text: str, size: int
) -> None:
    (tmp_path / "train.sh").write_text(text)
    (tmp_path / "outer.sh").write_text("bash ./train.sh --epochs 3")
    assert read_announced_size(["/bin/bash", "train.sh"], str(tmp_path)) == size
    assert read_announced_size(["/bin/bash", "outer.sh"], str(tmp_path)) == size
    assert read_announced_size(["/bin/bash", "-c", text], str(tmp_path)) == size


def test_the_next_sitecustomize_is_loaded_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.path.append('/of/the/site')")
    startup = _ROOT / "ascend_session" / "startup"
    path = os.pathsep.join([str(startup), str(tmp_path)])
    code = (
        "import sys, sitecustomize; print(sys.path[-1], sitecustomize.__file__, "
        "'_ascend_session_witness' in sys.modules)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert printed.split() == [
        "/of/the/site",
        str(tmp_path / "sitecustomize.py"),
        "False",
    ]
