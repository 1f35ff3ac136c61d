"""Rules about shell scripts that start one process per device.

Python has no parser for shells, and shlex alone knows neither ``;`` nor ``&``; reading line by line
is enough for these rules. Commands within ``if`` or ``case`` are marked as conditional.

Sources: what public scripts for eight devices do, guides/facts/launch.md#scripts-for-eight-devices;
the environments in which the adapter switches collectives off without a word,
guides/facts/launch.md#collectives-that-are-switched-off.
"""

import os
import re
from itertools import islice
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from ascend_session.audit.objects import Branch, extend_branch
from ascend_session.audit.syntax import decode_script
from ascend_session.cluster.rank_table import RankTable
from ascend_session.cluster.variables import find_traps
from ascend_session.errors import AuditError, JobError
from ascend_session.findings import ERROR, INFO, WARNING, Finding, Place

_MARKS = re.compile(rb"RANK_TABLE_FILE|RANK_ID|RANK_SIZE|ASCEND_DEVICE_ID|\bDEVICE_ID|CM_CHIEF_IP")


def is_job_script(data: bytes) -> bool:
    """Return whether a script may start ranks on devices."""
    return _MARKS.search(data) is not None


_ASSIGNMENT = re.compile(r"^(?:export\s+|declare\s+-x\s+)?([A-Za-z_]\w*)=(.*)$", re.DOTALL)
_LONGEST_END = 1000  # characters of a command
_BACKGROUND = re.compile(r"(?<![&>])&\s*(?:;?\s*\w+\+?=\S*\$!\S*)?(?:;?\s*done\b.*)?$")


class ShellCommand(NamedTuple):
    """One command line, with its continuations.

    Attributes:
        text: Its text, without comments and outer blanks.
        place: Its first line.
        branch: The arms of ``if`` and ``case`` around it.
        loop: The first line of the loop around it; 0 outside of loops.
    """

    text: str
    place: Place
    branch: Branch = ()
    loop: int = 0

    @property
    def is_in_background(self) -> bool:
        """True if it ends with ``&``, also where ``pid=$!`` or the end of a loop follows."""
        return _BACKGROUND.search(self.text[-_LONGEST_END:]) is not None

    @property
    def assignment(self) -> Tuple[str, str, bool]:
        """The variable it sets, to what, and whether that is written out; empty if it sets none."""
        match = _ASSIGNMENT.match(self.text)
        if match is None:
            return "", "", False
        name, value = match.group(1), match.group(2).strip().rstrip(";").strip().strip("\"'")
        if name == "TF_CONFIG":
            return name, "", False
        return name, value, re.fullmatch(r"[^$`]+", value) is not None


_HERE_DOCUMENT = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_]\w*)\1")
_ARITHMETIC = re.compile(r"\$?\(\([^()]*\)\)")
_DEEPEST = 50  # arms within each other
_OPENS, _CLOSES, _NEXT = ("if", "case"), ("fi", "esac"), ("else", "elif")
_LOOPS = ("for", "while", "until")


def read_commands(file: str, data: bytes) -> Iterator[ShellCommand]:
    """Yield the commands of a script of any shell."""
    lines = decode_script(data).split("\n")
    arms: List[Tuple[int, int]] = []
    opened: List[str] = []  # the word that begins each of them
    loops: List[int] = []
    for begin, text in _join_lines(lines):
        words = re.findall(r"[\w-]+", text)
        first = words[0] if words else ""
        if first in _CLOSES and arms:
            arms.pop()
            opened.pop()
        elif arms and (first in _NEXT or (opened[-1] == "case" and text.endswith(")"))):
            arms[-1] = (arms[-1][0], arms[-1][1] + 1)
        if first in _LOOPS:
            loops.append(begin)
        place = Place(begin, 1, None, file, lines[begin - 1].strip())
        for part in _split_assignments(text):
            branch = tuple(arms[:_DEEPEST])
            yield ShellCommand(part, place, branch, loops[-1] if loops else 0)
        if loops and (first == "done" or (first in _LOOPS and "done" in words)):
            loops.pop()
        if first in _OPENS and not any(word in _CLOSES for word in words[1:]):
            arms.append((begin, 0))
            opened.append(first)


_CONTINUED = ("\\", "|", "&&")
_MOST_QUOTED = 200  # lines of one text in quotes


