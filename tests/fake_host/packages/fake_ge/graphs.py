"""Which operators of a graph a run needs, and which of them are the vendor's.

Source: the adapter's passes see the graph of a run after TensorFlow has pruned it to what is
fetched (guides/facts/adapter.md#reading-the-entry; TensorFlow,
subgraph.cc, RewriteGraphForExecution: what is fed replaces its operator's output).
"""

from typing import Any, Iterable, List, Set, Tuple

__all__ = ["MARK", "mark", "op_type", "pruned", "vendor_type"]

# The private attribute of an operator that stands for one of the vendor's.
MARK = "_fake_vendor_op"
# What stands for them.
_STAND_INS = ("NoOp", "Identity", "IdentityN")

Output = Tuple[str, int]


def mark(operation: Any, kind: str) -> None:
    """Makes an operator stand for the vendor's operator ``kind``."""
    from tensorflow.core.framework import attr_value_pb2

    operation._set_attr(MARK, attr_value_pb2.AttrValue(s=kind.encode()))


def vendor_type(operation: Any) -> str:
    """The vendor's operator that this one stands for, or an empty text."""
    if operation.type not in _STAND_INS:
        return ""
    try:
        return str(operation.get_attr(MARK).decode())
    except ValueError:
        return ""


def op_type(operation: Any) -> str:
    """The operator's type as the adapter would see it."""
    return vendor_type(operation) or str(operation.type)


def pruned(
    graph: Any, feeds: Iterable[Output], fetches: Iterable[Output], targets: Iterable[str]
) -> List[Any]:
    """The operators that must run, given what is fed."""
    fed = set(feeds)
    left = [name for name, index in fetches if (name, index) not in fed] + list(targets)
    todo = [graph.get_operation_by_name(name) for name in left]
    seen: Set[str] = {operation.name for operation in todo}
    needed = []
    while todo:
        operation = todo.pop()
        needed.append(operation)
        unfed = [t.op for t in operation.inputs if (t.op.name, t.value_index) not in fed]
        for other in [*unfed, *operation.control_inputs]:
            if other.name not in seen:
                seen.add(other.name)
                todo.append(other)
    return needed
