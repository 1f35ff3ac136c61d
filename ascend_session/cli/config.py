"""``ascend-session config``: checks configuration files, and shows what they mean."""

import os
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Tuple

import click
from click.exceptions import Exit

from ascend_session.cli._output import (
    PLACED,
    exit_on_error,
    finding_as_dict,
    show_finding,
    show_json,
    show_table,
    show_verdict,
)
from ascend_session.cli._parameters import (
    FILE,
    JSON,
    OPTIONS,
    CommandGroup,
    OptionGroup,
    argument,
    explain_removal,
)
from ascend_session.findings import Finding
from ascend_session.text import did_you_mean, format_count

if TYPE_CHECKING:
    from ascend_session.config.file_report import FileReport

_MIX_LIST = "modify_mixlist"
_MOST_SHOWN = 100  # findings of one kind
_LISTS = OptionGroup("Mix lists")

_HELP = """Check configuration files and the files that options point to.

Examples:
    ascend-session config check train.yaml
    ascend-session config check-file op_precision_mode net.ini
"""

config = CommandGroup(name="config", help=_HELP)


@config.command("check")
@argument("files", "FILES...")
@OPTIONS.flag("--host", "Also check paths and variables on this machine.")
@JSON
def check(files: Tuple[str, ...], host: bool, as_json: bool) -> None:
    """Check configuration files in YAML or JSON.

    Exit code: 1 if a file has errors, otherwise 0. Warnings do not count.

    Examples:
        ascend-session config check train.yaml eval.json
        ascend-session config check --host train.yaml
    """
    from ascend_session.config.file_report import report_file

    reports = [report_file(name, os.environ if host else None) for name in files]
    all_ok = all(report.ok for report in reports)
    if as_json:
        show_json({"ok": all_ok, "files": [report.to_dict() for report in reports]})
    else:
        for report in reports:
            findings = _findings_of(report)
            show_verdict(report.file, findings, ["ok"] if report.ok else [])
            for finding in findings:
                show_finding(finding._replace(place=None), report.place_of(finding))
    raise Exit(0 if all_ok else 1)


@config.command("check-file")
@argument("option", "OPTION")
@FILE
@_LISTS.value("--toolkit", "FOLDER", "Toolkit whose lists FILE changes.")
@_LISTS.value("--soc", "NAME", "Name of the processor's folder in the toolkit.")
@JSON
def check_file(
    option: str,
    file: str,
    toolkit: Optional[str],
    soc: Optional[str],
    as_json: bool,
) -> None:
    """Check the FILE that an OPTION points to.

    Finds what the vendor's parser refuses, and the lines that it skips silently.

    Exit code: 1 if FILE has errors or warnings, otherwise 0.

    Examples:
        ascend-session config check-file modify_mixlist mixlist.json
        ascend-session config check-file op_precision_mode net.ini
    """
    from ascend_session.config.types import TYPE_NAMES

    if option not in TYPE_NAMES:
        context = click.get_current_context()
        removed = explain_removal(context.command_path, option)
        if removed is not None:
            context.fail(removed)
        raise click.BadParameter(_explain_option(option, file), param_hint="OPTION")
    if option != _MIX_LIST and (toolkit is not None or soc is not None):
        raise click.BadParameter(f"only {_MIX_LIST} takes it.", param_hint="--toolkit, --soc")
    with exit_on_error(as_json=as_json, file=file):
        report = report_option_file(option, file)
        if option == _MIX_LIST:
            report = _compare_with_toolkit(report, toolkit, soc)
    if as_json:
        lists = report.toolkit_as_dict() if option == _MIX_LIST else {}
        show_json({"option": option, **report.as_dict(), **lists})
    else:
        show_file_report(report)
    raise Exit(0 if report.ok else 1)


@config.command("show")
@FILE
@JSON
def show(file: str, as_json: bool) -> None:
    """Show the NpuOptimizer entry that a configuration file resolves to.

    Examples:
        ascend-session config show train.yaml
        ascend-session config show --json train.yaml
    """
    from ascend_session.config.file_report import report_file

    report = report_file(file)
    if as_json:
        show_json({**report.to_dict(), **_resolve(report)})
    else:
        for finding in _findings_of(report):
            place = report.place_of(finding)
            show_finding(finding._replace(place=None), place, indent="", err=True)
    if report.ok and not as_json:
        entry, not_in_entry = _resolve(report).values()
        if entry:
            rows = [(x["key"], repr(x["value"]), x["field"], x["scope"]) for x in entry]
            show_table(("KEY", "VALUE", "FIELD", "SCOPE"), rows)
        else:
            click.echo("The NpuOptimizer entry is empty: the adapter uses its defaults.")
        if not_in_entry:
            click.echo("\nRead by NPURunConfig and its helpers only, so not in the entry:")
            others = [(name, repr(value)) for name, value in not_in_entry.items()]
            show_table(("OPTION", "VALUE"), others)
    raise Exit(0 if report.ok else 1)


