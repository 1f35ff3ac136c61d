"""Knows how long a module and a function may be; prints every one that is longer.

Usage: ``python scripts/_sizes.py FOLDER``; exit code 1 if anything is too long.
"""

import ast
import sys
from pathlib import Path
from typing import Iterator, List

MODULE_LINES = 300
FUNCTION_LINES = 50


def findings(folder: Path) -> Iterator[str]:
    """Yield one line of text for each module and function below ``folder`` that is too long."""
    for path in sorted(folder.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        lines = source.count("\n")
        if lines > MODULE_LINES:
            yield f"{path}: {lines} lines, a module has at most {MODULE_LINES}"
        for node in ast.walk(ast.parse(source, str(path))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = _last_line(node) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    yield (
                        f"{path}:{node.lineno}: {node.name} has {lines} lines, "
                        f"a function has at most {FUNCTION_LINES}"
                    )


def main(arguments: List[str]) -> int:
    """Print the findings for the folder named; return the exit code."""
    found = list(findings(Path(arguments[0])))
    for line in found:
        print(line)
    return 1 if found else 0


def _last_line(function: ast.AST) -> int:
    # Python 3.7 has no end_lineno; there the line of the last node is near enough.
    lines: List[int] = [
        getattr(node, "end_lineno", getattr(node, "lineno", 0)) for node in ast.walk(function)
    ]
    return max(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
