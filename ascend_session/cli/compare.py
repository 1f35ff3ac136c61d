"""``ascend-session compare``: the first step at which two recorded trainings differ."""

from typing import Iterator, Optional

import click
from click.exceptions import Exit

from ascend_session.cli._output import exit_on_error, show_json
from ascend_session.cli._parameters import JSON, OPTIONS, argument, command
from ascend_session.cli._recordings import Comparison, compare_recordings, read_recording
from ascend_session.errors import ConfigError

_MOST = 10  # differences of one step that are listed


@command("compare")
@argument("a", "A")
@argument("b", "B")
@OPTIONS.value("--rtol", "X", "Largest relative difference to ignore.  [default: 1e-5]", type=float)
@JSON
def compare(a: str, b: str, rtol: Optional[float], as_json: bool) -> None:
    """Find the first step at which two recorded trainings differ.

    A and B are files of `run --record` or `launch --record`; the files of other ranks beside them
    are read as well. Trainings with different numbers of ranks are compared by the means over
    their ranks.

    Exit code: 0 if all steps agree, 1 if a value or the number of steps differs, 2 if a file
    cannot be read or they have nothing in common.

    Examples:
        ascend-session compare one.jsonl eight.jsonl
        ascend-session compare --rtol 1e-3 stub.jsonl device.jsonl
    """
    rtol = 1e-5 if rtol is None else rtol
    if not 0 <= rtol < 1:
        raise click.BadParameter("must be 0 or more, and below 1.", param_hint="--rtol")
    with exit_on_error(2, as_json):
        comparison = compare_recordings(read_recording(a), read_recording(b), rtol)
        if not comparison.compared:
            hint = "Have both scripts fetch the loss by the same name in the run that trains."
            raise ConfigError("A and B have no value in common at the same step.", hint=hint)
    if as_json:
        show_json(comparison.as_dict())
    else:
        click.echo("\n".join(_write(comparison)))
    raise Exit(0 if comparison.is_equal else 1)


def _write(comparison: Comparison) -> Iterator[str]:
    for each in comparison.first[:_MOST]:
        yield str(each)
    if len(comparison.first) > _MOST:
        yield f"{len(comparison.first) - _MOST} more values differ at this step."
    if not comparison.first:
        count = comparison.compared
        yield f"All {comparison.steps} recorded steps in common agree, in {count} values."
    if comparison.lengths[0] != comparison.lengths[1]:
        yield f"A has {comparison.lengths[0]} steps and B has {comparison.lengths[1]}."
    for name, (in_a, in_b) in comparison.setup.items():
        yield f"The {name} is {_show(in_a)} in A and {_show(in_b)} in B."
    yield from comparison.notes


def _show(value: object) -> str:
    return "not set" if value is None else str(value)
