"""Parse a file to a syntax tree: encodings, Python 2, notebooks.

Python's own parser reads what it can. For the syntax of Python 2 its lib2to3 stands in, where this
Python still has it (up to 3.12); what it rewrites stays on its line. The tree is walked once: it
has its nodes by type, and the way up that Python's lack.
"""

import ast
import contextlib
import io
import json
import re
import subprocess
import sys
import tokenize
import warnings
from functools import lru_cache
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ascend_session.errors import AuditError
from ascend_session.files import UnreadableError, read_regular_file
from ascend_session.findings import Place

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def last_name(node: ast.AST) -> str:
    """Return the name, or that of an attribute; an empty text for anything else."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


class SyntaxTree:
    """A syntax tree with its nodes by type, and the parent of each.

    Args:
        root: The module, as Python's parser returns it.

    Raises:
        AuditError: If it has too many nodes.
    """

    def __init__(self, root: ast.AST) -> None:
        self.root = root
        self._parents: Dict[int, ast.AST] = {}
        self._definitions: Dict[int, ast.AST] = {}  # the function or class around each node, if any
        self._by_type: Dict[type, List[Any]] = {}
        self._by_name: Dict[str, List[Any]] = {}
        nodes = [root]
        for node in nodes:  # grows while it is walked
            if len(nodes) > _MOST_NODES:
                raise AuditError(_TOO_LARGE)
            self._by_type.setdefault(type(node), []).append(node)
            if isinstance(node, (ast.Name, ast.Attribute)):
                self._by_name.setdefault(last_name(node), []).append(node)
            around = self._definitions.get(id(node))
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                around = node
            for child in ast.iter_child_nodes(node):
                if not isinstance(child, _SHARED):
                    self._parents[id(child)] = node
                    if around is not None:
                        self._definitions[id(child)] = around
                    nodes.append(child)

    def nodes(self, *types: type) -> List[Any]:
        """List the nodes of these types."""
        return [node for kind in types for node in self._by_type.get(kind, ())]

    def parent(self, node: ast.AST) -> Optional[ast.AST]:
        """Return the node around ``node``; None at the root."""
        return self._parents.get(id(node))

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around ``node``, from inside out."""
        above = self.parent(node)
        while above is not None:
            yield above
            above = self.parent(above)

    def uses(self, name: str) -> List[Any]:
        """List the names ``name``, and the attributes that are called so."""
        return self._by_name.get(name, [])

    def definitions_around(self, node: ast.AST) -> Iterator[Any]:
        """Yield the functions and classes that ``node`` stands in, from inside out."""
        above = self._definitions.get(id(node))
        while above is not None:
            yield above
            above = self._definitions.get(id(above))

    def definition(self, node: ast.AST) -> Optional[Any]:
        """Return the function or class that ``node`` stands in directly; None outside of all."""
        return self._definitions.get(id(node))


# There is one object of each of these for all places where it stands.
_SHARED = (ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop)

# A file without any of these builds nothing that an adapter reads.
_MARKS = re.compile(
    rb"custom_optimizers|parameter_map|NPURunConfig|npu_ops|NpuOptimizer|npu_bridge|npu_device|"
    rb"ascend_session"
)
_NPU = re.compile(r"npu_bridge|npu_device|npu_init|NpuOptimizer|NPURunConfig|NPUEstimator")


_LONGEST_LINE = 10_000  # characters of a line that a finding shows


