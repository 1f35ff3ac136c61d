"""Configurations in YAML and JSON files; every problem is reported with its line."""

import os
from typing import Any, Optional, Union

from ascend_session.config.documents import Lines, read_document
from ascend_session.config.option import option_fields
from ascend_session.errors import ConfigError, Problem

__all__ = ["from_file", "line_of"]

PathLike = Union[str, "os.PathLike[str]"]

# Their values are Python objects, which no file can hold
_OBJECTS = ("distribute", "session_config", "train_distribute", "eval_distribute")


def from_file(model: Any, path: PathLike) -> Any:
    """Builds ``model`` from a file; see `AscendConfig.from_file`."""
    name = os.fspath(path)
    values, lines, problems = read_document(name)
    problems += [
        Problem(key, f"{key} takes a Python object and cannot be given in a file.")
        for key in _OBJECTS
        if key in values
    ]
    try:
        config = model(**{k: v for k, v in values.items() if k not in _OBJECTS})
    except ConfigError as error:
        problems += list(error.problems)
    if problems:
        raise ConfigError.of([_located(name, model, lines, p) for p in problems], name)
    return config


def _located(name: str, model: Any, lines: Lines, problem: Problem) -> Problem:
    """``problem`` with file and line in front of its message."""
    line = line_of(problem.option, model, lines)
    place = name if line is None else f"{name}:{line}"
    return problem._replace(message=f"{place}: {problem.message}")


def line_of(option: str, model: Any, lines: Lines) -> Optional[int]:
    """The line that gives ``option``, which a rule names by path, by name or by vendor key.

    For an option that is missing it is the line of the part that it belongs in.
    """
    if option in lines:
        return lines[option]
    paths = [o.path for o in option_fields(model) if option in (o.key, o.name)]
    paths += [path.rpartition(".")[0] for path in paths]
    return next((lines[path] for path in paths if path in lines), None)
