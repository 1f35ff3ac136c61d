"""YAML and JSON documents as mappings, with the line of every key."""

import json
from typing import Any, Dict, List, Set, Tuple

from ascend_session.errors import ConfigError, Problem

__all__ = ["Lines", "read_document"]

Lines = Dict[str, int]


def read_document(name: str) -> Tuple[Dict[str, Any], Lines, List[Problem]]:
    """Reads a mapping from a ``.json`` file, or from YAML under any other name.

    Returns:
        The mapping, the line of each ``path.of.keys``, and what is wrong with the keys.

    Raises:
        ConfigError: If the file cannot be read, decoded or parsed, or holds no mapping.
    """
    text = _text_of(name)
    try:
        return _from_json(name, text) if name.endswith(".json") else _from_yaml(name, text)
    except RecursionError:
        raise ConfigError(f"{name}: is nested too deeply, or within itself.") from None


def _text_of(name: str) -> str:
    try:
        with open(name, encoding="utf-8-sig") as stream:
            return stream.read()
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: is not UTF-8 text (byte {error.start}).") from error


def _from_json(name: str, text: str) -> Tuple[Dict[str, Any], Lines, List[Problem]]:
    try:
        values = json.loads(text)
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        what = getattr(error, "msg", str(error))
        raise ConfigError(f"{name}:{line}: this is not JSON: {what}.") from None
    # JSON is YAML but for its tabs, and YAML's reader tells the lines.
    _, lines, problems = _from_yaml(name, text.replace("\t", " "))
    return values, lines, problems


def _from_yaml(name: str, text: str) -> Tuple[Dict[str, Any], Lines, List[Problem]]:
    import yaml

    reader = _Reader()
    try:
        reader.loader = yaml.SafeLoader(text)
        root = reader.loader.get_single_node()
        if not isinstance(root, yaml.MappingNode):
            raise _no_mapping(name, root)
        return reader.mapping(root, ""), reader.lines, reader.problems
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise ConfigError(f"{name}:{line}: this is not YAML: {error.problem}.") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}: this is not YAML: {error}.") from None


def _no_mapping(name: str, root: Any) -> ConfigError:
    kind = "empty" if root is None else "a list" if isinstance(root.value, list) else "one value"
    return ConfigError(
        f"{name}: options are needed as 'name: value' lines, this is {kind}.",
        hint="`ascend-session options` lists the names.",
    )


class _Reader:
    """Makes mappings of YAML nodes; keys stay as written, where YAML reads ``on:`` as True."""

    def __init__(self) -> None:
        self.loader: Any = None
        self.lines: Lines = {}
        self.problems: List[Problem] = []

    def mapping(self, node: Any, prefix: str) -> Dict[str, Any]:
        """The mapping of ``node``, whose keys stand below the path ``prefix``."""
        own = [key for key, _ in node.value]
        self.loader.flatten_mapping(node)  # puts what "<<" merges before the mapping's own keys
        values: Dict[str, Any] = {}
        seen: Set[str] = set()  # own keys; one that comes by "<<" may be overridden
        for key, value in node.value:
            if key.id != "scalar":
                self._add(key, "", "A key that is a list or a mapping is no option.")
                continue
            path = f"{prefix}{key.value}"
            if key in own and path in seen:
                first = f"it stands in line {self.lines[path]} already"
                self._add(key, path, f"{path} is given twice: {first}.")
            seen.update([path] if key in own else [])
            self.lines[path] = key.start_mark.line + 1
            values[str(key.value)] = self._value(value, path)
        return values

    def _value(self, node: Any, path: str) -> Any:
        if node.id == "mapping":
            return self.mapping(node, f"{path}.")
        return self.loader.construct_object(node, deep=True)

    def _add(self, key: Any, path: str, message: str) -> None:
        self.lines.setdefault(path, key.start_mark.line + 1)
        self.problems.append(Problem(path, message))
