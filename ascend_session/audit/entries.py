"""Rules about one NpuOptimizer entry: its name, its keys, their fields and values."""

import contextlib
from typing import Any, Iterator, Optional

from ascend_session.audit.between import status_findings
from ascend_session.audit.book import Book
from ascend_session.audit.finding import ERROR, INFO, WARNING, Place
from ascend_session.audit.objects import Entry, Setting
from ascend_session.audit.options import judge, known_option, path_keys
from ascend_session.audit.source import Source
from ascend_session.audit.values import EnvironmentText, Known
from ascend_session.config.entry_words import (
    ENTRY_NAME,
    is_misnamed,
    misnamed_entry,
    wrong_field,
)
from ascend_session.config.names import REFUSED_BY_GE, did_you_mean, unknown_key
from ascend_session.config.profiling_options import profiling_members

__all__ = ["adapter_entries", "look_at_entries", "look_at_path", "look_at_status"]

# Their entries have nothing to do with the adapter, whatever their keys are called.
_OTHERS = ("tensorrt", "ngraph", "tfgraph", "constfold", "layout", "xla")
# The fields of tf.AttrValue.
_FIELDS = ("b", "f", "func", "i", "list", "placeholder", "s", "shape", "tensor", "type")
# They are there on every machine.
_COMMON = ("/tmp", "/dev", "/proc", "/var/tmp")


def adapter_entries(entries: Iterator[Entry], source: Source) -> Iterator[Entry]:
    """The entries that are meant for the adapter."""
    for entry in entries:
        if not entry.own and any(each.field not in _FIELDS for each in entry.settings):
            continue  # some other kind of map
        names = [value.value for value, _ in entry.names if isinstance(value, Known)]
        if ENTRY_NAME in names or any(_is_near(name) for name in names):
            yield entry
        elif source.is_npu and not any(_is_another(name) for name in names):
            keys = [setting.key for setting in entry.settings]
            if not names or any(known_option(key) is not None for key in keys):
                yield entry


def _is_near(name: Any) -> bool:
    return isinstance(name, str) and (
        is_misnamed(name) or did_you_mean(name.lower(), [ENTRY_NAME.lower()], 0.8) is not None
    )


def _is_another(name: Any) -> bool:
    return isinstance(name, str) and any(word in name.lower() for word in _OTHERS)


def look_at_entries(entry: Entry, source: Source, book: Book) -> None:
    """Adds what there is to say of one entry."""
    _look_at_name(entry, book)
    for setting in entry.settings:
        _look_at_setting(setting, source, book)


def _look_at_name(entry: Entry, book: Book) -> None:
    for value, place in entry.names:
        if isinstance(value, Known) and value.value != ENTRY_NAME:
            problem = misnamed_entry(str(value.value))
            book.add("wrong-optimizer-name", ERROR, place, problem.message, problem.hint)
    if not entry.names and entry.own and entry.settings:
        book.add(
            "wrong-optimizer-name",
            ERROR,
            entry.place,
            f"This entry gets no name; the adapter reads the one named {ENTRY_NAME!r} only and "
            "ignores this one without a word.",
            f'Write .name = "{ENTRY_NAME}".',
            certain=not entry.shared,
        )


def _look_at_setting(setting: Setting, source: Source, book: Book) -> None:
    key, place = setting.key, setting.place
    option = known_option(key)
    if option is None:
        problem = unknown_key(key)
        rule = "value-not-allowed" if key in REFUSED_BY_GE else "unknown-key"
        book.add(rule, ERROR, place, problem.message, problem.hint)
        if setting.field == "s" and isinstance(setting.value, EnvironmentText):
            look_at_variable(key, setting.value.name, place, book)
        return
    look_at_status(key, place, book)
    if setting.field != option.field:
        problem = wrong_field(key, setting.field, option.field or "")
        book.add("wrong-field", ERROR, place, problem.message, problem.hint)
        return
    judged = judge(option, setting.value, source.old)
    if judged.variable is not None:
        look_at_variable(key, judged.variable, place, book)
    if judged.wrong_type is not None:
        said = f"{key}: {judged.wrong_type}; Python ends the script with a TypeError."
        hint = "Write tf.compat.as_bytes(...) around it." if option.field == "s" else None
        book.add("field-type", ERROR, place, said, hint, judged.certain)
    for each in judged.problems:
        book.add("value-not-allowed", ERROR, place, each.message, each.hint, judged.certain)
    look_at_path(key, judged.value, place, book)


def look_at_status(key: str, place: Place, book: Book) -> None:
    """Says that an option is deprecated, or that nothing reads it, whatever its value."""
    for found in status_findings(key):
        book.add(found.rule, found.severity, place, found.said, found.hint or _STATUS[found.rule])


_STATUS = {
    "unread-option": "Leave it out.",
    "deprecated-option": "It is still read, and the manual names nothing instead.",
}


def look_at_variable(key: str, variable: str, place: Place, book: Book) -> None:
    """Says that an unset variable ends the script."""
    book.add(
        "variable-without-default",
        WARNING,
        place,
        f"{key} is what the variable {variable} says; where it is not set, os.getenv gives None "
        "and Python ends the script with a TypeError.",
        f'Give a default, as in os.getenv("{variable}", "..."), or leave the option out then.',
    )


def look_at_path(key: str, value: Optional[Any], place: Place, book: Book) -> None:
    """Says that a path is one of the machine the script was written on."""
    if key == "profiling_options" and isinstance(value, str):
        with contextlib.suppress(ValueError):
            key, value = f"{key}, output", profiling_members(value).get("output")
    elif key not in path_keys():
        return
    if not isinstance(value, str):
        return
    is_absolute = value.startswith("/") or (value[1:3] in (":/", ":\\") and value[0].isalpha())
    if is_absolute and not value.startswith(_COMMON):
        book.add(
            "machine-path",
            INFO,
            place,
            f"{key}={value!r} is a path of one machine; on another one it is not there.",
            "Take it from an argument or a variable, or write it relative to the script.",
        )
