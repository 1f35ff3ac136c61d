"""Trains the classifier of ``digits`` as one rank of a job, on this rank's share of the images.

Start eight of them with ``ascend-session launch -n 8 -m ascend_session.examples.shards``. The ranks
exchange nothing: each has seen only its share, and is the worse for it.
"""

import os
import sys
from typing import Sequence

from ascend_session import AscendError, ascend_system
from ascend_session.examples._report import require_packages
from ascend_session.examples.digits import (
    CONFIG,
    Examples,
    build_model,
    load_digits,
    parse,
    train,
)

__all__ = ["main", "share"]


def share(examples: Examples, rank: int, size: int) -> Examples:
    """Every ``size``-th example, beginning with number ``rank``."""
    return Examples(examples.images[rank::size], examples.labels[rank::size])


def main(argv: Sequence[str]) -> None:
    """Trains, saves, and says in one line what came of it."""
    arguments = parse(argv)
    require_packages()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # read when TensorFlow is imported

    training, held_out = load_digits()
    with ascend_system(CONFIG) as system:
        mine = share(training, system.rank, system.size)
        folder = arguments.output / f"rank_{system.rank}"
        folder.mkdir(exist_ok=True)
        checkpoint = str(folder / "model")
        history = train(build_model(), mine, held_out, arguments.epochs, checkpoint)
        print(
            f"rank {system.rank} of {system.size} on device {system.device_id}: "
            f"{len(mine.labels)} images, held-out accuracy {history[-1].held_out_accuracy:.3f}"
        )


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except AscendError as problem:
        sys.exit(str(problem))
