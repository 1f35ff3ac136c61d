"""Removed commands, options and kinds of files, with replacements.

A key is what was typed behind ``ascend-session``; a value ends the sentence that refuses it.
"""

from typing import Dict, Optional

_IGNORE = "end the line of a known finding with `# ascend: ignore[RULE]`"
_NO_COPY = "leave it out, for check-file writes no file"

REMOVED: Dict[str, str] = {
    "--install-completion": "see `ascend-session completion --help`",
    "--show-completion": "use `ascend-session completion SHELL`",
    "aoe preflight": "use `ascend-session aoe run --dry-run --config FILE`",
    "aoe report --against": "take the times of both runs from the output of --json",
    "aoe report --filter": "filter the output of --json, or that of `--top N` with grep",
    "aoe report --force": "leave it out, for the report writes no file",
    "aoe report --html": "redirect the text to a file, or make a page from the output of --json",
    "aoe report --sort": "what saves most comes first; sort the output of --json otherwise",
    "audit --baseline": _IGNORE,
    "audit --port": "use `ascend-session run --print-config SCRIPT`",
    "audit --sarif": "use --json, which has the file, line and column of each finding",
    "audit --update-baseline": _IGNORE,
    "config check-file --fix": "correct FILE as the hints say, which name what to write",
    "config check-file --force": _NO_COPY,
    "config check-file --output": _NO_COPY,
    "config check-file -o": _NO_COPY,
    "config check-file insert_op_file": "GE checks the content of an AIPP file itself",
    "config check-file op_compiler_cache_dir": (
        "set the limits of the cache with ASCEND_MAX_OP_CACHE_SIZE and "
        "ASCEND_REMAIN_CACHE_SIZE_RATIO"
    ),
    "config schema": "use `ascend-session options --json`, which has the schema of each option",
    "devices --interval": "use `watch -n SECONDS ascend-session devices`",
    "devices --watch": "use `watch ascend-session devices`",
    "launch --coordinator": (
        "the stub is one machine: give all ranks to one launcher (-n), or use devices, where HCCL "
        "connects machines"
    ),
    "precision explain": (
        "see `ascend-session guide facts/precision` for the order in which modes count"
    ),
}


def explain_removal(command: str, word: str) -> Optional[str]:
    """Return the sentence that refuses what was removed; None for any other word.

    Args:
        command: The command as it was typed, with the name of the program.
        word: The subcommand, option or argument behind it.
    """
    name = " ".join([*command.split()[1:], word])
    instead = REMOVED.get(name)
    return None if instead is None else f"`{name}` has been removed; {instead}."
