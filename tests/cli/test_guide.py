"""``ascend-session guide``: on a terminal with a pager, in pipes as plain Markdown."""

import json
import os
import re
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal

GUIDES = Path(__file__).resolve().parents[2] / "ascend_session" / "guides"
NAMES = [
    line.split("]")[0][3:]
    for line in (GUIDES / "README.md").read_text().splitlines()
    if line.startswith("- [")
]


@pytest.mark.parametrize("name", NAMES)
def test_a_pipe_gets_the_page_as_it_is(call, name):
    file = GUIDES / name / "README.md" if name == "facts" else GUIDES / f"{name}.md"
    assert call("guide", name) == (0, file.read_text(encoding="utf-8"), "")


@pytest.mark.parametrize(
    ("typed", "title"),
    [
        ("rank-tables", "Rank tables"),
        ("ranktable", "Rank tables"),
        ("run", "Run an existing script"),
        ("launch.md", "Launch a job"),
        ("ascend_session/guides/facts/launch.md", "What a job of several ranks needs"),
    ],
)
def test_a_page_is_known_by_its_command_and_by_its_file(call, typed, title):
    assert call("guide", typed).out.startswith(f"# {title}\n")


def test_every_section_can_be_shown_alone(call):
    text = call("guide", "facts").out
    sections = re.findall(r"^- \[.+\]\(#([\w-]+)\)", text, re.M)
    parts = [call("guide", f"facts#{section}").out for section in sections]
    assert text.endswith("\n".join(parts))


def test_a_terminal_gets_a_page_that_fits_it(on_terminal):
    shown = on_terminal("guide", "launch", columns=60, PAGER="cat").out
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown).replace("\r", "")
    assert "\x1b[1m" in shown
    assert max(map(len, plain.splitlines())) <= 60
    assert "```" not in plain
    assert "Resume after a restart (guide training#resume-after" in " ".join(plain.split())


@pytest.fixture
def pager(tmp_path):
    """A program that counts the lines that it is given."""
    program = tmp_path / "pager"
    program.write_text("#!/bin/sh\ngrep -c . | sed 's/^/lines: /'\n")
    program.chmod(0o700)
    return str(program)


def test_a_terminal_shows_a_page_with_the_pager(start, pager):
    terminal = Terminal(columns=80)
    ends = {"stdin": terminal.theirs, "stdout": terminal.theirs}
    process = start("guide", "stub", **ends, TERM="xterm", PAGER=pager)
    os.close(terminal.theirs)
    while terminal.read():
        pass
    process.communicate()
    terminal.close()
    assert re.fullmatch(r"lines: \d+\s*", terminal.shown)


def test_no_pager_is_started_for_a_pipe(program, pager):
    shown = program("guide", "stub", PAGER=pager).out
    assert shown == (GUIDES / "stub.md").read_text(encoding="utf-8")


def test_two_guides_at_once_are_refused_with_a_command_for_each(call):
    called = call("guide", "launch", "sessions")
    assert (called.code, called.out) == (1, "")
    assert "One guide is shown at a time, not 2: launch and sessions." in called.err
    assert "ascend-session guide launch; then ascend-session guide sessions" in called.err


def test_a_guide_is_known_by_the_words_of_its_name(call):
    assert call("guide", "rank", "tables").out.startswith("# Rank tables\n")
    assert "There is no guide 'rank tabels'." in call("guide", "rank", "tabels").err


@pytest.mark.parametrize(
    "word",
    [
        *("slurm", "multi-node", "notebook", "jupyter", "docker", "kubernetes", "hang", "errors"),
        *("torchrun", "horovod", "estimator", "keras", "debugger", "py-spy", "ssh", "rank table"),
    ],
)
def test_the_words_that_people_try_find_a_section(call, word):
    found = json.loads(call("guide", "--search", "--json", word).out)
    assert [name for name in (each["name"] for each in found) if call("guide", name).code] == []
    assert any(not each["name"].startswith(("facts", "changelog")) for each in found)


def found_by(call, *words):
    return [each["name"] for each in json.loads(call("guide", "--search", "--json", *words).out)]


def test_pages_for_contributors_are_searched_only_if_asked(call):
    contributors = ("architecture", "contributing", "changes")
    names = found_by(call, "launcher")
    assert [name for name in names if name.startswith(contributors)] == []
    everything = found_by(call, "--all", "launcher")
    assert set(names) < set(everything)
    assert [name for name in everything if name.startswith(contributors)]


def test_words_that_only_pages_for_contributors_have_are_found_if_asked(call):
    assert found_by(call, "--all", "ruff") != []
    code, _, err = call("guide", "--search", "ruff")
    assert code == 1
    assert "No guide has 'ruff'." in err
    assert "--all" in err
    assert "--all" not in call("guide", "--search", "--all", "xyzzy").err


def test_a_page_that_a_wheel_does_not_have_comes_with_the_source(call, tmp_path, monkeypatch):
    (tmp_path / "README.md").write_text((GUIDES / "README.md").read_text())
    monkeypatch.setattr("ascend_session.cli.guide._FOLDER", tmp_path)
    code, out, err = call("guide", "architecture")
    assert (code, out) == (1, "")
    assert "for contributors, and comes with the source only" in err
    assert call("guide", "--search", "ruff").code == 1


def test_the_first_hour_and_the_second_day_stand_first():
    assert NAMES[:2] == ["getting_started", "day_two"]


@pytest.mark.parametrize("word", ["jupyter", "kubernetes", "horovod"])
def test_a_word_that_is_no_guide_is_searched_for(call, word):
    assert call("guide", word) == call("guide", "--search", word)


def test_a_search_finds_words_by_their_beginning_and_all_of_them(call):
    text = call("guide", "--search", "--json", "hang").out
    assert "change" not in [each["line"].lower() for each in json.loads(text)]
    both = json.loads(call("guide", "--search", "--json", "rank table", "chief").out)
    one = json.loads(call("guide", "--search", "--json", "rank table").out)
    assert 0 < len(both) < len(one)
    assert {each["name"] for each in both} <= {each["name"] for each in one}


@pytest.mark.parametrize("typed", ["Rank-Table", "rank_table", "RANK TABLE", "rank(table"])
def test_a_search_takes_any_characters_and_dashes_are_blanks(call, typed):
    called = call("guide", "--search", "--json", typed)
    assert (called.code == 0) == ("(" not in typed)
    assert isinstance(json.loads(called.out), list)
