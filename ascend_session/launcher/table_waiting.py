"""Waiting for a rank table that somebody else still fills in, before anything goes by it."""

from typing import Callable, Mapping, Optional

from ascend_session.backends import choose
from ascend_session.checks.finding import ERROR, Finding
from ascend_session.errors import AscendError, JobError, PreflightError
from ascend_session.launcher.config import LaunchConfig
from ascend_session.launcher.table_nodes import table_path

__all__ = ["await_table"]

_EACH = 60.0  # seconds between two sentences about the same


def await_table(
    config: LaunchConfig,
    environ: Mapping[str, str],
    say: Callable[[str], None],
) -> None:
    """Returns when the job's table is completed, is none that is waited for, or is missing.

    What else is wrong with it is not looked at here.

    Args:
        config: What the launch is asked.
        environ: The launcher's environment.
        say: Is told what is waited for, and again each minute.

    Raises:
        PreflightError: If it is not completed in ``wait_for_table`` seconds.
    """
    path = _path(config, {**environ, **config.env}) if config.wait_for_table else None
    if path is None:
        return
    from ascend_session.checks.tables import TABLE
    from ascend_session.cluster.rank_table import RankTable
    from ascend_session.cluster.rank_table.contents import INITIALIZING
    from ascend_session.cluster.rank_table.waiting import Waiting

    try:
        if RankTable.read(path).status != INITIALIZING:
            return
    except JobError:
        return
    last = Waiting(2 * _EACH + config.wait_for_table, "")

    def tell(now: Waiting) -> None:
        nonlocal last
        if now.why != last.why or last.left - now.left >= _EACH:
            last = now
            say(f"Waiting for at most {now.left:.0f} s: {path}: {now.why}.")

    try:
        RankTable.wait_for(path, config.wait_for_table, tell)
    except JobError as late:
        found = Finding(TABLE, ERROR, late.message, late.hint)
        raise PreflightError(late.message, hint=late.hint, findings=[found]) from None


def _path(config: LaunchConfig, environ: Mapping[str, str]) -> Optional[str]:
    try:
        backend = choose(config.backend, environ).name
    except AscendError:  # which the plan says
        return None
    return table_path(config, backend, environ, nodes_are_said=False)
