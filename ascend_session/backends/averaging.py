"""Which variables of a graph the ranks average, and which updates a run makes.

A variable counts as averaged in a run if the run needs the mean of its gradient, which is known in
two ways. Optimizers of this package `note_averaged` pairs of a mean and its variable. For scripts
that call collectives themselves, the value of each update is traced back: it has to depend on an
allreduce or allgather, and on nothing else that may differ between ranks, such as data. A mean of
the variable's own values is none of its gradient: the ranks may train alone between such means.
What cannot be traced, as through a function or a variable, is unknown: nothing is said about it.
"""

import logging
from typing import (
    Any,
    Dict,
    FrozenSet,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from ascend_session.backends._tensorflow import VARIABLES, keep_on, tf1, walk_inputs
from ascend_session.vendor import ITERATION_OP, WORLD_GROUP

_logger = logging.getLogger(__name__)

_COLLECTIVE = "_ascend_session_collective"  # an attribute of operators: kind, reduction and group
_KEY = "_ascend_session_key"  # the place of a collective in the program, the same on all ranks
_AVERAGED = "_ascend_session_averaged"  # attributes of graphs
_SKIPS = "_ascend_session_skips_overflows"
_RUNS = "_ascend_session_runs"
_TRACED = "_ascend_session_traced"

_LONGEST_WAY = 3  # operators from a sum to the mean: casts and the division

UPDATES = ("Apply", "ResourceApply", "SparseApply", "ResourceSparseApply")
"""How the types of the operators begin with which an optimizer updates variables."""

_SCATTERS = ("Scatter", "ResourceScatter")
_ASSIGNS = ("Assign", "AssignVariableOp")
_ADDS = ("AssignAdd", "AssignSub", "AssignAddVariableOp", "AssignSubVariableOp")
_VALUES = ("grad", "delta", "updates", "value")  # inputs with what a variable is updated by
_SWITCHES = ("Switch", "RefSwitch")
_PASSING = ("Identity", "RefIdentity", "Enter", "RefEnter", "Merge", "RefMerge", *_SWITCHES)
_LOOPS = ("NextIteration", "RefNextIteration", "Enter", "RefEnter")
_MOST_PLANS = 1000  # of a graph that are kept; TensorFlow, too, keeps something for each
_HARMLESS = ("ReadVariableOp", "ResourceGather", "Print", "PrintV2", "Assert", "CheckNumerics")


def mark_collective(
    tensors: Sequence[Any], kind: str, group: str, reduction: str = "", key: str = ""
) -> None:
    """Mark the operator that gives these tensors as a collective, by the vendor's name of it."""
    for operation in {id(tensor.op): tensor.op for tensor in tensors}.values():
        value = tf1().AttrValue(s=f"{kind}/{reduction}/{group}".encode())
        operation._set_attr(_COLLECTIVE, value)
        if key:
            operation._set_attr(_KEY, tf1().AttrValue(s=key.encode()))


def note_averaged(means: Iterable[Any], variables: Iterable[Any]) -> None:
    """Note that tensors are the means, over all ranks, of the gradients of variables.

    Args:
        means: Tensors, IndexedSlices or None.
        variables: As many variables, or other objects, which are ignored.
    """
    for mean, variable in zip(means, variables):
        holder = getattr(getattr(variable, "handle", variable), "op", None)
        if mean is not None and getattr(holder, "type", "") in VARIABLES:
            tensor = getattr(mean, "values", mean)
            keep_on(tensor.graph, _AVERAGED, list).append((tensor.op, holder))


def find_averaged(total: Any) -> str:
    """Return the name of the variable whose averaged gradient is made of this sum; may be empty."""
    names = {op: holder.name for op, holder in keep_on(total.graph, _AVERAGED, list)}
    tensors = [total]
    for _ in range(_LONGEST_WAY):
        consumers = [each for tensor in tensors for each in tensor.consumers()]
        name = next((names[each] for each in consumers if each in names), "")
        if name:
            return str(name)
        tensors = [output for each in consumers for output in each.outputs]
    return ""


def find_updated(total: Any) -> str:
    """Return the name of the variable that an operator right behind this sum updates, or ``""``."""
    tensors = [total]
    for _ in range(_LONGEST_WAY + 1):
        consumers = [each for tensor in tensors for each in tensor.consumers()]
        for update in find_updates(consumers):
            return str(update.holder.name)
        tensors = [output for each in consumers for output in each.outputs]
    return ""


def name_averaged(mean: Any) -> str:
    """Return the name of the variable whose averaged gradient a tensor is; may be empty."""
    noted: Sequence[Tuple[Any, Any]] = getattr(mean.graph, _AVERAGED, ())
    return next((str(holder.name) for op, holder in noted if op is mean.op), "")


def note_skipped_overflows(graph: Any) -> None:
    """Note that a graph skips steps in which gradients overflow, so that they are expected."""
    setattr(graph, _SKIPS, True)


def skips_overflows(graph: Any) -> bool:
    """Return whether `note_skipped_overflows` was called for a graph."""
    return getattr(graph, _SKIPS, False) is True


class Variable(NamedTuple):
    """A variable of a graph.

    Attributes:
        name: Its name.
        read: A tensor of the graph with its value.
        group: The group that averages its gradient.
    """

    name: str
    read: Any
    group: str = WORLD_GROUP


class RunPlan(NamedTuple):
    """What a run does with variables.

    Attributes:
        averaged: Those whose gradients it averages.
        separate: Those that an optimizer updates with nothing that came through a collective.
        equalized: The names of those that it sets to what a broadcast gives.
        mixed: The names of those whose values it averages, as where each rank trains alone and the
            models are averaged now and then, or elastically.
        written: The names of all that it sets to another value than an optimizer's.
        has_updates: Whether an optimizer updates any variable.
        is_looped: Whether the device makes it as often as its session was told.
        is_empty: Whether it computes nothing at all.
        collectives: Group and key of each collective that it runs, sends and receives excepted.
    """

    averaged: Tuple[Variable, ...] = ()
    separate: Tuple[Variable, ...] = ()
    equalized: FrozenSet[str] = frozenset()
    mixed: FrozenSet[str] = frozenset()
    written: FrozenSet[str] = frozenset()
    has_updates: bool = False
    is_looped: bool = False
    is_empty: bool = False
    collectives: Tuple[Tuple[str, str], ...] = ()


def plan_run(graph: Any, operations: Sequence[Any]) -> RunPlan:
    """Find out what a run of these operations does; each is analysed once in a graph."""
    plans: Dict[Any, RunPlan] = keep_on(graph, _RUNS)
    key = tuple(operations)
    if key not in plans:
        try:
            needed = sorted(walk_inputs(*key), key=lambda each: int(each._id))
            plan = _plan(graph, needed)
        except Exception:  # no training may fail because it is looked at
            _logger.debug("A run could not be analysed", exc_info=True)
            plan = RunPlan()
        if len(plans) >= _MOST_PLANS:
            plans.clear()
        plans[key] = plan
    return plans[key]


def find_updates(operations: Iterable[Any]) -> Iterator["Update"]:
    """Yield the updates of variables among operations, initialisation among them."""
    for operation in operations:
        index = _value_index(operation)
        holder = None if index is None else _find_holder(operation.inputs[0])
        if holder is not None:
            yield Update(operation, holder, operation.inputs[index])


class Update(NamedTuple):
    """An operator that updates a variable.

    Attributes:
        operation: The operator.
        holder: The operator that holds the variable.
        value: The tensor with the gradient or the new value.
    """

    operation: Any
    holder: Any
    value: Any


def is_of_optimizer(update: Update, trainable: Set[Any]) -> bool:
    """Return whether an optimizer may have made this update.

    That is an operator for gradients, or another one that computes a trainable variable's new value
    from its old one, as optimizers do that are written in Python.

    Args:
        update: The update.
        trainable: The operators that hold trainable variables.
    """
    if update.operation.type.startswith(UPDATES):
        return True
    if update.holder not in trainable:
        return False
    if update.operation.type in _ASSIGNS:
        return update.holder in trace(update.value).variables
    return True


def trainable_holders(graph: Any) -> Set[Any]:
    """Return the operators that hold the trainable variables of a graph."""
    tf = tf1()
    variables = graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)
    return {getattr(each, "handle", each).op for each in variables if hasattr(each, "op")}


