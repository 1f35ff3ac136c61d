"""When a six-digit number is a return code, and not a step, a process id or an address.

The vendor prints its aclError numbers in many ways. These count, with ``507033`` for the number;
upper and lower case are alike, and ``:``, ``=``, ``is``, a space, a quote or a bracket may stand
between word and number:

* ``ret 507033``, ``ret[507033]``, ``retCode=507033``, ``aclRet: 507033``, ``returned 507033``
* ``error code is 207001``, ``errorCode = 507033``, ``ErrCode=507899``, ``errno: 507033``,
  ``"error_code": 507034``, ``aclError 507015``, ``failed, error: 507033``
* ``runtime result = 507010``
* ``aclrtSynchronizeStream(stream) failed: 507015``, ``failed (507015)``
* ``[507015]`` right after ``failed``, ``failure``, ``error`` or ``exception``, or alone in a line

Nothing else does: no ``step 507015``, no ``[507015]`` behind a source line (there it is a thread),
no ``0x507015``, and no number that is part of a longer one. Hexadecimal codes (``0x7020010``) are
inner codes with a numbering of their own and are not converted.
"""

import re

__all__ = ["is_return_code"]

_REACH = 48  # characters before the number that are looked at

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
_BRACKET = re.compile(r"(?:fail(?:ed|ure)?|error|exception)[\s:,.]{0,3}\[$", re.IGNORECASE)
# Every word above ends with one of these; asking for them first is many times faster.
_CODE_ENDS = ("ret", "ode", "val", "value", "urn", "urns", "urned", "no", "is", "err", "result")
_FAILURE_ENDS = ("fail", "failed", "failure", "error", "exception")


def is_return_code(text: str, start: int, end: int) -> bool:
    """Whether the number at ``text[start:end]`` is printed as a return code."""
    before = text[max(0, start - _REACH) : start]
    before = before[before.rfind("\n") + 1 :]
    if before.strip() == "[":
        return text[end : end + _REACH].split("\n", 1)[0].strip() == "]"
    if not before.rstrip(" \t:=[(\"',.").lower().endswith(_CODE_ENDS + _FAILURE_ENDS):
        return False
    in_bracket = text.startswith("]", end) and _BRACKET.search(before)
    return bool(in_bracket or _BEFORE.search(before))
