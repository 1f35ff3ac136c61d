"""A hook that passes the step or loss to accelerate_train_mode while training runs.

Source: npu_hook.py, ``TellMeStepOrLossHook``; npu_attrs.cc and geop_npu.cc, which read the
variables before each run (guides/facts/precision.md#accelerated-training).
"""

import math
import os
from typing import Any, Dict, Optional

from ascend_session.backends._tensorflow import tf1
from ascend_session.errors import ConfigError
from ascend_session.training.progress import note_step_of_hook
from ascend_session.training.step_hook import StepHook

# The smallest float32 above 0; to geop_npu.cc a loss of 0 is "not known yet".
_ALMOST_ZERO = "1.2e-38"
_LARGEST_STEP = 2**32 - 1


class TellMeStepOrLossHook(StepHook):
    """Tells the device the current step or loss after each run.

    Its constructor sets the environment variables ``STEP_NOW`` and ``TOTAL_STEP``, or ``LOSS_NOW``
    and ``TARGET_LOSS``, until the process ends: the device reads them whenever it compiles a graph.
    So create it before the session. The vendor's hook accepts ``step`` without ``total_step``, but
    then the first run fails.

    Args:
        step: The current step: a tensor, a variable, or its name (``global_step:0``).
        total_step: Number of steps of the whole training; required with ``step``.
        loss: The current loss, given like ``step``.
        final_loss: The loss at which training ends; required with ``loss``.

    Raises:
        ConfigError: If a pair is incomplete or both are missing, or a number is out of range.
    """

    def __init__(
        self,
        step: Any = None,
        total_step: Optional[int] = None,
        loss: Any = None,
        final_loss: Optional[float] = None,
    ) -> None:
        if step is None and loss is None:
            raise ConfigError("One of step and loss must be given, with total_step or final_loss.")
        _check_pair("step", step, "total_step", total_step)
        _check_pair("loss", loss, "final_loss", final_loss)
        self._sources: Dict[str, Any] = {}
        self._tensors: Dict[str, Any] = {}
        self._total_step = total_step
        variables: Dict[str, str] = {}
        if step is not None:
            self._sources["STEP_NOW"] = step
            variables.update(STEP_NOW="0", TOTAL_STEP=str(_check_steps(total_step)))
        if loss is not None:
            self._sources["LOSS_NOW"] = loss
            variables.update(LOSS_NOW="0.0", TARGET_LOSS=repr(_check_loss(final_loss)))
        os.environ.update(variables)

    def begin(self) -> None:
        """Find the tensors, before the graph is finalized.

        Raises:
            ConfigError: If there is no such tensor, or it is not a single number.
        """
        super().begin()
        self._tensors = {name: _find_tensor(source) for name, source in self._sources.items()}

    def before_run(self, run_context: Any) -> Any:
        """Add the tensors to the fetches of the run."""
        request = super().before_run(run_context) if "STEP_NOW" not in self._tensors else None
        fetches = {} if request is None else {"reported": request.fetches}
        return tf1().train.SessionRunArgs({**fetches, **self._tensors})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Set the environment variables to the values of this run."""
        for name, value in run_values.results.items():
            if name == "STEP_NOW":
                os.environ[name] = str(int(value))
                note_step_of_hook(value, self._total_step)
            elif name == "reported":
                note_step_of_hook(value)
            else:
                os.environ[name] = repr(float(value)) if float(value) else _ALMOST_ZERO


def _check_pair(name: str, value: Any, goal_name: str, goal: Any) -> None:
    if (value is None) != (goal is None):
        given, missing = (name, goal_name) if goal is None else (goal_name, name)
        raise ConfigError(
            f"{given} was given without {missing}: the device needs both, and would fail in the "
            "first run.",
            hint=f"TellMeStepOrLossHook({name}=..., {goal_name}=...)",
        )


def _check_steps(total: Any) -> int:
    is_whole = not isinstance(total, bool) and hasattr(total, "__index__")
    if not is_whole or not 0 < int(total) <= _LARGEST_STEP:
        raise ConfigError(
            f"total_step={total!r} must be a whole number of steps, from 1 to {_LARGEST_STEP}."
        )
    return int(total)


def _check_loss(loss: Any) -> float:
    try:
        value = float(loss)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value) or isinstance(loss, bool):
        raise ConfigError(f"final_loss={loss!r} must be a number.")
    return value


def _find_tensor(source: Any) -> Any:
    """Return a scalar tensor, given as a tensor, variable or name."""
    tf = tf1()
    graph = tf.get_default_graph()
    variables = {
        variable.name: variable for variable in tf.global_variables() + tf.local_variables()
    }
    try:
        if isinstance(source, str) and source in variables:
            # The tensor of that name may be the variable's handle.
            tensor = variables[source].read_value()
        else:
            tensor = tf.convert_to_tensor(graph.as_graph_element(source, allow_operation=False))
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{source!r} is not a tensor of the graph: {error}",
            hint="A tensor's name ends in its number, as in global_step:0.",
        ) from error
    dtype = tensor.dtype.base_dtype
    if not (dtype.is_integer or dtype.is_floating) or tensor.shape.rank not in (0, None):
        raise ConfigError(
            f"{source!r} must be one number, but it is of dtype {dtype.name} and shape "
            f"{tensor.shape}: the device could not read it, and would stay at low precision."
        )
    return tensor
