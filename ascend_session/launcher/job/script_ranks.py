"""The ranks that a script starts itself, as the guardian sees them from outside.

Three things together keep a launch from a success that was none:

* each Python that is a rank reports how it ended (`witness`, and `cluster.member` once it has
  joined the job). It is exact, but needs the launcher's PYTHONPATH;
* the guardian looks at the processes below it, here. It sees every program that lives long enough,
  and what its output goes to, but not how it ended;
* the text of the script says that it is for several ranks, if nothing was seen of them at all.

The verdict decides with all three what failed. Each function here finds one thing in a look
(`descendants`): which ranks there are, which of them outlive their script, which can never join,
and that each rank of a launch has started all of them.
"""

from typing import Collection, Dict, Iterable, Iterator, List, Mapping, Sequence, Set, Tuple

from ascend_session.cluster.member import FAILED, STARTED, JoinedProcess
from ascend_session.launcher.job.children import SeenProcess
from ascend_session.launcher.job.reports import Joining
from ascend_session.launcher.job.timers import Lasting
from ascend_session.rank_folder import SCRIPT_RANK_PID, is_alone

_READERS = ("tail", "tee")  # which go on as long as what they read, and start nothing
_NEXT_PROGRAM_S = 5.0  # for a script to start a rank after another program of it has ended
_MOST_DIGITS = 4


def find_ranks(guardian: SeenProcess) -> Iterator[SeenProcess]:
    """Find the first ranks below this process; what a rank starts is its own business."""
    for process in guardian.walk(_is_first):
        if _is_first(process) and process.command:  # else it has just ended
            yield process


def find_awaited(guardian: SeenProcess, processes: Sequence[JoinedProcess]) -> List[str]:
    """Find the ranks that live on after the end of their script.

    A board or a pager has the last one's variables if a script starts it below its loop. So what
    has not joined the job does not count where another process was that rank.

    Args:
        guardian: This process.
        processes: What the ranks have reported.

    Returns:
        The RANK_ID of each.
    """
    others = {process.rank_id for process in processes if process.state != STARTED}
    awaited = {process.rank_id for process in find_ranks(guardian)} - others
    # By their own pid: what the script has started for each may be a program around it.
    joined = [process for process in processes if process.joined]
    return sorted({*awaited, *(it.rank_id for it in joined if SeenProcess(it.pid).is_script_rank)})


def find_absent(
    guardian: SeenProcess, joining: Collection[int]
) -> Tuple[Sequence[int], Sequence[str]]:
    """Find the ranks that do not live, if none of the living processes may start one.

    A rank that waits for others starts none, unless it has children, which may change its
    variables. Nor do a program that has only started a rank (``timeout``), and a shell that does
    nothing, because it waits. Anything else may, such as a program that prepares something.

    Args:
        guardian: This process.
        joining: The processes that wait for other ranks to join.

    Returns:
        These ranks, and what the shells have done: one that does more may start a rank.
    """
    ranks: Set[str] = set()
    sizes: Set[str] = set()
    activity = []
    for process in guardian.walk(lambda each: each.is_python and each.is_script_rank):
        if not process.words:  # it has just ended
            continue
        if process.is_script_rank:
            ranks.add(process.rank_id)
            sizes.add(process.environ["RANK_SIZE"])
        if process.is_shell:
            activity.append(f"{process.pid} {process.activity}")
        elif process.name not in _READERS and not (
            process.is_script_rank and _is_idle(process, joining)
        ):
            return (), ()
    if len(sizes) != 1 or not all(map(is_rank_number, ranks | sizes)):
        return (), ()
    return sorted(set(range(int(sizes.pop()))) - set(map(int, ranks))), activity


