"""What the benchmark shows, and when it fails."""

import json
import os
import platform
import re
import socket
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any, List, NamedTuple

import pytest

TOP = Path(__file__).resolve().parents[2]
BENCH = TOP / "scripts" / "_bench"

ROW = re.compile(
    r"(?P<what>.+?) +(?P<ours>[\d.]+) ms +(?P<theirs>[\d.]+) ms +(?P<ratio>[\d.]+) +"
    r"<= (?P<limit>[\d.]+)(?P<unit> ms)?  (?P<verdict>ok|missed)"
)


_ALL_BUT_COLLECTIVES = ("--only", "session", "--only", "launching", "--only", "output")

_ONE_IS_SLOW = """
import contextlib, os, sys, time
is_slow = False
with contextlib.suppress(FileExistsError):
    os.mkdir("slow")
    is_slow = True
time.sleep(is_slow)  # the start does not count
for _ in range(1 + int(sys.argv[2])):
    print("ready", flush=True)
    sys.stdin.readline()
    time.sleep(0.2 * is_slow)
"""


class Outcome(NamedTuple):
    code: int
    stdout: str
    stderr: str

    def rows(self) -> List[Any]:
        found = [ROW.fullmatch(line) for line in self.stdout.splitlines()]
        return [match for match in found if match]


