"""Find known failures in a text or an exception, and pick the cause.

Codes with letters (``EJ0001``) count wherever they stand alone. The vendor prints its aclError
numbers in many ways. These count, with ``507033`` for any number; case does not matter, and ``:``,
``=``, ``is``, a space, a quote or a bracket may stand between word and number:

* ``ret 507033``, ``ret[507033]``, ``retCode=507033``, ``aclRet: 507033``, ``returned 507033``
* ``error code is 207001``, ``errorCode = 507033``, ``ErrCode=507899``, ``errno: 507033``,
  ``"error_code": 507034``, ``aclError 507015``, ``failed, error: 507033``
* ``runtime result = 507010``
* ``aclrtSynchronizeStream(stream) failed: 507015``, ``failed (507015)``
* ``[507015]`` right after ``failed``, ``failure``, ``error`` or ``exception``, or alone in a line

A code of a `Family` counts where the vendor's own mark stands behind it: ``E60012:``, ``(E60012):``
or ``E60012[PID: 1]``.

A code that the table does not have counts where the vendor's message says what to do.

Nothing else counts: not ``step 507015``, not ``[507015]`` after a source line (it is a thread),
not ``0x507015``, and no part of a longer number. Hexadecimal codes (``0x7020010``) are inner codes
with a different numbering.
"""

import logging
import os
import re
from functools import lru_cache
from typing import (
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Pattern,
    Set,
    Tuple,
    Type,
)

from ascend_session.errors import AscendError, InitializationError
from ascend_session.failures.failure import Code, Definition, Failure, FailureClass, KnownText
from ascend_session.failures.reason import reason_of
from ascend_session.failures.table import JOB_CANNOT_GO_ON, ROWS
from ascend_session.rank_folder import RANK_FOLDER
from ascend_session.text import blank_unprintable, shorten

_logger = logging.getLogger(__name__)

LINE_LENGTH = 240  # characters of a line that a Failure keeps
_SENTENCE_LENGTH = 1000  # characters of the sentence about a deadlock, which names every rank
_LEAD = 80  # characters that a shortened line keeps before the code
_NEAR = 400  # characters before a message in which `KnownText.near` is looked for
_REACH = 48  # characters before a number in which a word must call it a return code

# In the repr of an exception a line begins with the two characters \n.
_STANDS_ALONE = r"(?:(?<![0-9A-Za-z_/-]E)|(?<=\\[nrt]E))"
_CODE = rf"E{_STANDS_ALONE}(?:[A-Z][0-9]{{4}}|[0-9]{{5}})(?![0-9A-Za-z_-]|\.[a-z])"
_NUMBER = r"[1-35](?<![0-9A-Za-z_.-][1-35])(?:0[07]|4[58])[0-9]{3}(?![0-9A-Za-z_]|[.-][0-9])"
_CODES = re.compile(f"{_CODE}|{_NUMBER}")
_MARK = re.compile(r"[)\]]?:|\[PID")
_COLOUR = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\))")

_WORDS = r"""
    (?<![a-z0-9]) (?: acl | rt | ge | hccl )? _?
        ret (?: _?code | _?val(?:ue)? | urn(?:s|ed)? (?: [ _] (?:code|value) )? )?
  | err (?:or)? [ _]? (?: code | no )
  | acl [ _]? err (?:or)?
  | failed ,? [ ] error
  | runtime [ ] result
  | failed (?= [ ]? [:=(] )
"""
_BEFORE = re.compile(
    rf"""(?: {_WORDS} ) ["']? (?: \s{{1,3}} is )? \s{{0,3}} [:=]{{0,2}} \s{{0,3}} [\[("']? $""",
    re.IGNORECASE | re.VERBOSE,
)
# Rows and steps are often round numbers, as in "returned 100000".
_ROUND = ("100", "200", "300")
_CALLED_CODE = re.compile(r"(?:code|no|acl_?(?:err(?:or)?|ret)|ret)\W*(?:is\W*)?$", re.IGNORECASE)
_BRACKET = re.compile(r"(?:fail(?:ed|ure)?|error|exception)[\s:,.]{0,3}\[$", re.IGNORECASE)
# Every word above ends with one of these; checking that first is many times faster.
_CODE_ENDS = ("ret", "ode", "val", "value", "urn", "urns", "urned", "no", "is", "err", "result")
_FAILURE_ENDS = ("fail", "failed", "failure", "error", "exception")


