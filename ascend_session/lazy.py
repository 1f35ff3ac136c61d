"""Packages whose names are loaded when they are first used; this module imports no other."""

import importlib
from typing import Any, Callable, Dict, List, Mapping, Tuple


def late_names(
    package: str, homes: Mapping[str, str], namespace: Dict[str, Any]
) -> Tuple[Callable[[str], Any], Callable[[], List[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package (PEP 562).

    Args:
        package: Its name, ``__name__``.
        homes: The module of each name, below the package.
        namespace: Its ``globals()``, where what is loaded stays.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        namespace[name] = value
        return value

    def names() -> List[str]:
        return sorted({*namespace, *homes})

    return load, names
