"""What the user asks for: the options of the Ascend adapter, typed and checked.

``options.py`` has every option on one line; ``rules/`` what they demand of each other and of the
host; ``values.py``, ``shapes.py`` and ``profiling_options.py`` the little languages inside option
values; ``parameter_map.py``, ``proto.py``, ``files.py`` and ``run_config.py`` the ways in and out.
"""