class _Hit(NamedTuple):
    """A known code or message at an index of a text."""

    start: int
    code: str
    definition: Definition
    by_words: bool


def classify(text: str) -> List[Failure]:
    """Find the known failures in a text, such as a log or the message of an exception.

    Colour sequences are ignored. The time is proportional to the size of the text.

    Args:
        text: Any text of any size.

    Returns:
        Each failure once, in the order of appearance.
    """
    plain = _COLOUR.sub("", text) if "\x1b" in text else text
    failures: List[Failure] = []
    codes: Set[str] = set()
    rows: Set[int] = set()
    for hit in _find_hits(plain):
        # A message adds nothing to a code of the same row.
        if hit.code in codes or (hit.by_words and id(hit.definition) in rows):
            continue
        codes.add(hit.code)
        if not hit.by_words:
            rows.add(id(hit.definition))
        failures.append(_make_failure(plain, hit))
    return failures


def look_up(name: str) -> Optional[Failure]:
    """Look up a failure by its code or name: ``EI0006``, ``507033``, ``0x91``; in any case.

    Returns:
        The failure, with an empty line; None if it is not known.
    """
    for row in ROWS:
        names = [code.name for code in row.codes] + [message.name for message in row.messages]
        for each in names:
            if each.lower() == name.lower():
                return Failure(each, "", row)
    row_of_family = _find_row(name.upper())
    return None if row_of_family is None else Failure(name.upper(), "", row_of_family)


def root_cause(failures: Iterable[Failure]) -> Optional[Failure]:
    """Pick the failure to act upon.

    In this order, and the first given of each kind:

    1. a transient, permanent or hardware failure: an exact code before the stage in which HCCL
       failed, and that before a code with many causes (``507899``)
    2. an ambiguous failure
    3. a secondary failure, caused by another rank
    4. one that does not tell what failed (``[GePlugin] Initialize ge failed``, ``E19999``,
       ``EE9999``, ``EZ9999``)

    Given the failures of several ranks, a secondary one is the result only if no rank reports
    anything else.

    Returns:
        One of the failures; None if there are none.
    """
    candidates = list(failures)
    return min(candidates, key=_order) if candidates else None


def _order(failure: Failure) -> Tuple[int, bool, bool]:
    is_vague = failure.definition.is_vague
    # 507899 also occurs if the device is merely busy: a stage of HCCL tells more.
    is_hardware = failure.failure_class is FailureClass.HARDWARE
    return failure.precedence, is_vague, is_vague and is_hardware


def _find_hits(text: str) -> List[_Hit]:
    """Find the first place of each code and message in a text, in the order of the places."""
    hits = list(_find_codes(text))
    unlisted = _find_unlisted(text, lambda name: _find_row(name) is not None)
    hits += [_Hit(start, code, row, False) for start, code, row in unlisted]
    for message, pattern, row in _list_messages():
        start = _find_message(text, message, pattern) if message.words in text else None
        if start is not None:
            hits.append(_Hit(start, message.name, row, True))
    return sorted(hits, key=lambda hit: (hit.start, not hit.by_words))


def _find_codes(text: str) -> Iterator[_Hit]:
    """Find the first place of each code in a text."""
    seen: Set[str] = set()
    for match in _CODES.finditer(text):
        name, start, end = match.group(), match.start(), match.end()
        row = None if name in seen else _find_row(name)
        if row is None:
            continue
        if not name.startswith("E"):
            is_code = _is_return_code(text, start, end)
        else:
            is_code = name in _ROW_BY_CODE or bool(_MARK.match(text, end))
        if is_code:
            seen.add(name)
            yield _Hit(start, name, row, False)


