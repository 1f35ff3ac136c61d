"""Shell scripts that start one process for each device: their commands, and rules about them.

Python has no parser for shells, and shlex alone knows neither ``;`` nor ``&``; lines are enough for
what is looked for, and what stands within ``if`` or ``case`` is known to be so.

Sources: what 369 public scripts for eight devices do; the environments in which the adapter
switches collectives off without a word (`ascend_session.cluster.variables`).
"""

import os
import re
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from ascend_session.audit.finding import AuditFinding, is_ignored
from ascend_session.audit.objects import Branch, compatible, implied
from ascend_session.audit.source import decoded
from ascend_session.cluster.rank_table import RankTable
from ascend_session.cluster.variables import find_traps
from ascend_session.errors import JobError
from ascend_session.findings import ERROR, INFO, WARNING, Place

_MARKS = re.compile(rb"RANK_TABLE_FILE|RANK_ID|RANK_SIZE|ASCEND_DEVICE_ID|\bDEVICE_ID|CM_CHIEF_IP")
_HERE = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_SET = re.compile(r"^(?:export\s+|declare\s+-x\s+)?([A-Za-z_]\w*)=(.*)$", re.DOTALL)
_BACKGROUND = re.compile(r"(?<![&>])&\s*(?:;?\s*\w+\+?=\S*\$!\S*)?$")
_OPENS, _CLOSES, _NEXT = ("if", "case"), ("fi", "esac"), ("else", "elif")


class Command(NamedTuple):
    """One command line, with its continuations.

    Attributes:
        line: The line it begins on.
        text: What it says, without comments and blanks around it.
        branch: The arms of ``if`` and ``case`` it stands in.
    """

    line: int
    text: str
    branch: Branch = ()

    @property
    def is_in_background(self) -> bool:
        """Whether it ends with ``&``, also where ``pid=$!`` follows."""
        return _BACKGROUND.search(self.text) is not None

    @property
    def assignment(self) -> Optional[Tuple[str, str]]:
        """The variable it sets and what to, as written; None if it sets none."""
        match = _SET.match(self.text)
        if match is None:
            return None
        return match.group(1), match.group(2).strip().rstrip(";").strip()


class Shell(NamedTuple):
    """A script.

    Attributes:
        file: Its name.
        lines: Its lines as they are.
        commands: Its commands.
    """

    file: str
    lines: List[str]
    commands: List[Command]


def is_job(data: bytes) -> bool:
    """Whether a script may start ranks on devices."""
    return _MARKS.search(data) is not None


def read_shell(file: str, data: bytes) -> Shell:
    """Reads a script of any shell."""
    lines = decoded(data).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return Shell(file, lines, list(_commands(lines)))


def _commands(lines: List[str]) -> Iterator[Command]:
    arms: List[Tuple[int, int]] = []
    until, begun, text = "", 0, ""
    for number, line in enumerate(lines, 1):
        if until:
            until = "" if line.strip() == until else until
            continue
        plain = _without_comment(line).strip()
        text, begun = (f"{text} {plain}", begun) if text else (plain, number)
        if text.endswith("\\"):
            text = text[:-1].rstrip() or " "
            continue
        here = _HERE.search(text)
        until = here.group(2) if here is not None and "<<<" not in text else ""
        words = re.findall(r"[\w-]+", text)
        first = words[0] if words else ""
        if first in _CLOSES and arms:
            arms.pop()
        elif arms and (first in _NEXT or text.strip().endswith(")")):  # "pattern)" of case
            arms[-1] = (arms[-1][0], arms[-1][1] + 1)
        if text.strip():
            for part in _parts(text.strip()):
                yield Command(begun, part, tuple(arms))
        if first in _OPENS and not any(word in _CLOSES for word in words[1:]):
            arms.append((begun, 0))
        text = ""


def _without_comment(line: str) -> str:
    quote = ""
    for place, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"`":
            quote = letter
        elif letter == "#" and (place == 0 or line[place - 1] in " \t;"):
            return line[:place]
    return line


def _parts(text: str) -> Iterator[str]:
    """The commands of a line that sets several variables: ``export A=1; export B=2``."""
    if ";" in text and all(_SET.match(part.strip()) for part in text.split(";") if part.strip()):
        yield from (part.strip() for part in text.split(";") if part.strip())
    elif re.match(r"export(\s+\w+=[^\s'\"$`]+){2,}$", text):
        yield from (f"export {part}" for part in text.split()[1:])
    else:
        yield text


