"""What is wrong with a `LaunchConfig`: one small check per kind of value, all at once."""

import math
import os
import re
from typing import Any, Iterator, Mapping

from ascend_session.cluster.coordinator import is_address
from ascend_session.errors import Problem
from ascend_session.launcher.binding import BINDINGS
from ascend_session.launcher.job_id import job_id_fault
from ascend_session.launcher.ports import HIGHEST_PORT
from ascend_session.launcher.variables import OWNED

__all__ = ["problems_of"]

_TEXTS = (
    "script",
    "module",
    "program",
    "rank_table",
    "chief_ip",
    "coordinator",
    "job_id",
    "cwd",
    "python",
    "log_dir",
    "events",
)
_MOST = 10000  # processes; a slip of the finger must not fill the memory with plans
_COMMANDS = ("script", "module", "program")


def problems_of(config: Any) -> Iterator[Problem]:
    """Yields the problems of a config, in the order of its attributes' kinds."""
    wrong = [*_texts(config), *_numbers(config), *_switches(config)]
    yield from wrong
    yield from _args(config.args)
    yield from _env(config.env)
    if not wrong:
        yield from _command(config)
        yield from _meeting(config)
        yield from _nodes(config)


def _texts(config: Any) -> Iterator[Problem]:
    for name in _TEXTS:
        value = getattr(config, name)
        if value is not None and not _is_text(value):
            hint = "Write str(path) for a path." if isinstance(value, os.PathLike) else None
            yield _problem(name, value, "a text that is not empty", hint)
    if config.bind not in BINDINGS:
        yield _problem("bind", config.bind, " or ".join(map(repr, BINDINGS)))
    for name in ("backend", "show"):
        if not _is_text(getattr(config, name)):
            yield _problem(name, getattr(config, name), "a text that is not empty")


def _numbers(config: Any) -> Iterator[Problem]:
    if config.processes is not None and not _is_whole(config.processes, 1, _MOST):
        yield _problem("processes", config.processes, f"a number of processes, 1 to {_MOST}")
    if config.chief_port is not None and not _is_whole(config.chief_port, 1, HIGHEST_PORT):
        yield _problem("chief_port", config.chief_port, f"a port, 1 to {HIGHEST_PORT}")
    if config.nnodes is not None and not _is_whole(config.nnodes, 1, _MOST):
        yield _problem("nnodes", config.nnodes, f"a number of nodes, 1 to {_MOST}")
    if config.node_rank is not None and not _is_whole(config.node_rank, 0):
        yield _problem("node_rank", config.node_rank, "the number of a node, 0 or more")
    if not _is_whole(config.max_restarts, 0):
        yield _problem("max_restarts", config.max_restarts, "a number of restarts, 0 or more")
    if not _is_seconds(config.grace):
        yield _problem("grace", config.grace, "a number of seconds, 0 or more")
    for name in ("wait_for_devices", "wait_for_table"):
        if not _is_seconds(getattr(config, name)):
            yield _problem(name, getattr(config, name), "a number of seconds, 0 or more")
    stall = config.stall_timeout
    if stall is not None and not (_is_seconds(stall) and stall > 0):
        yield _problem("stall_timeout", stall, "a number of seconds above 0", "None means never.")


def _switches(config: Any) -> Iterator[Problem]:
    for name in ("no_rank_table", "timestamps", "preflight"):
        if not isinstance(getattr(config, name), bool):
            yield _problem(name, getattr(config, name), "True or False")


def _args(args: Any) -> Iterator[Problem]:
    if not isinstance(args, tuple):
        yield _problem("args", args, "a list of texts", 'Write ["--epochs", "3"].')
        return
    for value in args:
        if not isinstance(value, str) or "\0" in value:
            yield _problem("args", value, "a text without NUL characters in each place")


def _env(env: Any) -> Iterator[Problem]:
    if not isinstance(env, Mapping):
        yield _problem("env", env, "a mapping of names to values", 'Write {"NAME": "value"}.')
        return
    for name, value in env.items():
        if not _is_text(name) or "=" in name:
            yield _problem("env", name, "a variable's name without = in each place")
        elif not isinstance(value, str) or "\0" in value:
            yield _problem("env", value, f"a text as the value of {name}")
        elif name in OWNED:
            said = f"env gives {name}, which the launcher itself sets or goes by."
            yield Problem("env", said, OWNED[name])


def _command(config: Any) -> Iterator[Problem]:
    given = [name for name in _COMMANDS if getattr(config, name) is not None]
    if len(given) != 1:
        found = " and ".join(given) if given else "none"
        said = f"A launch takes exactly one of script, module and program; given: {found}."
        yield Problem("script", said, 'Write LaunchConfig(script="train.py").')
    if config.module is not None and not all(
        part.isidentifier() for part in config.module.split(".")
    ):
        hint = "Give a path as script." if re.search(r"/|\.py$", config.module) else None
        yield _problem("module", config.module, "a module's name, such as package.module", hint)
    if config.python is not None and config.program is not None:
        said = f"python={config.python!r} is given, but a program is started without Python."
        yield Problem("python", said, "Leave python out, or give script or module.")


def _meeting(config: Any) -> Iterator[Problem]:
    if config.rank_table is not None and config.no_rank_table:
        said = f"rank_table={config.rank_table!r} and no_rank_table are both given."
        yield Problem("rank_table", said, "Give one of them.")
    for name in ("chief_ip", "chief_port"):
        value = getattr(config, name)
        if value is not None and not config.no_rank_table:
            said = f"{name}={value!r} is given, but the job has a chief only without a rank table."
            yield Problem(name, said, "Give no_rank_table too.")
    if config.chief_ip is not None and not is_address(config.chief_ip):
        yield _problem("chief_ip", config.chief_ip, "an IPv4 or IPv6 address")
    fault = "" if config.job_id is None else job_id_fault(config.job_id)
    if fault:
        yield Problem("job_id", f"job_id={config.job_id!r} {fault}.", "Leave it out to get one.")


def _nodes(config: Any) -> Iterator[Problem]:
    if config.node_rank is not None and config.nnodes is None:
        said = f"node_rank={config.node_rank} is given, but not how many nodes there are."
        yield Problem("node_rank", said, "Give nnodes too.")
    elif config.node_rank is not None and config.node_rank >= config.nnodes:
        said = f"node_rank={config.node_rank} is none of {config.nnodes} nodes, which are "
        yield Problem("node_rank", f"{said}0 to {config.nnodes - 1}.", "Nodes count from 0.")


def _problem(name: str, value: Any, wanted: str, hint: Any = None) -> Problem:
    return Problem(name, f"{name} takes {wanted}, not {value!r}.", hint)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != "" and "\0" not in value


def _is_whole(value: Any, least: int, most: float = math.inf) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_seconds(value: Any) -> bool:
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    return good and math.isfinite(value) and value >= 0
