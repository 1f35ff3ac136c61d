"""What fails, or answers wrongly, because one part of a graph only is offloaded.

Source: guides/facts/adapter.md#checkpoints. Which operators Grappler makes of a Pack of one input,
and into which parts a graph falls then, is not modelled: the two graphs that were seen to fail are
known by their operators.
"""

from typing import Any, List, Optional, Tuple

from fake_ge.graphs import Output, op_type

__all__ = ["folds_constants", "obstacle", "reports"]

_ASKS = ("IsVariableInitialized", "VarIsInitializedOp")
_PLACEHOLDERS = ("Placeholder", "PlaceholderV2")


def folds_constants(proto: Any) -> bool:
    """Whether Grappler folds constants in a session with this ``tf.ConfigProto``."""
    if proto is None:
        return True
    from tensorflow.core.protobuf import rewriter_config_pb2

    rewriter = proto.graph_options.rewrite_options
    off = rewriter_config_pb2.RewriterConfig.OFF
    return not rewriter.disable_meta_optimizer and rewriter.constant_folding != off


def obstacle(needed: List[Any], has_one_part: bool, folds: bool) -> Optional[Tuple[str, str]]:
    """The name and the message of the error that a run raises on the device; None if none.

    Args:
        needed: The operators that must run.
        has_one_part: Whether one part of the graph only is offloaded.
        folds: Whether Grappler folds constants.
    """
    # guides/facts/adapter.md#graphs-that-fail; the words are ASSUMED
    unfed = [one.name for one in needed if op_type(one) in _PLACEHOLDERS]
    if unfed:
        return "InternalError", f"[GEOP] GeOp1_0 DoRunAsync Failed: {unfed[0]} has no value"
    if not has_one_part or not folds:
        return None
    for one in needed:
        packs = [tensor.op for tensor in one.inputs if tensor.op.type == "Pack"]
        if one.type == "MergeV2Checkpoints" and any(len(pack.inputs) == 1 for pack in packs):
            variable = _saved(needed) or one.name
            saves = [each.name for each in needed if each.type == "SaveV2"]
            nodes = "".join(f"\n\t [[{{{{node {name}}}}}]]" for name in saves)
            text = f"Attempting to use uninitialized value {variable}{nodes}"
            return "FailedPreconditionError", text
        if one.type == "Pack" and len(one.inputs) == 1 and one.inputs[0].op.type in _ASKS:
            return "InternalError", "GeOp1_0GEOP::::DoRunAsync get output failed"
    return None


def reports(graph: Any, fetches: Tuple[Output, ...]) -> Tuple[int, ...]:
    """Which of the fetches tell the names of variables that are not initialised."""
    found = []
    for number, (name, index) in enumerate(fetches):
        tensor = graph.get_operation_by_name(name).outputs[index]
        if tensor.dtype.base_dtype.name == "string" and _asks(tensor.op):
            found.append(number)
    return tuple(found)


def _asks(operation: Any) -> bool:
    seen, todo = {operation}, [operation]
    while todo:
        one = todo.pop()
        if one.type in _ASKS:
            return True
        more = {tensor.op for tensor in one.inputs} - seen
        seen |= more
        todo += more
    return False


def _saved(needed: List[Any]) -> Optional[str]:
    """The first variable that is saved."""
    variables = [one.name for one in needed if one.type in ("VariableV2", "VarHandleOp")]
    return min(variables) if variables else None
