"""The NpuOptimizer entry: flat ``{vendor key: value}``, from a configuration and back to one.

An entry has a name, and for each key a protobuf field and a value. The value may be the path of a
file that the configuration holds as an object. `proto` reads and writes entries of a
``tf.ConfigProto``.
Source: guides/facts/adapter.md#reading-the-entry; npu_attrs.cc SetNpuOptimizerAttr.
"""

import os
from functools import lru_cache
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
    Type,
    TypeVar,
)

from ascend_session.config.ends import DYNAMIC_DETAILS, AdapterView
from ascend_session.config.model import ConfigModel
from ascend_session.config.names import unknown_key
from ascend_session.config.option import Option, adapter_options, options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.errors import ConfigError
from ascend_session.findings import ERROR, Finding

if TYPE_CHECKING:
    from ascend_session.option_files.base import OptionFile

ENTRY_NAME = "NpuOptimizer"

ZERO: Mapping[str, Any] = {"s": "", "i": 0, "b": False}
"""Value that a protobuf field returns if another field was set."""

_Model = TypeVar("_Model", bound=ConfigModel)


def is_file(value: object) -> bool:
    """Return whether an option's value is a file object, not a path."""
    if value is None or type(value) in (str, int, bool, float):
        return False
    from ascend_session.option_files.base import OptionFile

    return isinstance(value, OptionFile)


class FileStore:
    """Writes option files into one folder, which is fixed when the store is made.

    File names contain a digest of the content: ranks and systems with equal content share a file,
    and a file in use never changes.

    Args:
        environ: Where ``ASCEND_WORK_PATH`` is looked for; None means ``os.environ``.
        writes: False to compute paths without writing.

    Attributes:
        folder: ``ascend_option_files`` below ``ASCEND_WORK_PATH``, else the working directory.
    """

    def __init__(self, environ: Optional[Mapping[str, str]] = None, writes: bool = True) -> None:
        environ = os.environ if environ is None else environ
        parent = os.path.abspath(environ.get("ASCEND_WORK_PATH") or os.curdir)
        self.folder = os.path.join(parent, "ascend_option_files")
        self._writes = writes
        self._files: Dict[str, OptionFile] = {}

    def store(self, config: Any) -> Any:
        """Write the files of ``config`` and return a copy with their paths.

        Raises:
            ConfigError: If a file cannot be written.
        """
        paths = {name: self.path(file) for name, file in config.given().items() if is_file(file)}
        return config.copy_with(**paths) if paths else config

    def path(self, file: "OptionFile") -> str:
        """Write a file and return its path; see `store`.

        Equal files have one path, even if their text is ordered differently.
        """
        file = next((each for each in self._files.values() if each == file), file)
        path = file.store(self.folder) if self._writes else file.path_in(self.folder)
        self._files[path] = file
        return path

    def restore(self, values: Mapping[str, Any]) -> Dict[str, Any]:
        """Return ``values`` with file objects in place of the paths that this store made."""
        return {
            key: self._files.get(value, value) if isinstance(value, str) else value
            for key, value in values.items()
        }


def flatten(config: ConfigModel) -> Dict[str, Any]:
    """Return all options that are set: ``{vendor key or NPURunConfig keyword: value}``."""
    return {option.key: value for option, value in _set_options(config)}


def adapter_part(config: ConfigModel, store: Optional[FileStore] = None) -> Dict[str, Any]:
    """Return the options that become keys of the NpuOptimizer entry, in the order of definition.

    For a file object the value is its path.

    Args:
        config: The options.
        store: Where file objects are written; None writes nothing.
    """
    entry = {option.key: value for option, value in _set_options(config) if option.field}
    files = [key for key, value in entry.items() if is_file(value)]
    if files:
        store = store or FileStore(writes=False)
        entry.update({key: store.path(entry[key]) for key in files})
    return entry


def _set_options(config: ConfigModel) -> List[Tuple[Option, Any]]:
    given = []
    for option in adapter_options(type(config)):
        value: Any = config
        for name in option.path.split("."):
            value = getattr(value, name, None)
        if value is not None:
            given.append((option, value))
    return given


def unflatten(model: Type[_Model], parameters: Mapping[str, Any]) -> _Model:
    """Build ``model`` from flat vendor keys.

    Raises:
        ConfigError: On unknown keys and on what the model refuses, all at once.
    """
    if not isinstance(parameters, Mapping):
        kind = type(parameters).__name__
        raise ConfigError(f"A mapping of keys to values is needed, this is {kind}: {parameters!r}.")
    options = {key: o for key, o in options_by_key(model).items() if o.field is not None}
    problems = [unknown_key(str(key), model) for key in parameters if key not in options]
    values: Dict[str, Any] = {}
    for key, option in options.items():  # in the order in which problems are reported
        if key in parameters:
            *containers, name = option.path.split(".")
            inner = values
            for container in containers:
                inner = inner.setdefault(container, {})
            inner[name] = parameters[key]
    try:
        config = model(**values)
    except ConfigError as error:
        raise ConfigError.from_problems(problems + list(error.problems), "this entry") from None
    if problems:
        raise ConfigError.from_problems(problems, "this entry")
    return config


@lru_cache(maxsize=4096, typed=True)
def check_value(key: str, value: Any) -> Tuple[Finding, ...]:
    """Report a value that the definition of its key does not accept."""
    try:
        unflatten(AdapterOptions, {key: value})
    except ConfigError as error:
        return error.problems
    return ()


