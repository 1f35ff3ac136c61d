"""The loop of a job, in which all happens to its ranks.

It runs in the guardian: the parent of the ranks, a process of its own in which nothing else
happens, and that a launcher which is killed leaves behind to end the job. It

* starts every rank in a session of its own, with SIGKILL as its signal for the guardian's death;
* notices ends by SIGCHLD, and stops everyone at the first end that is no success;
* adopts what ranks leave behind (it is a subreaper, prctl(2)), so that every process of the job is
  below it, whatever happened to the processes between;
* looks at what lives below the ranks: it waits for ranks that scripts start themselves, and for
  trainings that are left in the background, and explains which ranks never join (`descendants`);
* hears what processes of ranks report (`reports`), and notices when all stand still (`stall`); it
  never waits for their stacks, but looks now and then whether they are there (`places.Inquiry`);
* talks with the launcher through a socket, and stops everyone when that is closed;
* leaves when it has no child, which for a subreaper means that no process of the job lives.

The first rank waits for this process, so what only some jobs need is imported where they need it.

What is to be done later has a timer (`timers`), and each turn of the loop does what is due.

The first message from the launcher (`messages`) is the job, which `job_message` makes. Then it may
send

* ``("stop", signal, is_from_outside)``: ask everyone to exit (`stopping`), and kill them after the
  job's grace; whether the launcher got SIGTERM itself;
* ``("kill",)``: end everyone now;
* ``("pass on", signal)``: send it to the processes that catch it;
* ``("locate",)``: say where the ranks are;
* ``("pause",)`` and ``("continue",)``: stop everyone, which ``paused`` answers, and let everyone go
  on;

and the guardian sends the events of `events.EVENTS`, under their names and with the values of their
fields; ``over`` is the last one.
"""

import contextlib
import math
import os
import select
import signal
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Set, Tuple, Union

from ascend_session.launcher.job.children import (
    find_catchers,
    group_by_parent,
    list_children,
    list_descendants,
    set_cpus,
)
from ascend_session.launcher.job.messages import MessageChannel
from ascend_session.launcher.job.signals import ASKING, TERMINATED
from ascend_session.launcher.job.start import GuardedRank, read_trouble, start_rank
from ascend_session.launcher.job.stopping import JobStop, StopSequence
from ascend_session.launcher.job.timers import Timers

if TYPE_CHECKING:
    from ascend_session.launcher.job.copying import PipeCopier
    from ascend_session.launcher.job.descendants import DescendantWatch
    from ascend_session.launcher.job.events import Stalled, StallNote
    from ascend_session.launcher.job.places import Inquiry
    from ascend_session.launcher.job.reports import ReportReceiver, Reports
    from ascend_session.launcher.job.stall import StallWatch

# Seconds in which others get SIGTERM as well after one of these, if it is for every process of the
# job: it comes to the guardian at once, but the launcher has to wake up and report its own.
_UNTIL_ALL_S = {"launcher": 0.25, "rank": 0.25, "guardian": 1.0}
_BETWEEN_ANSWERS_S = 0.05
_BEFORE_STALL_S = 0.3  # after which what watches is loaded: some jobs do not take as long
_COPY_S = 10.0  # for the rest in the pipes, if the disk of the logs is slow
_BETWEEN_LOOKS_MS = 1000  # for a signal, while the start of the other ranks has to wait
_LONGEST_WAIT_S = 3600.0  # poll(2) takes no more than 24 days


