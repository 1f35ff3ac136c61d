"""``ascend-session guide``: the pages that come with the package, as a list or one in full."""

import os
import re
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import click

from ascend_session.cli._output import (
    console,
    fail,
    is_terminal,
    show_facts,
    show_json,
    show_table,
)
from ascend_session.cli._parameters import OPTIONS, argument, command
from ascend_session.cli.explain import refuse_codes
from ascend_session.text import did_you_mean, join_words

_FOLDER = Path(__file__).resolve().parents[1] / "guides"
_WIDEST = 100  # columns; longer lines are hard to read

# A group of pages, and a page with its file and its sentence, as the README of the folder has them
_LISTED = re.compile(
    r"^## (?P<group>.+)$|^- \[(?P<name>.+?)\]\((?P<file>.+?)\): (?P<about>.+)$", re.M
)
_LINK = re.compile(r"\[([^\]]+)\]\(([\w./-]*?)(?:README)?(?:\.md)?(#[\w-]+)?\)")
_BLOCK = re.compile(r"^```.*?^```$", re.M | re.S)
# The group of pages that a search leaves out, and a wheel, too: contributors have the source
_CONTRIBUTORS = "For contributors"

# Commands whose page has another name.
_COMMANDS = {
    "aoe": "tuning",
    "config": "configuration",
    "doctor": "devices",
    "options": "configuration",
    "precision": "option_files",
    "ranktable": "rank_tables",
    "run": "existing_scripts",
}


@command("guide")
@argument("name", "[NAME]...")
@OPTIONS.flag("--search", "List the sections that have all words of NAME.")
@OPTIONS.flag("--all whole", "Let --search also look through the pages for contributors.")
@OPTIONS.flag("--json as_json", "Print what --search finds as one JSON array.")
def guide(name: Tuple[str, ...], search: bool, whole: bool, as_json: bool) -> None:
    """Show the guides that come with the package.

    Without a NAME, lists the guides. NAME is a guide or a command; NAME#SECTION shows one section,
    and any other words are searched for. A terminal shows a guide in $PAGER; a pipe or a file gets
    the Markdown.

    Examples:
        ascend-session guide launch
        ascend-session guide --search slurm
    """
    text = (_FOLDER / "README.md").read_text(encoding="utf-8")
    if search or as_json or whole:
        if not name or not search:
            raise click.BadParameter("needs a word to search for.", param_hint="--search")
        _show_matches(name, _search(name, text, whole), as_json, whole)
        return
    if not name:
        show_facts(
            [
                (m["group"], "") if m["group"] else (f"  {m['name']}", m["about"])
                for m in _LISTED.finditer(text)
            ]
        )
        click.echo("\n`ascend-session guide NAME` shows one of them, `--search WORD` finds a word.")
        return
    files = {m["name"]: m["file"] for m in _LISTED.finditer(text) if m["name"]}
    if not _is_page(name, files):
        refuse_codes(name, "not a guide")
        is_several = all(_is_page([word], files) for word in name)
        matches = [] if is_several or _find_near(name, files) else _search(name, text)
        if matches:
            _show_matches(name, matches, as_json=False)
            return
    page, section = _resolve(name, files)
    try:
        markdown = (_FOLDER / files[page]).read_text(encoding="utf-8")
    except FileNotFoundError:
        fail(f"The guide {page} is for contributors, and comes with the source only.")
    if section:
        markdown = _cut_out(page, section, markdown)
    if is_terminal():
        _show(markdown)
    else:
        click.echo(markdown, nl=False)


def _resolve(words: Sequence[str], files: Dict[str, str]) -> Tuple[str, str]:
    """Split what was typed, or cited in a message, into the name of a page and a section."""
    given, _, section = "_".join(words).partition("#")
    if not _is_page(words, files):
        near = _find_near(words, files)
        message = f"There is no guide {' '.join(words)!r}."
        hint = f"Did you mean {near}?" if near else "`ascend-session guide` lists the guides."
        if len(words) > 1 and all(_is_page([word], files) for word in words):
            message = f"One guide is shown at a time, not {len(words)}: {join_words(words)}."
            hint = "; then ".join(f"ascend-session guide {word}" for word in words)
        fail(message, hint)
    return _find_page(given), section


def _is_page(words: Sequence[str], files: Dict[str, str]) -> bool:
    return _find_page("_".join(words).partition("#")[0]) in files


def _find_near(words: Sequence[str], files: Dict[str, str]) -> Optional[str]:
    """Find the guide or the command whose name was probably meant."""
    name = _find_page("_".join(words).partition("#")[0])
    return did_you_mean(name, [*files, *_COMMANDS], 0.75)


