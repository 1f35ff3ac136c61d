"""One rank of the digits training: ``stepping.py STEPS``; rank 0 prints the seconds of a step."""

import itertools
import json
import sys
from time import perf_counter
from typing import Iterator, Sequence

from ascend_session import ascend_session, ascend_system
from ascend_session.examples import digits


def main(argv: Sequence[str]) -> None:
    """Train as the example does, and take the mean of so many steps after as many to warm up."""
    steps = int(argv[0])
    examples, _ = digits.load_digits()
    with ascend_system(digits.CONFIG) as system:
        share = digits.Share(system.rank, system.size)
        model = digits.build_model(size=system.size)
        feeds = (model.feed(batch) for batch in endless(examples, share))
        with ascend_session(graph=model.graph) as sess:
            sess.run(model.initialize)
            sess.run(model.broadcast)
            for _ in ("to warm up", "to measure"):
                begin = perf_counter()
                for feed in itertools.islice(feeds, steps):
                    sess.run(model.train_step, feed)
                seconds = perf_counter() - begin
    if share.rank == 0:
        print("seconds", json.dumps([seconds / steps]), flush=True)


def endless(examples: digits.Examples, share: digits.Share) -> Iterator[digits.Examples]:
    """Give batch after batch, epoch after epoch."""
    for epoch in itertools.count(1):
        yield from digits.batches(examples, epoch, share)


if __name__ == "__main__":
    main(sys.argv[1:])
