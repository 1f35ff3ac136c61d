"""The options of the commands about tuning."""

from typing import List, Optional

import typer
from typing_extensions import Annotated

from ascend_session.cli._durations import parse_duration

__all__ = [
    "Arguments",
    "Backend",
    "Bank",
    "Config",
    "Device",
    "DeviceCores",
    "DeviceMemory",
    "LogDir",
    "Mode",
    "Module",
    "NoPreflight",
    "OperatorCores",
    "Processes",
    "Python",
    "Script",
    "StaticOperators",
    "TrainingMemory",
    "TuningParallelNum",
    "Wait",
    "WorkPath",
    "parse_size",
]

_Text = Optional[str]
_Number = Optional[int]


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
    _Text,
    typer.Option(
        metavar="WHAT",
        help="operator, subgraph or gradient; as the configuration or AOE_MODE says, or operator.",
    ),
]
Processes = Annotated[
    _Number,
    typer.Option(metavar="N", help="Processes of the training script; 1 if not given."),
]
TrainingMemory = Annotated[
    _Number,
    typer.Option(
        metavar="SIZE", parser=parse_size, help="Host memory the training needs, as in 12GiB."
    ),
]
TuningParallelNum = Annotated[
    _Number,
    typer.Option(metavar="N", help="AOE's TUNING_PARALLEL_NUM; as in aoe.ini if not given."),
]
DeviceCores = Annotated[_Number, typer.Option(metavar="N", help="AI cores of the device.")]
OperatorCores = Annotated[
    _Number,
    typer.Option(metavar="N", help="The most cores that an operator of the model uses."),
]
DeviceMemory = Annotated[
    _Number,
    typer.Option(
        metavar="SIZE", parser=parse_size, help="Device memory the training needs, as in 20GiB."
    ),
]
StaticOperators = Annotated[
    Optional[bool],
    typer.Option("--static-operators", help="All operators of the model have static shapes."),
]

# What follows is for a run only. Hidden from the list of arguments; the usage names them.
Script = Annotated[str, typer.Argument(metavar="SCRIPT", hidden=True)]
Arguments = Annotated[Optional[List[str]], typer.Argument(metavar="ARGS", hidden=True)]
Config = Annotated[
    _Text,
    typer.Option(metavar="FILE", help="What SCRIPT opens its session with, for the conditions."),
]
WorkPath = Annotated[
    _Text,
    typer.Option(metavar="FOLDER", help="Where result files go (ASCEND_WORK_PATH); it is made."),
]
Bank = Annotated[
    _Text,
    typer.Option(metavar="FOLDER", help="The tuned repository (TUNE_BANK_PATH); it is made."),
]
Device = Annotated[
    _Number,
    typer.Option(metavar="ID", help="Logical id; ASCEND_DEVICE_ID, or the first, if not given."),
]
Backend = Annotated[
    _Text, typer.Option(metavar="NAME", help="auto or npu; AOE tunes on a device only.")
]
Module = Annotated[bool, typer.Option("-m", "--module", help="SCRIPT is a Python module.")]
Python = Annotated[_Text, typer.Option(metavar="PROGRAM", help="The Python that runs SCRIPT.")]
LogDir = Annotated[
    _Text, typer.Option(metavar="FOLDER", help="Where logs go; ascend-logs if not given.")
]
Wait = Annotated[
    Optional[float],
    typer.Option(
        metavar="TIME",
        parser=parse_duration,
        help="Wait so long, as in 10m, until nobody holds the device.",
    ),
]
NoPreflight = Annotated[
    bool, typer.Option("--no-preflight", help="Start although conditions fail.")
]
