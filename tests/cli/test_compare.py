"""Two recorded trainings are compared: the first step that differs, and the setups."""

import json
from pathlib import Path
from typing import Any, Dict, List, Sequence

import pytest
from click.testing import CliRunner

from ascend_session.cli.compare import compare

HEADER = {"record": 1, "rank": 0, "ranks": 1, "job": "", "options": {}, "versions": {}}


def write(path: Path, losses: Sequence[Any], **header: Any) -> str:
    head = {**HEADER, **header}
    lines: List[Dict[str, Any]] = [head]
    lines += [
        {"step": number, "rank": head["rank"], "values": {"loss": loss}}
        for number, loss in enumerate(losses, 1)
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return str(path)


def call(*words: str) -> Any:
    return CliRunner().invoke(compare, list(words))


def test_equal_trainings_have_no_difference(tmp_path: Path) -> None:
    a = write(tmp_path / "a", [3.0, 2.0, "nan", "inf", "-inf", 0.0])
    b = write(tmp_path / "b", [3.00001, 2.0, "nan", "inf", "-inf", -0.0])
    ended = call(a, b)
    assert (ended.exit_code, ended.output) == (
        0,
        "All 6 recorded steps in common agree, in 6 values.\n",
    )
    assert call("--rtol", "0", a, b).exit_code == 1


@pytest.mark.parametrize(
    ("other", "shown"),
    [(2.0001, "2.0001"), ("nan", "nan"), ("inf", "inf"), ("-inf", "-inf"), (-2.0, "-2.0")],
)
def test_the_first_step_that_differs_is_named(tmp_path: Path, other: Any, shown: str) -> None:
    a = write(tmp_path / "a", [3.0, 2.0, 1.0])
    b = write(tmp_path / "b", [3.0, other, 9.0])
    ended = call(a, b)
    assert ended.exit_code == 1
    assert ended.output == f"Step 2, rank 0: loss is 2.0 in A and {shown} in B.\n"
    [first] = json.loads(call("--json", a, b).output)["first"]
    assert (first["step"], first["name"], str(first["b"])) == (2, "loss", shown)


def test_what_differs_from_the_first_step_on_began_otherwise(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", [3.0, 2.0]), write(tmp_path / "b", [4.0, 2.0])
    assert "compare what they begin with" in call(a, b).output
    assert "compare what they begin with" not in call(a, write(tmp_path / "b", [3.0, 1.0])).output


def test_infinities_of_either_sign_differ(tmp_path: Path) -> None:
    assert call(write(tmp_path / "a", ["inf"]), write(tmp_path / "b", ["-inf"])).exit_code == 1


def test_a_longer_training_differs_though_its_beginning_agrees(tmp_path: Path) -> None:
    ended = call(write(tmp_path / "a", [3.0, 2.0]), write(tmp_path / "b", [3.0, 2.0, 1.0]))
    assert ended.exit_code == 1
    assert "All 2 recorded steps in common agree" in ended.output
    assert "A has 2 steps and B has 3." in ended.output


def test_options_and_versions_that_differ_are_named(tmp_path: Path) -> None:
    a = write(tmp_path / "a", [1.0], options={"precision_mode": "force_fp32", "deterministic": 1})
    b = write(tmp_path / "b", [1.0], options={"deterministic": 1}, versions={"tensorflow": "2"})
    ended = call(a, b)
    assert ended.exit_code == 0
    assert "The option precision_mode is force_fp32 in A and not set in B." in ended.output
    assert "The version of tensorflow is not set in A and 2 in B." in ended.output
    assert "deterministic" not in ended.output


def test_ranks_are_compared_each_with_its_own(tmp_path: Path) -> None:
    for name, last in (("a", 5.0), ("b", 6.0)):
        write(tmp_path / f"{name}.jsonl", [3.0, 2.0], ranks=2, job=name)
        write(tmp_path / f"{name}.rank1.jsonl", [4.0, last], ranks=2, job=name, rank=1)
    ended = call(str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"))
    assert ended.output == "Step 2, rank 1: loss is 5.0 in A and 6.0 in B.\n"


def test_ranks_of_which_one_ended_early_have_as_many_steps_as_that_one(tmp_path: Path) -> None:
    for name, losses in (("a", [4.0, 5.0]), ("b", [4.0])):
        write(tmp_path / f"{name}.jsonl", [3.0, 2.0], ranks=2, job=name)
        write(tmp_path / f"{name}.rank1.jsonl", losses, ranks=2, job=name, rank=1)
    ended = call(str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"))
    assert ended.exit_code == 1
    assert ended.output == (
        "All 1 recorded steps in common agree, in 2 values.\nA has 2 steps and B has 1.\n"
    )


def test_one_rank_and_two_are_compared_by_the_mean(tmp_path: Path) -> None:
    one = write(tmp_path / "one.jsonl", [3.0, 2.0])
    two = write(tmp_path / "two.jsonl", [2.0, 1.0], ranks=2, job="j")
    write(tmp_path / "two.rank1.jsonl", [4.0, 3.0], ranks=2, job="j", rank=1)
    ended = call(one, two)
    assert ended.exit_code == 0
    assert "A has 1 rank and B has 2 ranks: their means are compared." in ended.output
    write(tmp_path / "two.rank1.jsonl", [4.0, 3.0], ranks=2, job="an earlier one", rank=1)
    ended = call(one, two)
    assert ended.exit_code == 1
    assert "it has no record of ranks 1" in ended.output


def test_a_torn_line_and_an_attempt_that_was_restarted_are_noted(tmp_path: Path) -> None:
    a, b = (write(tmp_path / name, [3.0, 2.0]) for name in "ab")
    with open(b, "a") as file:
        file.write('{"step":3,"ra')
    ended = call(a, b)
    assert ended.exit_code == 0
    assert "1 line could not be read and was left out" in ended.output
    text = (tmp_path / "a").read_text()
    write(tmp_path / "c", [7.0, 8.0, 9.0], job="first")
    second = write(tmp_path / "second", [7.0, 8.0], job="second")
    with open(tmp_path / "c", "a") as file:
        file.write(Path(second).read_text() + text)
    ended = call(a, str(tmp_path / "c"))
    assert ended.exit_code == 0
    assert ended.output.count("only the last attempt is compared") == 1


@pytest.mark.parametrize(
    "text", ["", "x\n", "[]\n", '{"step": 1}\n', "\0\n", f"{json.dumps(HEADER)}\n"]
)
def test_a_file_that_is_no_record_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "b").write_text(text)
    ended = call(write(tmp_path / "a", [1.0]), str(tmp_path / "b"))
    assert ended.exit_code == 2


@pytest.mark.parametrize(
    "line",
    [
        '{"record": 1, "rank": 0, "ranks": "many", "options": 3, "versions": []}',
        '{"record": [], "rank": -1, "ranks": 1e9, "job": {}}',
        '{"step": "1", "rank": 0, "values": []}',
        '{"step": 1e999, "values": {"loss": 1}}',
        '{"step": 2, "values": {"loss": 1' + "0" * 400 + "}}",
        '{"step": 2, "values": {"loss": {}}}',
        "[" * 100_000,
        "null",
    ],
)
def test_foreign_lines_are_counted_and_the_others_compared(tmp_path: Path, line: str) -> None:
    a = write(tmp_path / "a", [1.0])
    for text in (f"{line}\n{Path(a).read_text()}", f"{Path(a).read_text()}{line}\n"):
        (tmp_path / "b").write_text(text)
        ended = call(a, str(tmp_path / "b"))
        assert ended.exit_code in (0, 2), ended  # 1 for an exception


def test_steps_are_aligned_though_one_of_them_recorded_each_tenth_only(tmp_path: Path) -> None:
    a = write(tmp_path / "a", [float(number) for number in range(1, 41)])
    lines = [
        {"step": n, "rank": 0, "values": {"loss": n + (n > 25) / 10}} for n in (10, 20, 30, 40)
    ]
    b = tmp_path / "b"
    b.write_text("".join(f"{json.dumps(line)}\n" for line in [HEADER, *lines]))
    ended = call(a, str(b))
    assert ended.exit_code == 1
    assert ended.output.startswith("Step 30, rank 0: loss is 30.0 in A and 30.1 in B.\n")
    assert "Of 40 steps, A has recorded 40 and B 4: " in ended.output
    assert "A has 40 steps" not in ended.output


def test_a_second_process_of_a_rank_goes_on_where_the_first_has_ended(tmp_path: Path) -> None:
    a = write(tmp_path / "a", [3.0, 2.0, 1.0])
    first, second = write(tmp_path / "b", [3.0, 2.0]), write(tmp_path / "c", [1.0])
    with open(first, "a") as file:
        file.write(Path(second).read_text())
    assert call(a, first).exit_code == 0


def test_two_ranks_of_one_job_can_be_compared(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [3.0, 2.0], ranks=2, job="j")
    (tmp_path / "a.jsonl").rename(tmp_path / "zero.jsonl")
    other = write(tmp_path / "a.rank1.jsonl", [3.0, 5.0], ranks=2, job="j", rank=1)
    ended = call(str(tmp_path / "zero.jsonl"), other)
    assert ended.output == "Step 2, rank 0: loss is 2.0 in A and 5.0 in B.\n"


def test_nothing_in_common_is_no_agreement(tmp_path: Path) -> None:
    a = write(tmp_path / "a", [1.0])
    (tmp_path / "b").write_text(
        f'{json.dumps(HEADER)}\n{{"step": 1, "rank": 0, "values": {{"other": 1.0}}}}\n'
    )
    assert call(a, str(tmp_path / "b")).exit_code == 2
    assert call(a, str(tmp_path / "missing")).exit_code == 2
    assert call(a, str(tmp_path)).exit_code == 2


def test_a_tolerance_is_a_small_number(tmp_path: Path) -> None:
    a = write(tmp_path / "a", [1.0])
    for wrong in ("x", "-1", "1", "nan"):
        assert call("--rtol", wrong, a, a).exit_code == 2
