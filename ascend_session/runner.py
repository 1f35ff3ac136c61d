"""Run a Python program in this process as plain Python does, and record how it fails.

The launcher starts it by its path: ``python .../runner.py script arguments`` or ``... -m module
arguments``. ``__main__``, ``sys.argv``, ``sys.path``, the exit code and a printed traceback are
those of ``python script``. In the folder that ``ASCEND_SESSION_RANK_FOLDER`` names it leaves

* ``error.json``, if an exception ended the program, or ``sys.exit`` with a code other than 0;
* ``stacks.log``, with the stacks of all threads when SIGSEGV, SIGABRT, SIGBUS, SIGFPE or SIGILL
  ended it, and each time signal ``SIGRTMIN + 7`` came. If the environment enables
  ``faulthandler``, crashes stay on standard error.

A program can notice the runner only by this: ``faulthandler`` is on, the outermost frames of its
stack are of this package, and one more descriptor is open, number 1000 if that is free. A program
that closes it loses the stacks and nothing else. A finder on ``sys.meta_path`` makes TensorFlow
leave out those frames where it reports where an operation was made. On the stub the vendor's
packages are found as well: by another finder, and by a folder on ``sys.path`` and in
``PYTHONPATH``.

This file is compiled at each start, so it is short; the rest is in ``launcher/rank_main.py``.
"""

import sys

if __name__ == "__main__":
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        del sys.path[0]  # this file's folder, which the program must not see
    sys.path.insert(0, __file__[: -len("runner.py")] + "launcher")
    _main = __import__("rank_main").main
    del sys.path[0], sys.modules["rank_main"]
    _main(__file__)
