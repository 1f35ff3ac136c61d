"""Leaves out what a class of the collective contract says that it does not do."""

from typing import Any, List

from tests.collective_cases import MOVED, section_of


def pytest_collection_modifyitems(config: Any, items: List[Any]) -> None:
    """A class with ``types`` has the checks of these alone, of those that have a type."""
    left_out = [item for item in items if _is_of_another_type(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not _is_of_another_type(item)]


def _is_of_another_type(item: Any) -> bool:
    types = getattr(item.cls, "types", MOVED)
    check = item.callspec.params.get("check") if hasattr(item, "callspec") else None
    section = section_of(check) if check else None
    return section in MOVED and section not in types
