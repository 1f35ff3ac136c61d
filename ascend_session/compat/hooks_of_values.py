"""The hooks of npu_hook that hand on the values of tensors. Source: npu_hook.py."""

import os
from typing import Any, Dict, List, Optional

from ascend_session.compat.tensorflow_names import tf

__all__ = ["NPUOutputTensorHook", "TellMeStepOrLossHook"]

_Hook: Any = tf.train.SessionRunHook
_TensorHook: Any = tf.train.LoggingTensorHook

_NEVER = 1 << 31


class NPUOutputTensorHook(_TensorHook):  # type: ignore[misc]
    """Hands the values of tensors to a function, those of several runs at a time.

    Args:
        tensors: ``{tag: tensor or name}``, a list, or None.
        dependencies: What has to be done before the values are taken.
        output_fn: Is called with a list of dicts, one a run.
        output_every_n_steps: After so many runs, and at the end.
    """

    def __init__(
        self,
        tensors: Any,
        dependencies: Any = None,
        output_fn: Any = None,
        output_every_n_steps: int = 0,
    ) -> None:
        self._tensors: Optional[Any] = None
        self._output_fn = output_fn
        self._output_every_n_steps = output_every_n_steps
        self._output_list: List[Dict[str, Any]] = []
        self._iter_count = 0
        if tensors is None:
            return
        self._tensors = tensors
        if dependencies is not None:
            if not isinstance(dependencies, (tuple, list)):
                dependencies = [dependencies]
            with tf.control_dependencies(dependencies):
                self._tensors = {tag: tf.identity(one) for tag, one in tensors.items()}
        super().__init__(self._tensors, every_n_iter=_NEVER)

    def begin(self) -> None:
        """Finds the tensors."""
        if self._tensors is not None:
            super().begin()

    def before_run(self, run_context: Any) -> Any:
        """Asks for them."""
        return None if self._tensors is None else tf.train.SessionRunArgs(self._current_tensors)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Keeps their values, and hands them over when it is time to.

        Raises:
            ZeroDivisionError: If ``output_every_n_steps`` is 0, as with the vendor's.
        """
        if self._tensors is not None:
            self._output_list.append({tag: run_values.results[tag] for tag in self._tag_order})
        self._iter_count += 1
        if self._iter_count % self._output_every_n_steps == 0:
            self._call_output_fn()

    def end(self, session: Any) -> None:
        """Hands over what is left."""
        if self._output_list:
            self._call_output_fn()

    def _call_output_fn(self) -> None:
        self._output_fn(self._output_list)
        del self._output_list[:]


class TellMeStepOrLossHook(_Hook):  # type: ignore[misc]
    """Says in the environment how far training is; see `training.TellMeStepOrLossHook`.

    Raises:
        ValueError: If neither a step nor a loss is given.
    """

    def __init__(
        self, step: Any = None, total_step: Any = None, loss: Any = None, final_loss: Any = None
    ) -> None:
        if step is None and loss is None:
            raise ValueError("One of step or loss must be specified")
        self._asked = {"STEP_NOW": step, "LOSS_NOW": loss}
        for name, asked, value in (
            ("STEP_NOW", step, "0"),
            ("TOTAL_STEP", total_step, total_step),
            ("LOSS_NOW", loss, "0.0"),
            ("TARGET_LOSS", final_loss, final_loss),
        ):
            if asked is not None:
                os.environ[name] = str(value)

    def before_run(self, run_context: Any) -> Any:
        """Asks for the step and the loss."""
        asked = {name: one for name, one in self._asked.items() if one is not None}
        return tf.train.SessionRunArgs(asked)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Says what they were.

        Raises:
            ValueError: If none of them is a tensor.
        """
        found = {name: value for name, value in run_values.results.items() if value is not None}
        if not found:
            raise ValueError(f"{self._asked} has no valid tensor.")
        os.environ.update({name: str(value) for name, value in found.items()})
