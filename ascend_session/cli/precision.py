"""``ascend-session precision``: the implementation modes of operators, a file for each network."""

import os
from typing import Any, Dict, List, Optional, Tuple

import typer
from typing_extensions import Annotated

from ascend_session.cli._check_file import failed
from ascend_session.cli._groups import group, help_without_command
from ascend_session.cli._output import complain, show_json
from ascend_session.errors import AscendError, ConfigError

__all__ = ["app"]

_OPTION = "op_precision_mode"
# Seed 004
_ADVICE = (
    "The manual advises a file for each network instead (op_precision_mode): `ascend-session "
    "precision new` makes it."
)

# Hidden from the list of arguments, where typer 0.19 writes "\\[required]"; the usage names them.
_Name = Annotated[str, typer.Argument(hidden=True)]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
_Toolkit = Annotated[
    Optional[str],
    typer.Option(metavar="DIR", help="The toolkit to go by; that of this host if not given."),
]

app = group(help="Choose the implementation modes of operators, in a file for each network.")
app.callback()(help_without_command)


@app.command()
def new(
    name: _Name,
    source: Annotated[
        str,
        typer.Option("--from", metavar="LIST", help="One of the toolkit's lists, or any file."),
    ],
    toolkit: _Toolkit = None,
    force: Annotated[bool, typer.Option("--force", help="Replace NAME if it is there.")] = False,
    as_json: _Json = False,
) -> None:
    """Make a file NAME of the modes in a LIST, as high_performance_for_all.ini.

    The lists of the toolkit may change with its releases; the copy stays what it is.
    """
    from ascend_session.cli._precision_lists import find_lists, list_path
    from ascend_session.option_files import OpPrecision

    path = name if os.path.splitext(name)[1] else f"{name}.ini"
    try:
        origin = list_path(source, find_lists(toolkit))
        made, remarks = OpPrecision.read(origin), OpPrecision.check(origin)
        made.write(path, force=force)
    except AscendError as error:
        raise failed(error, path if as_json else None) from None
    count = len(made.by_type) + len(made.by_node)
    if as_json:
        found = [remark._asdict() for remark in remarks]
        show_json({"file": path, "ok": True, "from": origin, "operators": count, "left": found})
        return
    typer.echo(f"{path}: {count} operator{'' if count == 1 else 's'}, from {origin}")
    typer.echo(f'  AscendConfig(op_precision_mode="{path}") uses it.')
    for remark in remarks[:20]:
        complain(f"note: not copied: {origin}:{remark}")


@app.command("set")
def set_modes(
    name: _Name,
    modes: Annotated[List[str], typer.Argument(hidden=True, metavar="OP=MODE...")],
    node: Annotated[
        bool, typer.Option("--node", help="OP is the name of a node, and not a type.")
    ] = False,
    toolkit: _Toolkit = None,
    as_json: _Json = False,
) -> None:
    """Change the modes of single operators, as in OP=MODE; other lines stay as they are."""
    from ascend_session.cli._precision_lists import find_lists

    wanted, name = _wanted(modes, node), _there(name)
    try:
        lists = find_lists(toolkit)
        _change(name, wanted, node)
    except AscendError as error:
        raise failed(error, name if as_json else None) from None
    doubts = [] if node else _doubts(wanted, lists.implemented)
    if as_json:
        show_json({"file": name, "ok": True, "set": wanted, "node": node, "toolkit": doubts})
    else:
        for operator, mode in wanted.items():
            typer.echo(f"{name}: {operator}={mode}")
        for doubt in doubts:
            complain(f"note: {doubt}")


@app.command()
def check(name: _Name, toolkit: _Toolkit = None, as_json: _Json = False) -> None:
    """Check a file: what GE skips, and modes that the toolkit's operators do not have.

    Exit code 1 if anything is found.
    """
    from ascend_session.cli._file_report import lines, report
    from ascend_session.cli._precision_lists import find_lists
    from ascend_session.option_files import OpPrecision

    name = _there(name)
    try:
        found = report(_OPTION, name)
        lists = find_lists(toolkit)
        known = lists.implemented
        against = None if known is None else OpPrecision.read(name).against(known)
    except AscendError as error:
        raise failed(error, name if as_json else None) from None
    found = found._replace(toolkit=against, not_checked=lists.missing)
    if as_json:
        show_json({**found.to_dict(), **found.of_toolkit()})
    else:
        typer.echo("\n".join(lines(found)))
    raise typer.Exit(0 if found.ok else 1)


