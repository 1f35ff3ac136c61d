"""Commands and options that have left the program, each with what to do instead.

A key is what was typed behind ``ascend-session``; a value ends the sentence that refuses it.
"""

from typing import Dict, Optional

_COMPARE = "take the times of both runs from `ascend-session aoe report --json`"
_KNOWN = "end the line of a known finding with `# ascend: ignore[RULE]`"

REMOVED: Dict[str, str] = {
    "aoe preflight": "use `ascend-session aoe run --dry-run --config FILE`",
    "aoe report --against": _COMPARE,
    "aoe report --filter": "filter the output of --json, or that of `--top N` with grep",
    "aoe report --force": "leave it out, for the report writes no file",
    "aoe report --html": "redirect the text to a file, or make a page from the output of --json",
    "audit --baseline": _KNOWN,
    "audit --port": "call AscendConfig.from_config_proto(config) in the script",
    "audit --sarif": "use --json, which has the file, line and column of each finding",
    "audit --update-baseline": _KNOWN,
    "precision explain": (
        "see `ascend-session guide facts/precision` for the order in which modes count"
    ),
}


def explain_removal(command: str, word: str) -> Optional[str]:
    """Return the sentence that refuses a removed command or option; None for any other word.

    Args:
        command: The command as it was typed, with the name of the program.
        word: The name of the subcommand or option behind it.
    """
    name = " ".join([*command.split()[1:], word])
    instead = REMOVED.get(name)
    return None if instead is None else f"`{name}` has been removed; {instead}."
