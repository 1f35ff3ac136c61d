"""The hardware tests stand by themselves: they run beside a package that is only installed."""

import ast
from pathlib import Path
from typing import Iterator, Tuple

import ascend_session

_FOLDER = Path(__file__).resolve().parents[2] / "hardware_tests"


def imports(path: Path) -> Iterator[Tuple[str, str]]:
    """Give each module that a file imports from, with the name; an empty one for ``import x``."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


def test_they_import_public_names_and_nothing_of_the_other_tests() -> None:
    found = [(path.name, *one) for path in _FOLDER.rglob("*.py") for one in imports(path)]
    public = [("ascend_session", name) for name in ascend_session.__all__]
    ours = [one for one in found if one[1].split(".")[0] == "ascend_session"]
    assert len(ours) > 10
    assert [one for one in ours if one[1:] not in public] == []
    assert [one for one in found if one[1].split(".")[0] in ("tests", "scripts")] == []