def has_updates_in_functions(graph: Any, operations: Iterable[Any]) -> bool:
    """Return whether functions that these operations call have operators for gradients."""
    names: List[str] = []
    for operation in operations:
        if _calls_function(operation):
            names += _list_functions(operation.node_def)
    seen: Set[str] = set()
    while names:
        name = names.pop()
        if name in seen or not graph._is_function(name):
            continue
        seen.add(name)
        for node in _body_of(graph._get_function(name)):
            if node.op.startswith(UPDATES):
                return True
            names += _list_functions(node)
    return False


def _plan(graph: Any, needed: List[Any]) -> RunPlan:
    of_run = set(needed)
    noted: Sequence[Tuple[Any, Any]] = getattr(graph, _AVERAGED, ())
    averaged: Dict[Any, str] = {holder: WORLD_GROUP for mean, holder in noted if mean in of_run}
    trainable = trainable_holders(graph)
    separate: Set[Any] = set()
    equalized: Set[str] = set()
    mixed: Set[str] = set()
    written: Set[str] = set()
    has_updates = bool(averaged)
    for update in find_updates(needed):
        source = trace(update.value)
        mixed.update(holder.name for holder in source.mixed)
        if not is_of_optimizer(update, trainable):
            written.add(update.holder.name)
            if source.has_broadcast:
                equalized.add(update.holder.name)
            if source.means:
                mixed.add(update.holder.name)
            continue
        has_updates = True
        if update.holder in source.mixed:
            continue
        group = source.averaging_group(update.value)
        if group is not None:
            averaged.setdefault(update.holder, group)
        elif not source.has_collective:
            separate.add(update.holder)
    return RunPlan(
        _readable(averaged),
        _readable({holder: WORLD_GROUP for holder in separate if holder not in averaged}),
        frozenset(equalized),
        frozenset(mixed),
        frozenset(written),
        has_updates or has_updates_in_functions(graph, needed),
        any(operation.name == ITERATION_OP for operation in needed),
        all(operation.type == "NoOp" for operation in needed),
        tuple(sorted(_list_keys(needed))),
    )