def bench(*arguments: str) -> Outcome:
    ended = subprocess.run(
        [sys.executable, str(BENCH / "bench.py"), *arguments],
        env={**os.environ, "PYTHONPATH": str(TOP)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return Outcome(ended.returncode, ended.stdout, ended.stderr)


@pytest.fixture(scope="module")
def strict() -> Outcome:
    return bench("--repeat", "1", "--strict", *_ALL_BUT_COLLECTIVES)


@pytest.fixture
def bench_module(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return import_module("bench")


def test_the_first_line_names_what_was_measured_with(strict: Outcome) -> None:
    first = strict.stdout.splitlines()[0]
    assert first.startswith(f"Python {platform.python_version()}, TensorFlow ")


def test_every_target_has_a_row_with_both_times(strict: Outcome) -> None:
    kinds = [match["what"].split()[0] for match in strict.rows()]
    session = ["import", "a", "open,", "open,", "open,", "open,", "sess.run,"]
    # Other launchers, where they are installed, have more than one row of a kind.
    assert list(dict.fromkeys(kinds[len(session) :])) == [
        "start",
        "from",
        "256",
        "processor",
        "1.6",
    ]
    assert kinds[: len(session)] == session
    for match in strict.rows():
        # An idle launcher uses less than the kernel counts.
        assert float(match["ours"]) > 0 or match["what"].startswith("processor time")
        assert float(match["theirs"]) > 0


def test_the_targets_are_those_that_were_set(strict: Outcome) -> None:
    limits = [match["limit"] + (match["unit"] or "") for match in strict.rows()]
    assert limits[:7] == ["1.50", "1 ms", "1.05", "1.05", "1.05", "1.05", "1.05"]
    assert set(limits[7:]) - {"0.25"} == {"2.00", "50 ms", "2000 ms", "1000 ms", "1184 ms"}


def test_each_verdict_follows_from_its_numbers(strict: Outcome) -> None:
    for match in strict.rows():
        measured = float(match["ours" if match["unit"] else "ratio"])
        if abs(measured - float(match["limit"])) > 0.01:
            assert match["verdict"] == ("ok" if measured < float(match["limit"]) else "missed")


def test_a_run_is_the_very_method_of_tensorflow(strict: Outcome) -> None:
    assert "sess.run, the same method" in [match["what"] for match in strict.rows()]


def test_strict_fails_exactly_when_a_target_is_missed(strict: Outcome) -> None:
    missed = any(match["verdict"] == "missed" for match in strict.rows())
    assert strict.code == (1 if missed else 0)
    assert "Traceback" not in strict.stderr


def test_a_large_rank_table_is_compared_with_its_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    module = import_module("ranktables")
    assert module.SERVERS * module.DEVICES == 65_536
    monkeypatch.setattr(module, "SERVERS", 256)
    (row,) = module.tables(1)
    assert row.what == "2,048 ranks: check, write, read"
    assert (row.limit, row.limits_ratio) == (10.0, True)
    assert 0 < row.theirs < row.ours


def test_results_of_tuning_are_compared_with_their_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    module = import_module("tuned")
    monkeypatch.setattr(module, "OPERATORS", 50)
    read, report = module.tuned(1)
    assert (read.limits_ratio, report.limit, report.limits_ratio) == (True, 1000.0, False)
    assert 0 < read.theirs < report.ours
    assert (
        module.result(3)["report_20240315_101530123_1"][1]["OPAT"]["repo_summary"]["total_num"] == 3
    )


def test_nothing_can_be_measured_less_than_once() -> None:
    outcome = bench("--repeat", "0")
    assert outcome.code == 2
    assert outcome.stderr.splitlines()[-1].endswith("--repeat 0: measure once or more.")


def test_both_ways_to_the_proto_lead_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    comparisons = import_module("comparisons")
    assert comparisons.proto_by_hand() == comparisons.typical_config().to_config_proto()


def test_the_rows_that_miss_their_target_are_counted(bench_module: Any, capsys: Any) -> None:
    good = import_module("timing").Row("quick", 1.0, "that", 1.0, 2.0)
    assert bench_module.show([good, good._replace(what="slow", ours=3.0), good]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines[::2]] == ["ok", "missed", "ok"]
    assert lines[1::2] == ["    without: that"] * 3


@pytest.fixture
def collectives(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.setenv("PYTHONPATH", str(TOP))
    return import_module("collectives")


def test_allreduces_are_measured_next_to_the_bare_floor_and_to_others(
    collectives: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(collectives, "find_others", lambda: [])
    sizes = [collectives.Size("8 KB", 8192, 2, 5.0), collectives.Size("4 KB", 4096, 2)]
    rows = list(collectives.compare_allreduces(tmp_path, 1, 2, sizes))
    names = ["allreduce of 8 KB over 2 ranks", "allreduce of 4 KB over 2 ranks"]
    assert [row.what for row in rows] == [name for name in names for _ in "ab"]
    assert [row.limit for row in rows] == [5.0, None, None, None]
    without = ["bare shared memory, one hub socket, NumPy", "the same bytes copied in memory"]
    assert [row.without for row in rows] == 2 * without
    for floor, copied in zip(rows[::2], rows[1::2]):
        assert floor.ours == copied.ours > copied.theirs > 0
        assert floor.theirs > 0


def test_others_are_named_where_they_are_installed(
    collectives: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = ["torch", "mpi4py"]
    monkeypatch.setattr(collectives, "find_spec", lambda name: name in installed or None)
    monkeypatch.setattr(collectives.shutil, "which", lambda name: f"/bin/{name}")
    assert collectives.find_others() == ["gloo", "mpi4py"]
    monkeypatch.setattr(collectives.shutil, "which", lambda name: None)
    assert collectives.find_others() == ["gloo"]
    installed.clear()
    assert collectives.find_others() == []


def test_the_largest_and_the_smallest_tensor_have_a_limit(collectives: Any) -> None:
    limits = [(size.name, size.bytes, size.limit) for size in collectives.SIZES]
    assert limits == [
        ("100 MB", 100_000_000, 2.5),
        ("1 MB", 1_000_000, None),
        ("4 KB", 4096, 5.0),
    ]
    assert collectives.RANKS == 8


def test_a_training_on_ranks_is_compared_with_as_many_single_processes(
    collectives: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(collectives, "time_steps", lambda folder, ranks: [0.001 * ranks])
    monkeypatch.setattr(collectives, "time_single_steps", lambda processes: [0.0005 * processes])
    rows = list(collectives.compare_steps(tmp_path, [1, 2], 8))
    assert [row.what for row in rows] == [
        f"step of the digits training, ranks: {ranks}" for ranks in (1, 2, 8)
    ]
    assert [row.without for row in rows] == 2 * ["ranks: 1"] + ["8 single processes side by side"]
    assert [row.ratio for row in rows] == [1.0, 2.0, 2.0]


def test_ranks_and_single_processes_train_the_same(
    collectives: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(collectives, "STEPS", 2)
    (on_ranks,) = collectives.time_steps(tmp_path, 1)
    (alone,) = collectives.time_single_steps(1)
    assert on_ranks > 0 < alone


def test_single_processes_begin_together_and_the_slowest_counts(
    collectives: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "stepping.py").write_text(_ONE_IS_SLOW)
    monkeypatch.setattr(collectives, "_HERE", tmp_path)
    monkeypatch.setattr(collectives, "STEPS", 2)
    monkeypatch.chdir(tmp_path)
    (seconds,) = collectives.time_single_steps(3)
    assert 0.1 <= seconds < 0.5


def test_a_single_process_that_fails_ends_the_measurement(
    collectives: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collectives, "STEPS", "few")
    with pytest.raises(SystemExit, match="ended early"):
        collectives.time_single_steps(1)


@pytest.mark.parametrize("elements", [1, 2, 1000])
def test_the_floor_adds_up_what_all_ranks_have(
    monkeypatch: pytest.MonkeyPatch, elements: int
) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    floor, np = import_module("floor"), import_module("numpy")
    places = floor.share_memory(3, elements)
    pairs = [socket.socketpair() for _ in range(3)]
    ranks = [floor.Rank(rank, pair[0], [places]) for rank, pair in enumerate(pairs)]
    for this in ranks:
        this.tensors[0][:] = np.arange(elements) * 10**this.rank

    def reduce_twice(this: Any) -> None:
        for _ in "ab":
            this.all_reduce(0)
        this.hub.close()

    threads = [threading.Thread(target=reduce_twice, args=(this,)) for this in ranks]
    for thread in threads:
        thread.start()
    floor.serve([pair[1] for pair in pairs])
    for thread in threads:
        thread.join()
    for this in ranks:
        assert this.results[0].tolist() == [111 * number for number in range(elements)]


def test_the_floor_takes_longer_for_more() -> None:
    command = [sys.executable, str(BENCH / "floor.py"), "3", "4000004:3", "4096:20"]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    large, small = json.loads(output[len("seconds ") :])
    assert large > small > 0


def test_the_floor_fails_where_a_rank_does() -> None:
    command = [sys.executable, str(BENCH / "floor.py"), "3", "4096:0"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "ZeroDivisionError" in ended.stderr
    assert ended.stderr.endswith("a rank has failed\n")


def test_a_row_without_a_target_is_shown_as_one_and_misses_nothing(
    bench_module: Any, capsys: Any
) -> None:
    row = import_module("timing").Row("this", 3.0, "that", 1.0)
    assert bench_module.show([row, row._replace(theirs=0.0)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.split(" +", lines[0])[-2:] == ["3.000", "none"]
    assert re.split(" +", lines[2])[-2:] == ["nan", "none"]
