"""The rule about frozen graphs that are compiled as if they were trained."""

import ast
from typing import List, Set

from ascend_session.audit.book import Book
from ascend_session.audit.finding import WARNING
from ascend_session.audit.objects import Entry
from ascend_session.audit.source import Source
from ascend_session.audit.tree import Tree

__all__ = ["look_at_inference"]

_READING = {"ParseFromString", "FromString"}
_TRAINING = {
    "apply_gradients",
    "compute_gradients",
    "fit",
    "gradients",
    "minimize",
    "train",
    "train_and_evaluate",
}


def look_at_inference(entries: List[Entry], source: Source, book: Book) -> None:
    """Adds a finding for each entry of a script that only runs a frozen graph."""
    called = _called(source.tree)
    if "import_graph_def" not in called or not called & _READING or called & _TRAINING:
        return
    for entry in entries:
        if any(setting.key == "graph_run_mode" for setting in entry.settings):
            continue
        book.add(
            "inference-as-training",
            WARNING,
            entry.place,
            "This script reads a frozen graph, and graph_run_mode is not set: its default, 1, "
            "compiles the graph for training, with training's precision and memory.",
            'Write parameter_map["graph_run_mode"].i = 0.',
            certain=False,
        )


def _called(tree: Tree) -> Set[str]:
    """The last names of all functions that are called."""
    found: Set[str] = set()
    for node in tree.kind(ast.Call):
        if isinstance(node.func, ast.Attribute):
            found.add(node.func.attr)
        elif isinstance(node.func, ast.Name):
            found.add(node.func.id)
    return found
