"""Operators that write down what they are asked, and give tensors that the graph can have."""

from typing import Any, Callable, Dict, List, Tuple

__all__ = ["Recorder"]

Call = Tuple[str, Dict[str, Any]]


class Recorder:
    """Sends nothing.

    Attributes:
        calls: What was asked for, in order, with the names of the arguments.
    """

    def __init__(self) -> None:
        self.calls: List[Call] = []

    def __getattr__(self, operator: str) -> Callable[..., Any]:
        def record(tensor: Any = None, **arguments: Any) -> Any:
            self.calls.append((operator, arguments))
            return tensor.op if operator == "send" else tensor

        return record