class Script(NamedTuple):
    """One script that could be read.

    Attributes:
        file: Its name.
        tree: Its syntax tree.
        lines: Its lines.
        is_npu: Whether it names the vendor's packages or the optimizer.
        is_python_2: Whether only Python 2 reads it.
        cells: Of a notebook: for each line its cell and line there, else empty.
        unread: The cells of a notebook that could not be read, each with the reason.
    """

    file: str
    tree: SyntaxTree
    lines: List[str]
    is_npu: bool
    is_python_2: bool = False
    cells: Tuple[Tuple[int, int], ...] = ()
    unread: Tuple[Tuple[Place, str], ...] = ()

    def place(self, node: Any) -> Place:
        """Return the place of ``node``; its column is counted in characters."""
        line = int(getattr(node, "lineno", 1))
        column = int(getattr(node, "col_offset", 0))  # in bytes of UTF-8
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        if not text.isascii() and len(text) <= _LONGEST_LINE:
            column = len(text.encode()[:column].decode("utf-8", "ignore"))
        cell: Optional[int] = None
        if self.cells and line <= len(self.cells):
            cell, line = self.cells[line - 1]
        return Place(line, column + 1, cell, self.file, text[:_LONGEST_LINE].strip())


LARGEST_BYTES = 2 << 20
"""Largest file that is read, in bytes."""


def read_file(file: str) -> bytes:
    """Read a file whole; a pipe is refused and never waited for.

    Raises:
        AuditError: If it cannot be read, is no file or is too large.
    """
    try:
        return read_regular_file(file, LARGEST_BYTES, "a script")
    except UnreadableError as error:
        raise AuditError(f"It {error}.") from None


def is_marked(data: bytes) -> bool:
    """Return whether a file may have anything to audit."""
    return _MARKS.search(data) is not None


def is_vendor_module(name: str) -> bool:
    """Return whether a module is the vendor's."""
    return name.split(".")[0] in ("npu_bridge", "npu_device")


def decode_script(data: bytes) -> str:
    """Decode a file as its cookie says, else as UTF-8, else GB 18030, else byte by byte.

    Its lines end with line feeds then, whatever they ended with.
    """
    try:
        cookie, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except (SyntaxError, UnicodeDecodeError):
        cookie = "utf-8"
    text = data.decode("latin-1")
    for encoding in (cookie, "utf-8-sig", "gb18030"):
        with contextlib.suppress(UnicodeDecodeError, LookupError):
            text = data.decode(encoding)
            break
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_script(file: str, data: bytes) -> Script:
    """Parse a file of Python, or a notebook, by its name.

    Raises:
        AuditError: If it is no notebook, or neither Python 3 nor Python 2 that can be read here.
    """
    if file.endswith(".ipynb"):
        return _read_notebook(file, data)
    text = decode_script(data).replace("\f", " ")
    root, is_python_2 = _parse(text)
    is_npu = _NPU.search(text) is not None
    return Script(file, SyntaxTree(root), text.split("\n"), is_npu, is_python_2)


_MAGIC = re.compile(r"^\s*[%!?]")


def _read_notebook(file: str, data: bytes) -> Script:
    """Parse the code cells of a notebook as one script; those that are no Python are left out."""
    lines: List[str] = []
    cells: List[Tuple[int, int]] = []
    unread: List[Tuple[Place, str]] = []
    code = _code_cells(data)
    length = sum(len(cell) for _, cell in code)
    for number, cell in code:
        cell_lines = ["pass" if _MAGIC.match(line) else line for line in cell.split("\n")]
        try:
            _parse("\n".join(cell_lines), length)
        except AuditError as error:
            unread.append((Place(1, 1, number, file), str(error)))
            continue
        lines += cell_lines
        cells += [(number, line) for line in range(1, len(cell_lines) + 1)]
    text = "\n".join(lines)
    root, is_python_2 = _parse(text)
    is_npu = _NPU.search(text) is not None
    return Script(file, SyntaxTree(root), lines, is_npu, is_python_2, tuple(cells), tuple(unread))


def _code_cells(data: bytes) -> List[Tuple[int, str]]:
    try:
        notebook = json.loads(decode_script(data))
        cells = notebook.get("cells")
        if cells is None:  # the third format of notebooks
            cells = [cell for sheet in notebook["worksheets"] for cell in sheet["cells"]]
        code = [
            (number, cell.get("source", cell.get("input", "")))
            for number, cell in enumerate(cells, 1)
            if cell.get("cell_type") == "code"
        ]
        return [(number, text if isinstance(text, str) else "".join(text)) for number, text in code]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise AuditError("This notebook cannot be read.") from None


