"""The NpuOptimizer entry of a proto as the adapter reads it: one field of each value.

Which option stands in which field, at which scope it is read, and which ones stick, is taken from
the table of options under test (options_by_key); its own tests hold it against facts.
"""

from typing import Any, Dict, List, NamedTuple

from ascend_session.config.option import Option, adapter_options
from ascend_session.config.options import AdapterOptions

__all__ = ["Entry", "entries", "init_options", "stick"]

_INT32 = 2**31 - 1

_sticky: Dict[str, Any] = {}


class Entry(NamedTuple):
    """What one entry says.

    Attributes:
        said: The options that it has, as the adapter's field reads them.
    """

    said: Dict[str, Any]

    def get(self, key: str) -> Any:
        """The option's value, or the adapter's default."""
        return self.said[key] if key in self.said else _TABLE[key].adapter

    def scoped(self, scope: str) -> Dict[str, Any]:
        """The options of a scope that have a value."""
        table = [o for o in _TABLE.values() if scope in (o.scope, *o.other_scopes)]
        found = {o.key: self.get(o.key) for o in table}
        return {key: value for key, value in found.items() if value is not None}


def entries(proto: Any) -> List[Entry]:
    """All NpuOptimizer entries of a ``tf.ConfigProto``, the one that counts last."""
    if proto is None:
        return []
    # guides/facts/adapter.md#two-entries
    optimizers = proto.graph_options.rewrite_options.custom_optimizers
    return [_entry(o.parameter_map) for o in optimizers if o.name == "NpuOptimizer"]


def stick(entry: Entry) -> None:
    """Keeps the entry's values of sticky options in the process."""
    # guides/facts/process.md#values-that-stay-in-the-process
    _sticky.update({o.key: entry.said[o.key] for o in _TABLE.values() if _sticks(o, entry)})


def init_options(entry: Entry) -> Dict[str, Any]:
    """What GEInitialize is given by the session that starts GE, by the vendor's keys."""
    # guides/facts/process.md#values-that-stay-in-the-process
    return {**entry.scoped("init"), **_sticky}


def _entry(parameter_map: Any) -> Entry:
    said = {}
    for key in parameter_map:
        option = _TABLE.get(key)
        # guides/facts/adapter.md#unknown-keys
        if option is None or option.field is None:
            continue
        attribute = parameter_map[key]
        # guides/facts/adapter.md#values-in-the-wrong-field
        value = getattr(attribute, option.field)
        said[key] = value.decode(errors="replace") if isinstance(value, bytes) else value
    # guides/facts/adapter.md#options-that-nobody-checks: beyond 32 bits it is dropped
    if said.get("session_device_id", 0) > _INT32:
        del said["session_device_id"]
    # guides/facts/adapter.md#defaults-of-an-empty-entry
    if said.get("graph_run_mode", 1) == 0:
        said["enable_small_channel"] = 1
    return Entry(said)


def _sticks(option: Option, entry: Entry) -> bool:
    return option.sticky and option.key in entry.said


_TABLE = {option.key: option for option in adapter_options(AdapterOptions)}
