"""Runs a script, a folder, an archive or a module as ``__main__``, as plain Python does."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

__all__ = ["GLUE", "has_own_path", "run"]

GLUE = "sys"
"""File name of the frame below the program: Python says 'sys:1: UserWarning' of what is there."""


def run(words: "List[str]", on_unreadable: "Callable[[Exception], None]") -> None:
    """Runs the program; what it raises comes out.

    Args:
        words: ``sys.argv`` as it is for the program, with ``-m`` and the module's name or with the
            script in front; is changed in place.
        on_unreadable: Is told why a script cannot be read or compiled. Then plain Python takes
            this process over and says it: it reads files in another way than ``compile`` does.
    """
    if words[0] == "-m":
        _run_module(words.pop(1))
    else:
        _run_script(words[0], on_unreadable)


def has_own_path() -> bool:
    """Whether Python puts the program's folder on ``sys.path``."""
    return not (sys.flags.isolated or getattr(sys.flags, "safe_path", False))


def _run_module(name: str) -> None:
    import runpy

    folder = _working_directory()
    if has_own_path() and folder is not None:
        sys.path.insert(0, folder)
    _new_main()
    _call(runpy._run_module_as_main, name)  # type: ignore[attr-defined]


def _run_script(name: str, on_unreadable: "Callable[[Exception], None]") -> None:
    path = name
    if sys.version_info >= (3, 9) and not os.path.isabs(path):
        path = (_working_directory() or "") + os.sep + path
    if _importer(path) is not None:
        import runpy

        sys.path.insert(0, path)
        _new_main()
        _call(runpy._run_module_as_main, "__main__", False)  # type: ignore[attr-defined]
        return
    try:
        code, loader = _compiled(path)
    except Exception as error:
        on_unreadable(error)
        os.execv(sys.executable, [sys.executable] + sys.argv)  # noqa: RUF005  (a list it is)
    if has_own_path():
        sys.path.insert(0, os.path.dirname(os.path.realpath(name)))
    scope = _new_main()
    scope.update(__file__=path, __cached__=None, __loader__=loader)
    _call(exec, code, scope)


def _call(function: "Callable[..., object]", *arguments: "Any") -> None:
    code = compile("function(*arguments)", GLUE, "exec")
    exec(code, {"__name__": GLUE, "function": function, "arguments": arguments})


def _working_directory() -> "Optional[str]":
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


def _new_main() -> "Dict[str, Any]":
    """Puts a module without contents in this one's place; returns its dictionary."""
    old = vars(sys.modules["__main__"])
    sys.modules["__main__"] = type(sys)("__main__")
    scope = vars(sys.modules["__main__"])
    if "__annotations__" in old:
        scope["__annotations__"] = {}
    scope["__builtins__"] = old["__builtins__"]
    return scope


def _importer(path: str) -> "Any":
    """What imports from a folder or an archive; None for a file. As PyImport_GetImporter does."""
    cache = sys.path_importer_cache  # type: Dict[str, Any]
    if path not in cache:
        cache[path] = None
        for hook in sys.path_hooks:
            try:
                cache[path] = hook(path)
                break
            except ImportError:
                continue
    return cache[path]


def _compiled(path: str) -> "Any":
    """The code of a script, or of what was compiled from one, and its loader."""
    external = sys.modules["_frozen_importlib_external"]  # type: Any
    with open(path, "rb") as file:
        data = file.read()
    is_compiled = data[:4] == external.MAGIC_NUMBER
    if path.endswith(".pyc") and not is_compiled:
        raise RuntimeError("Bad magic number in .pyc file")
    if is_compiled:
        import marshal

        header = 16 if sys.version_info >= (3, 7) else 12
        return marshal.loads(data[header:]), external.SourcelessFileLoader("__main__", path)
    code = compile(data, path, "exec", 0, True)
    return code, external.SourceFileLoader("__main__", path)
