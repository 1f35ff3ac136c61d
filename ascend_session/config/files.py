"""Configurations in YAML and JSON files; every problem is reported with its line."""

import json
import os
import warnings
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Set, Tuple, Union

from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.checking import findings
from ascend_session.config.option import option_fields, options_by_key
from ascend_session.config.rules import HOST_RULES, RULES
from ascend_session.config.rules.rule import FlatOptions
from ascend_session.errors import AscendConfigWarning, ConfigError
from ascend_session.findings import ERROR, Finding, Place

# Their values are Python objects, which no file can hold
_OBJECTS = ("distribute", "session_config", "train_distribute", "eval_distribute")


def from_file(model: Any, path: "Union[str, os.PathLike[str]]") -> Any:
    """Build ``model`` from a file; see `AscendConfig.from_file`."""
    name = os.fspath(path)
    try:
        config, problems, _ = _load(model, name)
    except _DocumentError as error:
        raise ConfigError(_located(name, error.finding).message, hint=error.finding.hint) from (
            error.__cause__
        )
    if problems:
        raise ConfigError.of([_located(name, problem) for problem in problems], name)
    return config


def _located(name: str, finding: Finding) -> Finding:
    """Write file and line in front of the message."""
    place = name if finding.place is None else f"{name}:{_line_of(finding)}"
    return finding._replace(message=f"{place}: {finding.message}", place=None)


@dataclass(frozen=True)
class FileReport:
    """What a file holds: a configuration, or the problems that refuse it.

    Attributes:
        file: Its name, as it was given.
        config: The configuration; None if it could not be built.
        problems: What refuses it, here or on this host.
        warnings: What is taken but does not do what it says.
    """

    file: str
    config: Optional[AscendConfig]
    problems: Tuple[Finding, ...]
    warnings: Tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing refuses the file."""
        return not self.problems

    def place_of(self, finding: Finding) -> str:
        """Give file and line, in the form that editors and terminals can jump to."""
        line = _line_of(finding)
        return self.file if line is None else f"{self.file}:{line}"

    def to_dict(self) -> Dict[str, Any]:
        """Put the report, without the configuration, into a form that JSON can hold."""
        return {
            "file": self.file,
            "ok": self.ok,
            "problems": [_to_dict(finding) for finding in self.problems],
            "warnings": [_to_dict(finding) for finding in self.warnings],
        }


def _to_dict(finding: Finding) -> Dict[str, Any]:
    return {
        "line": _line_of(finding),
        "option": finding.option,
        "message": finding.message,
        "hint": finding.hint,
        "source": finding.source,
    }


def _line_of(finding: Finding) -> Optional[int]:
    return finding.place.line if isinstance(finding.place, Place) else None


def report_file(name: str, environ: Optional[Mapping[str, str]] = None) -> FileReport:
    """Read and check a configuration file; wrong files are reported, never raised.

    Args:
        name: The file, YAML or JSON.
        environ: The environment for the host rules; None leaves them out.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AscendConfigWarning)
            config, problems, places = _load(AscendConfig, name)
    except _DocumentError as error:
        return FileReport(name, None, (error.finding,))
    if config is None or problems:
        return FileReport(name, None, tuple(problems))
    rules = RULES if environ is None else RULES + HOST_RULES
    checked = [
        _placed(finding, AscendConfig, places)
        for finding in findings(rules, FlatOptions(config.values(), environ=environ))
    ]
    refusals = tuple(finding for finding in checked if finding.severity == ERROR)
    remarks = tuple(finding for finding in checked if finding.severity != ERROR)
    return FileReport(name, config, refusals, remarks)


def resolved_entry(config: AscendConfig) -> List[Dict[str, Any]]:
    """List the keys of the NpuOptimizer entry of ``config``, with value, field and scope."""
    known = options_by_key(AscendConfig)
    return [
        {"key": key, "value": value, "field": known[key].field, "scope": known[key].scope}
        for key, value in config.parameter_map().items()
    ]


_Places = Dict[str, Place]
_Document = Tuple[Dict[str, Any], _Places, List[Finding]]


class _DocumentError(Exception):
    """A file that cannot be read or parsed, or holds no mapping."""

    def __init__(
        self, message: str, place: Optional[Place] = None, hint: Optional[str] = None
    ) -> None:
        super().__init__(message)
        self.finding = Finding(ERROR, message, hint, place=place)