def _join_lines(lines: List[str]) -> Iterator[Tuple[int, str]]:
    """Yield the first line's number and the text of each command, without here-documents."""
    parts: List[str] = []  # of a command, as far as its lines are continued
    begin = at = 0
    while at < len(lines):
        begin = begin if parts else at + 1
        plain, quotes = _read_line(lines[at], "")
        quoted, after = [plain], at + 1
        while quotes and after < min(len(lines), at + _MOST_QUOTED):
            plain, quotes = _read_line(lines[after], quotes)
            quoted.append(plain)
            after += 1
        # Quotes that nothing closes were not understood: their line is read alone.
        quoted, at = (quoted[:1], at + 1) if quotes else (quoted, after)
        plain = " ".join(each.strip() for each in quoted).strip()
        parts.append(plain[:-1].rstrip() if plain.endswith("\\") else plain)
        if plain.endswith(_CONTINUED):
            continue
        text = " ".join(filter(None, parts))
        parts = []
        here = _HERE_DOCUMENT.search(_ARITHMETIC.sub("", text))
        if here is not None and "<<<" not in text:
            while at < len(lines) and lines[at].strip() != here.group(2):
                at += 1
            at += 1
        if text:
            yield begin, text


def _read_line(line: str, quotes: str) -> Tuple[str, str]:
    """Return a line without its comment, and the quotes that are open at its end.

    Args:
        line: The line.
        quotes: What closes each of those that are open at its begin, from outside in.
    """
    letters = iter(enumerate(line))
    for place, letter in letters:
        inner = quotes[-1:]
        if letter == inner:
            quotes = quotes[:-1]
        elif letter == "\\" and inner != "'":
            next(letters, None)
        elif inner == '"' and line.startswith("$(", place):
            next(letters, None)
            quotes += ")"
        elif letter == "(" and inner == ")":
            quotes += ")"
        elif letter in "'\"`" and inner in ("", ")"):
            quotes += letter
        elif letter == "#" and not quotes and (place == 0 or line[place - 1] in " \t;"):
            return line[:place], ""
    return line, quotes


def _split_assignments(text: str) -> List[str]:
    """Split a line that sets several variables: ``export A=1; export B=2``."""
    parts = [part.strip() for part in text.split(";") if part.strip()]
    if ";" in text and all(_ASSIGNMENT.match(part) for part in parts):
        return parts
    if re.match(r"export(\s+\w+=[^\s'\"$`]+){2,}$", text):
        return [f"export {part}" for part in text.split()[1:]]
    return [text]


_RANK = r"(RANK_ID|ASCEND_DEVICE_ID|DEVICE_ID)"
_SETS_RANK = re.compile(rf"^(export\s+|declare\s+-x\s+)?{_RANK}=|^for\s*(\(\()?\s*{_RANK}\b")
_STARTS_PROGRAM = re.compile(
    r"\b(python|pytest|(bash|sh|taskset|numactl|nohup)\b)|\.(sh|py)\b|^[\"']?\$|^[)}]"
)


_FUNCTION = re.compile(r"(?:function\s+)?([A-Za-z_][\w-]*)\s*\(\s*\)|function\s+([A-Za-z_][\w-]*)")
_RUNS_PYTHON = re.compile(r"\bpython|\.py\b")
_MOST_FUNCTIONS = 100


def _find_calls(commands: List[ShellCommand]) -> Callable[[str], Any]:
    """Make a predicate for commands that call a function of the script which runs Python."""
    name = ""
    names: List[str] = []
    for command in commands:
        head = _FUNCTION.match(command.text)
        name = (head.group(1) or head.group(2)) if head is not None else name
        if name and _RUNS_PYTHON.search(command.text):
            names.append(name)
        is_end = re.search(r"(^|[;\s])\}", command.text) is not None
        if is_end and (head is not None or "{" not in command.text):
            name = ""
    any_of = "|".join(map(re.escape, list(dict.fromkeys(names))[:_MOST_FUNCTIONS]))
    if not any_of:
        return lambda text: None
    return re.compile(
        rf"(^|[;&|({{]|\b(do|then|else)\b)\s*(\w+=\S*\s+)*({any_of})(?![\w(-])"
    ).search


_MOST_COMMANDS = 20_000  # of one script