def _list_keys(operations: Iterable[Any]) -> Iterator[Tuple[str, str]]:
    """Yield group and key of each collective among operations that has a key."""
    for operation in operations:
        if operation.type == "IdentityN" and _KEY in operation.node_def.attr:
            collective = _read_collective(operation)
            if collective is not None:
                yield collective[2], operation.get_attr(_KEY).decode()


def _readable(groups: Dict[Any, str]) -> Tuple[Variable, ...]:
    """Return those variables that the graph can read already, in its order."""
    pairs = [(holder, _find_read(holder), groups[holder]) for holder in groups]
    pairs.sort(key=lambda pair: int(pair[0]._id))
    return tuple(
        Variable(holder.name, read, group) for holder, read, group in pairs if read is not None
    )


def _find_read(holder: Any) -> Any:
    """Return a tensor of the graph with a variable's value; None if there is none."""
    tensor = holder.outputs[0]
    if holder.type != "VarHandleOp":
        return tensor
    for reader in tensor.consumers():
        is_free = not reader.control_inputs and reader._get_control_flow_context() is None
        if reader.type == "ReadVariableOp" and is_free:
            return reader.outputs[0]
    return None


def _value_index(operation: Any) -> Optional[int]:
    """Return which input has the gradient or new value; None if it updates no variable."""
    kind = operation.type
    if not (kind in _ASSIGNS or kind in _ADDS or kind.startswith((*UPDATES, *_SCATTERS))):
        return None
    names = [argument.name for argument in operation.op_def.input_arg]
    return next((names.index(name) for name in _VALUES if name in names), None)


def _find_holder(tensor: Any) -> Any:
    """Return the operator that holds the variable of a reference or handle, None if unknown."""
    operation = tensor.op
    while operation.type in _PASSING and operation.inputs:
        operation = operation.inputs[0].op
    return operation if operation.type in VARIABLES else None


class Source(NamedTuple):
    """What a tensor is computed from, up to the next collectives and variables.

    Attributes:
        means: Group and number of elements (None if unknown) of each allreduce and allgather.
        mixed: The operators that hold variables whose values, and nothing but values of variables,
            were exchanged.
        variables: The operators that hold the variables that it reads.
        has_broadcast: Whether a broadcast is among it.
        has_collective: Whether any collective is among it, or may be: functions are not looked at.
        may_differ: Whether something that may differ between the ranks is among it.
    """

    means: FrozenSet[Tuple[str, Optional[int]]] = frozenset()
    mixed: FrozenSet[Any] = frozenset()
    variables: FrozenSet[Any] = frozenset()
    has_broadcast: bool = False
    has_collective: bool = False
    may_differ: bool = False

    def averaging_group(self, value: Any) -> Optional[str]:
        """Return the group that has averaged ``value``; None if none has, or that is not certain.

        An exchange of fewer numbers, such as a norm, is not the mean.
        """
        if self.may_differ:
            return None
        size = value.shape.num_elements()
        for group, count in sorted(self.means, key=str):
            if size is None or count is None or count >= size:
                return group
        return None


def trace(tensor: Any) -> Source:
    """Find out what a tensor is computed from."""
    traced: Dict[Any, Source] = keep_on(tensor.graph, _TRACED)
    todo = [tensor.op]
    opened: Set[Any] = set()
    while todo:
        operation = todo[-1]
        before = [] if operation in traced else [each.op for each in _inputs(operation)]
        missing = [each for each in before if each not in traced and each not in opened]
        if missing and operation not in opened:
            opened.add(operation)
            todo += missing
            continue
        todo.pop()
        if operation not in traced:
            # Those that are missing are in a loop.
            sources = [traced[each] for each in before if each in traced]
            traced[operation] = _join(operation, sources)
    return traced[tensor.op]


