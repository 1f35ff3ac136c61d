"""What the user asks for: the options of the Ascend adapter, typed and checked.

``options.py`` has every option on one line; ``types.py`` the types of plain values and files,
``grammars/`` those of texts in a little language; ``rules/`` what options demand of each other and
of the host. ``entry.py`` is what the adapter reads of an entry, and ``adapter_checks.py`` what of
that ends a run. ``proto.py`` and ``files.py`` are the other ways in and out; ``reference.py`` is
for readers. Names are loaded when they are first used, for most of them bring pydantic along.
"""

from typing import TYPE_CHECKING

from ascend_session.lazy import late_names

if TYPE_CHECKING:
    from ascend_session.config.entry import FileStore as FileStore
    from ascend_session.config.files import report_file as report_file
    from ascend_session.config.files import resolved_entry as resolved_entry
    from ascend_session.config.names import OBSOLETE as OBSOLETE
    from ascend_session.config.option import Option as Option
    from ascend_session.config.option import adapter_options as adapter_options
    from ascend_session.config.option import option_fields as option_fields
    from ascend_session.config.option import options_by_key as options_by_key
    from ascend_session.config.option import part_of as part_of
    from ascend_session.config.options import AdapterOptions as AdapterOptions
    from ascend_session.config.proto import add_to_entry as add_to_entry
    from ascend_session.config.proto import read_entry as read_entry
    from ascend_session.config.rules import HOST_RULES as HOST_RULES
    from ascend_session.config.rules import RULES as RULES
    from ascend_session.config.rules import validate as validate
    from ascend_session.config.rules import validate_opening as validate_opening
    from ascend_session.config.rules.paths import OPENING_RULES as OPENING_RULES
    from ascend_session.config.rules.rule import FlatOptions as FlatOptions
    from ascend_session.config.rules.rule import Rule as Rule
    from ascend_session.config.tuning import mode_number as mode_number
    from ascend_session.config.tuning import mode_word as mode_word

_NAMES = {
    "entry": ("FileStore",),
    "files": ("report_file", "resolved_entry"),
    "names": ("OBSOLETE",),
    "option": ("Option", "adapter_options", "option_fields", "options_by_key", "part_of"),
    "options": ("AdapterOptions",),
    "proto": ("add_to_entry", "read_entry"),
    "rules": ("HOST_RULES", "RULES", "validate", "validate_opening"),
    "rules.paths": ("OPENING_RULES",),
    "rules.rule": ("FlatOptions", "Rule"),
    "tuning": ("mode_number", "mode_word"),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__getattr__, __dir__ = late_names(__name__, _HOMES, globals())
