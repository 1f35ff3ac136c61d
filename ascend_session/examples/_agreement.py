"""What the ranks of a job tell each other after each epoch, so that all see how training goes."""

import hashlib
from typing import Any, List, Sequence, Tuple

from ascend_session import hccl

__all__ = ["Agreement", "digest", "disagreement"]


class Agreement:
    """Operators of the default graph; make it when all variables have been made.

    Args:
        size: The number of ranks. Where there is one, nothing is exchanged.
    """

    def __init__(self, size: int) -> None:
        import tensorflow.compat.v1 as tf

        self._variables = tf.global_variables()
        self._loss = tf.placeholder(tf.float32, [1], name="loss_of_rank")
        self._digest = tf.placeholder(tf.int64, [1], name="digest_of_rank")
        self._all = [
            hccl.allgather(one, size) if size > 1 else tf.identity(one)
            for one in (self._loss, self._digest)
        ]

    def reach(self, sess: Any, loss: float) -> Tuple[float, str]:
        """Compares the variables of all ranks, down to the last bit.

        Args:
            sess: The session that has the variables.
            loss: This rank's own.

        Returns:
            The mean of the ranks' losses, and what stands for the variables of each of them.

        Raises:
            SystemExit: If a rank has other variables; it names all that do.
        """
        mine = digest(sess.run(self._variables))
        own = int.from_bytes(mine, "big", signed=True)
        losses, digests = sess.run(self._all, {self._loss: [loss], self._digest: [own]})
        found = disagreement(digests.tolist())
        if found:
            raise SystemExit(found)
        return sum(map(float, losses)) / len(losses), mine.hex()


def digest(arrays: Sequence[Any]) -> bytes:
    """Eight bytes that stand for the arrays, and are others if a single bit of these is another."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(array.tobytes())
    return found.digest()[:8]


def disagreement(digests: List[int]) -> str:
    """A sentence that names the ranks whose variables are not those of rank 0; empty if all are."""
    others = [str(rank) for rank, one in enumerate(digests) if one != digests[0]]
    if not others:
        return ""
    whose = "rank" if len(others) == 1 else "ranks"
    return f"The weights of {whose} {', '.join(others)} are not those of rank 0."