def _inputs(operation: Any) -> List[Any]:
    """Return the tensors whose values an operation's results are computed from."""
    if _read_collective(operation) or operation.type in VARIABLES:
        return []
    if operation.type in _SWITCHES:
        return [operation.inputs[0]]
    inputs = list(operation.inputs)
    if operation.type == "ReadVariableOp":  # right after an update of the same variable
        updates = find_updates(operation.control_inputs)
        holder = _find_holder(inputs[0])
        inputs += [update.value for update in updates if update.holder is holder]
    return inputs


def _join(operation: Any, sources: Sequence[Source]) -> Source:
    """Return what an operation's results are computed from."""
    collective = _read_collective(operation)
    if collective:
        kind, reduction, group = collective
        is_mean = (kind, reduction) in (("HcomAllReduce", "sum"), ("HcomAllGather", ""))
        means = {(group, each.shape.num_elements()) for each in operation.outputs if is_mean}
        return Source(
            frozenset(means),
            _find_mixed(operation) if is_mean else frozenset(),
            has_broadcast=kind == "HcomBroadcast",
            has_collective=True,
            may_differ=not is_mean and kind != "HcomBroadcast",
        )
    if operation.type in VARIABLES:
        return Source(variables=frozenset([operation]))
    calls_function = _calls_function(operation)
    return Source(
        _unite([each.means for each in sources]),
        _unite([each.mixed for each in sources]),
        _unite([each.variables for each in sources]),
        any(each.has_broadcast for each in sources),
        calls_function or any(each.has_collective for each in sources),
        calls_function or _may_differ(operation) or any(each.may_differ for each in sources),
    )


def _find_mixed(collective: Any) -> FrozenSet[Any]:
    """Return the holders of the variables whose values a collective exchanges.

    There are none if anything else has a part in what it exchanges, such as data, or a gradient,
    which ``tf.gradients`` begins with operators of a certain name.
    """
    inputs = list(collective.inputs)
    if collective.type == "IdentityN":  # after the results
        inputs = inputs[len(inputs) // 2 :]
    todo = [tensor.op for tensor in inputs]
    holders: Set[Any] = set()
    seen: Set[Any] = set()
    while todo:
        operation = todo.pop()
        if operation in seen:
            continue
        seen.add(operation)
        is_gradient = operation.name.rpartition("/")[2].startswith("grad_ys_")
        holder = operation if operation.type in VARIABLES else None
        if _value_index(operation) is not None:
            holder = _find_holder(operation.inputs[0])
        if holder is not None:
            holders.add(holder)
        elif is_gradient or _calls_function(operation) or _may_differ(operation):
            return frozenset()
        else:
            todo += [tensor.op for tensor in operation.inputs]
    return frozenset(holders)


def _unite(sets: Sequence[FrozenSet[Any]]) -> FrozenSet[Any]:
    """Return the union; the largest set itself where that is all, so that operations share it."""
    largest = max(sets, key=len, default=frozenset())
    if all(each is largest or each <= largest for each in sets):
        return largest
    return largest.union(*sets)


def _may_differ(operation: Any) -> bool:
    """Return whether an operation gives something that may differ between ranks: data, chance."""
    kind = operation.type
    if kind.startswith("Placeholder"):
        return bool(operation.outputs[0].shape.rank != 0)  # a scalar is a setting
    if kind == "Const":
        value = operation.get_attr("value")
        is_number = tf1().as_dtype(value.dtype).is_floating
        return is_number and len(value.tensor_content) > 8
    if kind in _LOOPS:
        return True
    return bool(operation.op_def.is_stateful) and not (
        kind in _HARMLESS or _value_index(operation) is not None
    )


def _calls_function(operation: Any) -> bool:
    return any(each.type in ("func", "list(func)") for each in operation.op_def.attr)


def _list_functions(node: Any) -> List[str]:
    """Return the names of the functions that a ``NodeDef`` calls."""
    names = []
    for value in node.attr.values():
        names += [value.func.name, *(each.name for each in value.list.func)]
    return [name for name in names if name]


def _body_of(function: Any) -> Any:
    definition = getattr(function, "cached_definition", None) or function.definition
    return definition.node_def


def _read_collective(operation: Any) -> Optional[Tuple[str, str, str]]:
    """Return kind, reduction and group of a collective; None for other operations."""
    if operation.type == "IdentityN":  # the stub's end with one
        try:
            kind, reduction, group = operation.get_attr(_COLLECTIVE).decode().split("/", 2)
        except ValueError:
            return None
        return kind, reduction, group
    if not operation.type.startswith("Hcom"):
        return None
    names = operation.node_def.attr
    reduction = names["reduction"].s.decode() if "reduction" in names else ""
    return operation.type, reduction, names["group"].s.decode() if "group" in names else ""
