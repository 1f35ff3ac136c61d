"""`RankTable`: which rank of a job has which device, on which server, under which address."""

from dataclasses import dataclass, field
from typing import List, Mapping, Optional, Tuple

from ascend_session.cluster.rank_table.contents import Contents
from ascend_session.cluster.rank_table.findings import ERROR, TableFinding, refusal
from ascend_session.cluster.rank_table.reading import read
from ascend_session.cluster.rank_table.rules import check_rules
from ascend_session.cluster.rank_table.source import read_text

__all__ = ["RankTable"]


@dataclass(frozen=True)
class RankTable(Contents):
    """A rank table of HCCL.

    Attributes:
        name: The file it was read from; empty for one that was built.
        remarks: What was odd about its text and fields when it was read.
    """

    name: str = field(default="", compare=False)
    remarks: Tuple[TableFinding, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def read(cls, path: str) -> "RankTable":
        """Reads a file of version 1.0, 1.2, template 2 or the "lab" variant.

        Raises:
            JobError: If it cannot be read, or is no rank table; all that is wrong with its fields
                is said at once. What the table says is not checked, see `check`.
        """
        return cls.from_text(read_text(path), path)

    @classmethod
    def from_text(cls, text: str, name: str = "the rank table") -> "RankTable":
        """Reads the text of a table, as `read` reads a file."""
        reading = read(name, text)
        found = reading.found
        if found.refused:
            found += check_rules(reading.contents, complete=reading.complete)
            raise refusal(name, found.as_tuple())
        says = reading.contents
        return cls(says.format, says.status, says.servers, name, found.as_tuple())

    def problems(
        self, family: Optional[str] = None, environ: Optional[Mapping[str, str]] = None
    ) -> List[TableFinding]:
        """Everything that HCCL refuses, or that cannot work.

        Args:
            family: The product, one of `ascend_session.hardware.families`; None if not known.
            environ: The environment of the ranks; None for one in which nothing is set.
        """
        return [one for one in self.findings(family, environ) if one.severity == ERROR]

    def findings(
        self, family: Optional[str] = None, environ: Optional[Mapping[str, str]] = None
    ) -> List[TableFinding]:
        """As `problems`, with warnings and what could not be checked."""
        return [*self.remarks, *check_rules(self, family, environ or {})]

    def check(
        self, family: Optional[str] = None, environ: Optional[Mapping[str, str]] = None
    ) -> None:
        """Raises a JobError with all `problems`, if there are any."""
        found = self.problems(family, environ)
        if found:
            raise refusal(self.name or "The rank table", found)
