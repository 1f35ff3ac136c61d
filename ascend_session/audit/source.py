"""From a file to its syntax tree: encodings, Python 2, notebooks, and what cannot be read.

Python's own parser reads what it can. For the syntax of Python 2 its lib2to3 stands in, where this
Python still has it (up to 3.12); what it rewrites stays on its line. The tree is walked once: it
has its nodes by kind, and the way up that Python's lack.
"""

import ast
import io
import json
import os
import re
import stat
import tokenize
import warnings
from typing import AbstractSet, Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from ascend_session.errors import AuditError
from ascend_session.findings import Place

_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Tree:
    """A syntax tree.

    Args:
        root: The module, as Python's parser returns it.

    Attributes:
        root: The module.
        nodes: All nodes.
    """

    def __init__(self, root: ast.AST) -> None:
        self.root = root
        self.nodes: List[ast.AST] = [root]
        self._above: Dict[int, ast.AST] = {}
        self._kinds: Dict[type, List[Any]] = {}
        above, kinds = self._above, self._kinds
        for node in self.nodes:  # grows while it is walked
            kinds.setdefault(type(node), []).append(node)
            for field in node._fields:
                value = getattr(node, field, None)
                if isinstance(value, ast.AST):
                    if value._fields:  # else it is Load or Add or the like, one for all places
                        above[id(value)] = node
                        self.nodes.append(value)
                elif isinstance(value, list):
                    for each in value:
                        if isinstance(each, ast.AST):
                            above[id(each)] = node
                            self.nodes.append(each)

    def kind(self, *kinds: type) -> List[Any]:
        """The nodes of these kinds."""
        return [node for kind in kinds for node in self._kinds.get(kind, ())]

    def around(self, names: AbstractSet[str]) -> Set[int]:
        """The functions and classes, by id, that name any of ``names``, or one that does."""
        by_name: Dict[str, List[ast.AST]] = {}
        for node in self.kind(ast.Name):
            by_name.setdefault(node.id, []).append(node)
        for node in self.kind(ast.Attribute):
            by_name.setdefault(node.attr, []).append(node)
        found: Set[int] = set()
        left = list(names)
        while left:
            for node in by_name.pop(left.pop(), ()):
                for above in self.all_of(node):
                    if isinstance(above, _NAMED) and id(above) not in found:
                        found.add(id(above))
                        left.append(above.name)
        return found

    def of(self, node: ast.AST) -> Optional[ast.AST]:
        """The node around ``node``; None at the root."""
        return self._above.get(id(node))

    def all_of(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around ``node``, from inside out."""
        above = self.of(node)
        while above is not None:
            yield above
            above = self.of(above)

    def function_of(self, node: ast.AST) -> Optional[Any]:
        """The function that ``node`` stands in; None in none."""
        for above in self.all_of(node):
            if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return above
        return None


LARGEST = 2_000_000
"""Bytes of a file that is read; generated files may be larger."""

# A file without any of these builds nothing that an adapter reads.
_MARKS = re.compile(
    rb"custom_optimizers|parameter_map|NPURunConfig|npu_ops|NpuOptimizer|npu_bridge|npu_device"
)
_NPU = re.compile(r"npu_bridge|npu_device|npu_init|NpuOptimizer|NPURunConfig|NPUEstimator")
_MAGIC = re.compile(r"^\s*[%!?]")
_FIXES = ("print", "except", "exec", "raise", "repr", "ne", "numliterals", "tuple_params", "throw")


class Source(NamedTuple):
    """One script that could be read.

    Attributes:
        file: Its name.
        tree: Its syntax tree.
        lines: Its lines.
        is_npu: Whether it names the vendor's packages or the optimizer.
        old: Whether it is Python 2.
        cells: Of a notebook: for each line its cell and line there, else empty.
        remarks: What parts could not be read, with their places.
    """

    file: str
    tree: Tree
    lines: List[str]
    is_npu: bool
    old: bool = False
    cells: Tuple[Tuple[int, int], ...] = ()
    remarks: Tuple[Tuple[Place, str], ...] = ()

    def place(self, node: Any) -> Place:
        """Where ``node`` stands."""
        line = int(getattr(node, "lineno", 1))
        column = self._column(line, int(getattr(node, "col_offset", 0)))
        if self.cells and line <= len(self.cells):
            cell, within = self.cells[line - 1]
            return Place(within, column, cell)
        return Place(line, column)

    def _column(self, line: int, before: int) -> int:
        """The column of what has so many bytes of UTF-8 before it, counted in characters."""
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        if not text.isascii():
            before = len(text.encode()[:before].decode("utf-8", "ignore"))
        return before + 1

    def line_of(self, place: Place) -> str:
        """The text of the line, without blanks around it."""
        number = place.line
        if place.cell is not None:
            number = self.cells.index((place.cell, place.line)) + 1
        return self.lines[number - 1].strip() if 0 < number <= len(self.lines) else ""


def content_of(file: str) -> bytes:
    """What a file holds; a pipe is refused and never waited for.

    Raises:
        AuditError: If it cannot be read, is no file or is too large.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as opened:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                raise AuditError("It is no file, but a pipe or a device.")
            if facts.st_size > LARGEST:
                raise AuditError(f"It has {facts.st_size:,} bytes, more than {LARGEST:,}.")
            return opened.read()
    except OSError as error:
        raise AuditError(f"It cannot be read: {error.strerror}.") from None
    except ValueError as error:
        if isinstance(error, AuditError):
            raise
        raise AuditError("That is no file name.") from None


def is_marked(data: bytes) -> bool:
    """Whether a file may hold anything that is looked at."""
    return _MARKS.search(data) is not None


def decoded(data: bytes) -> str:
    """The text of a file: as its cookie says, else UTF-8, else GB 18030, else byte by byte."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except (SyntaxError, UnicodeDecodeError):
        encoding = "utf-8"
    for name in (encoding, "utf-8-sig", "gb18030"):
        try:
            return data.decode(name)
        except (UnicodeDecodeError, LookupError):
            continue
    return data.decode("latin-1")


def read_script(file: str, data: bytes) -> Source:
    """Reads a file of Python, or a notebook, by its name.

    Raises:
        AuditError: If it cannot be read.
    """
    return (read_notebook if file.endswith(".ipynb") else read_python)(file, data)


def read_python(file: str, data: bytes) -> Source:
    """Reads a file of Python.

    Raises:
        AuditError: If it is neither Python 3 nor Python 2 that can be read here.
    """
    text = decoded(data).replace("\r\n", "\n").replace("\r", "\n").replace("\f", " ")
    tree, old = _tree(text)
    return Source(file, Tree(tree), text.split("\n"), _NPU.search(text) is not None, old)


def read_notebook(file: str, data: bytes) -> Source:
    """Reads the code cells of a notebook as one script; cells that are no Python are left out.

    Raises:
        AuditError: If the file is no notebook.
    """
    lines: List[str] = []
    cells: List[Tuple[int, int]] = []
    remarks: List[Tuple[Place, str]] = []
    for number, text in _cells(data):
        kept = [("pass" if _MAGIC.match(line) else line) for line in text.split("\n")]
        try:
            _tree("\n".join(kept))
        except AuditError as why:
            remarks.append((Place(1, 1, number), str(why)))
            continue
        lines += kept
        cells += [(number, line) for line in range(1, len(kept) + 1)]
    whole = "\n".join(lines)
    is_npu = _NPU.search(whole) is not None
    tree, old = _tree(whole)
    return Source(file, Tree(tree), lines, is_npu, old, tuple(cells), tuple(remarks))


def _cells(data: bytes) -> List[Tuple[int, str]]:
    try:
        notebook = json.loads(decoded(data))
        found = notebook.get("cells")
        if found is None:  # the third format of notebooks
            found = [cell for sheet in notebook["worksheets"] for cell in sheet["cells"]]
        code = []
        for number, cell in enumerate(found, 1):
            if cell.get("cell_type") == "code":
                text = cell.get("source", cell.get("input", ""))
                code.append((number, text if isinstance(text, str) else "".join(text)))
        return code
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise AuditError("This is no notebook that can be read.") from None


def _tree(text: str) -> Tuple[ast.AST, bool]:
    """The syntax tree, and whether only Python 2 reads the text."""
    failure: Optional[Exception] = None
    for attempt in (_as_it_is, _with_spaces, _from_python_2):
        try:
            return attempt(text), attempt is not _as_it_is
        except (RecursionError, MemoryError):
            raise AuditError("It is nested too deeply to be read.") from None
        except (SyntaxError, ValueError) as error:
            failure = failure or error
    line = getattr(failure, "lineno", None)
    at = f" in line {line}" if line else ""
    raise AuditError(f"Its syntax could not be read{at}: {getattr(failure, 'msg', failure)}.")


def _as_it_is(text: str) -> ast.AST:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "invalid escape sequence" is the script's own business
        return ast.parse(text)


def _with_spaces(text: str) -> ast.AST:
    if "\t" not in text:
        raise ValueError("no tabs")
    return _as_it_is(text.expandtabs(8))  # which is what Python 2 counts


def _from_python_2(text: str) -> ast.AST:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from lib2to3.refactor import RefactoringTool
        except ImportError:
            raise SyntaxError("syntax of Python 2") from None
        try:
            fixes = [f"lib2to3.fixes.fix_{name}" for name in _FIXES]
            rewritten = str(RefactoringTool(fixes).refactor_string(f"{text.expandtabs(8)}\n", "it"))
        except Exception as error:  # lib2to3 has many, and none of them is a class of its own
            raise SyntaxError(f"neither Python 3 nor Python 2 ({type(error).__name__})") from None
    return _as_it_is(rewritten)