class _Match(NamedTuple):
    """A section of a guide that matches a search.

    Attributes:
        name: Its argument for the command: ``launch#logs``, or the guide's name for its top.
        title: Its heading.
        line: Its first line with one of the words.
        hits: How often the words occur in it.
    """

    name: str
    title: str
    line: str
    hits: int


def _search(words: Sequence[str], listed: str, whole: bool = False) -> List[_Match]:
    """Find the sections that have all of the words; those about them, and of guides, come first.

    Upper and lower case are alike, and so are ``multi-node``, ``multi_node`` and ``multi node``.
    Pages for contributors are left out, unless the ``whole`` is asked for.
    """
    # Words are found by their beginning: "hang" is no part of "change".
    patterns = [
        re.compile(r"(?<![a-z])" + "[-_ ]?".join(map(re.escape, re.split("[-_ ]+", word))), re.I)
        for word in words
    ]
    matches, group = [], ""
    for page in _LISTED.finditer(listed):
        group = page["group"] or group
        if page["group"] or (group == _CONTRIBUTORS and not whole):
            continue
        if not (_FOLDER / page["file"]).exists():
            continue
        markdown = (_FOLDER / page["file"]).read_text(encoding="utf-8")
        for anchor, section in _split_sections(markdown).items():
            hits = [pattern.findall(section) for pattern in patterns]
            if not all(hits):
                continue
            lines = [line for line in section.splitlines() if patterns[0].search(line)]
            title = section.partition("\n")[0].strip("# ")
            line = re.sub(r"^[-#>|\s]+", "", lines[0])
            name = f"{page['name']}#{anchor}" if anchor else page["name"]
            matches.append(_Match(name, title, line, sum(map(len, hits))))
    return sorted(matches, key=lambda match: (_rank(match, patterns), -match.hits))


def _rank(match: _Match, patterns: "Sequence[re.Pattern[str]]") -> int:
    """Tell how near a section is: its name or heading has the words, or only its text."""
    group = 2 * match.name.startswith(
        ("facts", "changelog", "architecture", "contributing", "changes")
    )
    is_about = any(pattern.search(f"{match.name} {match.title}") for pattern in patterns)
    return group + (0 if is_about else 1)


def _show_matches(
    words: Sequence[str], matches: Sequence[_Match], as_json: bool, whole: bool = False
) -> None:
    if as_json:
        show_json([match._asdict() for match in matches])
    elif matches:
        show_table(("SECTION", "LINE"), [(match.name, match.line) for match in matches])
        click.echo("\n`ascend-session guide SECTION` shows one of them.")
    if not matches:
        hint = "`ascend-session guide` lists the guides"
        hint += "." if whole else "; with --all, those for contributors are searched, too."
        fail(f"No guide has {' '.join(words)!r}.", hint)


def _find_page(given: str) -> str:
    """Return the name of a page for its file, its name with blanks or dashes, or a command."""
    name = re.sub(r"^(ascend_session/)?guides/|(/README)?(\.md)?$", "", given.replace("-", "_"))
    return _COMMANDS.get(name, name)


def _cut_out(page: str, section: str, markdown: str) -> str:
    """Return one section of a page, which is named by the anchor of its heading."""
    anchors = _split_sections(markdown)
    if section not in anchors:
        near = did_you_mean(section, anchors)
        fail(
            f"The guide {page} has no section {section!r}.",
            f"Did you mean {page}#{near}?" if near else f"`ascend-session guide {page}` shows all.",
        )
    return anchors[section].rstrip() + "\n"


def _split_sections(markdown: str) -> Dict[str, str]:
    """Split a page into its sections, by the anchors of their headings; its top has none."""
    blank = _BLOCK.sub(lambda block: re.sub("#", " ", block[0]), markdown)
    starts = [match.start() for match in re.finditer("^## ", blank, re.M)]
    anchors = {"": markdown[: starts[0] if starts else None]}
    for start, end in zip(starts, [*starts[1:], len(markdown)]):
        part = markdown[start:end]
        heading = part.partition("\n")[0].strip("# ").lower()
        anchors[re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")] = part
    return anchors


def _show(markdown: str) -> None:
    from rich.markdown import Markdown

    os.environ.setdefault("LESS", "FRX")  # shows colours, and ends where a page fits the screen
    terminal = console()
    terminal.width = min(terminal.width, _WIDEST)
    with terminal.pager(styles=True):
        terminal.print(Markdown(_LINK.sub(_spell_link, markdown), hyperlinks=False))


def _spell_link(link: "re.Match[str]") -> str:
    """Write a link to another page as what shows that page."""
    text, page, section = link[1], link[2].strip("/"), link[3] or ""
    return f"**{text}**" if text == page or not page else f"{text} (`guide {page}{section}`)"