def _is_return_code(text: str, start: int, end: int) -> bool:
    """Return whether the number at ``text[start:end]`` is printed as a return code."""
    before = text[max(0, start - _REACH) : start]
    before = before[before.rfind("\n") + 1 :]
    if before.strip() == "[":
        return text[end : end + _REACH].split("\n", 1)[0].strip() == "]"
    if not before.rstrip(" \t:=[(\"',.").lower().endswith(_CODE_ENDS + _FAILURE_ENDS):
        return False
    if text.startswith(_ROUND, start) and not _CALLED_CODE.search(before):
        return False
    in_bracket = text.startswith("]", end) and _BRACKET.search(before)
    return bool(in_bracket or _BEFORE.search(before))


def _find_message(text: str, message: KnownText, pattern: Pattern[str]) -> Optional[int]:
    """Find the first place of a message in a text, with its `near` word before it."""
    for match in pattern.finditer(text):
        start = match.start()
        before = text[max(0, start - _NEAR) : start]
        if message.near in before[before.rfind("\n") + 1 :]:
            return start
    return None


def _make_failure(text: str, hit: _Hit) -> Failure:
    begin = text.rfind("\n", 0, hit.start) + 1
    end = text.find("\n", hit.start)
    line = text[begin : len(text) if end < 0 else end]
    excerpt = line.strip()
    if text.startswith(JOB_CANNOT_GO_ON, hit.start):
        excerpt = line[hit.start - begin :][:_SENTENCE_LENGTH]
    elif len(excerpt) > LINE_LENGTH:
        cut = max(0, hit.start - begin + 1 - _LEAD)
        excerpt = line[cut : cut + LINE_LENGTH]
    return Failure(hit.code, blank_unprintable(excerpt).strip(), hit.definition)


_ROW_BY_CODE: Dict[str, Definition] = {code.name: row for row in ROWS for code in row.codes}


@lru_cache(maxsize=256)
def _find_row(name: str) -> Optional[Definition]:
    """Find the row of a code, by name or by family."""
    of_families = (
        row
        for row in ROWS
        for family in row.families
        if re.fullmatch(family.pattern, name) is not None
    )
    return _ROW_BY_CODE.get(name) or next(of_families, None)


@lru_cache(maxsize=1)
def _list_messages() -> List[Tuple[KnownText, Pattern[str], Definition]]:
    return [
        (message, re.compile(message.pattern or re.escape(message.words)), row)
        for row in ROWS
        for message in row.messages
    ]


# Codes that the table does not have. The vendor's own message says what is wrong and what to do:
#
#     EX0099: [PID: 1] 2026-03-02-11:57:54.167.645 The text.
#             Possible Cause: 1. One. 2. Another.
#             Solution: Do that.
#             TraceBack (most recent call last):
#
# or with a name before the code, as in ``Inner_Error(EX0099): The text.``
# Source: guides/facts/failures.md#codes-that-the-table-does-not-have

_LABELS = ("Possible Cause:", "Solution:")
_LABELLED = re.compile(r"[ \t]*(?:Possible Cause|Solution):")
# W stands for warnings.
_HEAD = re.compile(
    r"(?<![0-9A-Za-z_-])((?!W)[A-Z][A-Z0-9][0-9]{4})(?:\)?:|(?=\[PID))[ ]?"
    r"(?:\[PID: [0-9]+\] ?)?(?:[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9:.]+ )?"
)
_MOST_HEAD_LINES, _MOST_LINES = 4, 20  # before the first label, and in all
_SOURCE = "the vendor's own message; the table does not have this code"


def _find_unlisted(
    text: str, is_listed: Callable[[str], bool]
) -> Iterator[Tuple[int, str, Definition]]:
    """Find the vendor's messages that explain themselves and are not in the table.

    Args:
        text: Any text.
        is_listed: Whether the table has a code.

    Yields:
        The index of a code in the text, the code, and a definition with the vendor's own words.
    """
    if not any(label in text for label in _LABELS):
        return
    lines = text.split("\n")
    start = 0  # of the line
    for number, line in enumerate(lines):
        head = _HEAD.search(line)
        if head is not None and not is_listed(head[1]):
            message = _take_message(lines, number)
            if message:
                meaning = " ".join([line[head.end() :], *message[0]]).strip().rstrip(".")
                yield start + head.start(1), head[1], _define(head[1], meaning, message[1])
        start += len(line) + 1