def check_shell(file: str, data: bytes) -> Iterator[Finding]:
    """Report what is wrong with a script; nothing about ranks if it does not start any.

    Raises:
        AuditError: If it has too many commands.
    """
    commands = list(islice(read_commands(file, data), _MOST_COMMANDS + 1))
    if len(commands) > _MOST_COMMANDS:
        raise AuditError(f"It has more than {_MOST_COMMANDS:,} commands.")
    size = _rank_size(commands)
    yield from _check_environment(commands)
    yield from _check_name(file, commands, size)
    yield from _check_python_path(commands)
    calls = _find_calls(commands)
    programs = [
        each
        for each in commands
        if each.is_in_background and (_STARTS_PROGRAM.search(each.text) or calls(each.text))
    ]
    sets_rank = any(_SETS_RANK.search(each.text) for each in commands)
    sets_job = any(each.assignment[0] in ("RANK_SIZE", "RANK_TABLE_FILE") for each in commands)
    ranks = [each for each in programs if sets_rank or (each.loop and sets_job and size != 1)]
    if ranks:
        yield from _check_wait(commands, ranks, size)
        yield from _check_logs(commands, ranks, size)
        if not any(re.match(r"trap\b", each.text) for each in commands):
            what = "training continues and keeps its device"
            if size != 1:
                what = "ranks continue and keep their devices"
            yield Finding(
                WARNING,
                f"The script has no trap: when it is interrupted or killed, the {what}.",
                "Write trap 'trap - TERM; kill 0' INT TERM, or use `ascend-session launch`.",
                "no-cleanup",
                place=ranks[0].place,
            )
    yield from _check_binding(commands, size)


def _rank_size(commands: List[ShellCommand]) -> Optional[int]:
    """Return the number of ranks, if the script sets it to one and the same number everywhere."""
    given = [each.assignment for each in commands]
    values = {value for name, value, _ in given if name == "RANK_SIZE"}
    text = values.pop() if len(values) == 1 else ""
    return int(text) if re.fullmatch(r"\d{1,6}", text) else None


def _check_name(file: str, commands: List[ShellCommand], size: Optional[int]) -> Iterator[Finding]:
    """Report one rank in a script whose name speaks of several devices, as train_8p.sh does."""
    named = re.search(r"_(\d{1,4})p\.(sh|bash)$", file, re.IGNORECASE)
    if named is None or size != 1 or int(named.group(1)) < 2:
        return
    place = next(each.place for each in commands if each.assignment[0] == "RANK_SIZE")
    message = (
        f"The script is named for {named.group(1)} devices, and RANK_SIZE=1: each process trains "
        "alone."
    )
    hint = f"Write RANK_SIZE={named.group(1)}, or use `ascend-session launch -n {named.group(1)}`."
    yield Finding(WARNING, message, hint, "rank-size", place=place, certain=False)


# A value with the folder of the vendor's packages, or one that is not written out.
_KEEPS_PACKAGES = re.compile(r"ascend|tfplugin|fwkacllib|\$\(|`", re.IGNORECASE)


def _check_python_path(commands: List[ShellCommand]) -> Iterator[Finding]:
    """Report a PYTHONPATH that leaves out what was in it, unless a file is sourced after it."""
    setting: Optional[ShellCommand] = None
    for command in commands:
        name, value, _ = command.assignment
        if name == "PYTHONPATH" and "PYTHONPATH" not in value:
            setting = None if _KEEPS_PACKAGES.search(value) else setting or command
        elif re.match(r"(source|\.)\s", command.text):
            setting = None  # which may set it again
    if setting is None:
        return
    yield Finding(
        WARNING,
        "PYTHONPATH is replaced: Python no longer finds what set_env.sh has put there, such as "
        "npu_bridge.",
        'Keep what is in it, as in export PYTHONPATH="FOLDER:$PYTHONPATH".',
        "python-path-replaced",
        place=setting.place,
        certain=False,
    )


_WAIT = re.compile(r"(^|[;&|{(!]|\b(do|then|if|else|while|until)\b)\s*(!\s*)?wait\b")
_TEE = re.compile(r"(?<!\|)\|(?!\|)[^|]*\btee\b|(?<!\|)\|(?!\|)[^|]*&$")
_MOST_WAITS = 100
_STATUS = re.compile(r"\|\||\$\?|\bif\b|\bwhile\b|PIPESTATUS")
_PASSES_ON = re.compile(r"\b(exit|return)(\s*($|[;)}])|\s+[\"']?([1-9]|\$))|\bkill\b|\bfalse\b")


def _passes_on_status(command: ShellCommand) -> bool:
    return not command.text.startswith("trap") and _PASSES_ON.search(command.text) is not None


