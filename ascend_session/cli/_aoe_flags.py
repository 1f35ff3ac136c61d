"""The options that the commands about tuning have in common."""

from typing import Optional

import typer
from typing_extensions import Annotated

__all__ = [
    "DeviceCores",
    "DeviceMemory",
    "Mode",
    "OperatorCores",
    "Processes",
    "StaticOperators",
    "TrainingMemory",
    "TuningParallelNum",
    "parse_size",
]


def parse_size(text: str) -> int:
    """Bytes in a size as it is typed: ``12GiB``, ``12GB`` (a thousand million), ``4096``.

    Raises:
        typer.BadParameter: If it is no size.
    """
    from pydantic import ByteSize, TypeAdapter, ValidationError

    try:
        size = int(TypeAdapter(ByteSize).validate_python(text.strip()))
    except (ValidationError, OverflowError):
        size = 0
    if size < 1:
        raise typer.BadParameter(f"{text!r} is no size; write 12GiB, 12GB or a number of bytes.")
    return size


Mode = Annotated[
    Optional[str],
    typer.Option(
        metavar="WHAT",
        help="operator, subgraph or gradient; as the configuration or AOE_MODE says, or operator.",
    ),
]
Processes = Annotated[
    Optional[int],
    typer.Option(metavar="N", help="Processes of the training script; 1 if not given."),
]
TrainingMemory = Annotated[
    Optional[int],
    typer.Option(
        metavar="SIZE", parser=parse_size, help="Host memory the training needs, as in 12GiB."
    ),
]
TuningParallelNum = Annotated[
    Optional[int],
    typer.Option(metavar="N", help="AOE's TUNING_PARALLEL_NUM; as in aoe.ini if not given."),
]
DeviceCores = Annotated[Optional[int], typer.Option(metavar="N", help="AI cores of the device.")]
OperatorCores = Annotated[
    Optional[int],
    typer.Option(metavar="N", help="The most cores that an operator of the model uses."),
]
DeviceMemory = Annotated[
    Optional[int],
    typer.Option(
        metavar="SIZE", parser=parse_size, help="Device memory the training needs, as in 20GiB."
    ),
]
StaticOperators = Annotated[
    Optional[bool],
    typer.Option("--static-operators", help="All operators of the model have static shapes."),
]
