"""Let ``npu_bridge`` and ``hccl`` mean the modules of this package, in a process that asks for it.

Importing `ascend_session` or this module installs nothing; `install` does, and the commands call it
for the stub. Each rank runs this file when it starts, so it imports nothing until the script
imports one of the two packages. The witness loads this file by its path.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, Callable, Optional, Sequence


PACKAGES = ("npu_bridge", "hccl")

_HERE = os.path.dirname(os.path.abspath(__file__))
_COMPAT = "ascend_session.compat"

STRICT_VARIABLE = "ASCEND_SESSION_STRICT"
"""Environment variable: 1 also refuses options with a warning, such as ignored ones."""

PRINT_VARIABLE = "ASCEND_SESSION_PRINT_CONFIG"
"""Environment variable: 1 prints the typed configuration of each session that is opened."""

INHERITED = os.path.join(_HERE, "inherited")
"""Folder for PYTHONPATH: Pythons that a script starts find the two packages in it."""


class RunRequest:
    """What is asked of a run; as text it is in the environment, for the witness.

    Attributes:
        replaces_vendor: Whether this package takes the place of the vendor's; else there is no
            report.
        reason: Why this backend was chosen; empty if `run` has not chosen it.
        json_file: The file for the report; empty without one.
        is_child: Whether a script has started or forked this process, which then reports nothing
            unless it opens a session.
    """

    def __init__(
        self,
        replaces_vendor: bool = True,
        reason: str = "",
        json_file: str = "",
        is_child: bool = False,
    ) -> None:
        self.replaces_vendor, self.is_child = replaces_vendor, is_child
        self.reason, self.json_file = reason, json_file

    @classmethod
    def from_text(cls, text: str) -> "RunRequest":
        """Read lines ``name=value``, as `to_text` writes them; what is missing is as by default."""
        given = {
            name: value for name, _, value in (line.partition("=") for line in text.split("\n"))
        }
        replaces_vendor = given.get("replaces_vendor", "yes") == "yes"
        return cls(replaces_vendor, given.get("reason", ""), given.get("json", ""))

    def to_text(self) -> str:
        """Write the request; that of a child is never passed on."""
        replaces_vendor = "yes" if self.replaces_vendor else "no"
        return f"replaces_vendor={replaces_vendor}\nreason={self.reason}\njson={self.json_file}"


class VendorFinder:
    """Finds the two packages on ``sys.meta_path``; everything else is left to Python.

    They are modules of this package. If the request says that nothing is replaced, Python goes on
    looking.

    Args:
        request: What is asked of the run that begins when the script imports one of them.

    Attributes:
        started: True once the script has imported one of them, or has tried to.
    """

    def __init__(self, request: RunRequest) -> None:
        self._request = request
        self._unread: Any = None
        self.started = False

    def note_unread(self) -> None:
        """Note sessions with an entry that nothing reads, unless it is read; imports TensorFlow."""
        if not self.started:
            self._unread = _import_from_package(f"{_COMPAT}.unread").UnreadEntries()
            self._unread.watch()

    def take_unread(self) -> "Sequence[Any]":
        """Note no more such sessions, and return the lines that have opened some."""
        unread, self._unread = self._unread, None
        lines: Sequence[Any] = () if unread is None else unread.stop()
        return lines

    def find_spec(
        self,
        name: str,
        path: "Optional[Sequence[str]]" = None,
        target: "Optional[ModuleType]" = None,
    ) -> "Any":
        """Return the specification of a module, or None, as Python's finders do.

        A module that this package does not have becomes a placeholder (`vendor_modules`).

        Raises:
            ModuleNotFoundError: For a name that only Python itself asks for, ``__main__``.
        """
        top = name.partition(".")[0]
        if top not in PACKAGES or _is_of_the_script(top):
            return None
        if not self.started:
            self.started = True
            policy = "on_stub" if self._request.replaces_vendor else "on_device"
            _import_from_package(f"{_COMPAT}.{policy}").begin(self._request, self.take_unread())
        if not self._request.replaces_vendor:
            return None
        import importlib.machinery
        import importlib.util

        _import_from_package(_COMPAT)
        parent = name.rpartition(".")[0]
        has_parent = not parent or f"{_COMPAT}.{parent}" in sys.modules
        found = importlib.util.find_spec(f"{_COMPAT}.{name}") if has_parent else None
        if found is None:
            if name.endswith("__"):
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            loader: Any = PlaceholderLoader()
            return importlib.machinery.ModuleSpec(name, loader, is_package=True)
        loader = VendorLoader(found.name)
        is_package = found.submodule_search_locations is not None
        return importlib.machinery.ModuleSpec(
            name, loader, origin=found.origin, is_package=is_package
        )


class VendorLoader:
    """Loads a module of this package under the vendor's name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: Any = None

    def create_module(self, spec: "Any") -> "ModuleType":
        """Import the module under its own name, and return it."""
        import importlib

        module = importlib.import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: "ModuleType") -> None:
        """Restore the specification of the module, whose code has run already."""
        module.__spec__ = self._spec

    def get_code(self, name: str) -> "Any":
        """Return the code of the module, for ``python -m``."""
        import importlib.util

        found: Any = importlib.util.find_spec(self._name)
        return found.loader.get_code(self._name)


class PlaceholderLoader:
    """Loads a placeholder for a module that only a device runs."""

    def create_module(self, spec: "Any") -> "Any":
        """Return the placeholder: a class, which Python accepts in place of a module."""
        return _import_from_package(f"{_COMPAT}.vendor_modules").placeholder(spec.name)

    def exec_module(self, module: "Any") -> None:
        """Do nothing: there is no code."""