def _check_wait(
    commands: List[ShellCommand], ranks: List[ShellCommand], size: Optional[int]
) -> Iterator[Finding]:
    waits = [each for each in commands if _WAIT.search(each.text)]
    for_one = [each for each in waits if re.search(r"\bwait\s+(-n|[\"'$%\d])", each.text)]
    is_strict = any(re.match(r"set\s+-\w*e", each.text) for each in commands)
    severity, is_certain, place = ERROR, True, (waits or ranks)[-1].place
    hint = (
        f"`ascend-session launch -n {size or 8} train.py` starts the ranks, stops them together "
        "and returns the status of the one that failed first."
    )
    if not waits:
        message = (
            "The ranks are started in the background and nothing waits for them: the script "
            "exits before they do, and its status does not depend on theirs."
        )
    elif not for_one:
        message = (
            "`wait` without a process id returns 0 even if a rank has failed: the failure is "
            "lost, and ranks that wait for it in a collective keep waiting."
        )
    elif is_strict:
        message = ""
    elif not any(_status_matters(commands, each) for each in for_one[:_MOST_WAITS]):
        message = (
            "The status that `wait` returns for a rank is not checked: a failed rank goes "
            "unnoticed."
        )
        is_certain, place = False, for_one[-1].place
    elif not any(_passes_on_status(each) for each in commands):
        message = (
            "The status of a rank is checked, but no `exit` passes it on: the script exits with "
            "0 anyway."
        )
        is_certain, place = False, for_one[-1].place
    else:
        message = ""
    if message and size == 1:
        severity, hint = WARNING, 'Write wait "$!" || exit 1, or start it without &.'
        message = "`wait` without a process id returns 0 even if the training has failed."
        if not waits:
            message = (
                "The training is started in the background and nothing waits for it: the script "
                "exits before it does, and its status does not depend on it."
            )
        elif for_one:
            message = "A failure of the training is lost: the script exits with 0 anyway."
    if message:
        yield Finding(severity, message, hint, "ranks-lost", place=place, certain=is_certain)
    piped = [rank for rank in ranks if _TEE.search(rank.text)]
    uses_pid = any("$!" in each.text for each in commands)
    is_strict = any("pipefail" in each.text for each in commands)
    if piped and (uses_pid or (for_one and not is_strict)):
        message = (
            "After a pipeline in the background, $! and its status are those of the last "
            "program, such as tee: neither the rank's exit nor its failure is noticed."
        )
        hint = "Write `> file 2>&1 &` instead of the pipe."
        yield Finding(ERROR, message, hint, "rank-behind-pipe", place=piped[-1].place)


_LOG = re.compile(r"(?<![<>&=])[12&]?>{1,2}\s*([^\s;&|<>()]+)")


def _check_logs(
    commands: List[ShellCommand], ranks: List[ShellCommand], size: Optional[int]
) -> Iterator[Finding]:
    """Report ranks of a loop that write to one file, unless the loop goes to a folder of each."""
    moving = {each.loop for each in commands if re.search(r"\b(cd|pushd)\b", each.text)}
    for rank in ranks:
        names = [name.strip("\"'") for name in _LOG.findall(rank.text)]
        shared = [name for name in names if "$" not in name and "`" not in name]
        is_moved = rank.loop in moving and not "".join(shared).startswith("/")
        if shared and shared[0] != "/dev/null" and rank.loop and size != 1 and not is_moved:
            message = (
                f"All ranks write to {shared[0]!r}: their lines mix, or only those of the last "
                "rank remain."
            )
            hint = "Write one file for each rank, as in > train_$RANK_ID.log."
            place = rank.place
            yield Finding(WARNING, message, hint, "shared-log", place=place, certain=False)


def _status_matters(commands: List[ShellCommand], wait: ShellCommand) -> bool:
    """Return whether the status of a `wait` matters: on its line or on the next."""
    number = commands.index(wait)
    return any(_STATUS.search(each.text) for each in commands[number : number + 2])


def _check_environment(commands: List[ShellCommand]) -> Iterator[Finding]:
    """Check the rank table and the job's name, then the variables that are set together."""
    is_moved = any(re.search(r"\b(cd|pushd)\b", each.text) for each in commands)
    last = {each.assignment[0]: each for each in commands if not each.branch}
    overwritten: Set[str] = set()
    for command in reversed(commands):
        name, value, is_constant = command.assignment
        if name in overwritten:
            continue
        if command is last.get(name):
            overwritten.add(name)
        if name == "JOB_ID" and value and is_constant:
            message = (
                f"JOB_ID is always {value!r}: two jobs on these machines cannot be told apart."
            )
            hint = "Make one for each job, as in JOB_ID=$(date +%s)-$$."
            yield Finding(INFO, message, hint, "fixed-job-id", name, command.place)
        if name == "RANK_TABLE_FILE" and value and is_constant:
            yield from _check_table(value, command.place, is_moved)
    yield from _check_traps(commands)