class OptionFileReport(NamedTuple):
    """Everything that was found in a file."""

    file: str
    refused: Tuple[Finding, ...]  # because of which GE refuses the file
    remarks: Tuple[Finding, ...]  # on what GE silently skips, or reads in another way
    toolkit: Optional[Tuple[str, ...]] = ()  # entries without effect there; None if not checked
    not_checked: Optional[str] = None  # why they were not, in a sentence

    @property
    def ok(self) -> bool:
        """True if nothing at all was found."""
        return not (self.refused or self.remarks or self.toolkit)

    def as_dict(self) -> Dict[str, Any]:
        """Return what GE would report as plain values for JSON."""
        return {
            "file": self.file,
            "ok": self.ok,
            "refused": [finding_as_dict(finding, PLACED) for finding in self.refused],
            "remarks": [finding_as_dict(finding, PLACED) for finding in self.remarks],
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
    from ascend_session.config.types import file_type

    return OptionFileReport(name, *file_type(option).examine(name))


def _compare_with_toolkit(
    report: OptionFileReport, toolkit: Optional[str], soc: Optional[str]
) -> OptionFileReport:
    """Compare a mix list with the lists of a toolkit, which may know several kinds of processor."""
    from ascend_session.hardware.installation import find_ops_info_files
    from ascend_session.hardware.nodes import host_root
    from ascend_session.option_files import MixList
    from ascend_session.option_files.mixlist import read_built_in_lists

    files = find_ops_info_files(os.environ, host_root(os.environ), toolkit)
    if not files:
        return report._replace(
            toolkit=None, not_checked="No toolkit with lists of operators was found."
        )
    if soc is None and len(files) == 1:
        (soc,) = files
    if soc not in files:
        absent = "" if soc is None else f"no {soc}, but "
        message = f"The toolkit has {absent}{', '.join(files)}; --soc names one."
        return report._replace(toolkit=None, not_checked=message)
    built_in: Dict[str, str] = {}
    for path in files[soc]:
        built_in.update(read_built_in_lists(path))
    if report.refused:
        return report
    return report._replace(toolkit=MixList.read(report.file).against(built_in))


def show_file_report(report: OptionFileReport) -> None:
    """Print the verdict on the file, then each place."""
    findings = [*report.refused, *report.remarks]
    words = ["refused"] if report.refused else [] if findings or report.toolkit else ["ok"]
    more = []
    if report.toolkit:
        entries = format_count(len(report.toolkit), "entry")
        more.append(f"{entries} without effect with this toolkit")
    show_verdict(report.file, findings, words, more)
    for alike in (report.refused, report.remarks):
        for finding in alike[:_MOST_SHOWN]:
            show_finding(finding, report.file)
        if len(alike) > _MOST_SHOWN:
            click.echo(f"  {len(alike) - _MOST_SHOWN:,} more; --json has them.")
    for fault in report.toolkit or ():
        click.echo(f"  {fault}")
    if report.not_checked is not None:
        click.echo(f"  not checked: {report.not_checked}")


def _findings_of(report: "FileReport") -> List[Finding]:
    """List errors and warnings in the order of the file, and name options as it does."""
    from ascend_session.config.files import line_of, spell_as_in_file

    findings = sorted([*report.problems, *report.warnings], key=line_of)
    return list(map(spell_as_in_file, findings))


def _explain_option(option: str, file: str) -> str:
    """Return what is wrong with the first argument of `check-file`."""
    from ascend_session.config.types import TYPE_NAMES

    if file in TYPE_NAMES:
        return f"the arguments are swapped; write `config check-file {file} {option}`."
    near = did_you_mean(option, TYPE_NAMES)
    if near is not None:
        return f"{option} does not point to a file. Did you mean {near}?"
    return f"{option} is not one of {', '.join(TYPE_NAMES)}."


def _resolve(report: "FileReport") -> Dict[str, Any]:
    """Return the entry that the adapter gets, and the options that never get into it."""
    if report.config is None:
        return {"entry": [], "not_in_entry": {}}
    from ascend_session.config.file_report import resolved_entry

    entry = resolved_entry(report.config)
    keys = {each["key"] for each in entry}
    others = {k: v for k, v in report.config.values().items() if k not in keys}
    return {"entry": entry, "not_in_entry": others}
