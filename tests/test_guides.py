"""The guides: links and citations lead to a heading, and all pages come with the package.

A citation reads ``guides/facts/PAGE.md#anchor``. Nothing cites what a reader cannot open.
"""

import re
from functools import lru_cache
from pathlib import Path
from typing import Dict, Iterator, List, Set

import pytest

HOME = Path(__file__).resolve().parents[1]
PACKAGE = HOME / "ascend_session"
GUIDES = PACKAGE / "guides"
PAGES = sorted(GUIDES.glob("**/*.md"))
README = HOME / "README.md"
CITATION = re.compile(r"guides/([\w/]+\.md)(?:#([\w-]+))?")
LINK = re.compile(r"\]\(([\w./-]*?)(?:#([\w-]+))?\)")
# Names of notes and numbers of documents that are not in this repository
CLOSED = re.compile(
    r"options?[ _]notes|launch_facts|adapter_behaviour|stub_collectives\.md|\bseeds? 0\d\d"
    r"|\bSeed 0\d\d|\bseeds=|\"[Ss]eeds\"|\"seed\": \[|\bSeeds {2,}"
)
TEXTS = ("", ".json", ".jsonl", ".md", ".py", ".sh", ".txt", ".yaml", ".yml")


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(page: Path) -> List[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return [slug(heading) for heading in re.findall(r"^##+ (.+)$", text, re.MULTILINE)]


def name_of(page: Path) -> str:
    return page.relative_to(HOME).with_suffix("").as_posix()


def sources() -> Iterator[Path]:
    """The texts of the project but for this one."""
    yield README
    for folder in ("ascend_session", "hardware_tests", "scripts", "tests"):
        for file in sorted((HOME / folder).rglob("*")):
            if file.suffix in TEXTS and file != Path(__file__).resolve() and file.is_file():
                yield file


SOURCES = {file.relative_to(HOME).as_posix(): file for file in sources()}


@lru_cache(maxsize=None)
def text_of(name: str) -> str:
    return SOURCES[name].read_text(encoding="utf-8", errors="replace")


def room_of(name: str) -> str:
    first, *rest = Path(name).parts
    return f"{first}/{rest[0]}" if len(rest) > 1 else first


ROOMS = sorted({room_of(name) for name in SOURCES})


def test_every_citation_leads_to_a_heading():
    known: Dict[str, List[str]] = {
        page.relative_to(GUIDES).as_posix(): anchors(page) for page in PAGES
    }
    wrong = [
        f"{name}: {cited.group()}"
        for name in SOURCES
        for cited in CITATION.finditer(text_of(name))
        if cited[1] not in known or (cited[2] and cited[2] not in known[cited[1]])
    ]
    assert wrong == []


@pytest.mark.parametrize("page", [README, *PAGES], ids=name_of)
def test_every_link_between_pages_leads_somewhere(page):
    wrong = []
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        file = page if not target else (page.parent / target).resolve()
        if not file.exists() or (anchor and anchor not in anchors(file)):
            wrong.append(f"{target}#{anchor}")
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_headings_of_a_page_are_told_apart(page):
    assert len(set(anchors(page))) == len(anchors(page))


def test_the_list_of_pages_has_each_page_once():
    listed = re.findall(
        r"^- \[(.+)\]\((.+)\): .+\.$", (GUIDES / "README.md").read_text(encoding="utf-8"), re.M
    )
    files = [page.relative_to(GUIDES).as_posix() for page in PAGES]
    assert sorted(file for _, file in listed) == sorted(set(files) - {"README.md"})
    names = [re.sub(r"(/README)?\.md$", "", file) for _, file in listed]
    assert names == [name for name, _ in listed]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_guide_is_read_in_one_sitting(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    assert 45 <= len(lines) <= 200


def test_the_readme_is_two_pages():
    assert 150 <= len(README.read_text(encoding="utf-8").splitlines()) <= 250


def test_the_files_that_the_architecture_names_are_there():
    named = re.findall(
        r"`((?:[a-z_]+/)*[a-z_]*(?:\.py|\.yaml|\.json|\.toml|/))`",
        (GUIDES / "architecture.md").read_text(encoding="utf-8"),
    )
    missing = [name for name in named if not any((top / name).exists() for top in (PACKAGE, HOME))]
    assert len(named) > 40
    assert missing == []


def declared(part: str) -> Set[Path]:
    """The files of the package that a table of pyproject.toml names."""
    text = (HOME / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(rf"\[tool\.setuptools\.{part}\]\nascend_session = \[(.*)\]", text)
    return {
        file for pattern in re.findall(r'"([^"]+)"', found[1]) for file in PACKAGE.glob(pattern)
    }


def test_all_pages_for_users_come_with_the_package():
    text = (GUIDES / "README.md").read_text(encoding="utf-8").partition("## For contributors")[2]
    contributors = {GUIDES / file for file in re.findall(r"^- \[.+\]\((.+)\): ", text, re.M)}
    assert len(PAGES) > 5
    assert set(PAGES) <= declared("package-data")
    assert declared("exclude-package-data") == contributors != set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_for_users_do_not_need_those_for_contributors(page):
    left_out = declared("exclude-package-data")
    links = LINK.findall(page.read_text(encoding="utf-8"))
    needed = [file for file, _ in links if (page.parent / file).resolve() in left_out]
    # The list of the pages has them, and a former release changed one.
    assert needed == [] or page in left_out or page.stem in ("README", "changelog_0_2")


def test_what_the_file_for_ci_runs_is_run_on_its_page():
    text = (GUIDES / "testing.md").read_text(encoding="utf-8")
    install, *commands = re.findall(r"^ +- run: (.+)$", text, re.M)
    assert install.startswith("pip install ")
    assert len(commands) == 3
    assert [command for command in commands if f"\n$ {command}\n" not in text] == []
