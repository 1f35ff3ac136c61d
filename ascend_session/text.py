"""Format words, numbers and foreign text for messages, and lines of programs for a screen."""

import re
from itertools import groupby
from typing import Collection, Iterable, List, Optional, Sequence, Tuple, TypeVar

_LONGEST_WORD = 60  # characters; longer words take long to compare, and nobody mistypes them
_ESC = b"\x1b"
_CONTROLS = bytes([*range(9), *range(11, 32), 127])
_CONTROLS_BUT_ESC = _CONTROLS.replace(_ESC, b"")
# ECMA-48: control sequences, operating system commands, short escapes, and what is none of these.
_ANY = rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)|[ -/]*[0-~])?"
_OTHER = rb"(?!\x1b\[[0-9;:]*m)" + _ANY  # than colours
_C1 = rb"\xc2[\x80-\x9f]"  # which terminals obey like ESC and a letter
_COLOUR_OFF = (b"\x1b[0m", b"\x1b[m")
_Item = TypeVar("_Item")
_STRAY_BYTE = "[\udc80-\udcff]"  # as "surrogateescape" decodes it


def printable(text: str, longest: int = 400) -> str:
    """Escape unprintable characters, and cut the text after ``longest`` characters."""
    if len(text) > longest:
        text = f"{text[:longest]}..."
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def blank_unprintable(text: str) -> str:
    """Replace each unprintable character, including line ends, by a blank."""
    return "".join(char if char.isprintable() else " " for char in text)


def one_line(text: str, longest: int) -> str:
    """Put foreign text on one line of limited length, without terminal codes."""
    line = " ".join(blank_unprintable(text).split())
    return line if len(line) <= longest else f"{line[:longest]}..."


def format_ranges(numbers: Iterable[int], separator: str = ", ") -> str:
    """Join numbers and collapse runs: ``[0, 1, 2, 5]`` gives ``"0-2, 5"``."""
    return separator.join(
        str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in find_runs(numbers)
    )


def label_ranks(ranks: Collection[int], separator: str = ", ") -> str:
    """Name ranks: ``rank 3``, ``ranks 0-2, 5``."""
    return f"rank{'' if len(ranks) == 1 else 's'} {format_ranges(ranks, separator)}"


def format_rank_ids(rank_ids: Sequence[str]) -> str:
    """Join values of RANK_ID: runs of numbers are collapsed, other texts come last."""
    numbers = [int(rank_id) for rank_id in rank_ids if rank_id.isdecimal()]
    texts = [rank_id for rank_id in rank_ids if not rank_id.isdecimal()]
    return ", ".join([format_ranges(numbers)] * bool(numbers) + texts)


def find_runs(numbers: Iterable[int]) -> List[List[int]]:
    """Split numbers into runs of consecutive ones: ``[0, 1, 5]`` gives ``[[0, 1], [5]]``."""
    runs = groupby(enumerate(sorted(set(map(int, numbers)))), key=lambda pair: pair[1] - pair[0])
    return [[number for _, number in run] for _, run in runs]


def label_first(label: str, items: Iterable[_Item]) -> List[Tuple[str, _Item]]:
    """Put a label before the first item, and none before the others."""
    return [("" if number else label, item) for number, item in enumerate(items)]


def split_counting(blocks: Sequence[Sequence[str]]) -> List[Tuple[int, int]]:
    """Split blocks of lines into runs in which each number stays equal or grows by one.

    Returns:
        The index of each run's first block, and the index after its last.
    """
    ends = [0]
    step: Optional[List[int]] = None
    tokens = [_split_numbers("\n".join(block)) for block in blocks]
    for index in range(1, len(blocks)):
        new_step = _find_step(tokens[index - 1], tokens[index])
        is_first = index - ends[-1] == 1
        if new_step is None or not (is_first or new_step == step):
            ends.append(index)
        step = new_step
    ends.append(len(blocks))
    return list(zip(ends, ends[1:]))


def fold_counting(texts: Sequence[str]) -> str:
    """Combine counted texts: ``rank_0``, ``rank_1``, ``rank_2`` give ``rank_{0..2}``."""
    first, last = _split_numbers(texts[0]), _split_numbers(texts[-1])
    return "".join(
        start if start == end else f"{{{start}..{end}}}" for start, end in zip(first, last)
    )


def _split_numbers(text: str) -> List[str]:
    """Split a text so that every second piece is a number without leading zeros."""
    return re.split("(?<![0-9])(0|[1-9][0-9]{0,8})(?![0-9])", text)


