"""What only the user knows of a tuning run."""

from dataclasses import dataclass
from typing import Iterator, Optional

from ascend_session.errors import ConfigError, Problem

__all__ = ["MOST_PARALLEL", "Asked"]

MOST_PARALLEL = 64
"""The highest TUNING_PARALLEL_NUM (the vendor's manual of AOE, configuration file aoe.ini)."""

_COUNTS = ("processes", "tuning_parallel_num", "device_cores", "operator_cores")
_SIZES = ("training_memory", "device_memory")


@dataclass(frozen=True)
class Asked:
    """What cannot be measured before a run; None for what is not known.

    Attributes:
        processes: Processes of the training script, which are the P of the CPU formulas.
        training_memory: Host memory that the training needs, bytes.
        tuning_parallel_num: AOE's TUNING_PARALLEL_NUM, 1 to 64; None means that of aoe.ini.
        device_cores: AI cores of the device.
        operator_cores: The most cores that an operator of the model uses.
        device_memory: Memory of the device that the training needs, bytes.
        static_operators: Whether every operator of the model has a static shape.

    Raises:
        ConfigError: For numbers that cannot be.
    """

    processes: int = 1
    training_memory: Optional[int] = None
    tuning_parallel_num: Optional[int] = None
    device_cores: Optional[int] = None
    operator_cores: Optional[int] = None
    device_memory: Optional[int] = None
    static_operators: Optional[bool] = None

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise ConfigError.of(problems, "what was asked")

    def _problems(self) -> Iterator[Problem]:
        for name in (*_COUNTS, *_SIZES):
            value = getattr(self, name)
            unit = " of bytes" if name in _SIZES else ""
            if value is None and name != "processes":
                continue
            if type(value) is not int or value < 1:
                yield Problem(name, f"{name}={value!r} is no number{unit} of 1 or more.")
        parallel = self.tuning_parallel_num
        if type(parallel) is int and parallel > MOST_PARALLEL:
            message = f"tuning_parallel_num={parallel} is more than {MOST_PARALLEL}, AOE's limit."
            yield Problem("tuning_parallel_num", message)
        if self.static_operators not in (None, True, False):
            message = f"static_operators={self.static_operators!r} is neither True nor False."
            yield Problem("static_operators", message)
