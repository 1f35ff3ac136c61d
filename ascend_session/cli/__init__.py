"""The program ``ascend-session``: it parses, calls the rooms below and draws what they return.

Every command is a module of its own and imports its room only when it runs, so that ``--help`` is
quick and never loads TensorFlow.
"""

__all__ = ["main"]


def main() -> None:
    """Runs the program with the arguments of this process; the console script.

    Raises:
        SystemExit: Always. 0 is success, 2 a wrong call, 1 means that what was asked about is
            not in order.
    """
    from ascend_session.cli.app import run

    run()
