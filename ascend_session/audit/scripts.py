"""From the paths that were named, through all rules, to what was found in their scripts."""

import os
import signal
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import (
    Any,
    Callable,
    Deque,
    Dict,
    Generator,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from ascend_session.audit.finding import SEVERITIES, AuditFinding
from ascend_session.audit.source import Source, content_of, is_marked, read_script
from ascend_session.errors import AuditError
from ascend_session.findings import INFO, Place

_SHELLS = (".sh", ".bash")


class Audited(NamedTuple):
    """What became of one file.

    Attributes:
        file: Its name.
        looked_at: Whether it has anything that an adapter could read.
        findings: What was found in it.
        skipped: Why it was not read, in a full sentence; None if it was.
    """

    file: str
    looked_at: bool
    findings: Tuple[AuditFinding, ...]
    skipped: Optional[str] = None


def audit_file(file: str) -> Audited:
    """Audits one file; whatever is wrong with the file itself is said, never raised."""
    try:
        return audit_bytes(file, content_of(file))
    except AuditError as why:
        return Audited(file, False, (), why.message)
    except Exception as error:  # what nobody thought of in one script is no end of all others
        said = f"It could not be followed: {type(error).__name__}, {error}."
        return Audited(file, True, (), said)


def audit_bytes(file: str, data: bytes) -> Audited:
    """Audits what a file holds."""
    if file.endswith(_SHELLS):
        return _audited_shell(file, data)
    if not is_marked(data):
        return Audited(file, False, ())
    try:
        return Audited(file, True, tuple(_findings(read_script(file, data))))
    except AuditError as why:
        return Audited(file, True, (_not_read(file, Place(1, 1), str(why)),))
    except RecursionError:
        said = "It is nested too deeply to be followed."
        return Audited(file, True, (_not_read(file, Place(1, 1), said),))


def _audited_shell(file: str, data: bytes) -> Audited:
    from ascend_session.audit.shell import is_job, read_shell

    if not is_job(data):
        return Audited(file, False, ())
    from ascend_session.audit.shell import shell_findings

    return Audited(file, True, tuple(shell_findings(read_shell(file, data))))


def _not_read(file: str, place: Place, said: str) -> AuditFinding:
    return AuditFinding(file, place, "not-read", INFO, True, said)


def _findings(source: Source) -> List[AuditFinding]:
    # The configuration's definitions take a while to load, which a folder without scripts of this
    # kind need not wait for.
    from ascend_session.audit.entries import (
        adapter_entries,
        look_at_entries,
        look_at_inference,
        look_at_proto,
    )
    from ascend_session.audit.finding import Book
    from ascend_session.audit.options import look_between
    from ascend_session.audit.reader import Reader
    from ascend_session.audit.run_configs import look_at_construction, look_between_arguments
    from ascend_session.audit.systems import look_at_systems

    reader = Reader(source).read()
    book = Book(source)
    entries = list(adapter_entries(iter(reader.entries.values()), source))
    for entry in entries:
        look_at_entries(entry, source, book)
        look_between(entry, book)
    for proto in reader.protos.values():
        ours = [entry for entry in proto.entries if entry in entries]
        if ours:
            look_at_proto(proto, ours, source, book)
    for made in reader.constructions.values():
        look_at_construction(made, book)
        look_between_arguments(made, book)
    look_at_systems(source, book)
    look_at_inference(entries, source, book)
    remarks = [_not_read(source.file, place, said) for place, said in source.remarks]
    return [*book.findings(), *remarks]


_ENDINGS = (".py", ".ipynb", ".sh", ".bash")
_LEFT_OUT = ("__pycache__", "node_modules", "site-packages", ".ipynb_checkpoints")
_FEW = 200  # files that one process reads as fast as several are started
_AT_ONCE = 32  # files that go to a process together
_UNDER_WAY = 4  # such parcels for each process


class AuditReport(NamedTuple):
    """What was found.

    Attributes:
        files: How many files were opened.
        looked_at: How many of them hold something that an adapter could read.
        findings: What was found, by file and line.
        skipped: The files that were not read, each with the reason in a sentence.
        known: How many findings the baseline has, which are left out.
    """

    files: int
    looked_at: int
    findings: Tuple[AuditFinding, ...]
    skipped: Tuple[Tuple[str, str], ...]
    known: int = 0

    def count(self, severity: str) -> int:
        """How many findings have this severity."""
        return sum(one.severity == severity for one in self.findings)

    def has(self, severity: str) -> bool:
        """Whether a finding is of this severity or worse."""
        worse = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return any(one.severity in worse for one in self.findings)

    def as_dict(self) -> Dict[str, Any]:
        """The report as JSON can hold it."""
        return {
            "files": self.files,
            "looked_at": self.looked_at,
            "known": self.known,
            "counts": {severity: self.count(severity) for severity in SEVERITIES},
            "findings": [one.as_dict() for one in self.findings],
            "skipped": [{"file": file, "why": why} for file, why in self.skipped],
        }


def files_below(paths: Sequence[str]) -> List[str]:
    """The scripts and notebooks among ``paths`` and in their folders, each once, in order.

    A file that is named is taken whatever it is called. Hidden folders and installed packages are
    left out, and links to folders are not followed.

    Raises:
        FileNotFoundError: If a path is not there.
    """
    found: Dict[str, None] = {}
    for path in paths:
        if os.path.isdir(path):
            found.update(dict.fromkeys(_walk(path)))
        elif os.path.exists(path):
            found[path] = None
        else:
            raise FileNotFoundError(path)
    return list(found)


def _walk(folder: str) -> Iterator[str]:
    for above, folders, files in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _LEFT_OUT
        )
        for name in sorted(files):
            if name.endswith(_ENDINGS):
                yield os.path.join(above, name)


