"""What runs inside a rank, before and after the user's program.

``ascend_session/runner.py`` reads these files by their paths and not by ``import``: they import
nothing but what is built into the interpreter, so that no folder on ``sys.path`` can hide anything
and the start costs about nothing. They work from Python 3.6 on.
"""
