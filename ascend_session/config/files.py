"""Configurations in YAML and JSON files; every problem is reported with its line."""

import contextlib
import os
import re
import warnings
from typing import Any, Dict, List, Optional, Set, Tuple, Type, TypeVar, Union

from ascend_session.config.grammars import show_value
from ascend_session.config.option import adapter_options, option_fields
from ascend_session.errors import AscendConfigWarning, ConfigError
from ascend_session.findings import ERROR, Finding, Place, TextPlaces
from ascend_session.jsonfile import JsonError, Node, parse_json
from ascend_session.spelling import spell_in_file
from ascend_session.text import shorten

_Model = TypeVar("_Model")

_DEEPEST = 32  # levels; a real configuration has five, and PyYAML is slow with very many
_MOST_KEYS = 10_000
_MOST_LETTERS = 10_000_000


def from_file(model: Type[_Model], path: "Union[str, os.PathLike[str]]") -> _Model:
    """Build ``model`` from a file; see `AscendConfig.from_file`."""
    name = os.fsdecode(path)
    config, problems, _ = load_config(model, name)
    if config is None or problems:
        placed = [
            problem._replace(message=f"{where(name, problem)}: {problem.message}", place=None)
            for problem in map(spell_as_in_file, problems)
        ]
        raise ConfigError.from_problems(placed, name)
    return config


def where(name: str, finding: Finding) -> str:
    """Return file and line of a finding, in the form that editors and terminals can jump to."""
    line = line_of(finding)
    return f"{name}:{line}" if line else name


def line_of(finding: Finding) -> int:
    """Return the line of a finding; 0 if it is about the whole file."""
    return finding.place.line if isinstance(finding.place, Place) else 0


def spell_as_in_file(finding: Finding) -> Finding:
    """Spell the options in a finding as a file does: ``aoe_mode: '2'``."""
    hint = None if finding.hint is None else spell_in_file(finding.hint)
    return finding._replace(message=spell_in_file(finding.message), hint=hint)


Places = Dict[str, Place]


def load_config(model: Type[_Model], name: str) -> Tuple[Optional[_Model], List[Finding], Places]:
    """Read a file.

    Returns:
        The configuration if it can be built, the findings with their places, and all places.
    """
    try:
        document = _read_document(name)
    except ConfigError as error:
        return None, list(error.problems), {}
    values = document.values
    objects = [option.name for option in adapter_options(model) if option.is_object]
    problems = [
        Finding(ERROR, f"{key} takes a Python object and cannot be given in a file.", option=key)
        for key in objects
        if key in values
    ]
    config = None
    try:
        with contextlib.ExitStack() as silence:
            if document.problems:  # warnings about values that nobody has written would confuse
                silence.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore", AscendConfigWarning)
            config = model(**{key: value for key, value in values.items() if key not in objects})
    except ConfigError as error:
        # Findings about a misread value are about a value that nobody has written.
        misread = document.misread.intersection(each.path for each in option_fields(model))
        problems += [each for each in error.problems if each.option not in misread]
    placed = [add_place(problem, model, document.places) for problem in problems]
    return config, document.problems + placed, document.places


def add_place(finding: Finding, model: Type[Any], places: Places) -> Finding:
    """Add the place of the option that a finding names by path, name or vendor key.

    A missing option gets the place of the part that it belongs to.
    """
    option = finding.option or ""
    paths = [each.path for each in option_fields(model) if option in (each.key, each.name)]
    paths = [option, *paths, *(path.rpartition(".")[0] for path in paths)]
    return finding._replace(place=next((places[path] for path in paths if path in places), None))


def _unusable(
    message: str, place: Optional[Place] = None, hint: Optional[str] = None
) -> ConfigError:
    """Return the error for a file that cannot be read or parsed, or holds no mapping."""
    return ConfigError.from_problems([Finding(ERROR, message, hint, place=place)])


def _no_mapping(kind: str) -> ConfigError:
    message = f"this is {kind}; write options as 'name: value' lines."
    return _unusable(message, hint="`ascend-session options` lists the names.")


class _Document:
    """The mapping in a file, filled while the file is read.

    Attributes:
        values: The mapping.
        places: The place of each ``path.of.keys``.
        problems: Findings about keys and misread values, with their places.
        misread: The paths of those values.
    """

    def __init__(self) -> None:
        self.values: Dict[str, Any] = {}
        self.places: Places = {}
        self.problems: List[Finding] = []
        self.misread: Set[str] = set()

    def add_key(self, path: str, place: Place, is_repeated: bool) -> None:
        """Record the place of a key; report a duplicate."""
        if is_repeated:
            message = f"{path} is already set in line {self.places[path].line}."
            self.problems.append(Finding(ERROR, message, option=path, place=place))
        if len(self.places) > _MOST_KEYS:  # as by aliases of aliases
            raise _unusable(f"has more than {_MOST_KEYS:,} names in it.", place)
        self.places[path] = place

    def add_misread(self, path: str, place: Place, message: str, hint: str) -> None:
        """Report a value that YAML does not read as it is written."""
        self.problems.append(Finding(ERROR, message, hint, option=path, place=place))
        self.misread.add(path)