def audit_paths(
    paths: Sequence[str],
    tell: Optional[Callable[[int, int], None]] = None,
    processes: Optional[int] = None,
) -> AuditReport:
    """Audits scripts, notebooks and folders.

    Args:
        paths: Their names.
        tell: Is told after each file that one more is done, ``tell(1, total)``.
        processes: How many processes read; one for each CPU if not given, for few files none but
            this.

    Raises:
        FileNotFoundError: If a path is not there.
    """
    files = files_below(paths)
    done: List[Audited] = []
    for one in _audited(files, processes):
        if one.looked_at or one.skipped:
            done.append(one)
        if tell is not None:
            tell(1, len(files))
    findings = tuple(finding for one in done for finding in one.findings)
    skipped = tuple((one.file, one.skipped) for one in done if one.skipped is not None)
    looked_at = sum(one.looked_at for one in done)
    return AuditReport(len(files), looked_at, findings, skipped)


def _audited(files: List[str], processes: Optional[int]) -> Iterator[Audited]:
    count = processes or len(os.sched_getaffinity(0))
    if count == 1 or (processes is None and len(files) < _FEW):
        yield from map(audit_file, files)
        return
    parcels = deque(files[start : start + _AT_ONCE] for start in range(0, len(files), _AT_ONCE))
    while parcels:
        broken = yield from _by_pool(parcels, count)
        for file in broken:
            yield _by_itself(file)


def _by_pool(parcels: Deque[List[str]], count: int) -> Generator[Audited, None, List[str]]:
    """Takes parcels until there are none, or a process is killed; returns what that left undone."""
    # Few are under way at a time, so that Ctrl-C is not kept waiting for all of them.
    pending: Deque[Tuple[List[str], Future[List[Audited]]]] = deque()
    with ProcessPoolExecutor(count, initializer=_leave_signals_to_the_parent) as pool:
        try:
            while parcels or pending:
                while parcels and len(pending) <= _UNDER_WAY * count:
                    pending.append((parcels[0], pool.submit(_several, parcels[0])))
                    parcels.popleft()
                yield from pending[0][1].result()
                pending.popleft()
        except BrokenProcessPool:
            return [file for parcel, _ in pending for file in parcel]
    return []


def _by_itself(file: str) -> Audited:
    """Audits a file in a process of its own, which it may be that kills it."""
    with ProcessPoolExecutor(1, initializer=_leave_signals_to_the_parent) as pool:
        try:
            return pool.submit(_several, [file]).result()[0]
        except BrokenProcessPool:
            return Audited(file, False, (), "The process that read it was killed.")


def _several(files: List[str]) -> List[Audited]:
    return [audit_file(file) for file in files]


def _leave_signals_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
