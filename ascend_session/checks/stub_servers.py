"""What a job of several ranks on the stub opens to others."""

from typing import Iterator

from ascend_session.checks.finding import INFO, Finding

__all__ = ["check_stub_servers"]


def check_stub_servers() -> Iterator[Finding]:
    """Says it; TensorFlow has no setting that there could be a look at.

    Source: stub_collectives.md.
    """
    said = (
        "In a job of several ranks on the stub each rank has a TensorFlow server, which listens on "
        "every network interface and asks nobody who they are: whoever reaches it can run "
        "operators, and read and write files, with your rights. One process alone has none, and "
        "neither has a job on devices."
    )
    hint = (
        "Where other people can log in or a network reaches, give the job a network of its own: "
        "unshare --map-root-user --net sh -c 'ip link set lo up && exec ascend-session launch ...'"
    )
    yield Finding("stub servers", INFO, said, hint)