def install(request: "Optional[RunRequest]" = None) -> VendorFinder:
    """Put a `VendorFinder` in front of all finders, unless there is one; return it."""
    finders: Any = sys.meta_path
    for finder in finders:
        if type(finder).__name__ == VendorFinder.__name__:
            installed: VendorFinder = finder
            return installed
    installed = VendorFinder(request or RunRequest())
    finders.insert(0, installed)
    return installed


class VendorRun:
    """What replaces the vendor's packages in this process, or ends their system.

    Args:
        text: What is asked of ``ascend-session run``; None in a rank of a launch.
    """

    def __init__(self, text: "Optional[str]") -> None:
        self._is_run = text is not None
        self._request = RunRequest() if text is None else RunRequest.from_text(text)
        self._finder: Any = None

    def begin(self) -> None:
        """Install the finder, before the program starts."""
        self._finder = install(self._request)
        if not self._request.replaces_vendor:
            return
        # For Pythons that the program starts: by the variable, multiprocessing's by the path.
        old = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = INHERITED + (os.pathsep + old if old else "")
        sys.path.insert(0, INHERITED)
        if self._is_run:
            after_tensorflow(lambda: _try(self._finder.note_unread))

    def fail(self, error: BaseException) -> None:
        """Pass on that the program fails to what ends the vendor's system; never raise."""
        kinds = AttributeError, ImportError, RuntimeError, ValueError
        is_of_tensorflow = isinstance(error, kinds) and "tensorflow" in sys.modules
        if self._finder.started or self._is_run or is_of_tensorflow:
            _try(lambda: _import_from_package(f"{_COMPAT}.run_end").fail(error, self._request))

    def finish_if_unused(self, has_failed: bool) -> None:
        """Report at exit on a script of `run` that no stand-in reports on; never raise."""
        # The usage of a script, or a wrong call of it, computes nothing.
        is_quiet = has_failed or "tensorflow" not in sys.modules
        is_reported = self._finder.started if self._request.replaces_vendor else is_quiet
        if self._is_run and not is_reported:
            take, end = self._finder.take_unread, f"{_COMPAT}.run_end"
            _try(lambda: _import_from_package(end).finish_unused(self._request, take(), is_quiet))


class AfterImport:
    """A finder that calls a function with a module, once Python has loaded it.

    Args:
        name: The module's full name.
        function: The function; what it raises ends the import.
    """

    def __init__(self, name: str, function: "Callable[[Any], None]") -> None:
        self._name, self._function = name, function

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        """Give what the other finders give; its loader calls the function."""
        if name != self._name:
            return None
        finders: Any = sys.meta_path
        finders.remove(self)
        specs = (finder.find_spec(name, path, target) for finder in finders)
        spec: Any = next((spec for spec in specs if spec is not None), None)
        load = getattr(getattr(spec, "loader", None), "exec_module", None)
        if load is not None:

            def exec_module(module: "Any") -> None:
                vars(spec.loader).pop("exec_module", None)  # by another of this class, too
                load(module)
                self._function(module)

            spec.loader.exec_module = exec_module
        return spec


def after_tensorflow(function: "Callable[[], None]") -> None:
    """Call a function once TensorFlow's sessions are loaded, before the program opens one."""
    name = "tensorflow.python.client.session"
    if name in sys.modules:  # by another sitecustomize
        function()
    else:
        finders: Any = sys.meta_path
        finders.insert(0, AfterImport(name, lambda module: function()))


_RUN_CONFIGS = "npu_bridge.estimator.npu.npu_config"


def watch_from_outside() -> None:
    """Have `backends.outside` watch the sessions of this process from the first one on."""
    outside = "ascend_session.backends.outside"
    after_tensorflow(lambda: _import_from_package(outside).watch_sessions())
    finders: Any = sys.meta_path
    for config in (_RUN_CONFIGS, f"{_COMPAT}.{_RUN_CONFIGS}"):
        overlay = AfterImport(
            config, lambda module: _import_from_package(outside).overlay_run_config(module)
        )
        finders.insert(0, overlay)


def _try(function: "Callable[[], None]") -> None:
    """Call a function; show an exception in one line instead of raising it."""
    try:
        function()
    except Exception as error:
        if sys.stderr is not None:
            try:
                sys.stderr.write(f"ascend-session: {type(error).__name__}: {error}\n")
            except (OSError, ValueError):
                return


def take_over(name: str) -> None:
    """Replace a module of ``inherited`` with that of this package, and install the finder."""
    witness: Any = sys.modules.get("_ascend_session_witness")
    if witness is not None:
        witness.note_script_rank(uses_vendor=True)
        _import_from_package("ascend_session.channel").note_use()
    spec = install(RunRequest(is_child=True)).find_spec(name)
    module = sys.modules[name] = spec.loader.create_module(spec)
    spec.loader.exec_module(module)


def _is_of_the_script(top: str) -> bool:
    """Return whether a module of that name stands next to the script, where Python looks first.

    A copy of the vendor's source tree does not count: it needs the vendor's libraries.
    """
    if top == "npu_bridge" or top in sys.modules or not sys.path:
        return False
    import importlib.machinery

    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if main is None or os.path.realpath(sys.path[0]) != os.path.dirname(os.path.realpath(main)):
        return False
    spec: Any = importlib.machinery.PathFinder.find_spec(top, sys.path[:1])
    return spec is not None and spec.origin is not None


def _import_from_package(name: str) -> "Any":
    """Import a module of this package, even if it is not on ``sys.path``."""
    import importlib

    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "ascend_session":
            raise
    sys.path.append(os.path.dirname(os.path.dirname(_HERE)))
    return importlib.import_module(name)
