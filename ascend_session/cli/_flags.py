"""Names options in messages as they are typed: ``--rank-table``, where Python has rank_table."""

import re

__all__ = ["with_flags"]

# Names that are nothing else in a sentence: they count anywhere but in a path or a value.
_CLEAR = (
    "chief_ip",
    "chief_port",
    "device_cores",
    "device_memory",
    "nnodes",
    "node_rank",
    "operator_cores",
    "job_id",
    "log_dir",
    "max_restarts",
    "no_rank_table",
    "rank_table",
    "stall_timeout",
    "static_operators",
    "training_memory",
    "tuning_parallel_num",
    "wait_for_devices",
    "wait_for_table",
)
# Words, which are options only where a value or what they take follows.
_WORDS = (
    "backend",
    "bind",
    "coordinator",
    "cwd",
    "devices",
    "env",
    "events",
    "grace",
    "processes",
    "python",
    "show",
    "timestamps",
)
_CLEAR_NAME = re.compile(rf"(?<![\w./'\"=-])({'|'.join(_CLEAR)})(?![\w/'\"-]|\.\w)")
_WORD = re.compile(rf"(?<![\w./'\"=-])({'|'.join(_WORDS)})(?==| takes | gives )")
_NAME_ALONE = re.compile(r"\b(Give|give|in|Leave) (python|env|cwd)(?=[., ])")
# What is written otherwise in a shell.
_PHRASES = {
    "launch with preflight=False": "launch with --no-preflight",
    "wait_for_devices=600": "--wait-for-devices 10m",
    "program=": "--no-python ",
    "module=": "-m ",
    "module takes": "-m takes",
    "None means never.": "Leave it out to wait without end.",
    "or give script or module.": "or --no-python.",
    "from processes and devices.": "from -n and --devices.",
}


def with_flags(message: str) -> str:
    """A message or hint in which options are named as they are typed."""
    for python, shell in _PHRASES.items():
        message = message.replace(python, shell)
    message = _NAME_ALONE.sub(lambda found: f"{found[1]} {_flag(found[2])}", message)
    for pattern in (_CLEAR_NAME, _WORD):
        message = pattern.sub(lambda found: _flag(found[1]), message)
    return message


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