# Of a syntax tree, which is some ten thousand lines; the parser's own memory and time for it.
_MOST_NODES, _MOST_BYTES, _MOST_SECONDS = 100_000, 512 << 20, 20
_TOO_LARGE = (
    f"It has more than {_MOST_NODES:,} names, values and operations, or is nested too deeply."
)


def _parse(text: str, length: int = 0) -> Tuple[ast.AST, bool]:
    """Return the syntax tree, and whether only Python 2 reads the text.

    Args:
        text: Of a script, or of a cell of a notebook.
        length: Of all cells of the notebook, in characters.
    """
    failure: Optional[Exception] = None
    is_short = max(length, len(text)) <= _LONGEST_PYTHON_2
    for parse in (_parse_as_it_is, _parse_with_spaces, _parse_python_2)[: 3 if is_short else 2]:
        try:
            return parse(text), parse is not _parse_as_it_is
        except (RecursionError, MemoryError, AuditError):
            raise AuditError(_TOO_LARGE) from None
        except (SyntaxError, ValueError) as error:
            failure = failure or error
    line = getattr(failure, "lineno", None)
    where = f" in line {line}" if line else ""
    reason = getattr(failure, "msg", failure)
    raise AuditError(f"Its syntax could not be read{where}: {reason}.")


# Python's parser overflows the stack of its process at some 100,000 operations within each other,
# such as a.b.c..., which take two characters each.
_LONGEST_UNTRIED = 100_000
_TRIAL = f"""
import ast, resource, sys, warnings
resource.setrlimit(resource.RLIMIT_AS, ({_MOST_BYTES}, {_MOST_BYTES}))
resource.setrlimit(resource.RLIMIT_CPU, ({_MOST_SECONDS}, {_MOST_SECONDS}))
warnings.simplefilter("ignore")
try:
    tree = ast.parse(sys.stdin.buffer.read().decode("utf-8", "surrogatepass"))
except (SyntaxError, ValueError):
    sys.exit(0)
sys.exit(sum(bool(node._fields) for node in ast.walk(tree)) > {_MOST_NODES})
"""


def _parse_as_it_is(text: str) -> ast.AST:
    if len(text) > _LONGEST_UNTRIED:
        _try_to_parse(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "invalid escape sequence" is the script's own business
        return ast.parse(text)


def _try_to_parse(text: str) -> None:
    """Parse a long text in a process of its own, whose end is not that of the audit.

    Raises:
        AuditError: If the parser does not survive it, or makes too large a tree of it.
    """
    trial = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _TRIAL],
        input=text.encode("utf-8", "surrogatepass"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    if trial.returncode != 0:
        raise AuditError(_TOO_LARGE)


def _parse_with_spaces(text: str) -> ast.AST:
    if "\t" not in text:
        raise ValueError("no tabs")
    return _parse_as_it_is(text.expandtabs(8))  # which is what Python 2 counts


_LONGEST_PYTHON_2 = 50_000  # characters, for which lib2to3 takes a second or two
_FIXERS = (
    *("print", "except", "exec", "raise", "repr", "ne"),
    *("numliterals", "tuple_params", "throw"),
)


@lru_cache(maxsize=1)
def _python_2_tool() -> Any:
    try:
        from lib2to3.refactor import RefactoringTool
    except ImportError:
        return None
    return RefactoringTool([f"lib2to3.fixes.fix_{name}" for name in _FIXERS])


def _parse_python_2(text: str) -> ast.AST:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tool = _python_2_tool()
        if tool is None:
            raise SyntaxError("syntax of Python 2")
        try:
            rewritten = str(tool.refactor_string(f"{text.expandtabs(8)}\n", "it"))
        except Exception as error:  # lib2to3 has many, and none of them is a class of its own
            raise SyntaxError(f"neither Python 3 nor Python 2 ({type(error).__name__})") from None
    return _parse_as_it_is(rewritten)