def _take_message(lines: List[str], number: int) -> Tuple[List[str], ...]:
    """Take the lines of a message below its first: the rest of its text, and causes with advice."""
    text: List[str] = []
    advice: List[str] = []
    for line in lines[number + 1 : number + _MOST_LINES]:
        is_label = _LABELLED.match(line) is not None
        is_over = not line[:1].isspace() or not line.strip() or "TraceBack" in line
        if is_over or (not advice and not is_label and len(text) >= _MOST_HEAD_LINES):
            break
        (advice if advice or is_label else text).append(line.strip())
    return (text, advice) if advice else ()


def _define(code: str, meaning: str, advice: List[str]) -> Definition:
    """Make the row that the table lacks; HCCL's codes (EI) may come from another rank's failure."""
    return Definition(
        FailureClass.PERMANENT,
        " ".join(advice),
        _SOURCE,
        codes=(Code(code, meaning),),
        is_secondary=code.startswith("EI"),
        is_vague=True,
        is_listed=False,
    )


# In an exception


def translate(
    error: BaseException,
    *,
    action: str = "initialize_system",
    into: Type[AscendError] = InitializationError,
) -> AscendError:
    """Turn a foreign exception into an error of this package, which the caller raises ``from`` it.

    Its ``hint`` is the advice for the root cause, ``failure`` the Failure and ``failure_class`` the
    FailureClass; all are None if the text of the exception contains no known failure.

    Args:
        error: Any exception.
        action: The action that failed, as the subject of a sentence.
        into: The class of the result.
    """
    text = _get_text(error)
    failure = root_cause(classify(text))
    if failure is None:
        line = shorten(reason_of(text), LINE_LENGTH)
        message = f"{action} failed with {type(error).__name__}" + (f": '{line}'" if line else ".")
        return into(message)
    code = f" with {failure.code} ({failure.meaning})" if failure.meaning else ""
    result = into(f"{action} failed{code}: '{failure.line}'", hint=failure.advice)
    result.failure, result.failure_class = failure, failure.failure_class
    return result


def explain(error: BaseException) -> Optional[Failure]:
    """Log advice about a foreign exception, whose type and message stay as they are.

    In a rank of a launch nothing is logged about a job that cannot go on: every rank would say the
    same, and the launcher says it once.
    From Python 3.11 on the advice is also a note of the exception; `failure_of` returns the
    failure. Exceptions of this package, and those without a known failure, are left alone.
    """
    earlier = failure_of(error)
    if earlier is not None or isinstance(error, AscendError):
        return earlier
    failure = root_cause(classify(_get_text(error)))
    if failure is None:
        return None
    kind = failure.failure_class
    text = f"{failure.code} is a known failure ({kind.value}). {failure.advice}"
    is_of_all = failure.line.startswith(JOB_CANNOT_GO_ON)
    if is_of_all:  # the sentence says whether a rank failed first
        text = f"{failure.line} {failure.advice}"
    vars(error).update(failure=failure, failure_class=kind)
    if not (is_of_all and os.environ.get(RANK_FOLDER)):
        _logger.error("%s", text)
    add_note = getattr(error, "add_note", None)
    if add_note is not None:
        add_note(text)
    return failure


def failure_of(error: BaseException) -> Optional[Failure]:
    """Return the `Failure` that `translate` or `explain` has attached to an exception, or None."""
    failure = getattr(error, "failure", None)
    return failure if isinstance(failure, Failure) else None


def _get_text(error: BaseException) -> str:
    """Return an exception's ``message``, which TensorFlow's errors have, else ``str(error)``."""
    message = getattr(error, "message", None)
    return message if isinstance(message, str) and message else str(error)