class EntryReading(NamedTuple):
    """One entry as the adapter reads it: first presence, then protobuf field, then value.

    Attributes:
        written: The entry's values by key; text that is not UTF-8 has replacement characters, and a
            message such as a ``list`` is given as text.
        values: The options that the adapter knows, each as it reads it: if the value is in the
            wrong field, it reads zero.
        misplaced: Findings about values in the wrong field, by key.
        not_text: Findings about text that is not UTF-8.
    """

    written: Dict[str, Any]
    values: Dict[str, Any]
    misplaced: Dict[str, Finding]
    not_text: List[Finding]


def read_entries(proto: Any) -> Tuple[List[EntryReading], List[Finding]]:
    """Read the NpuOptimizer entries of a ``tf.ConfigProto``, in their order.

    Returns:
        The entries, and findings about their names and their number.
    """
    optimizers = list(proto.graph_options.rewrite_options.custom_optimizers)
    entries = [_read_entry(each.parameter_map) for each in optimizers if each.name == ENTRY_NAME]
    problems = [misnamed_entry(each.name) for each in optimizers if is_misnamed(each.name)]
    if len(entries) > 1:
        problems.append(several_entries(len(entries)))
    return entries, problems


def _read_entry(parameter_map: Mapping[str, Any]) -> EntryReading:
    """Read the ``parameter_map`` of an entry, whose values are of protobuf's ``AttrValue``."""
    options = options_by_key(AdapterOptions)
    reading = EntryReading({}, {}, {}, [])
    for key in sorted(parameter_map):
        field = parameter_map[key].WhichOneof("value")
        value = getattr(parameter_map[key], field) if field else None
        right = options[key].field if key in options else None
        if isinstance(value, bytes):
            text = value.decode(errors="replace")
            if field == right and text.encode() != value:
                message = f"{key} holds {value!r}, which is not UTF-8 text."
                reading.not_text.append(Finding(ERROR, message, option=key))
            value = text
        elif value is not None and not isinstance(value, (int, float, str)):
            value = " ".join(str(value).split())
        reading.written[key] = value
        if right is not None and field != right:
            reading.misplaced[key] = wrong_field(key, field, right, value)
            reading.values[key] = ZERO[right]
        elif right is not None:
            reading.values[key] = value
    return reading


RESET_OPTIONS = ("aoe_mode", "jit_compile", "job", "shape_generalization_mode")
"""Options that a later entry resets if it omits them (npu_attrs.cc SetNpuOptimizerAttr)."""


def read_in_turn(
    entries: Iterable[Mapping[str, Any]], environ: Optional[Mapping[str, str]] = None
) -> List[AdapterView]:
    """Merge the entries of a proto as the adapter does: omitted options keep earlier values.

    Args:
        entries: The values of each, as the adapter reads them.
        environ: The environment of the process.
    """
    views: List[AdapterView] = []
    kept: Dict[str, Any] = {}
    for values in entries:
        entry = dict(values)
        if entry.get("dynamic_input") is not True:
            for key in DYNAMIC_DETAILS:
                entry.pop(key, None)
        kept = {**{key: kept[key] for key in kept if key not in RESET_OPTIONS}, **entry}
        views.append(AdapterView(entry, kept, environ or {}))
    return views


def values_in_force(entries: Iterable[EntryReading]) -> Mapping[str, Any]:
    """Return the adapter's values after it has read these entries of one proto."""
    views = read_in_turn(entry.values for entry in entries)
    return views[-1].all if views else {}


def is_misnamed(name: str) -> bool:
    """Return whether ``name`` looks like a misspelt name of the adapter's entry."""
    return name != ENTRY_NAME and name.strip().lower().replace("_", "") == ENTRY_NAME.lower()


def misnamed_entry(name: str) -> Finding:
    """Report an entry whose name the adapter does not read."""
    return Finding(
        ERROR,
        f"The proto has an entry named {name!r}; the adapter reads {ENTRY_NAME!r} only and "
        "ignores this one silently.",
        f"Rename it to {ENTRY_NAME!r}.",
        option=ENTRY_NAME,
    )


def several_entries(count: int) -> Finding:
    """Report a proto with more than one entry."""
    return Finding(
        ERROR,
        f"The proto has {count} entries named {ENTRY_NAME!r}; of each key the last "
        "one wins, and some that it lacks go back to their defaults.",
        "Keep one entry.",
        option=ENTRY_NAME,
    )


def wrong_field(key: str, wrong: Optional[str], right: str, value: Any = None) -> Finding:
    """Report a value in the field ``wrong`` (None: in none) instead of ``right``.

    Args:
        key: The option's key.
        wrong: The field that has the value.
        right: The field that the adapter reads.
        value: The value, with bytes decoded; None if it is not known.
    """
    where = f"is in the field {wrong!r}" if wrong else "has no value"
    return Finding(
        ERROR,
        f"{key} {where}; the adapter reads the field {right!r} and finds {ZERO[right]!r}.",
        f'Write parameter_map["{key}"].{right} = {_meant_switch(wrong, right, value)}',
        option=key,
    )


_SWITCHES = {"true": True, "1": True, "false": False, "0": False}


def _meant_switch(wrong: Optional[str], right: str, value: Any) -> str:
    """Return what a switch in a wrong field means, as Python; ``...`` for anything else."""
    if (wrong, right) == ("s", "b") and str(value).lower() in _SWITCHES:
        return str(_SWITCHES[str(value).lower()])
    if {wrong, right} == {"i", "b"} and value in (0, 1):
        return str(bool(value) if right == "b" else int(value))
    return "..."
