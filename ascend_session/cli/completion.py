"""``ascend-session completion``: what makes a shell complete commands and options."""

from typing import Any, List

import click
from click.shell_completion import BashComplete, add_completion_class, get_completion_class

from ascend_session.cli import COMPLETION_VARIABLE
from ascend_session.cli._parameters import argument, command

_SHELLS = ("bash", "zsh", "fish")

# click's own needs bash 4.4; hosts with an older one are still in use.
_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' line
    COMPREPLY=()
    for line in $(COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD \\
                  %(complete_var)s=bash_complete "$1"); do
        [[ $line == plain,* ]] && COMPREPLY+=("${line#plain,}")
    done
}

complete -o default -F %(complete_func)s %(prog_name)s
"""


@add_completion_class
class _Bash(BashComplete):
    source_template = _BASH

    def source(self) -> str:
        return self.source_template % self.source_vars()


def _complete(context: Any, parameter: Any, incomplete: str) -> List[str]:
    return [shell for shell in _SHELLS if shell.startswith(incomplete)]


def _check_shell(context: Any, parameter: Any, shell: str) -> str:
    if shell not in _SHELLS:
        raise click.BadParameter(f"{shell!r} is not one of {', '.join(_SHELLS)}.")
    return shell


@command("completion")
@argument("shell", "SHELL", shell_complete=_complete, callback=_check_shell)
def completion(shell: str) -> None:
    """Print a script that completes commands and options in a shell.

    SHELL is bash, zsh or fish. `ascend-session guide getting_started` says where to put it.

    Examples:
        ascend-session completion bash > ~/.bash_completions/ascend-session.sh
        ascend-session completion zsh > ~/.zfunc/_ascend-session
    """
    program = click.get_current_context().find_root()
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(program.command, {}, "ascend-session", COMPLETION_VARIABLE).source()
    click.echo(script.strip())
