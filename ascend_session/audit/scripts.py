"""One script through all rules."""

from typing import List, NamedTuple, Optional, Tuple

from ascend_session.audit.finding import INFO, AuditFinding, Place
from ascend_session.audit.source import Source, content_of, is_marked, read_script
from ascend_session.errors import AuditError

_SHELLS = (".sh", ".bash")

__all__ = ["Audited", "audit_bytes", "audit_file"]


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
    from ascend_session.audit.shell_source import is_job, read_shell

    if not is_job(data):
        return Audited(file, False, ())
    from ascend_session.audit.shell_rules import shell_findings

    return Audited(file, True, tuple(shell_findings(read_shell(file, data))))


def _not_read(file: str, place: Place, said: str) -> AuditFinding:
    return AuditFinding(file, place, "not-read", INFO, True, said)


def _findings(source: Source) -> List[AuditFinding]:
    # The configuration's definitions take a while to load, which a folder without scripts of this
    # kind need not wait for.
    from ascend_session.audit.between import look_between
    from ascend_session.audit.book import Book
    from ascend_session.audit.entries import adapter_entries, look_at_entries
    from ascend_session.audit.inference import look_at_inference
    from ascend_session.audit.protos import look_at_proto
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
