"""Where the stacks of a rank's threads are written: when a signal kills it, and when asked for."""

import faulthandler
import os

__all__ = ["STACKS_NAME", "STACK_SIGNAL", "watch"]

STACKS_NAME = "stacks.log"
# Of what signal is made of; signal itself is slow to load.
STACK_SIGNAL = int(__import__("_signal").SIGRTMIN) + 7

# Descriptors that no program reaches. If one closes all that it does not know, what it opens then
# gets another number, and no stack is ever written into a file of its own.
_OUT_OF_THE_WAY = (1000, 250)


def watch(folder: str) -> None:
    """Opens the file in the rank's folder; nothing happens if it cannot be opened.

    Who asked for ``faulthandler`` in the environment keeps it on standard error.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    try:
        fd = _moved(os.open(os.path.join(folder, STACKS_NAME), flags, 0o666))
        if not faulthandler.is_enabled():
            faulthandler.enable(fd, all_threads=True)
        faulthandler.register(STACK_SIGNAL, fd, all_threads=True, chain=False)
    except (OSError, RuntimeError, ValueError):
        return


def _moved(fd: int) -> int:
    for high in _OUT_OF_THE_WAY:
        try:
            os.fstat(high)
        except OSError:
            try:
                os.dup2(fd, high, False)
            except OSError:  # so many are not allowed
                continue
            os.close(fd)
            return high
    return fd