def _find_step(before: Sequence[str], after: Sequence[str]) -> Optional[List[int]]:
    """Find by how much each number grows, 0 or 1; None if anything else differs."""
    if len(before) != len(after) or before[::2] != after[::2]:
        return None
    step = [int(new) - int(old) for old, new in zip(before[1::2], after[1::2])]
    return step if set(step) <= {0, 1} else None


def join_words(words: Sequence[str], last: str = "and") -> str:
    """Join words as in a sentence: ``a``, ``a and b``, ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def format_count(count: int, noun: str) -> str:
    """Format a number with a noun, in the plural if needed: ``1,024 entries``."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def format_ordinal(number: int) -> str:
    """Format an ordinal number: ``first``, ``second``, ``11th``, ``22nd``."""
    if number <= len(_ORDINALS):
        return _ORDINALS[number - 1]
    is_teen = number % 100 in (11, 12, 13)
    ending = "th" if is_teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def format_duration(seconds: float) -> str:
    """Write a time in its two largest units: ``9 min 3 s``, ``2 d 4 h``."""
    whole = max(0, round(seconds))
    units = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    largest = next((place for place, (size, _) in enumerate(units) if whole >= size), 3)
    parts = []
    for size, unit in units[largest : largest + 2]:
        parts.append((whole // size, unit))
        whole %= size
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 s"


def did_you_mean(word: str, words: Iterable[str], near: float = 0.6) -> Optional[str]:
    """Return the known word nearest to ``word``; None below similarity ``near``."""
    import difflib  # takes milliseconds, and only mistakes need it

    matches = difflib.get_close_matches(word[:_LONGEST_WORD], list(words), n=1, cutoff=near)
    return matches[0] if matches else None


def find_stray_byte(text: str) -> Optional[int]:
    """Return the index of the first byte that is not UTF-8 in a text of ``surrogateescape``."""
    match = re.search(_STRAY_BYTE, text)
    return None if match is None else match.start()


def is_writable(text: str, strict: bool = False) -> bool:
    """Return whether ``text`` survives a UTF-8 round trip (lone surrogates do not).

    Args:
        text: The text.
        strict: Whether to refuse bytes that are not UTF-8 as well, as JSON does.
    """
    errors = "strict" if strict else "surrogateescape"
    try:
        return text.encode("utf-8", errors).decode("utf-8", errors) == text
    except UnicodeEncodeError:
        return False


def shorten(text: str, most: int = 60) -> str:
    """Shorten a long text with three dots, also at the first byte that is not UTF-8."""
    at = find_stray_byte(text)
    valid = text if at is None else text[:at] + "..."
    return valid if len(valid) <= most else valid[: most - 3] + "..."


def clean(lines: bytes, colour: bool) -> bytes:
    r"""Make whole lines, each with its ``\n``, fit to be shown.

    Args:
        lines: What a program wrote; bytes that are no UTF-8 become visible, as in ``\xff``.
        colour: Whether colour sequences stay.
    """
    if not lines.isascii():
        lines = lines.decode("utf-8", "backslashreplace").encode("utf-8")
        lines = re.sub(_C1, b"", lines)
    if len(lines.translate(None, _CONTROLS)) == len(lines):
        return lines
    if b"\r" in lines:
        lines = b"\n".join(map(last_state, lines.split(b"\n")))
    if not colour:
        return re.sub(_ANY, b"", lines).translate(None, _CONTROLS)
    lines = re.sub(_OTHER, b"", lines).translate(None, _CONTROLS_BUT_ESC)
    return b"\n".join(map(_with_colour_off, lines.split(b"\n")))


def is_blank(text: bytes) -> bool:
    """Tell whether nothing is to be seen: spaces, or sequences that only clear or move."""
    return not re.sub(_ANY, b"", text).translate(None, _CONTROLS).strip()


def last_state(line: bytes) -> bytes:
    r"""Find what is left to see of a line: the last text between ``\r`` that is not blank."""
    if b"\r" not in line:
        return line
    return next((state for state in reversed(line.split(b"\r")) if not is_blank(state)), b"")


def _with_colour_off(line: bytes) -> bytes:
    last = line.rfind(_ESC)
    is_on = last >= 0 and not line.startswith(_COLOUR_OFF, last)
    return line + _COLOUR_OFF[0] if is_on else line
