"""AoePlan: every condition of a tuning run, measured before it is started."""

import os
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Tuple

from ascend_session.aoe.conditions import (
    FAILS,
    KnownFacts,
    PlannedRun,
    TuningCondition,
    check_configuration,
)
from ascend_session.aoe.host_conditions import (
    Load,
    check_device,
    check_resources,
    check_software,
)
from ascend_session.aoe.machine import count_compilers, count_tuners, measure_machine
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.tuning import mode_number, mode_word
from ascend_session.findings import NOT_CHECKED, OK
from ascend_session.hardware.devices import survey
from ascend_session.hardware.nodes import host_root
from ascend_session.hardware.program import TIME_LIMIT

ADVICE = (
    "Train on the device first, to see that the script runs there with the accuracy you expect.",
    "Use as few steps as possible: every operator has to run once, often in one step.",
    "Where both can be tuned, tune subgraphs before operators.",
)
"""What the manual asks for and nobody can measure (manual of AOE, tuning workflow)."""

_ORDER = (FAILS, NOT_CHECKED, OK)


@dataclass(frozen=True)
class AoePlan:
    """What a tuning run needs and what there is; frozen.

    Example:
        >>> plan = AoePlan.measure(cfg, mode="operator")  # doctest: +SKIP
        >>> [condition.name for condition in plan.of("fails")]  # doctest: +SKIP
        ['CPUs']

    Attributes:
        mode: What is tuned: ``operator``, ``subgraph`` or ``gradient``.
        conditions: Each condition, in the order in which it was looked at.
        has_device: Whether this machine has an Ascend device.
    """

    mode: str
    conditions: Tuple[TuningCondition, ...]
    has_device: bool = True

    @classmethod
    def measure(
        cls,
        config: Optional[AscendConfig] = None,
        mode: Optional[str] = None,
        environ: Optional[Mapping[str, str]] = None,
        root: Optional[str] = None,
        timeout: float = TIME_LIMIT,
        **known: Any,
    ) -> "AoePlan":
        """Measure this machine, this environment and the configuration; starts no training.

        Runs ``npu-smi``, where there are devices, and ``python3 --version``.

        Args:
            config: What the training script opens its session with; None if that is not known.
            mode: ``"operator"``, ``"subgraph"``, ``"gradient"`` or the manual's number; None means
                what the configuration says, else ``AOE_MODE``, else operators.
            environ: The environment of the tuning run; None means this one.
            root: Root of the host; None means ``ASCEND_SESSION_HOST_ROOT``, else ``/``.
            timeout: Seconds that an answer of ``npu-smi`` may take.
            **known: What cannot be measured: the members of `KnownFacts`, as
                in ``training_memory=12 * 2**30``.

        Raises:
            ConfigError: If ``mode``, or ``AOE_MODE`` where that counts, is no mode of AOE, and for
                numbers that cannot be.
            TypeError: For a name that `KnownFacts` does not have.
        """
        facts = KnownFacts(**known)
        given = dict(os.environ if environ is None else environ)
        number = mode_number(mode or choose_mode(config, given))
        top = root or host_root(given)
        report = survey(given, top, timeout, addresses=False)
        load = Load(
            mode=number,
            processes=facts.processes,
            training_memory=facts.training_memory,
            tuners=count_tuners(facts.tuning_parallel_num, given, top),
            compilers=count_compilers(given),
            devices=max(1, len(report)),
        )
        conditions = (
            *check_resources(measure_machine(given), load),
            *check_configuration(PlannedRun(number, config, given, facts.static_operators)),
            *check_device(report, number, facts, given),
            *check_software(number, given, top),
        )
        return cls(mode_word(number), conditions, has_device=len(report) > 0)

    @property
    def ok(self) -> bool:
        """Whether nothing fails; what was not checked may still be wrong."""
        return not self.of(FAILS)

    def of(self, verdict: str) -> Tuple[TuningCondition, ...]:
        """Return the conditions of one verdict: ``ok``, ``fails`` or ``not checked``."""
        return tuple(condition for condition in self.conditions if condition.verdict == verdict)

    def as_dict(self) -> Dict[str, Any]:
        """Return the plan as plain values, which JSON can hold; sizes in bytes."""
        return {
            "ok": self.ok,
            "mode": self.mode,
            "aoe_mode": mode_number(self.mode),
            "counts": {verdict: len(self.of(verdict)) for verdict in _ORDER},
            "conditions": [condition.as_dict() for condition in self.conditions],
            "advice": list(ADVICE),
        }


def choose_mode(config: Optional[AscendConfig], environ: Mapping[str, str]) -> str:
    """Choose what is tuned if nobody asks: by the option, else by ``AOE_MODE``, else operators."""
    option = None if config is None else config.aoe_mode
    return option or environ.get("AOE_MODE") or "operator"
