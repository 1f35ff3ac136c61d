"""What the user asks for: the options of the Ascend adapter, typed and checked.

``options.py`` has every option on one line; ``types.py`` the types of plain values and files,
``grammars/`` those of texts in a little language; ``rules/`` what options demand of each other and
of the host. ``ends.py`` says who ends a run for what of that, on the lines of options and rules.
``entry.py`` is what the adapter reads of an entry; ``proto.py`` and ``files.py`` are the other ways
in and out; ``reference.py`` and ``file_report.py`` are for readers. Names are loaded when they are
first used, for most of them bring attrs along.
"""

from ascend_session.lazy import late_names

__getattr__, __dir__, __all__ = late_names(globals())
