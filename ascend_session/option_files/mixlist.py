"""modify_mixlist: changes to the lists of operators that mixed precision may lower.

The documented sample has comments, for which GE refuses the file. Source: hicann/ge,
modify_mixlist_config_parser.cc; guides/facts/option_files.md#modify_mixlist.
"""

import json
import os
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, List, Mapping, Tuple

from ascend_session.errors import ConfigError
from ascend_session.files import load_file
from ascend_session.jsonfile import JsonMember
from ascend_session.option_files.base import OptionFile, PathLike
from ascend_session.option_files.source_file import SourceFile, trim

# What each list means for its operators when mixed precision is on
LISTS: Dict[str, str] = {
    "black-list": "is never computed in lower precision",
    "white-list": "may be computed in lower precision",
    "gray-list": "follows the operator in front of it",
}
_UPDATES = ("to-add", "to-remove")
_FIELDS: Dict[Tuple[str, str], str] = {
    ("black-list", "to-add"): "black_add",
    ("black-list", "to-remove"): "black_remove",
    ("white-list", "to-add"): "white_add",
    ("white-list", "to-remove"): "white_remove",
    ("gray-list", "to-add"): "gray_add",
    ("gray-list", "to-remove"): "gray_remove",
}
_COMBINING = (
    "Give to-add of one list, to-remove of black-list or white-list, or to-add of one list with "
    "to-remove of another."
)


@dataclass(frozen=True, repr=False)
class MixList(OptionFile):
    """Operators to add to and to remove from the lists of mixed precision; frozen.

    Each field is a sequence of operator types of Ascend IR. An operator on the black list is never
    computed in lower precision, one on the white list may be, and one on the gray list follows the
    operator before it.

    Raises:
        ConfigError: If GE refuses the combination of changes for an operator.
    """

    black_add: Tuple[str, ...] = ()
    black_remove: Tuple[str, ...] = ()
    white_add: Tuple[str, ...] = ()
    white_remove: Tuple[str, ...] = ()
    gray_add: Tuple[str, ...] = ()
    gray_remove: Tuple[str, ...] = ()

    OPTION: ClassVar[str] = "modify_mixlist"
    NAME: ClassVar[str] = "ops_info.json"
    WHAT: ClassVar[str] = "a mix list"

    def __post_init__(self) -> None:
        for field in _FIELDS.values():
            self._freeze_words(field, "operator types")
        for operator, fields in _group_by_operator(vars(self)).items():
            if not _can_combine(fields):
                raise self._unusable(_describe_refusal(operator, fields), _COMBINING)
            self._check_writable(repr(operator), operator, strict=True)

    def against(self, built_in: Mapping[str, str]) -> Tuple[str, ...]:
        """List the changes that have no effect with an installed toolkit, in sentences.

        Args:
            built_in: ``{operator type: list}`` of the toolkit, from `read_built_in_lists`.
        """
        faults: List[str] = []
        for operator, fields in _group_by_operator(vars(self)).items():
            current = built_in.get(operator)
            if current is None:
                faults.append(f"{operator}: this toolkit has no such operator.")
                continue
            for field in fields:
                name = _name_list(field)
                if field.endswith("_remove") and current != name:
                    faults.append(f"{operator}: is to be removed from {name}, but is in {current}.")
                elif field.endswith("_add") and current == name:
                    faults.append(f"{operator}: is to be added to {name}, where it is already.")
        return tuple(faults)

    def text(self) -> str:
        """Format strict JSON."""
        lists: Dict[str, Dict[str, List[str]]] = {}
        for (name, update), field in _FIELDS.items():
            if getattr(self, field):
                lists.setdefault(name, {})[update] = list(getattr(self, field))
        return json.dumps(lists, ensure_ascii=False, indent=2) + "\n"

    @classmethod
    def _read(cls, source: SourceFile) -> Dict[str, Any]:
        node = source.parse_json()
        if node is None:
            return {}
        fields: Dict[str, Dict[str, int]] = {}  # {field: {operator: index in the text}}
        for member in source.list_members(node, "", tuple(LISTS)):
            for update in source.list_members(member.node, member.key, _UPDATES):
                field = _FIELDS[member.key, update.key]
                _read_operators(source, update, fields.setdefault(field, {}))
        for operator, changes in _group_by_operator(fields).items():
            at = max(fields[field][operator] for field in changes)
            if not _can_combine(changes):
                source.refuse(at, _describe_refusal(operator, changes), _COMBINING)
            elif changes == ["gray_add"]:
                hint = "Give to-remove of the list that it is in."
                source.skip(at, f"{operator!r}: to-add of gray-list alone moves no operator.", hint)
        return {field: tuple(operators) for field, operators in fields.items()}


_LIST_OF_FLAG = {"true": "white-list", "false": "black-list"}


def read_built_in_lists(path: PathLike) -> Dict[str, str]:
    """Read ``{operator type: list}`` from an ``aic-<soc>-ops-info.json``, for `MixList.against`.

    Source: guides/facts/option_files.md#lists-of-a-toolkit for ``precision_reduce``.

    Raises:
        ConfigError: If the file cannot be read, or is not a JSON object of operators.
    """
    name = os.fspath(path)
    content = load_file(name, "the toolkit's list of operators")
    try:
        operators = json.loads(content.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{name}: this is not JSON: {error}.") from None
    if not isinstance(operators, dict):
        raise ConfigError(f"{name}: is not a JSON object of operators.")
    list_by_type: Dict[str, str] = {}
    for operator, facts in operators.items():
        reduce = facts.get("precision_reduce") if isinstance(facts, dict) else None
        flag = reduce.get("flag") if isinstance(reduce, dict) else None
        list_by_type[operator] = _LIST_OF_FLAG.get(str(flag).lower(), "gray-list")
    return list_by_type


def _read_operators(source: SourceFile, member: JsonMember, operators: Dict[str, int]) -> None:
    """Read an array of operator types into ``{operator type: index in the text}``."""
    for node in source.list_texts(member.node, member.key, "An operator type"):
        name = node.value
        if name in operators:
            source.skip(node.at, f"{name!r} is already in this list.")
        elif name != trim(name) or not name or "/" in name:
            source.skip(node.at, f"{name!r} is not the type of any operator.")
        operators.setdefault(name, node.at)


def _group_by_operator(operators: Mapping[str, Any]) -> Dict[str, List[str]]:
    """Turn ``{field: operators}`` into ``{operator: fields}``."""
    fields: Dict[str, List[str]] = {}
    for field in _FIELDS.values():
        for operator in operators.get(field, ()):
            fields.setdefault(operator, []).append(field)
    return fields


def _can_combine(fields: List[str]) -> bool:
    """Return whether GE accepts these changes of one operator; `_COMBINING` states the rule."""
    adds = [field for field in fields if field.endswith("_add")]
    lists = {_name_list(field) for field in fields}
    is_pair = len(adds) <= 1 and len(fields) - len(adds) <= 1 and len(lists) == len(fields)
    return is_pair and fields != ["gray_remove"]


def _name_list(field: str) -> str:
    return f"{field.partition('_')[0]}-list"


def _describe_refusal(operator: str, fields: List[str]) -> str:
    words = {field: f"{update} of {name}" for (name, update), field in _FIELDS.items()}
    return f"GE refuses {' and '.join(words[field] for field in fields)} for {operator!r}."
