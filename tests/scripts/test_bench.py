"""What the benchmark shows, and when it fails."""

import os
import platform
import re
import subprocess
import sys
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


def test_collectives_are_measured_next_to_those_of_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    collectives = import_module("collectives")
    monkeypatch.setattr(collectives, "others", lambda: ["tensorflow"])
    monkeypatch.setenv("PYTHONPATH", str(TOP))
    rows = list(collectives.reducing(tmp_path, 1, 2, [collectives.Size("4 KB", 4096, 2)]))
    assert [row.what for row in rows] == ["allreduce of 4 KB over 2 ranks"] * 2
    assert rows[0].without.startswith("collective_ops of TensorFlow")
    assert rows[1].without == "the same bytes copied in memory"
    assert rows[0].ours == rows[1].ours > rows[1].theirs > 0
    assert rows[0].theirs > 0
    monkeypatch.setattr(collectives, "STEPS", 2)
    (alone,) = collectives.stepping(tmp_path, 1, [1])
    assert (alone.what, alone.ratio) == ("step of the digits training, ranks: 1", 1.0)


def test_a_row_without_a_target_is_shown_as_one_and_misses_nothing(
    bench_module: Any, capsys: Any
) -> None:
    row = import_module("timing").Row("this", 3.0, "that", 1.0)
    assert bench_module.show([row, row._replace(theirs=0.0)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.split(" +", lines[0])[-2:] == ["3.000", "none"]
    assert re.split(" +", lines[2])[-2:] == ["nan", "none"]
