"""Scripts of this package's own API that are right are not complained about."""

import pytest

from ascend_session.audit.scripts import audit_bytes
from tests.test_code_blocks import HOME, PAGES, blocks_of

RULES = ("no-average", "option-conflict", "unknown-argument", "value-not-allowed")
PROGRAMS = sorted(
    path
    for folder in ("ascend_session/examples", "hardware_tests", "tests")
    for path in (HOME / folder).rglob("*.py")
    if folder != "tests" or "programs" in path.parts or path.parent.name.endswith("_programs")
)


def find(name, text):
    findings = audit_bytes(name, text.encode()).findings
    return [str(each) for each in findings if each.rule in RULES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_of_the_guides_is_right(page):
    blocks = [block.text for block in blocks_of(page) if block.kind == "python"]
    wrong = [each for block in blocks for each in find("page.py", block)]
    assert wrong == []


def test_examples_and_programs_of_tests_are_right():
    assert PROGRAMS
    wrong = [each for path in PROGRAMS for each in find(path.name, path.read_text("utf-8"))]
    assert wrong == []