@app.command()
def explain(
    op: Annotated[str, typer.Option("--op", metavar="TYPE", help="The operator's type.")],
    name: Annotated[Optional[str], typer.Argument(hidden=True)] = None,
    node: Annotated[
        Optional[str], typer.Option(metavar="NODE", help="Its name in the graph.")
    ] = None,
    hf32: Annotated[
        Optional[str],
        typer.Option(metavar="BITS", help="With HF32 on, as 10: convolutions, or 01: matmuls."),
    ] = None,
    select: Annotated[
        Optional[str], typer.Option(metavar="MODE", help="With op_select_implmode=MODE.")
    ] = None,
    types: Annotated[
        Optional[str], typer.Option(metavar="LIST", help="With optypelist_for_implmode=LIST.")
    ] = None,
    toolkit: _Toolkit = None,
    as_json: _Json = False,
) -> None:
    """Say which mode an operator finally gets with the file NAME, and why.

    Without NAME it is what op_select_implmode does, which needs --select.
    """
    from ascend_session.cli._precision_explaining import explained

    if name is None and select is None:
        raise typer.BadParameter("name a file, or give --select.", param_hint="NAME")
    try:
        decision = explained(name and _there(name), op, node, hf32, (select, types), toolkit)
    except AscendError as error:
        raise failed(error, (name or "") if as_json else None) from None
    if as_json:
        show_json({"op": op, "node": node, **_as_dict(decision)})
    else:
        typer.echo(f"{node or op}: {decision.mode or 'its own default'}\n  {decision.why}")
        if name is None:
            typer.echo(f"  {_ADVICE}")


def _there(name: str) -> str:
    """The file that is meant: NAME, or NAME.ini as `new` makes it."""
    return name if os.path.exists(name) or not os.path.exists(f"{name}.ini") else f"{name}.ini"


def _as_dict(decision: Any) -> Dict[str, Any]:
    passed = [{"source": source, "mode": mode} for source, mode in decision.passed_over]
    return {"mode": decision.mode, "why": decision.why, "passed_over": passed}


def _wanted(modes: List[str], node: bool) -> Dict[str, str]:
    """``{operator: mode}`` of words as they were typed."""
    from ascend_session.option_files.op_precision import MODES, mode_hint

    found: Dict[str, str] = {}
    for word in modes:
        operator, equals, mode = word.partition("=")
        if not operator or not equals:
            raise typer.BadParameter(f"{word} is not of the form OP=MODE.", param_hint="OP=MODE")
        if mode not in MODES:
            message = f"{word}: GE knows no mode {mode!r}. {mode_hint(mode)}"
            raise typer.BadParameter(message, param_hint="OP=MODE")
        if "/" in operator and not node:
            message = f"{operator} looks like the name of a node: give --node."
            raise typer.BadParameter(message, param_hint="OP=MODE")
        found[operator] = mode
    return found


def _change(name: str, wanted: Dict[str, str], node: bool) -> None:
    from ascend_session.option_files import OpPrecision
    from ascend_session.option_files.op_precision import with_mode
    from ascend_session.option_files.source import (
        decoded,
        encoded,
        one_at_a_time,
        read_content,
        write_content,
    )

    with one_at_a_time(name):
        source = decoded(name, read_content(name, OpPrecision.KIND))
        if source.mark is not None:
            raise ConfigError(
                f"{name}: is {source.mark}, not UTF-8 text.",
                hint=f"ascend-session config check-file {_OPTION} {name} --fix",
            )
        text = source.text
        for operator, mode in wanted.items():
            text = with_mode(text, operator, mode, node=node)
        write_content(name, encoded(text), OpPrecision.KIND, force=True)


def _doubts(wanted: Dict[str, str], implemented: Optional[Dict[str, Tuple[str, ...]]]) -> List[str]:
    """Modes that the toolkit's operators do not have."""
    from ascend_session.option_files import OpPrecision

    return [] if implemented is None else list(OpPrecision(wanted).against(implemented))
