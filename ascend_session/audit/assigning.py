"""Follows assignments: to names, to attributes of objects, and into configurations."""

import ast
from typing import Any, List, Tuple

from ascend_session.audit.calls import Calls, word_of
from ascend_session.audit.objects import Entry, Instance, Part, Proto
from ascend_session.audit.scopes import Scope, dotted, is_object, let_go
from ascend_session.audit.source import Source
from ascend_session.audit.values import UNKNOWN, Known

__all__ = ["Assigning"]


class Assigning(Calls):
    """The reader's part that follows assignments."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.stack: List[Any] = []  # the functions that are being followed
        self.module = Scope()

    def assign(self, target: ast.AST, value: Any, written: ast.AST, scope: Scope) -> None:
        """Gives ``target`` the ``value``, which is ``written`` so."""
        if isinstance(value, Proto):
            self._note_name(value, target, scope)
        if isinstance(target, ast.Name):
            scope.bind(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            inner = value.value if isinstance(value, Known) else None
            parts = list(inner) if isinstance(inner, (list, tuple)) else []
            if len(parts) != len(target.elts):
                let_go(value)
                parts = [UNKNOWN] * len(target.elts)
            for each, part in zip(target.elts, parts):
                self.assign(each, part, written, scope)
        elif isinstance(target, ast.Attribute):
            self._set_attribute(target, value, written, scope)
        elif isinstance(target, ast.Subscript):
            self.value(target.value, scope)
            let_go(value)

    def _note_name(self, proto: Proto, target: ast.AST, scope: Scope) -> None:
        """Notes the name, and the function it belongs to; None for one that others may see."""
        function = self.stack[-1] if self.stack else self.source.tree.root
        is_plain = isinstance(target, ast.Name) and target.id not in scope.outside
        is_plain = is_plain and not scope.is_class  # its names are seen as attributes
        proto.names.append((dotted(target), function if is_plain else None))

    def _set_attribute(
        self, target: ast.Attribute, value: Any, written: ast.AST, scope: Scope
    ) -> None:
        owner = self.value(target.value, scope)
        path: Tuple[Any, ...] = (target.attr,)
        if isinstance(owner, Part):
            path, owner = (*owner.path, target.attr), owner.owner
        if isinstance(owner, Entry):
            self.set_option(target, owner, path, value)
        elif isinstance(owner, Proto):
            self.set_toggle(target, owner, path, word_of(written, value))
            if path[-1] in ("graph_options", "rewrite_options"):
                let_go(owner)
        elif isinstance(owner, Instance):
            self.assign_dotted(target, dotted(target), value, scope)
        else:
            if is_object(value):
                let_go(value)
            if dotted(target):
                scope.bind(dotted(target), value)