def _read_document(name: str) -> _Document:
    """Read a mapping from a ``.json`` file, or from YAML under any other name.

    Raises:
        ConfigError: If the file cannot be read, decoded or parsed, or holds no mapping.
    """
    try:
        with open(name, encoding="utf-8-sig") as stream:
            text = stream.read(_MOST_LETTERS + 1)
    except IsADirectoryError:
        hint = "Give the paths of the files in it."
        raise _unusable("is a folder, not a file.", hint=hint) from None
    except FileNotFoundError:
        raise _unusable("does not exist.") from None
    except OSError as error:
        raise _unusable(f"cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise _unusable(f"is not UTF-8 text (byte {error.start}).") from None
    except ValueError:
        raise _unusable("is not a file name.") from None
    if len(text) > _MOST_LETTERS:
        raise _unusable(f"has more than {_MOST_LETTERS:,} characters.")
    document = _Document()
    read = _read_json if name.endswith(".json") else _read_yaml
    document.values = read(text, document)
    return document


def _read_json(text: str, document: _Document) -> Dict[str, Any]:
    places = TextPlaces(text)

    def read_object(node: Node, prefix: str) -> Dict[str, Any]:
        values: Dict[str, Any] = {}
        for member in node.value:
            path = f"{prefix}{member.key}"
            document.add_key(path, places.locate(member.at), member.key in values)
            is_object = isinstance(member.node.value, tuple)
            plain = read_object(member.node, f"{path}.") if is_object else member.node.plain
            values[member.key] = plain
        return values

    try:
        root, end = parse_json(text)
        if end < len(text):
            raise JsonError(end, "something follows its value")
    except JsonError as error:
        prefix = "this is not JSON: "
        reason = error.reason[len(prefix) :] if error.reason.startswith(prefix) else error.reason
        raise _unusable(f"{prefix}{reason}.", places.locate(error.at)) from None
    if not isinstance(root.value, tuple):
        raise _no_mapping("a list" if isinstance(root.value, list) else "one value")
    return read_object(root, "")


def _read_yaml(text: str, document: _Document) -> Dict[str, Any]:
    import yaml

    try:
        loader = _careful_loader(text, document)
        root = loader.get_single_node()
        if root is None:
            raise _no_mapping("empty")
        if not isinstance(root, yaml.MappingNode):
            raise _no_mapping("a list" if isinstance(root.value, list) else "one value")
        return _read_yaml_mapping(loader, root, "", document)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = _place_of(mark) if mark else Place(1, 1)
        is_tab = "'\\t'" in str(error.problem)
        hint = "Indent with spaces instead of tabs." if is_tab else None
        raise _unusable(f"this is not YAML: {error.problem}.", place, hint) from None
    except yaml.YAMLError as error:
        raise _unusable(f"this is not YAML: {error}.") from None
    except RecursionError:  # an alias of a node around it
        raise _unusable("is nested within itself.") from None


def _read_yaml_mapping(loader: Any, node: Any, prefix: str, document: _Document) -> Dict[str, Any]:
    """Read a mapping; keys stay text, although YAML reads ``on:`` as True."""
    own_keys = [key for key, _ in node.value]
    loader.flatten_mapping(node)  # puts what "<<" merges before the mapping's own keys
    values: Dict[str, Any] = {}
    seen: Set[str] = set()  # own keys; one that comes by "<<" may be overridden
    for key, value in node.value:
        place = _place_of(key.start_mark)
        if key.id != "scalar":
            message = "A key must be the name of an option, not a list or a mapping."
            document.problems.append(Finding(ERROR, message, option="", place=place))
            continue
        path = f"{prefix}{key.value}"
        document.add_key(path, place, key in own_keys and path in seen)
        if key in own_keys:
            seen.add(path)
        if value.id == "mapping":
            values[key.value] = _read_yaml_mapping(loader, value, f"{path}.", document)
        else:
            loader.path = path
            values[key.value] = loader.construct_object(value, deep=True)
    return values


def _careful_loader(text: str, document: _Document) -> Any:
    """Make a loader that reports values which YAML does not read as they are written.

    It refuses deeper nesting than any configuration has.
    """
    import yaml

    class CarefulLoader(yaml.SafeLoader):
        depth = 0
        path = ""  # of the option whose value is read

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.depth > _DEEPEST:
                mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
                message = f"this is nested more than {_DEEPEST} levels deep."
                raise _unusable(message, _place_of(mark))
            self.depth += 1
            try:
                return super().compose_node(parent, index)
            finally:
                self.depth -= 1

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            construct: Any = super().construct_object
            if not isinstance(node, yaml.ScalarNode):
                return construct(node, deep)
            place, written = _place_of(node.start_mark), shorten(node.value)
            try:
                value = construct(node, deep)
            except (ValueError, LookupError, AttributeError):
                kind = node.tag.rpartition(":")[2]
                message = f"{written} is not a valid {kind}, but YAML reads it as one."
                hint = "Write it in quotes, if it is text."
                document.add_misread(self.path, place, message, hint)
                return node.value
            if _is_misleading(node.value, value):
                number = shorten(show_value(value, str))
                hint = f"Write {number}, or {written!r} if it is text."
                document.add_misread(self.path, place, f"YAML reads {written} as {number}.", hint)
            return value

    return CarefulLoader(text)


def _is_misleading(written: str, value: Any) -> bool:
    """Return whether YAML 1.1 reads a number in base 60, or gets another value in base 8."""
    if type(value) is int and re.fullmatch("[-+]?0[0-9_]+", written):
        return len(written.lstrip("-+0_").replace("_", "")) > 1  # one digit is itself in any base
    return type(value) in (int, float) and ":" in written


def _place_of(mark: Any) -> Place:
    return Place(mark.line + 1, mark.column + 1)