_RANK = r"(RANK_ID|ASCEND_DEVICE_ID|DEVICE_ID)"
_RANKS = re.compile(rf"^(export\s+|declare\s+-x\s+)?{_RANK}=|^for\s*(\(\()?\s*{_RANK}\b")
_STARTED = re.compile(
    r"\b(python|pytest|bash|sh|taskset|numactl|nohup)|\.(sh|py)\b|^[\"']?\$|^[)}]"
)
_WAIT = re.compile(r"(^|[;&|{(!]|\b(do|then|if|else|while|until)\b)\s*(!\s*)?wait\b")
_EXPORTS = re.compile(r"(export|declare|unset)\b")
_STATUS = re.compile(r"\|\||\$\?|\bif\b|\bwhile\b|PIPESTATUS")
_TEE = re.compile(r"(?<!\|)\|(?!\|)[^|]*\btee\b|(?<!\|)\|(?!\|)[^|]*&$")
_LAUNCH = "`ascend-session launch -n 8 train.py` starts the ranks, ends them together and passes "
_LAUNCH += "on the status of the one that failed first."


def shell_findings(shell: Shell) -> List[AuditFinding]:
    """What there is to say of a script; nothing if it does not start ranks."""
    found: List[AuditFinding] = []
    found += _of_environment(shell)
    ranks = _ranks(shell)
    if ranks:
        found += [*_of_waiting(shell, ranks), *_of_signals(shell, ranks)]
    found += _of_binding(shell)
    kept = [one for one in found if not is_ignored(one)]
    return sorted(kept, key=lambda each: (each.place, each.rule))


def _ranks(shell: Shell) -> List[Command]:
    """The commands that start ranks: in the background, with a rank or device set before."""
    if not any(_RANKS.search(each.text) for each in shell.commands):
        return []
    return [c for c in shell.commands if c.is_in_background and _STARTED.search(c.text)]


def _finding(
    shell: Shell,
    line: int,
    rule: str,
    severity: str,
    said: str,
    hint: Optional[str],
    certain: bool = True,
) -> AuditFinding:
    text = shell.lines[line - 1].strip()
    return AuditFinding(shell.file, Place(line, 1), rule, severity, certain, said, hint, text)


def _of_waiting(shell: Shell, ranks: List[Command]) -> List[AuditFinding]:
    commands = shell.commands
    last = ranks[-1]
    waits = [each for each in commands if _WAIT.search(each.text)]
    named = [c for c in waits if re.search(r"\bwait\s+(-n|[\"'$%\d])", c.text)]
    piped = [rank for rank in ranks if _TEE.search(rank.text)]
    found = []
    if not waits:
        said = (
            "The ranks are started in the background and nothing waits for them: the script ends "
            "before they do, and its status says nothing of them."
        )
        found.append(_finding(shell, last.line, "ranks-lost", ERROR, said, _LAUNCH))
    elif not named:
        said = (
            "`wait` without a process returns 0 whatever becomes of the ranks: a rank that fails "
            "is lost, and those that wait for it in a collective go on waiting."
        )
        found.append(_finding(shell, waits[-1].line, "ranks-lost", ERROR, said, _LAUNCH))
    elif not any(_is_looked_at(commands, each) for each in named):
        said = "The status that `wait` returns for a rank is not looked at: a failed rank is lost."
        found.append(_finding(shell, named[-1].line, "ranks-lost", ERROR, said, _LAUNCH, False))
    is_strict = any("pipefail" in c.text for c in commands)
    uses = any("$!" in c.text for c in commands)
    if piped and (uses or named) and not (is_strict and not uses):
        said = (
            "After a pipeline in the background, $! and its status are those of the last program, "
            "here tee's or the like: neither the rank's end nor its failure is seen."
        )
        hint = "Write `> file 2>&1 &` instead of the pipe."
        found.append(_finding(shell, piped[-1].line, "rank-behind-pipe", ERROR, said, hint))
    return found


def _is_looked_at(commands: List[Command], wait: Command) -> bool:
    """Whether the status of a `wait` matters: on its line, on the next, or because of set -e."""
    if any(re.match(r"set\s+-\w*e", each.text) for each in commands):
        return True
    place = commands.index(wait)
    return any(_STATUS.search(each.text) for each in commands[place : place + 2])


def _of_signals(shell: Shell, ranks: List[Command]) -> List[AuditFinding]:
    if any(re.match(r"trap\b", each.text) for each in shell.commands):
        return []
    said = (
        "The script has no trap: when it is interrupted or killed, the ranks go on and keep their "
        "devices."
    )
    hint = "Write trap 'trap - TERM; kill 0' INT TERM, or use `ascend-session launch`."
    return [_finding(shell, ranks[0].line, "no-cleanup", WARNING, said, hint)]


