"""Between the objects a user writes and the flat keys of the NpuOptimizer entry, both ways."""

from operator import attrgetter
from typing import Any, Callable, Dict, List, Mapping, Tuple, Type, TypeVar

from pydantic import BaseModel

from ascend_session.config.file_store import FileStore, is_file
from ascend_session.config.names import unknown_key
from ascend_session.config.option import Option, adapter_options, options_by_key, part_of
from ascend_session.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)
_Reader = Tuple[Option, Callable[[Any], Any]]
_readers: Dict[Type[BaseModel], List[_Reader]] = {}


def flatten(config: BaseModel) -> Dict[str, Any]:
    """Give all options that are set: ``{vendor key or NPURunConfig keyword: value}``."""
    return {option.key: value for option, value in _set_options(config)}


def adapter_part(config: BaseModel) -> Dict[str, Any]:
    """Give the options that become keys of the NpuOptimizer entry, in the order of definition.

    Of a file that is given as an object it is the path that it gets; nothing is written.
    """
    entry = {
        option.key: value for option, value in _set_options(config) if option.field is not None
    }
    files = [key for key, value in entry.items() if is_file(value)]
    if files:
        store = FileStore(writes=False)
        entry.update({key: store.path(entry[key]) for key in files})
    return entry


def _set_options(config: BaseModel) -> List[Tuple[Option, Any]]:
    values = [(entry, read(config)) for entry, read in _readers_of(type(config))]
    return [(entry, value) for entry, value in values if value is not None]


def _readers_of(model: Type[BaseModel]) -> List[_Reader]:
    if model not in _readers:
        _readers[model] = [(entry, _reader(entry.path)) for entry in adapter_options(model)]
    return _readers[model]


def _reader(path: str) -> Callable[[Any], Any]:
    container, _, name = path.rpartition(".")
    if not container:
        return attrgetter(name)
    outer = _reader(container)
    return lambda config: getattr(outer(config), name, None)


def unflatten(model: Type[Model], parameters: Mapping[str, Any]) -> Model:
    """Build ``model`` from flat vendor keys.

    Raises:
        ConfigError: On unknown keys and on what the model refuses, all at once.
    """
    if not isinstance(parameters, Mapping):
        kind = type(parameters).__name__
        raise ConfigError(f"A mapping of keys to values is needed, this is {kind}: {parameters!r}.")
    known = options_by_key(model)
    problems = [unknown_key(str(key)) for key in parameters if _is_unknown(key, known)]
    values = {known[k].path: v for k, v in parameters.items() if not _is_unknown(k, known)}
    try:
        config = model(**_nested(model, values))
    except ConfigError as error:
        raise ConfigError.of(problems + list(error.problems), "this entry") from None
    if problems:
        raise ConfigError.of(problems, "this entry")
    return config


def _is_unknown(key: str, known: Mapping[str, Option]) -> bool:
    return key not in known or known[key].field is None


def _nested(model: Type[BaseModel], values: Mapping[str, Any]) -> Dict[str, Any]:
    """Turn ``{"dump_config.dump_path": v}`` into ``{"dump_config": {"dump_path": v}}``."""
    nested: Dict[str, Any] = {}
    for name, info in model.model_fields.items():
        part = part_of(info.annotation)
        if part is None:
            if name in values:
                nested[name] = values[name]
            continue
        inside = {p[len(name) + 1 :]: v for p, v in values.items() if p.startswith(name + ".")}
        if inside:
            nested[name] = _nested(part, inside)
    return nested
