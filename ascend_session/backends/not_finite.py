"""Which rank was the first to bring gradients that are not finite.

Each rank looks at the sums that it gets. Only where one is not finite does it look at what it has
brought itself, and reports it to the launcher, which names the first one if the job fails of it
(`launcher.verdict.suspect`). That is taken back when the sums are finite again, as where a
script masks such a step. Nothing is reported in graphs that skip steps with an overflow by design.
"""

import weakref
from typing import Any, List, Optional, Sequence

from ascend_session import channel
from ascend_session.backends.averaging import find_averaged, skips_overflows
from ascend_session.backends.training_record import note_sums

_SMALL_BYTES = 64 << 10
_WHOLE_BYTES = 4 << 20  # of larger arrays every 64th cache line is looked at
_ROW, _EVERY_ROW = 16, 64

_reporter: "Optional[SumWatch]" = None  # one of this process, until its sums are finite again


class SumWatch:
    """Looks at the results of one allreduce of a graph."""

    def __init__(self) -> None:
        self._run_count = 0
        self._graph: Any = lambda: None
        self._names: List[str] = []

    def follow(self, sums: Sequence[Any]) -> None:
        """Set the tensors with the results, by which variables are found."""
        self._graph = weakref.ref(sums[0].graph)
        self._names = [each.name for each in sums]

    def look(self, inputs: Sequence[Any], sums: Sequence[Any], size: int) -> None:
        """Look at the arrays of one run: what this rank has brought, and the sums of so many."""
        global _reporter
        self._run_count += 1
        note_sums(self._graph(), self._names, sums, size)
        index = next((n for n, each in enumerate(sums) if not is_finite(each)), None)
        if (index is None and _reporter is self) or (index is not None and _reporter is None):
            graph = self._graph()
            if index is None:
                channel.send("not_finite", step=None)
                _reporter = None
            elif graph is not None and not skips_overflows(graph):
                at_input = next((n for n, each in enumerate(inputs) if not is_finite(each)), None)
                place = index if at_input is None else at_input
                tensor = graph.get_tensor_by_name(self._names[place])
                channel.send(
                    "not_finite",
                    step=self._run_count,
                    variable=find_averaged(tensor),
                    is_own=at_input is not None,
                )
                _reporter = self


def is_finite(array: Any) -> bool:
    """Return whether all numbers of an array are finite; of a large one, those that are looked at.

    A gradient that is not finite is seldom so in a few places only, and to read all of 100 MB would
    take a tenth of the time of its exchange.
    """
    import numpy as np

    if array.dtype.kind != "f":
        return True
    if array.nbytes > _WHOLE_BYTES:
        flat = array.reshape(-1)
        array = flat[: len(flat) // _ROW * _ROW].reshape(-1, _ROW)[::_EVERY_ROW]
    if array.nbytes <= _SMALL_BYTES:  # where it takes longer to prepare a sum than to look at all
        return bool(np.isfinite(array).all())
    with np.errstate(all="ignore"):
        # One NaN or Inf shows in the sum; a sum may also overflow without any, above all float16.
        if array.itemsize > 2 and np.isfinite(np.add.reduce(array, axis=None)):
            return True
    return bool(np.isfinite(array).all())
