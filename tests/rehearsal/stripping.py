"""Runs the hardware tests without their assertions: what still fails then, no assertion has found.

An ``assert`` becomes the bare expression, so that whatever it calls is still called: a call that
raises is no answer that an assertion judges. ``pytest.raises`` becomes a block that may raise any
exception or none, and ``pytest.warns`` one that may warn or not; to take the blocks away altogether
would let out the exception that the test provokes. ``pytest.fail`` and ``pytest.skip`` stay.
"""

import ast
import contextlib
import importlib.abc
import importlib.machinery
import runpy
import sys
import warnings
from pathlib import Path
from typing import Any, Iterator, Optional

__all__ = ["install", "quiet", "run_program", "unjudged"]

_TESTS = Path(__file__).resolve().parents[2] / "hardware_tests"
_INSTEAD = {"raises": "unjudged", "warns": "quiet"}


@contextlib.contextmanager
def unjudged(*_: Any, **__: Any) -> Iterator[None]:
    """Stands for ``pytest.raises``: whatever the block raises, or nothing, is well."""
    with contextlib.suppress(Exception):
        yield


@contextlib.contextmanager
def quiet(*_: Any, **__: Any) -> Iterator[None]:
    """Stands for ``pytest.warns``: whatever the block warns of, or nothing, is well."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class _Stripper(ast.NodeTransformer):
    def visit_Assert(self, node: Any) -> Any:
        return ast.copy_location(ast.Expr(value=self.visit(node.test)), node)

    def visit_withitem(self, node: Any) -> Any:
        self.generic_visit(node)
        name = _called_of_pytest(node.context_expr)
        if name in _INSTEAD:
            place = f"__import__({__name__!r}, fromlist=['_']).{_INSTEAD[name]}"
            node.context_expr.func = ast.copy_location(
                ast.parse(place, mode="eval").body, node.context_expr
            )
        return node


def _called_of_pytest(expression: Any) -> str:
    """``raises`` for ``pytest.raises(...)``; empty for what is no call of pytest."""
    called = getattr(expression, "func", None)
    owner = getattr(called, "value", None)
    return called.attr if getattr(owner, "id", "") == "pytest" else ""


def _stripped(source: bytes, path: str) -> Any:
    tree = _Stripper().visit(ast.parse(source, path))
    return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> Any:
        # Never from a cache, and never into one.
        path = self.get_filename(fullname)
        return _stripped(self.get_data(path), path)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Optional[Any]:
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        origin = Path((spec and spec.origin) or "/")
        if spec is None or _TESTS not in origin.parents:
            return None
        spec.loader = _Loader(fullname, str(origin))
        return spec


def install() -> None:
    """From now on the modules of the hardware tests that are imported have no assertions.

    pytest's own rewriting must be off (``--assert=plain``), or it would find them first.
    """
    sys.meta_path.insert(0, _Finder())


def run_program(path: str) -> None:
    """Runs a program of the hardware tests as the main program; without assertions if need be."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        runpy.run_path(path, run_name="__main__")
        return
    names = {"__name__": "__main__", "__file__": path, "__builtins__": __builtins__}
    exec(_stripped(Path(path).read_bytes(), path), names)
