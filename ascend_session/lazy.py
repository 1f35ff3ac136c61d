"""Packages that import a name when it is first used.

A package lists its names once, in the ``__init__.pyi`` beside its ``__init__.py``, for type
checkers, editors and `late_names`. Each line is ``from .module import name as name`` or
``from . import module as module``.
"""

import importlib
import os
import re
import sys
from typing import Any, Callable, Dict, List, Tuple

from ascend_session.rank_folder import CHANNEL

_LINE = re.compile(r"^from \.([\w.]*) import (\w+) as \2$", re.MULTILINE)


def late_names(
    namespace: Dict[str, Any],
) -> Tuple[Callable[[str], Any], Callable[[], List[str]], List[str]]:
    """Make the ``__getattr__``, ``__dir__`` (PEP 562) and ``__all__`` of a package.

    Args:
        namespace: The package's ``globals()``; loaded names are added to it.
    """
    package: str = namespace["__name__"]
    with open(f"{namespace['__file__']}i", encoding="utf-8") as stub:
        homes = {name: module for module, name in _LINE.findall(stub.read())}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(_describe_missing(package, name, list(homes)))
        # A command may only look at devices.
        if CHANNEL in os.environ and "ascend_session.cli" not in sys.modules:
            from ascend_session.channel import note_use  # slow to load, and only for ranks

            note_use()
        if homes[name]:
            value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        else:
            value = importlib.import_module(f"{package}.{name}")
        namespace[name] = value
        return value

    def list_names() -> List[str]:
        return sorted({*namespace, *homes})

    return load, list_names, sorted(homes)


def _describe_missing(package: str, name: str, names: List[str]) -> str:
    from ascend_session.text import did_you_mean

    near = None if name.startswith("_") else did_you_mean(name, names, near=0.8)
    hint = f"\n  hint: Did you mean {near}?" if near else ""
    return f"module {package!r} has no attribute {name!r}{hint}"