class GuardedJob:
    """The ranks and all that comes from them.

    Args:
        channel: The way to the launcher.
        job: ``listener``, the descriptor for `reports.ReportReceiver`; ``ranks``, each with the
            values of a `GuardedRank`; ``has_pipes``, whether their log files are written through
            pipes; ``stall``, what `activity.WatchedJob` has besides; ``grace``; ``size``, the
            number of ranks of the job on all nodes, if they may be scripts that start ranks, or
            else 0.
    """

    def __init__(self, channel: MessageChannel, job: Dict[str, Any]) -> None:
        self._channel = channel
        ranks = [GuardedRank(*values) for values in job["ranks"]]
        self._ranks = {rank.rank: rank for rank in ranks}
        self._numbers = {rank.folder: rank.rank for rank in ranks}
        self._watched: Dict[str, Any] = job["stall"]
        self._stall: Optional[StallWatch] = None
        self._listener: int = job["listener"]
        os.set_inheritable(self._listener, False)
        self._receiver: Optional[ReportReceiver] = None
        self._has_pipes: bool = job["has_pipes"]
        self._pipes: Dict[int, Tuple[int, bytes]] = {}  # whose rank and log file it is
        self._grace: float = job["grace"]
        self._alive: Dict[int, Tuple[int, int]] = {}  # pid -> rank and its pipe
        self._folders: Dict[int, str] = {}  # of all ranks that were started, by their pids
        self.is_kill_asked = False  # by a launcher that raises, too
        self._has_failed = False
        self._got_signal = 0
        self._terminated: Set[str] = set()  # who got SIGTERM from outside before ranks were asked
        self._stopping: Optional[JobStop] = None
        self._is_stop_asked = False
        self._paused_at: Optional[float] = None  # while everyone is stopped
        self._inquiries: List[Tuple[Inquiry[Any], Callable[[Any], None]]] = []
        self._timers = Timers()  # for "look", "stall", "answers", "failure", and for the stop
        self._size: int = job["size"]
        self._below: Optional[DescendantWatch] = None
        if self._size:
            self._timers.set("look")
        self._wake = self._wake_by_signals()
        self._poll = select.poll()
        for fd in (self._wake, self._listener):
            self._poll.register(fd, select.POLLIN)

    @property
    def folders(self) -> List[str]:
        """The folder of each rank, in order."""
        return list(self._numbers)

    def run(self, messages: List[Any]) -> None:
        """Start the ranks and stay until the end.

        Args:
            messages: What came with the job.
        """
        self._obey(messages)
        self._start_all()
        copier = self._copy_pipes() if self._pipes else None
        self._watch_stall(_BEFORE_STALL_S)
        living: List[str] = []
        while self._reap():
            if self._stopping is not None and self._stopping.is_given_up:
                living = list(map(str, list_descendants()))
                break
            self._act()
            if self._channel.is_open:
                self._poll.register(self._channel.fd, self._channel.events)
            for fd, _ in self._poll.poll(self._next_due_ms()):
                if fd == self._wake:
                    os.read(fd, 4096)
                elif fd != self._channel.fd:
                    self._receive_reports()
                else:
                    self._channel.flush()
                    self._obey(self._channel.receive())
                    if not self._channel.is_open:
                        self._poll.unregister(fd)
        if copier is not None:
            copier.finish(_COPY_S)
            for problem in copier.problems:
                self._channel.send(("not_logged", *problem, time.time()))
        self._channel.send(("over", tuple(living), time.time()))
        self._channel.flush(wait=True)

    def _wake_by_signals(self) -> int:
        read, write = os.pipe()
        os.set_blocking(read, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

        def note(number: int, frame: Any) -> None:
            self._got_signal = number
            if number == signal.SIGTERM:
                self._terminated.add("guardian")

        for number in ASKING:
            signal.signal(number, note)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        return read

    def _start_all(self) -> None:
        cpus_before = os.sched_getaffinity(0)
        for number, rank in self._ranks.items():
            # Many ranks take their time to start. The order in which they fail counts, and once
            # one has failed, or everyone is to end, no other is needed.
            self._reap()
            self._obey(self._channel.receive())
            while self._paused_at is not None and self._channel.is_open and not self._got_signal:
                self._channel.wait(select.POLLIN, _BETWEEN_LOOKS_MS)
                self._obey(self._channel.receive())
            is_ending = self._got_signal or self._stopping or not self._channel.is_open
            if self._has_failed or "failure" in self._timers or is_ending:
                break
            # This process goes to the CPUs first, and the child inherits them: so it is bound from
            # its first instruction, and one that cannot be is known at once.
            cpus = cpus_before if rank.cpus is None else rank.cpus
            try:
                os.sched_setaffinity(0, cpus)
            except OSError as failure:  # such as CPUs that were taken away since they were planned
                set_cpus(cpus_before)
                why = failure.strerror or str(failure)
                self._channel.send(("not_bound", number, why, time.time()))
            try:
                pid, pipe = self._start_with_pipes(number) if self._has_pipes else start_rank(rank)
            except OSError as failure:  # there can be no more processes
                text = failure.strerror or str(failure)
                self._channel.send(
                    ("not_started", number, "started", failure.errno, text, time.time())
                )
                self._has_failed = True
                break
            self._alive[pid] = number, pipe
            self._folders[pid] = rank.folder
            self._channel.send(("start", number, pid, time.time()))
        set_cpus(cpus_before)

    def _copy_pipes(self) -> "PipeCopier":
        from ascend_session.launcher.job.copying import PipeCopier

        return PipeCopier(self._pipes)  # a thread, and so after the last fork

    def _start_with_pipes(self, number: int) -> Tuple[int, int]:
        """Start a rank that writes to pipes, from which its log files are written."""
        rank = self._ranks[number]
        ends: List[int] = []
        if rank.is_attached:
            return start_rank(rank)
        try:
            for log in (rank.stdout, rank.stderr):
                read, write = os.pipe()
                self._pipes[read] = number, log
                ends.append(write)
            return start_rank(rank, (ends[0], ends[1]))
        finally:
            for end in ends:
                os.close(end)

    def _reap(self) -> bool:
        """Note all that have ended; return False when this process has no child any more."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            self._receive_reports()  # what it has sent comes before its exit
            code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            if self._stopping is not None:
                self._stopping.note_exit()
            if pid in self._alive:
                self._note_rank_end(*self._alive.pop(pid), code)
            self._note_exit(pid, code)

    def _note_rank_end(self, rank: int, pipe: int, status: int) -> None:
        """Report the exit of a rank."""
        self._note_status(status)
        trouble = read_trouble(pipe)
        if trouble is None:
            self._channel.send(("exit", rank, status, time.time()))
        else:
            self._channel.send(("not_started", rank, *trouble, time.time()))

    def _note_status(self, status: int) -> None:
        """Note the exit status of a rank, or of a training in the background."""
        if status not in TERMINATED:
            self._has_failed = self._has_failed or status != 0
            return
        self._terminated.add("rank")
        if self._stopping is None and "failure" not in self._timers:
            self._timers.set("failure", _UNTIL_ALL_S["rank"])  # perhaps none: others get it, too

    def _receive_reports(self) -> None:
        """Pass on what processes of ranks have reported by now."""
        if self._receiver is None and all(fd != self._listener for fd, _ in self._poll.poll(0)):
            return
        receiver = self._open_receiver()
        for folder, pid, message in receiver.receive():
            # A launcher that has been stopped (Ctrl-Z) misses steps, and nothing else.
            number = self._numbers.get(folder)
            if number is None or (message["kind"] in ("step", "gaps") and self._channel.is_behind):
                continue
            receiver.reports.note(number, pid, message)
            self._channel.send(("reported", number, pid, message, time.time()), is_kept=False)
            if message["kind"] == "joining":
                self._timers.set("look")

    def _open_receiver(self) -> "ReportReceiver":
        """Return the receiver, which takes its time to load."""
        if self._receiver is None:
            from ascend_session.launcher.job.reports import ReportReceiver

            self._receiver = ReportReceiver(self._listener)
            self._poll.unregister(self._listener)
            self._poll.register(self._receiver, select.POLLIN)
        return self._receiver

    @property
    def reports(self) -> "Reports":
        """What the ranks have reported by now."""
        return self._open_receiver().reports

    def _running(self) -> Dict[int, int]:
        """Return the pid of each rank that lives, or of what they have left if none does."""
        running = {rank: pid for pid, (rank, _) in self._alive.items()}
        return running or ({} if self._below is None else self._below.announced)

    def _stall_watch(self) -> "StallWatch":
        """Return the watch, which takes its time to load."""
        if self._stall is None:
            from ascend_session.launcher.job.activity import WatchedJob
            from ascend_session.launcher.job.stall import StallWatch

            folders = {name: os.fsdecode(self._watched[name]) for name in ("folder", "cwd")}
            job = WatchedJob(**{**self._watched, **folders, "ranks": tuple(self._ranks.values())})
            self._stall = StallWatch(job, self.reports)
        return self._stall

    def _watch_stall(self, after_s: float = 0.0) -> None:
        """Look for a stall after these seconds, if anybody wants that."""
        if self._watched["note_s"] or self._watched["timeout_s"] is not None:
            self._timers.set("stall", after_s)

    def _ask(self, inquiry: "Optional[Inquiry[Any]]", act: Callable[[Any], None]) -> None:
        """Act on the answer to an inquiry, when it has one; the loop goes on meanwhile."""
        if inquiry is None or inquiry.is_answered():
            act(None if inquiry is None else inquiry.read_answer())
        else:
            self._inquiries.append((inquiry, act))
            self._timers.set("answers", _BETWEEN_ANSWERS_S)

    def _take_answers(self) -> None:
        inquiries, self._inquiries = self._inquiries, []
        for inquiry, act in inquiries:
            self._ask(inquiry, act)

    def _may_stall(self) -> bool:
        """Return whether the ranks are to work, and neither to exit nor to be left to a script."""
        is_left = self._below is not None and self._below.has_noted_ranks
        return not (self._stopping or self._paused_at is not None or is_left)

    def _look_for_stall(self) -> None:
        """Look whether a job stands still.

        One with a rank in a debugger does as long as somebody likes.
        """
        if not self._may_stall():
            return
        watch = self._stall_watch()
        if not any(rank.is_attached for rank in self._ranks.values()):
            self._ask(watch.look(self._running()), self._note_look)

    def _note_look(self, event: "Union[Stalled, StallNote, None]") -> None:
        """Report what a look for a stall has found, and choose when to look again."""
        from ascend_session.launcher.job.events import Stalled

        if not self._may_stall():
            return
        if isinstance(event, Stalled):
            self._channel.send(("stall", *event))
            self._stop(signal.SIGTERM, "asked")
            return
        if event is not None:
            self._channel.send(("stall_note", *event))
        self._timers.set("stall", self._stall_watch().next_look_s())

    def _announce_stop(self, pid: int, folder: str) -> None:
        if self._receiver is not None:
            self._receiver.send_stop(pid, folder)

    def _act(self) -> None:
        """Do what is due."""
        if self._timers.take("stall"):
            self._look_for_stall()
        if self._timers.take("answers"):
            self._take_answers()
        if self._got_signal or not self._channel.is_open:
            self._stop(signal.SIGTERM, "told")
        elif self._is_stop_asked:
            pass  # as soon as it is known where the ranks are
        elif self._has_failed or self._timers.is_due("failure"):
            self._stop(signal.SIGTERM, "failure")
        is_paused = self._paused_at is not None  # nobody can do anything then
        if self._timers.take("look") and not is_paused:
            self._look_below()
        is_waiting = is_paused or (self._below is not None and self._below.is_waiting)
        if not (self._alive or "failure" in self._timers or is_waiting or self._is_stop_asked):
            self._stop(signal.SIGTERM, "left behind")
        if self._stopping is not None:
            # A handler may be there for one SIGTERM, and break by the second. Nobody can see what
            # a process has got. But if two of launcher, guardian and ranks got one, all did.
            is_for_all = self._channel.is_open and len(self._terminated) > 1
            is_clear = is_for_all or not self._channel.is_open
            self._stopping.act(self._alive, is_for_all, is_clear)

    def _watch_below(self) -> "DescendantWatch":
        """Return the watch, which only some jobs need."""
        if self._below is None:
            from ascend_session.launcher.job.descendants import DescendantWatch

            tell_absent = self._open_receiver().send_absent
            self._below = DescendantWatch(self._ranks, self._size, tell_absent, self._timers)
        return self._below

    def _look_below(self) -> None:
        """Look at what lives below the ranks, and at what they have left."""
        alive = {pid: rank for pid, (rank, _) in self._alive.items()}
        watch = self._watch_below()
        for message in watch.look(alive, self.reports, self._stopping is not None):
            self._channel.send((*message, time.time()))
            if message[0] == "repeated":
                self._stop(signal.SIGTERM, "repeated")

    def _note_exit(self, pid: int, status: int) -> None:
        """Note the exit of a child, perhaps of a training in the background."""
        if self._stopping is not None:
            return
        # What has left nothing, as most ranks, needs no watch.
        if self._below is None and set(list_children(os.getpid())) <= self._alive.keys():
            return
        watch = self._watch_below()
        training = watch.note_exit(pid, status, self._alive)
        if training is not None:
            self._note_status(status)
            event = (training.rank, pid, training.command, training.output, status, time.time())
            self._channel.send(("background_exit", *event))

    def _obey(self, messages: List[Any]) -> None:
        for message in messages:
            if message[0] == "stop":
                if message[2]:
                    self._terminated.add("launcher")
                self._stop_as_asked(message[1])
            elif message[0] == "kill":
                self.is_kill_asked = True
                self._stopping = self._stopping or JobStop(
                    self._channel.send, self._signal_all, self._timers
                )
                self._stopping.kill_now()
            elif message[0] == "pass on":
                self._pass_on(message[1])
            elif message[0] == "locate":
                self._ask(self._stall_watch().locate_all(self._running()), self._note_places)
            else:
                is_pause = message[0] == "pause"
                if not is_pause and self._receiver is not None:
                    self._receiver.send_paused()
                if self._stopping is None:  # who is to end has to run for it
                    self._note_pause(is_pause)
                    self._signal_all(signal.SIGSTOP if is_pause else signal.SIGCONT)
                if is_pause:
                    self._channel.send(("paused", time.time()))

    def _stop_as_asked(self, number: int) -> None:
        """Find out whether the job stands still, and stop it."""

        def stop(standing: Optional[str]) -> None:
            self._channel.send(("standing", standing or "", time.time()))
            self._stop(number, "asked")

        self._is_stop_asked = True
        if self._stall is None or self._stopping is not None:
            self._stop(number, "asked")
        else:
            self._ask(self._stall.describe_standing(self._running()), stop)

    def _note_places(self, places: Optional[List[str]]) -> None:
        self._channel.send(("located", tuple(places or ()), time.time()))

    def _note_pause(self, is_pause: bool) -> None:
        """Note that everyone is stopped, or goes on: nobody stands still meanwhile."""
        now = time.monotonic()
        if is_pause and self._paused_at is None:
            self._paused_at = now
        elif self._paused_at is not None and not is_pause:
            if self._stall is not None:
                self._stall.leave_out(self._paused_at, now)
            if self._size or self._below is not None:
                self._watch_below().leave_out(now - self._paused_at)
            self._paused_at = None
            self._watch_stall()

    def _pass_on(self, number: int) -> None:
        """Send a signal to what catches it; anything else would end by it."""
        pids = []
        children = group_by_parent(list_descendants())
        for child in children.get(os.getpid(), []):
            for process in find_catchers(child, number, children):
                with contextlib.suppress(OSError):
                    os.kill(process.pid, number)
                    pids.append(process.pid)
        self._channel.send(("passed_on", number, tuple(pids), time.time()))

    def _signal_all(self, number: int) -> None:
        """Send a signal to every process of the job, first to the ranks' groups at once."""
        # A rank that is not reaped keeps its pid, so its group is nobody else's.
        for pid in self._alive:
            with contextlib.suppress(OSError):  # it is just starting, or somebody else's by now
                os.killpg(pid, number)
        for process in list_descendants():
            with contextlib.suppress(OSError):
                os.kill(process.pid, number)

    def _stop(self, number: int, why: str) -> None:
        """Ask every process of the job to exit, once."""
        if self._stopping is not None:
            return
        if self._paused_at is not None:  # ranks may need their workers to exit
            self._signal_all(signal.SIGCONT)
        self._is_stop_asked, self._paused_at = False, None
        # Before the signals, so that whoever ends later, ends because of them.
        self._channel.send(("stopping", why, time.time()))
        is_terminated = number == signal.SIGTERM and why in ("asked", "told")
        waits_s = [_UNTIL_ALL_S[who] for who in tuple(self._terminated)] if is_terminated else []
        self._timers.cancel("failure")
        sequence = StopSequence(number, self._folders, self._announce_stop)
        self._stopping = JobStop(self._channel.send, self._signal_all, self._timers)
        self._stopping.ask(sequence, set(self._alive), min(waits_s, default=0.0), self._grace)

    def _next_due_ms(self) -> Optional[float]:
        """Compute the milliseconds until something is due, for poll(2)."""
        next_s = self._timers.next_s()
        return None if next_s == math.inf else min(next_s, _LONGEST_WAIT_S) * 1000 + 1