def _of_environment(shell: Shell) -> List[AuditFinding]:
    """Variables that are set together, and the rank table they name."""
    found: List[AuditFinding] = []
    for command in shell.commands:
        name, value, is_constant = _set(command)
        if name == "JOB_ID" and value and is_constant:
            found.append(_job_id(shell, command.line, value))
        if name == "RANK_TABLE_FILE" and value and is_constant:
            found += _table(shell, command.line, value)
    return found + _together(shell)


def _set(command: Command) -> Tuple[str, str, bool]:
    """What a command sets, to what, and whether that is written out; empty if it sets nothing."""
    name, written = command.assignment or ("", "")
    value = written.strip("\"'")
    if name == "TF_CONFIG":
        return name, "", False
    return name, value, re.fullmatch(r"[^$`]+", value) is not None


class _Environment(NamedTuple):
    """Variables that are set together, and where."""

    values: Dict[str, str]
    lines: Dict[str, int]


def _environment(commands: Iterable[Command], branch: Branch = ()) -> _Environment:
    """What one way through a script may set: that through ``branch``, and what goes with it."""
    found = _Environment({}, {})
    for command in commands:
        if not compatible(command.branch, branch):
            continue
        name, value, is_constant = _set(command)
        if command.text.startswith("unset ") and implied(command.branch, branch):
            for each in command.text.split()[1:]:
                found.values.pop(each, None)
        elif value:
            branch = tuple(dict.fromkeys((*branch, *command.branch)))
            found.values[name] = value if is_constant else "1"
            found.lines[name] = command.line
    return found


def _together(shell: Shell) -> List[AuditFinding]:
    surely = [c for c in shell.commands if not c.branch and _EXPORTS.match(c.text)]
    certain = find_traps(_environment(surely).values)
    possible: Dict[str, int] = {}
    for branch in dict.fromkeys(each.branch for each in shell.commands):
        values, lines = _environment(shell.commands, branch)
        for said in find_traps(values):
            possible.setdefault(said, lines.get(re.split("[ =]", said)[0], 1))
    found = []
    for said, line in possible.items():
        # What a script does not set may be set where it is called.
        is_certain = said in certain and "but" not in said
        if "ends the process" not in said:
            said += " The adapter then leaves collectives off, and each rank trains alone."
        hint = "Keep the rank table with RANK_ID and RANK_SIZE, or the CM_ variables, not both."
        found.append(_finding(shell, line, "collectives-off", ERROR, said, hint, is_certain))
    return found


def _job_id(shell: Shell, line: int, value: str) -> AuditFinding:
    said = f"JOB_ID is always {value!r}: two jobs on these machines cannot be told apart."
    hint = "Make one for each job, as in JOB_ID=$(date +%s)-$$."
    return _finding(shell, line, "fixed-job-id", INFO, said, hint)


def _table(shell: Shell, line: int, value: str) -> List[AuditFinding]:
    """What is wrong with a rank table whose name is written out."""
    if value.startswith("/"):
        said = f"RANK_TABLE_FILE={value!r} is a path of one machine; on another it is not there."
        hint = "Take it from an argument, or make one: `ascend-session ranktable make`."
        return [_finding(shell, line, "machine-path", INFO, said, hint)]
    path = os.path.join(os.path.dirname(shell.file), value)
    if not os.path.isfile(path):
        said = f"RANK_TABLE_FILE={value!r} is not there, beside this script."
        hint = "Make one: `ascend-session ranktable make -o FILE`."
        return [_finding(shell, line, "rank-table", WARNING, said, hint, False)]
    try:
        RankTable.read(path)
    except JobError as error:
        why = str(error.findings[0]) if error.findings else error.message
        said = f"HCCL refuses RANK_TABLE_FILE={value!r}. {why}"
        return [_finding(shell, line, "rank-table", ERROR, said, error.hint)]
    return []


def _of_binding(shell: Shell) -> List[AuditFinding]:
    """CPUs by the rank's number, divided by the devices of one server."""
    bound = [c for c in shell.commands if re.search(r"\btaskset\b|\bnumactl\b", c.text)]
    computed = [
        c
        for c in shell.commands
        if re.search(r"\bRANK_ID\b", c.text) and re.search(r"[*/]", c.text)
    ]
    computed = [c for c in computed if re.search(r"^\w+=.*(expr|\(\(|\$\[)|\blet\b", c.text)]
    if not bound or not computed:
        return []
    said = (
        "CPUs are chosen by RANK_ID: on a second server it begins at 8 and runs past the last "
        "CPU, and what the job may use (cpuset) and where its device is are not looked at."
    )
    hint = "Use the number of the device on its server, or `ascend-session launch --bind`."
    return [_finding(shell, computed[0].line, "binding-overruns", WARNING, said, hint, False)]
