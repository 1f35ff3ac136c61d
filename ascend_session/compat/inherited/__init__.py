"""A folder for ``PYTHONPATH``: how Pythons that a script starts find the vendor's names.

On ``sys.path`` its two files are ``npu_bridge`` and ``hccl``; nothing is loaded or changed in a
Python that imports neither.
"""
