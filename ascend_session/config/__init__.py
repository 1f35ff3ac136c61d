"""The options of the Ascend adapter, typed and checked.

``options.py`` has every option on one line; ``types.py`` the types of plain values and files,
``grammars/`` those of texts in a little language; ``rules/`` the rules between options, and between
options and the host. ``ends.py`` records which component ends a run for a wrong value. ``entry.py``
models the NpuOptimizer entry; ``proto.py`` and ``files.py`` convert to and from protos and files;
``reference.py`` and ``file_report.py`` produce what commands print. Names are loaded on first use,
because most need attrs.
"""

from ascend_session.lazy import late_names

__getattr__, __dir__, __all__ = late_names(globals())
