"""One rank of the digits training: ``stepping.py STEPS ROUNDS [wait]``.

Rank 0 prints the seconds of a step in the best round. With ``wait`` it is one of several single
processes whose rounds begin together: before each round and after the last one it prints ``ready``
and waits for a line on its input.
"""

import itertools
import json
import sys
from time import perf_counter
from typing import Iterator, Sequence

from ascend_session import ascend_session, ascend_system
from ascend_session.examples import digits


def main(argv: Sequence[str]) -> None:
    """Train as the example does, one round to warm up, and take the best mean of the others."""
    steps, rounds, waits = int(argv[0]), int(argv[1]), argv[2:] == ["wait"]
    examples, _ = digits.load_digits()
    with ascend_system(digits.CONFIG) as system:
        share = digits.Share(system.rank, system.size)
        model = digits.Model(size=system.size)
        # Cut beforehand: with more ranks a rank shuffles more often, and that is not measured here.
        feeds = [model.feed(batch) for batch in itertools.islice(endless(examples, share), steps)]
        with ascend_session(graph=model.graph) as sess:
            sess.run(model.initialize)
            sess.run(model.broadcast)
            times = []
            for _ in range(1 + rounds):
                begin = perf_counter()
                for feed in feeds:
                    sess.run(model.train_step, feed)
                times.append((perf_counter() - begin) / steps)
                if waits:
                    print("ready", flush=True)
                    sys.stdin.readline()
    if share.rank == 0:
        print("seconds", json.dumps([min(times[1:])]), flush=True)


def endless(examples: digits.Examples, share: digits.Share) -> Iterator[digits.Examples]:
    """Give batch after batch, epoch after epoch."""
    for epoch in itertools.count(1):
        yield from digits.batches(examples, epoch, share)


if __name__ == "__main__":
    main(sys.argv[1:])
