"""``ascend-session precision``: the implementation modes of operators, a file for each network.

The manual advises such a file (op_precision_mode) instead of op_select_implmode (manual of ATC,
--op_select_implmode).
"""

import os
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import click
from click.exceptions import Exit

from ascend_session.cli._output import (
    PLACED,
    complain,
    exit_on_error,
    finding_as_dict,
    show_finding,
    show_json,
)
from ascend_session.cli._parameters import (
    JSON,
    OPTIONS,
    CommandGroup,
    argument,
)
from ascend_session.cli.config import report_option_file, show_file_report
from ascend_session.errors import ConfigError
from ascend_session.findings import INFO, WARNING
from ascend_session.text import format_count

_OPTION = "op_precision_mode"
_MOST_REMARKS = 20
_NO_TOOLKIT = "This machine has no toolkit with lists of implementation modes."

_NAME = argument("name", "NAME")
_TOOLKIT = OPTIONS.value("--toolkit", "FOLDER", "Toolkit to use.  [default: that of this host]")

_HELP = """Choose how operators are implemented, in one file per network.

Examples:
    ascend-session precision new net --from high_performance_for_all
    ascend-session precision check net.ini
"""

precision = CommandGroup(name="precision", help=_HELP)


@precision.command("new")
@_NAME
@OPTIONS.value(
    "--from source", "LIST", "Name of a list in the toolkit, or any file.", required=True
)
@_TOOLKIT
@OPTIONS.flag("--force", "Replace NAME if it exists.")
@JSON
def new(name: str, source: str, toolkit: Optional[str], force: bool, as_json: bool) -> None:
    """Copy a list of modes to a file of your own.

    A new release may change the lists of the toolkit; the file NAME stays as it is.

    Examples:
        ascend-session precision new net --from high_performance_for_all
        ascend-session precision new net --from other.ini --force
    """
    from ascend_session.option_files import OpPrecision

    path = name if os.path.splitext(name)[1] else f"{name}.ini"
    with exit_on_error(as_json=as_json, file=path):
        origin = _find_list(source, _find_lists(toolkit))
        modes, remarks = OpPrecision.read(origin), OpPrecision.check(origin)
        if modes == OpPrecision() and remarks:
            message = f"{origin} has no line that GE can use, so nothing was written."
            raise ConfigError(message, hint=f"Line {remarks[0]}")
        modes.write(path, force=force)
    count = len(modes.by_type) + len(modes.by_node)
    if as_json:
        findings = [finding_as_dict(remark, PLACED) for remark in remarks]
        show_json({"file": path, "ok": True, "from": origin, "operators": count, "left": findings})
        return
    click.echo(f"{path}: {format_count(count, 'operator')}, from {origin}")
    click.echo(f'  AscendConfig(op_precision_mode="{path}") uses it.')
    for remark in remarks[:_MOST_REMARKS]:
        show_finding(remark, origin, indent="", err=True)
    if remarks:
        complain(f"{format_count(len(remarks), 'line')} of {origin} not copied.", severity=WARNING)


@precision.command("set")
@_NAME
@argument("modes", "OP=MODE...")
@OPTIONS.flag("--node", "OP is the name of a node, not a type.")
@_TOOLKIT
@JSON
def set_modes(
    name: str, modes: Tuple[str, ...], node: bool, toolkit: Optional[str], as_json: bool
) -> None:
    """Change the modes of single operators.

    Other lines of the file stay as they are.

    Examples:
        ascend-session precision set net.ini MatMulV2=high_precision
        ascend-session precision set net.ini --node block1/conv=high_performance
    """
    from ascend_session.option_files import OpPrecision

    by_operator, name = _parse_modes(modes, node), _find_file(name)
    with exit_on_error(as_json=as_json, file=name):
        implemented = _find_lists(toolkit).implemented
        _change_modes(name, by_operator, node)
    doubts: List[str] = []
    if implemented is not None and not node:
        doubts += OpPrecision(by_operator).against(implemented)
    if as_json:
        show_json({"file": name, "ok": True, "set": by_operator, "node": node, "toolkit": doubts})
        return
    for operator, mode in by_operator.items():
        click.echo(f"{name}: {operator}={mode}")
    for doubt in doubts:
        complain(doubt, severity=INFO)


