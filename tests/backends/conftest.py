"""Leaves out what a class of the collective contract says that it does not do, or not by day."""

from typing import Any, List, Optional

import pytest

from hardware_tests.collective_cases import MOVED, SECTIONS, section_of


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: Any, items: List[Any]) -> None:
    """A class with ``types`` has the checks of these alone, of those that have a type.

    If it has ``by_day``, what is in other sections is for the night.
    """
    left_out = [item for item in items if _is_of_another_type(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not _is_of_another_type(item)]
    for item in items:
        if _section(item) not in (None, *getattr(item.cls, "by_day", SECTIONS)):
            item.add_marker(pytest.mark.nightly)


def _is_of_another_type(item: Any) -> bool:
    section = _section(item)
    return section in MOVED and section not in getattr(item.cls, "types", MOVED)


def _section(item: Any) -> Optional[str]:
    """The section that a check of the contract is in; none of other tests."""
    check = item.callspec.params.get("check") if hasattr(item, "callspec") else None
    return section_of(check) if check else None
