"""Makes ``npu_bridge`` and ``hccl`` the modules of this room, in a process that asks for it.

Importing `ascend_session` or this module installs nothing; `install` does, and the commands call it
where the stub runs. The start of a rank pays for it, so nothing is imported here before one of the
two packages is asked for. The runner reads this file by its path.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, Dict, Optional, Sequence


PACKAGES = ("npu_bridge", "hccl")

_HERE = os.path.dirname(os.path.abspath(__file__))
_ROOM = "ascend_session.compat"

INHERITED = os.path.join(_HERE, "inherited")
"""Folder for PYTHONPATH: Pythons that a script starts find the two packages in it."""


class VendorFinder:
    """Finds the two packages on ``sys.meta_path``; asks nothing of anything else.

    Args:
        first: The module whose ``start(asked)`` is called before the first of them is imported.
        resolves: Whether they are the modules of this room; else Python goes on looking.
        asked: What the command was asked.

    Attributes:
        started: Whether one of them was asked for.
    """

    def __init__(self, first: str, resolves: bool, asked: "Dict[str, str]") -> None:
        self._first = first
        self._resolves = resolves
        self._asked = asked
        self.started = False

    def find_spec(
        self,
        name: str,
        path: "Optional[Sequence[str]]" = None,
        target: "Optional[ModuleType]" = None,
    ) -> "Any":
        """As Python's finders: the specification of a module, or None.

        Raises:
            ModuleNotFoundError: For a module that the vendor's package has not.
        """
        top = name.partition(".")[0]
        if top not in PACKAGES or _is_of_the_script(top):
            return None
        if not self.started:
            self.started = True
            _room("." + self._first).start(self._asked)
        if not self._resolves:
            return None
        import importlib.machinery
        import importlib.util

        _room("")
        found = importlib.util.find_spec(f"{_ROOM}.{name}")
        if found is None:
            raise ModuleNotFoundError(
                f"No module named {name!r}, neither in the vendor's package nor in its stand-in on "
                "a machine without a device.",
                name=name,
            )
        is_package = found.submodule_search_locations is not None
        loader: Any = VendorLoader(found.name)
        return importlib.machinery.ModuleSpec(
            name, loader, origin=found.origin, is_package=is_package
        )


class VendorLoader:
    """Gives the very module of this room, under the vendor's name, too."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: Any = None

    def create_module(self, spec: "Any") -> "ModuleType":
        """The module, imported under its own name."""
        import importlib

        module = importlib.import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: "ModuleType") -> None:
        """It has run already; Python has just given it the other name's specification."""
        module.__spec__ = self._spec

    def get_code(self, name: str) -> "Any":
        """For ``python -m``."""
        import importlib.util

        found: Any = importlib.util.find_spec(self._name)
        return found.loader.get_code(self._name)


def install(
    first: str = "watching", resolves: bool = True, asked: "Optional[Dict[str, str]]" = None
) -> VendorFinder:
    """Puts the finder in front of all others; a second one is not put there.

    Args:
        first: As of `VendorFinder`.
        resolves: As of `VendorFinder`.
        asked: As of `VendorFinder`.
    """
    finders: Any = sys.meta_path
    for finder in finders:
        if type(finder).__name__ == VendorFinder.__name__:
            there: VendorFinder = finder
            return there
    made = VendorFinder(first, resolves, asked or {})
    finders.insert(0, made)
    return made


def take_over(name: str) -> None:
    """Has a module of ``inherited`` be that of this room, and the others found there, too."""
    spec = install(asked={"child": "1"}).find_spec(name)
    module = sys.modules[name] = spec.loader.create_module(spec)
    spec.loader.exec_module(module)


def uninstall() -> None:
    """Takes the finder away, and the vendor's names from what is imported."""
    sys.meta_path[:] = [f for f in sys.meta_path if type(f).__name__ != VendorFinder.__name__]
    for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
        del sys.modules[name]


def ending() -> "Any":
    """The module that ends a run, for a runner that reads this file by its path."""
    return _room(".ending")


def _is_of_the_script(top: str) -> bool:
    """Whether the script has a module of that name next to it, which plain Python takes first.

    A folder of the vendor's own sources is none: it cannot run without the vendor's libraries.
    """
    if top == "npu_bridge" or top in sys.modules or not sys.path:
        return False
    import importlib.machinery

    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if main is None or os.path.realpath(sys.path[0]) != os.path.dirname(os.path.realpath(main)):
        return False
    found: Any = importlib.machinery.PathFinder.find_spec(top, sys.path[:1])
    return found is not None and found.origin is not None


def _room(name: str) -> "Any":
    """A module of this package, wherever Python was started."""
    import importlib

    try:
        return importlib.import_module(_ROOM + name)
    except ModuleNotFoundError as error:
        if error.name != "ascend_session":
            raise
    sys.path.append(os.path.dirname(os.path.dirname(_HERE)))
    return importlib.import_module(_ROOM + name)
