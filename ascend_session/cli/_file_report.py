"""How GE and an installed toolkit read a file that an option points to."""

import os
from typing import TYPE_CHECKING, Any, Dict, NamedTuple, Optional, Tuple

import typer

from ascend_session.cli._output import count_severities, remark_as_dict, show_finding
from ascend_session.text import format_count

if TYPE_CHECKING:
    from ascend_session.findings import Finding

_MOST_SHOWN = 100


class OptionFileReport(NamedTuple):
    """Everything that was found in a file.

    Attributes:
        file: The name of the file.
        refused: The faults because of which GE refuses the file.
        remarks: What GE silently skips, or reads in another way.
        toolkit: Entries without effect on the installed toolkit; None if not checked.
        not_checked: Why they were not checked, in a sentence.
    """

    file: str
    refused: "Tuple[Finding, ...]"
    remarks: "Tuple[Finding, ...]"
    toolkit: Optional[Tuple[str, ...]] = ()
    not_checked: Optional[str] = None

    @property
    def ok(self) -> bool:
        """Whether nothing at all was found."""
        return not (self.refused or self.remarks or self.toolkit)

    def as_dict(self) -> Dict[str, Any]:
        """Return what GE would report as plain values for JSON."""
        return {
            "file": self.file,
            "ok": self.ok,
            "refused": [remark_as_dict(finding) for finding in self.refused],
            "remarks": [remark_as_dict(finding) for finding in self.remarks],
        }

    def toolkit_as_dict(self) -> Dict[str, Any]:
        """Return the comparison with the toolkit as plain values for JSON."""
        toolkit = None if self.toolkit is None else list(self.toolkit)
        return {"toolkit": toolkit, "not_checked": self.not_checked}


def report_option_file(option: str, name: str) -> OptionFileReport:
    """Read a file as the vendor's parser does.

    Raises:
        AscendError: If it cannot be read.
    """
    from ascend_session.option_files import file_type

    examined = file_type(option).examined(name)
    return OptionFileReport(name, examined.refused, examined.remarks)


def report_mix_list(name: str, toolkit: Optional[str], soc: Optional[str]) -> OptionFileReport:
    """Read a mix list, and compare it with the lists of an installed toolkit.

    Args:
        name: The file.
        toolkit: Where to look for it; None for that of this host.
        soc: The kind of processor, of which the toolkit may know several.

    Raises:
        AscendError: If a file cannot be read.
    """
    from ascend_session.hardware.installation import ops_info_files
    from ascend_session.hardware.nodes import host_root
    from ascend_session.option_files import MixList, built_in_lists

    report = report_option_file(MixList.OPTION, name)
    files = ops_info_files(os.environ, host_root(os.environ), toolkit)
    if not files:
        return report._replace(toolkit=None, not_checked="No toolkit with lists of operators here.")
    if soc is None and len(files) == 1:
        (soc,) = files
    if soc not in files:
        absent = "" if soc is None else f"no {soc}, but "
        message = f"The toolkit has {absent}{', '.join(files)}; --soc names one."
        return report._replace(toolkit=None, not_checked=message)
    built_in: Dict[str, str] = {}
    for path in files[soc]:
        built_in.update(built_in_lists(path))
    return report._replace(toolkit=() if report.refused else MixList.read(name).against(built_in))


def show_file_report(report: OptionFileReport) -> None:
    """Print the verdict on the file, then each place."""
    counts = count_severities([*report.refused, *report.remarks])
    if report.toolkit:
        entries = format_count(len(report.toolkit), "entry")
        counts.append(f"{entries} without effect with this toolkit")
    state = ["refused"] if report.refused else [] if counts else ["ok"]
    typer.echo(f"{report.file}: {', '.join([*state, *counts])}")
    for findings in (report.refused, report.remarks):
        for finding in findings[:_MOST_SHOWN]:
            show_finding(finding, f"{report.file}:{finding.place}")
        if len(findings) > _MOST_SHOWN:
            typer.echo(f"  {len(findings) - _MOST_SHOWN:,} more; --json has them.")
    for fault in report.toolkit or ():
        typer.echo(f"  {fault}")
    if report.not_checked is not None:
        typer.echo(f"  not checked: {report.not_checked}")
