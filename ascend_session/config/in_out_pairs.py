"""Grammar of in_out_pair: Python-list text that a parser of the adapter's own reads.

Source: ParseInOutPair in om_partition_subgraphs_pass.cc. It drops single quotes, spaces and tabs
and knows brackets and commas; everything else, double quotes too, becomes part of a name.
"""

import ast
from typing import Any, Optional

from ascend_session.config.grammar import has_blank, is_list, refused, wrong_type

__all__ = ["in_out_pair"]

_EXAMPLE = [[["conv1"], ["relu9"]]]
_FORMS = "a list of [inputs, outputs] pairs of name lists, or its str()"
_NOT_IN_NAMES = "[](){},'\"\\:"


def in_out_pair(value: object) -> str:
    """First and last operators of the parts to offload (or not): ``[[["in1"], ["out1"]], ...]``.

    Takes that list, or the text that ``str()`` makes of it. Each pair has exactly two lists of
    operator names, neither empty (the adapter skips other pairs without a word).
    """
    if isinstance(value, str):
        return _checked_text(value)
    if not is_list(value):
        raise wrong_type(value, _FORMS, _EXAMPLE)
    problem = _wrong_pairs(value)
    if problem is not None:
        raise refused(value, problem, _EXAMPLE)
    return _rendered(value)


def _checked_text(text: str) -> str:
    if '"' in text:
        wrong = "the adapter takes double quotes into the names, so single quotes are needed"
        raise refused(text, wrong, str(_EXAMPLE))
    if "\\" in text:  # also keeps Python from warning about escapes
        raise refused(text, "an operator name has no backslash", str(_EXAMPLE))
    try:
        pairs: object = ast.literal_eval(text.strip(" \t"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pairs = None
    problem = _wrong_pairs(pairs)
    if problem is None and _squeezed(text) != _squeezed(_rendered(pairs)):
        problem = (
            "it is not as str() writes it, and the adapter's parser does not know all of Python"
        )
    if problem is not None:
        raise refused(text, problem, str(_EXAMPLE))
    return text


def _wrong_pairs(pairs: object) -> Optional[str]:
    if not is_list(pairs) or not pairs:
        return "it is no list of [inputs, outputs] pairs"
    for pair in pairs:
        if not is_list(pair) or len(pair) != 2:
            return f"{pair!r} is no pair of two lists, [inputs, outputs]"
        for names in pair:
            if not is_list(names) or not names:
                return f"{names!r} is no list of at least one operator name"
            for name in names:
                if not _is_name(name):
                    return f"{name!r} is no operator name (text, no blank, quote, bracket or colon)"
    return None


def _is_name(name: object) -> bool:
    if not isinstance(name, str) or not name or has_blank(name) or not name.isprintable():
        return False
    return not any(character in _NOT_IN_NAMES for character in name)


def _rendered(pairs: Any) -> str:
    """The text of checked pairs; tuples become lists, whose brackets the adapter counts."""
    return str([[[str(name) for name in names] for names in pair] for pair in pairs])


def _squeezed(text: str) -> str:
    """``text`` without what the adapter drops."""
    return text.replace(" ", "").replace("\t", "")
