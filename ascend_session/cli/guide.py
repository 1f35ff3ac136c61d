"""``ascend-session guide``: the pages that come with the package, as a list or one in full."""

import os
import re
from pathlib import Path
from typing import Dict, Sequence, Tuple

import click
from click.exceptions import Exit

from ascend_session.cli._output import complain, console, is_terminal, show_facts
from ascend_session.cli._parameters import argument, command
from ascend_session.findings import ERROR
from ascend_session.text import did_you_mean, join_words

_FOLDER = Path(__file__).resolve().parents[1] / "guides"
_WIDEST = 100  # columns; longer lines are hard to read

# A group of pages, and a page with its file and its sentence, as the README of the folder has them
_LISTED = re.compile(
    r"^## (?P<group>.+)$|^- \[(?P<name>.+?)\]\((?P<file>.+?)\): (?P<about>.+)$", re.M
)
_LINK = re.compile(r"\[([^\]]+)\]\(([\w./-]*?)(?:README)?(?:\.md)?(#[\w-]+)?\)")
_BLOCK = re.compile(r"^```.*?^```$", re.M | re.S)

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
def guide(name: Tuple[str, ...]) -> None:
    """Show the guides that come with the package.

    Without a NAME, lists the guides. NAME is a guide or a command; NAME#SECTION shows one section.
    A terminal shows it in $PAGER; a pipe or a file gets the Markdown.

    Examples:
        ascend-session guide
        ascend-session guide launch
    """
    text = (_FOLDER / "README.md").read_text(encoding="utf-8")
    if not name:
        show_facts(
            [
                (m["group"], "") if m["group"] else (f"  {m['name']}", m["about"])
                for m in _LISTED.finditer(text)
            ]
        )
        click.echo("\n`ascend-session guide NAME` shows one of them.")
        return
    files = {m["name"]: m["file"] for m in _LISTED.finditer(text) if m["name"]}
    page, section = _resolve(name, files)
    markdown = (_FOLDER / files[page]).read_text(encoding="utf-8")
    if section:
        markdown = _cut_out(page, section, markdown)
    if is_terminal():
        _show(markdown)
    else:
        click.echo(markdown, nl=False)


def _resolve(words: Sequence[str], files: Dict[str, str]) -> Tuple[str, str]:
    """Split what was typed, or cited in a message, into the name of a page and a section."""
    given, _, section = "_".join(words).partition("#")
    name = _find_page(given)
    if name in files:
        return name, section
    if len(words) > 1 and all(_find_page(word.partition("#")[0]) in files for word in words):
        message = f"One guide is shown at a time, not {len(words)}: {join_words(words)}."
        hint = "; then ".join(f"ascend-session guide {word}" for word in words)
    else:
        near = did_you_mean(name, [*files, *_COMMANDS])
        message = f"There is no guide {' '.join(words)!r}."
        hint = f"Did you mean {near}?" if near else "`ascend-session guide` lists the guides."
    complain(message, hint, ERROR)
    raise Exit(1)


def _find_page(given: str) -> str:
    """Give the name of a page for its file, its name with blanks or dashes, or a command."""
    name = re.sub(r"^(ascend_session/)?guides/|(/README)?(\.md)?$", "", given.replace("-", "_"))
    return _COMMANDS.get(name, name)


def _cut_out(page: str, section: str, markdown: str) -> str:
    """Return one section of a page, which is named by the anchor of its heading."""
    blank = _BLOCK.sub(lambda block: re.sub("#", " ", block[0]), markdown)
    starts = [match.start() for match in re.finditer("^## ", blank, re.M)]
    parts = [markdown[start:end] for start, end in zip(starts, [*starts[1:], len(markdown)])]
    anchors = {}
    for part in parts:
        heading = part.partition("\n")[0].strip("# ").lower()
        anchors[re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")] = part
    if section not in anchors:
        near = did_you_mean(section, anchors)
        complain(
            f"The guide {page} has no section {section!r}.",
            f"Did you mean {page}#{near}?" if near else f"`ascend-session guide {page}` shows all.",
            ERROR,
        )
        raise Exit(1)
    return anchors[section].rstrip() + "\n"


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