@precision.command("check")
@_NAME
@_TOOLKIT
@JSON
def check(name: str, toolkit: Optional[str], as_json: bool) -> None:
    """Find lines that GE skips, and modes that the toolkit does not have.

    Exit code: 1 if the file has errors or warnings, otherwise 0.

    Examples:
        ascend-session precision check net.ini
        ascend-session precision check --toolkit /usr/local/Ascend/latest net.ini
    """
    from ascend_session.option_files import OpPrecision

    name = _find_file(name)
    with exit_on_error(as_json=as_json, file=name):
        report = report_option_file(_OPTION, name)
        lists = _find_lists(toolkit)
        faults = None
        if lists.implemented is not None:
            faults = OpPrecision.read(name).against(lists.implemented)
    report = report._replace(toolkit=faults, not_checked=lists.missing)
    if as_json:
        show_json({**report.as_dict(), **report.toolkit_as_dict()})
    else:
        show_file_report(report)
    raise Exit(0 if report.ok else 1)


def _find_file(name: str) -> str:
    """Return the file that is meant: NAME, or NAME.ini as `new` makes it."""
    return name if os.path.exists(name) or not os.path.exists(f"{name}.ini") else f"{name}.ini"


def _parse_modes(words: Sequence[str], node: bool) -> Dict[str, str]:
    """Return ``{operator: mode}`` of words as they were typed."""
    from ascend_session.option_files.op_precision import MODES, mode_hint

    modes: Dict[str, str] = {}
    for word in words:
        operator, equals, mode = word.partition("=")
        problem = ""
        if not operator or not equals:
            problem = f"{word} is not of the form OP=MODE."
        elif mode not in MODES:
            problem = f"{word}: GE has no mode {mode!r}. {mode_hint(mode)}"
        elif "/" in operator and not node:
            problem = f"{operator} is the name of a node; add --node."
        if problem:
            raise click.BadParameter(problem, param_hint="OP=MODE")
        modes[operator] = mode
    return modes


def _change_modes(name: str, modes: Dict[str, str], node: bool) -> None:
    """Change modes in a file; other processes may do so at the same time."""
    from ascend_session.files import load_file, lock_folder_of, write_file
    from ascend_session.option_files import OpPrecision
    from ascend_session.option_files.op_precision import replace_mode
    from ascend_session.option_files.source_file import SourceFile, encode

    with lock_folder_of(name):
        source = SourceFile(name, load_file(name, OpPrecision.WHAT))
        if source.encoding is not None:
            raise ConfigError(
                f"{name} is not UTF-8 text, but {source.encoding}.",
                hint="Save it as UTF-8 without a byte order mark.",
            )
        text = source.text
        for operator, mode in modes.items():
            text = replace_mode(text, operator, mode, node=node)
        write_file(name, encode(text), force=True)


class _ModeLists(NamedTuple):
    folder: Optional[str]  # None if there is no toolkit
    # ``{operator type: modes}`` of all_ops_impl_mode.ini; None if that is not there.
    implemented: Optional[Dict[str, Tuple[str, ...]]]
    missing: Optional[str] = None  # why it is not, in a sentence


def _find_lists(toolkit: Optional[str]) -> _ModeLists:
    """Look into ``toolkit``, or where the host has one."""
    from ascend_session.hardware.installation import ALL_MODES, find_impl_mode_folder
    from ascend_session.hardware.nodes import host_root
    from ascend_session.option_files.op_precision import read_implemented_modes

    folder = find_impl_mode_folder(os.environ, host_root(os.environ), toolkit)
    if folder is None and toolkit is not None:
        raise click.BadParameter(f"{toolkit} has no lists of modes.", param_hint="--toolkit")
    if folder is None:
        return _ModeLists(None, None, _NO_TOOLKIT)
    path = os.path.join(folder, ALL_MODES)
    if not os.path.exists(path):
        return _ModeLists(folder, None, f"{folder} has no {ALL_MODES}.")
    return _ModeLists(folder, read_implemented_modes(path))


def _find_list(name: str, lists: _ModeLists) -> str:
    """Return the path of a list that is named as one of the toolkit's, or by its own path."""
    if os.path.dirname(name) or os.path.exists(name):
        return name
    if lists.folder is None:
        hint = "Give the path of a file, or --toolkit, or source the toolkit's set_env.sh."
        raise ConfigError(f"There is no file {name}. {_NO_TOOLKIT}", hint=hint)
    names = sorted(file for file in os.listdir(lists.folder) if file.endswith(".ini"))
    for file in (name, f"{name}.ini"):
        if file in names:
            return os.path.join(lists.folder, file)
    raise ConfigError(f"{lists.folder} has no {name}.", hint=f"It has {', '.join(names)}.")