def _check_table(value: str, place: Place, is_moved: bool) -> Iterator[Finding]:
    """Check a rank table whose name is written out.

    A relative name counts from the folder in which the script is started, or to which it goes or is
    copied: what is not there beside the script may be there all the same.
    """
    if value.startswith("/"):
        message = (
            f"RANK_TABLE_FILE={value!r} is a path of one machine; it does not exist on others."
        )
        hint = "Take it from an argument, or make one: `ascend-session ranktable make`."
        yield Finding(INFO, message, hint, "machine-path", place=place)
        return
    path = os.path.join(os.path.dirname(place.file), value)
    if not os.path.isfile(path):
        return
    try:
        RankTable.read(path)
    except JobError as error:
        why = str(error.findings[0]) if error.findings else error.message
        message = f"HCCL refuses RANK_TABLE_FILE={value!r}, as it is beside this script. {why}"
        certain = not is_moved
        yield Finding(ERROR, message, error.hint, "rank-table", place=place, certain=certain)


_EXPORTS = re.compile(r"(export|declare|unset)\b")
_MOST_BRANCHES = 100


def _check_traps(commands: List[ShellCommand]) -> Iterator[Finding]:
    """Report variables that together switch collectives off, on some way through the script."""
    surely = [each for each in commands if not each.branch and _EXPORTS.match(each.text)]
    certain = find_traps(_environment(surely, ())[0])
    traps: Dict[str, Place] = {}
    branches = list(dict.fromkeys(each.branch for each in commands))
    for branch in branches[:_MOST_BRANCHES]:
        values, places = _environment(commands, branch)
        for trap in find_traps(values):
            traps.setdefault(trap, places.get(re.split("[ =]", trap)[0], commands[0].place))
    for trap, place in traps.items():
        message = trap
        if "ends the process" not in trap:
            message += " The adapter then leaves collectives off, and each rank trains alone."
        hint = "Keep the rank table with RANK_ID and RANK_SIZE, or the CM_ variables, not both."
        if trap.startswith("RANK_ID="):
            hint = "Set RANK_ID to the rank's number, from 0, where each rank is started."
        # What a script does not set may be set where it is called; which HCCL will run is unknown.
        depends = "but" in trap or "version 1.0" in trap
        is_certain = trap in certain and not depends
        yield Finding(ERROR, message, hint, "collectives-off", place=place, certain=is_certain)


def _environment(
    commands: List[ShellCommand], branch: Branch
) -> Tuple[Dict[str, str], Dict[str, Place]]:
    """Collect what one way through a script may set: through ``branch``, and what goes with it.

    Returns:
        The variables' values, and where each was set last.
    """
    values: Dict[str, str] = {}
    places: Dict[str, Place] = {}
    arms = dict(branch)
    for command in commands:
        name, value, is_constant = command.assignment
        if command.text.startswith("unset "):
            if all(arms.get(statement) == arm for statement, arm in command.branch):
                for each in command.text.split()[1:]:
                    values.pop(each, None)
        elif value and extend_branch(arms, command.branch):
            values[name] = value if is_constant else "1"
            places[name] = command.place
    return values, places


_DEVICES = 8  # of one server
_BINDS = re.compile(r"\b(?:taskset|numactl)\b(.*?)(?:\bpython|\b(?:ba)?sh\b|$)")
_ASSIGNS = re.compile(r"(?:^|;|\blet|\bexport|\blocal|\(\()\s*[\"']?(\w+)\s*=(.*)")
# The rank's number on its server, or its share of all ranks: neither passes the last CPU.
_WITHIN_SERVER = re.compile(r"%|/\s*\$?\{?RANK_SIZE\b|\bRANK_ID\b\}?\s*-(?!\s*1\b)")


def _check_binding(commands: List[ShellCommand], size: Optional[int]) -> Iterator[Finding]:
    """Report CPUs that are chosen by the rank's number, in a job that may be on several servers."""
    if size is not None and size <= _DEVICES:
        return
    # The names that a binding is computed from, back from where it is used.
    names: Set[str] = set()
    computed: List[ShellCommand] = []
    for command in reversed(commands):
        binding = _BINDS.search(command.text)
        text = binding.group(1) if binding is not None else ""
        for match in _ASSIGNS.finditer(command.text):
            text += match.group(2) if match.group(1) in names else ""
        names.update(set(re.findall(r"[A-Za-z_]\w*", text)) - {"RANK_ID"})
        is_scaled = re.search(r"\bRANK_ID\b", text) and re.search(r"[*/]", text)
        if is_scaled and not _WITHIN_SERVER.search(text):
            computed.append(command)
    if computed:
        yield Finding(
            WARNING,
            "CPUs are chosen by RANK_ID: on a second server it begins at 8, and runs past the last "
            "CPU.",
            "Use the number of the device on its server, or `ascend-session launch --bind`.",
            "binding-overruns",
            place=computed[-1].place,
            certain=False,
        )