def explain_absence(
    pid: int,
    joining: Joining,
    processes: Sequence[JoinedProcess],
    absent: Tuple[Sequence[int], Sequence[str]],
    lasting: Lasting,
) -> str:
    """Return which rank a process waits for in vain, and why; empty while all may still join.

    Args:
        pid: The process.
        joining: For whom it waits.
        processes: What it and others below the same rank of the launch have reported.
        absent: What `find_absent` returns.
        lasting: For how long this is so.
    """
    for process in _find_ended(pid, joining, processes):
        has_failed = process.state == FAILED and process.uses_vendor
        if lasting.note_s(pid, process.pid, "has ended") > _NEXT_PROGRAM_S or has_failed:
            how = f": {process.error}" if process.error else ", as by a signal"
            end = "" if how.endswith((".", "!", "?")) else "."
            return f"rank {process.rank} exited before it joined the job{how}{end}"
    ranks, activity = absent
    for rank in ranks:
        is_absent_s = lasting.note_s(pid, rank, "is absent", *activity)
        if rank < joining.size and is_absent_s > _NEXT_PROGRAM_S:
            return (
                f"no process is rank {rank}, and nothing is left that could start it: its program "
                "exited before it joined the job, or could not be started."
            )
    return ""


def find_repeated(
    guardian: SeenProcess, ranks: Mapping[int, str], size: int
) -> Dict[int, List[str]]:
    """Find ranks that have started other ranks of a launch, as each rank of it does.

    A shell that changes the number of its only rank, or gives one to a helper, starts no others. So
    what counts is a rank below which processes of two other ranks live; or of both ranks, if there
    are two.

    Args:
        guardian: This process.
        ranks: The RANK_ID of each that lives, by pid.
        size: The number of ranks of the launch, above 1.

    Returns:
        The RANK_ID of each rank below such a rank, by its pid.
    """
    below = {
        child.pid: _find_numbers(child, ranks[child.pid], size)
        for child in guardian.children
        if child.pid in ranks
    }
    return {pid: sorted(numbers, key=int) for pid, numbers in below.items() if len(numbers) > 1}


def _find_numbers(process: SeenProcess, own: str, size: int) -> Set[str]:
    """Find the RANK_ID of the first ranks below a rank whose own one is known."""

    def is_first(child: SeenProcess) -> bool:
        if child.rank_id == own:
            return child.is_python
        return _is_one_of(child, size) and not child.is_shell  # whose tools have its own number

    first = filter(is_first, process.walk(is_first))
    numbers = {child.rank_id for child in first if _is_one_of(child, size)}
    # Of two ranks, one and the other is all there is.
    return numbers if size == 2 else numbers - {own}


def _is_one_of(process: SeenProcess, size: int) -> bool:
    is_of_job = is_rank_number(process.rank_id) and int(process.rank_id) < size
    return is_of_job and not is_alone(process.environ.get("RANK_SIZE", "1"))


def _is_first(process: SeenProcess) -> bool:
    """Return whether a process is a rank of a script, and not only started by one."""
    is_rank = SCRIPT_RANK_PID not in process.environ and process.is_script_rank
    return is_rank and not process.is_shell


def _is_idle(process: SeenProcess, joining: Collection[int]) -> bool:
    """Return whether a rank only waits: for others, or for what it has started."""
    if process.is_python:
        return not process.children and process.pid in joining
    return bool(process.children)


def is_rank_number(text: str) -> bool:
    """Return whether a text is the number of a rank, or of ranks."""
    return text.isdecimal() and len(text) <= _MOST_DIGITS


def _find_ended(
    pid: int, joining: Joining, processes: Iterable[JoinedProcess]
) -> Iterator[JoinedProcess]:
    """Find the ranks of a process's job that died before they joined and were not replaced."""
    own = [each for each in processes if each.rank == joining.rank and each.pid != pid]
    # An earlier job of the script ended when its process with this rank did.
    began = max((each.time for each in own if not each.is_alive), default=0.0)
    newest = {each.rank: each for each in sorted(processes, key=lambda each: each.time)}
    for rank, process in newest.items():
        is_dead = process.state == STARTED and not process.is_alive
        is_lost = process.state == FAILED or is_dead
        is_of_job = 0 <= rank < joining.size and process.time >= began
        if is_lost and is_of_job and not process.joined:
            yield process