def _load(model: Any, name: str) -> Tuple[Any, List[Finding], _Places]:
    """Read a file.

    Returns:
        The configuration, if it can be built; what is wrong, each with its place; the places.

    Raises:
        _DocumentError: If there is nothing to build it from.
    """
    values, places, problems = read_document(name)
    problems += [
        Finding(ERROR, f"{key} takes a Python object and cannot be given in a file.", option=key)
        for key in _OBJECTS
        if key in values
    ]
    config = None
    try:
        config = model(**{k: v for k, v in values.items() if k not in _OBJECTS})
    except ConfigError as error:
        problems += error.problems
    return config, [_placed(problem, model, places) for problem in problems], places


def _placed(finding: Finding, model: Any, places: _Places) -> Finding:
    """Add the place of an option, which a rule names by path, by name or by vendor key.

    For an option that is missing it is the place of the part that it belongs in.
    """
    option = finding.option or ""
    paths = [each.path for each in option_fields(model) if option in (each.key, each.name)]
    paths = [option, *paths, *(path.rpartition(".")[0] for path in paths)]
    return finding._replace(place=next((places[path] for path in paths if path in places), None))


def read_document(name: str) -> _Document:
    """Read a mapping from a ``.json`` file, or from YAML under any other name.

    Returns:
        The mapping, the place of each ``path.of.keys``, and what is wrong with the keys.

    Raises:
        _DocumentError: If the file cannot be read, decoded or parsed, or holds no mapping.
    """
    try:
        with open(name, encoding="utf-8-sig") as stream:
            text = stream.read()
    except OSError as error:
        raise _DocumentError(f"cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise _DocumentError(f"is not UTF-8 text (byte {error.start}).") from error
    try:
        return _read_json(text) if name.endswith(".json") else _read_yaml(text)
    except RecursionError:
        raise _DocumentError("is nested too deeply, or within itself.") from None


def _read_json(text: str) -> _Document:
    try:
        values = json.loads(text)
    except ValueError as error:
        place = Place(getattr(error, "lineno", 1), getattr(error, "colno", 1))
        message = getattr(error, "msg", str(error))
        raise _DocumentError(f"this is not JSON: {message}.", place) from None
    # JSON is YAML but for its tabs, and YAML's reader tells the lines.
    _, places, problems = _read_yaml(text.replace("\t", " "))
    return values, places, problems


def _read_yaml(text: str) -> _Document:
    import yaml

    reader = _MappingReader()
    try:
        reader.loader = yaml.SafeLoader(text)
        root = reader.loader.get_single_node()
        if not isinstance(root, yaml.MappingNode):
            raise _no_mapping(root)
        return reader.mapping(root, ""), reader.places, reader.problems
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = _place_of(mark) if mark else Place(1, 1)
        raise _DocumentError(f"this is not YAML: {error.problem}.", place) from None
    except yaml.YAMLError as error:
        raise _DocumentError(f"this is not YAML: {error}.") from None


def _no_mapping(root: Any) -> _DocumentError:
    kind = "empty" if root is None else "a list" if isinstance(root.value, list) else "one value"
    return _DocumentError(
        f"options are needed as 'name: value' lines, this is {kind}.",
        hint="`ascend-session options` lists the names.",
    )


def _place_of(mark: Any) -> Place:
    return Place(mark.line + 1, mark.column + 1)


class _MappingReader:
    """Makes mappings of YAML nodes; keys stay as written, where YAML reads ``on:`` as True."""

    def __init__(self) -> None:
        self.loader: Any = None
        self.places: _Places = {}
        self.problems: List[Finding] = []

    def mapping(self, node: Any, prefix: str) -> Dict[str, Any]:
        """Read the mapping of ``node``, whose keys stand below the path ``prefix``."""
        own = [key for key, _ in node.value]
        self.loader.flatten_mapping(node)  # puts what "<<" merges before the mapping's own keys
        values: Dict[str, Any] = {}
        seen: Set[str] = set()  # own keys; one that comes by "<<" may be overridden
        for key, value in node.value:
            if key.id != "scalar":
                self._add_problem(key, "", "A key that is a list or a mapping is no option.")
                continue
            path = f"{prefix}{key.value}"
            if key in own and path in seen:
                first = f"it stands in line {self.places[path].line} already"
                self._add_problem(key, path, f"{path} is given twice: {first}.")
            seen.update([path] if key in own else [])
            self.places[path] = _place_of(key.start_mark)
            values[str(key.value)] = self._value(value, path)
        return values

    def _value(self, node: Any, path: str) -> Any:
        if node.id == "mapping":
            return self.mapping(node, f"{path}.")
        return self.loader.construct_object(node, deep=True)

    def _add_problem(self, key: Any, path: str, message: str) -> None:
        self.places.setdefault(path, _place_of(key.start_mark))
        self.problems.append(Finding(ERROR, message, option=path))
