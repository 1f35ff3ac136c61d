"""Optimizers that average gradients over all ranks of the job.

Source: npu_optimizer.py (``NPUDistributedOptimizer``, ``NPUOptimizer``,
``KerasDistributeOptimizer``, ``npu_distributed_optimizer_wrapper``) and
npu_loss_scale_optimizer.py (``NPULossScaleOptimizer``).
"""

from typing import Any, List, Optional, Sequence

from ascend_session.backends._tensorflow import tf1
from ascend_session.errors import UnsupportedError, warn
from ascend_session.session.conditions import TAILING, check_tailing
from ascend_session.session.graphs import job_size
from ascend_session.session.system import current_system
from ascend_session.training.gradients import (
    Overflow,
    average,
    describe_local_gradients,
    distributed_gradients,
    is_slices,
)
from ascend_session.training.loss_scale import (
    ExponentialUpdateLossScaleManager,
    apply_if_finite,
    checks_overflow,
    scale_loss,
)

_TrainOptimizer: Any = tf1().train.Optimizer


def DistributedOptimizer(  # noqa: N802  (it stands for a class, as the vendor's do)
    optimizer: Any,
    loss_scale_manager: Optional[Any] = None,
    is_tailing_optimization: bool = False,
    name: Optional[str] = None,
    is_weight_update_sharding: bool = False,
) -> Any:
    """Return an optimizer that averages gradients over all ranks before it applies them.

    It replaces the vendor's NPUDistributedOptimizer, NPUOptimizer, NPULossScaleOptimizer and
    KerasDistributeOptimizer. In a job of one rank no collective is added to the graph.

    Args:
        optimizer: A ``tf.train.Optimizer`` (``tf.compat.v1``), which is wrapped; or a Keras
            optimizer with a graph mode (``get_gradients``), which is copied and shares its state
            with the copy. Keras 3 and the new optimizers of 2.11 and later have no graph mode.
        loss_scale_manager: A `LossScaleManager`, which scales the loss up and the gradients back;
            after an overflow on any rank no rank updates anything. Not for Keras optimizers.
        is_tailing_optimization: Whether the last exchange of gradients may overlap with other work
            of the device. It must be the same as in the AscendConfig.
        name: The optimizer's name, and prefix of the names of its operators.
        is_weight_update_sharding: Must be False; see UnsupportedError.

    Raises:
        TypeError: If it is no optimizer, or one that is already distributed.
        UnsupportedError: For a Keras optimizer without a graph mode, for loss scaling with Keras,
            in a job with parameter servers, and for weight update sharding: the vendor's code
            takes DEVICE_ID for the rank, and works with reference variables only.
        LifecycleError: If the open system has another ``is_tailing_optimization``; a system that
            opens later raises it then.
        JobError: If the number of ranks is unknown.
    """
    if is_weight_update_sharding:
        raise UnsupportedError(
            "Weight update sharding is not supported: the vendor's (npu_optimizer.py) takes "
            "DEVICE_ID for the rank, so no weight would be updated on a second server.",
            hint="Leave is_weight_update_sharding out.",
        )
    job_size("DistributedOptimizer")
    if isinstance(optimizer, _DistributedTrain):
        raise TypeError(f"{optimizer.get_name()!r} is already distributed.")
    if isinstance(optimizer, _TrainOptimizer):
        distributed: Any = _DistributedTrain(
            optimizer, loss_scale_manager, is_tailing_optimization, name
        )
    else:
        _check_keras(optimizer, loss_scale_manager is not None or is_tailing_optimization)
        distributed = _distribute_keras(optimizer, name)
    system = current_system()
    if system is not None:
        check_tailing(is_tailing_optimization, system.parameters, "the open system's configuration")
    graph, noted = tf1().get_default_graph(), int(is_tailing_optimization)
    if noted not in graph.get_collection(TAILING):
        graph.add_to_collection(TAILING, noted)
    return distributed


class WrappingOptimizer(_TrainOptimizer):  # type: ignore[misc]
    """A wrapper around an optimizer that scales the loss and skips steps with an overflow.

    The wrapped optimizer computes and applies gradients, and has the slots and variables.
    Subclasses average gradients and overflows over ranks.

    Args:
        optimizer: The wrapped optimizer, a ``tf.train.Optimizer``.
        manager: A `LossScaleManager`, or None.
        name: The optimizer's name.
    """

    def __init__(self, optimizer: Any, manager: Optional[Any], name: str) -> None:
        super().__init__(use_locking=False, name=name)
        self._opt = optimizer
        self._manager = manager
        self._overflow = Overflow(self.get_name())

    def compute_gradients(self, loss: Any, *args: Any, **kwargs: Any) -> List[Any]:
        """Return the averaged gradients and their variables; see ``tf.train.Optimizer``."""
        if self._manager is None:
            return self._average(self._opt.compute_gradients(loss, *args, **kwargs))
        scale = self._manager.get_loss_scale()
        scaled = scale_loss(loss, scale)
        pairs = self._average(self._opt.compute_gradients(scaled, *args, **kwargs))
        # Of the tensor that scaled the loss, because this step may change the variable.
        factor = 1.0 / scale
        return [(self._multiply(gradient, factor), variable) for gradient, variable in pairs]

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: Optional[str] = None
    ) -> Any:
        """Apply gradients with the wrapped optimizer, unless a rank had an overflow.

        Warns:
            AscendConfigWarning: In a DistributedOptimizer, of gradients that were visibly never
                averaged.
        """
        pairs = list(grads_and_vars)
        self._check_applied(pairs)

        def apply() -> Any:
            return self._opt.apply_gradients(pairs, global_step, name)

        if self._manager is None:
            return apply()
        finite = self._is_finite([gradient for gradient, _ in pairs])
        if finite is None:
            return tf1().group(apply(), self._manager.update_loss_scale(tf1().constant(True)))
        return apply_if_finite(finite, apply, self._manager)

    def _check_applied(self, pairs: Sequence[Any]) -> None:
        """Look at gradients and their variables before they are applied."""

    def _average(self, pairs: Sequence[Any]) -> List[Any]:
        """Average the gradients of pairs of a gradient and its variable."""
        return list(pairs)

    def _multiply(self, gradient: Any, factor: Any) -> Any:
        """Multiply a gradient, if there is one, by a float32 scalar."""
        tf = tf1()
        if gradient is None:
            return None
        if is_slices(gradient):  # the vendor's makes it dense
            values = gradient.values * tf.cast(factor, gradient.values.dtype)
            return tf.IndexedSlices(values, gradient.indices, dense_shape=gradient.dense_shape)
        return gradient * tf.cast(factor, gradient.dtype.base_dtype)

    def _is_finite(self, gradients: Sequence[Any]) -> Any:
        """Make a bool tensor, True if nothing has overflown; None if the manager wants no check."""
        if not checks_overflow(self._manager):
            return None
        return self._overflow.none_anywhere(gradients, self._rank_count())

    def _rank_count(self) -> int:
        """Give the number of ranks whose overflows count."""
        return 1

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """Return the wrapped optimizer's slot."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """Return the names of the wrapped optimizer's slots."""
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self, *args: Any, **kwargs: Any) -> Any:
        """Return the wrapped optimizer's variables."""
        return self._opt.variables(*args, **kwargs)


class _DistributedTrain(WrappingOptimizer):
    """The wrapper of a ``tf.train.Optimizer`` in the job that the system knows.

    Args:
        optimizer: As of the base.
        manager: As of the base.
        is_tailing: Whether the last exchange waits for the overflow's, as the vendor's does.
        name: The optimizer's name.
    """

    def __init__(
        self, optimizer: Any, manager: Optional[Any], is_tailing: bool, name: Optional[str]
    ) -> None:
        super().__init__(optimizer, manager, name or f"Distributed{type(optimizer).__name__}")
        self._looks_early = is_tailing and manager is not None and checks_overflow(manager)

    def _check_applied(self, pairs: Sequence[Any]) -> None:
        _warn_of_local(pairs)

    def _average(self, pairs: Sequence[Any]) -> List[Any]:
        gradients = [gradient for gradient, _ in pairs]
        size = self._rank_count()
        waits: List[Any] = []
        if self._looks_early and size > 1:
            waits = self._overflow.look_early(gradients, size)
        variables = [variable for _, variable in pairs]
        means = average(gradients, self.get_name(), waits, variables)
        return list(zip(means, variables))

    def _rank_count(self) -> int:
        return job_size("DistributedOptimizer")

    def variables(self, *args: Any, **kwargs: Any) -> Any:
        """Return the variables of the wrapped optimizer and of the loss scale, for Keras.

        The vendor's optimizer leaves out those of the loss scale, which Keras then does not
        initialise.
        """
        variables = list(super().variables(*args, **kwargs))
        if isinstance(self._manager, ExponentialUpdateLossScaleManager):
            variables += self._manager.variables()
        return variables


class _DistributedKeras:
    """A base class to put before the class of a Keras optimizer, which averages its gradients.

    The copy has the original's attributes and name, so that callbacks find the learning rate, and a
    saved model can be loaded without this package.
    """

    _scope: str

    def get_gradients(self, loss: Any, params: Sequence[Any]) -> List[Any]:
        """Return the averaged gradients of ``loss``; Keras calls it to build the training graph."""
        gradients = super().get_gradients(loss, params)  # type: ignore[misc]
        return average(gradients, self._scope, variables=params)

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply gradients; warn of those that were visibly never averaged."""
        pairs = list(grads_and_vars)
        _warn_of_local(pairs)
        return super().apply_gradients(pairs, *args, **kwargs)  # type: ignore[misc]

    def _compute_gradients(self, *args: Any, **kwargs: Any) -> List[Any]:
        """Return pairs of an averaged gradient and its variable; ``minimize`` calls it."""
        pairs = super()._compute_gradients(*args, **kwargs)  # type: ignore[misc]
        return distributed_gradients(pairs, name=self._scope)


def _warn_of_local(pairs: Sequence[Any]) -> None:
    """Warn of gradients that are a rank's own."""
    sentence = describe_local_gradients(
        pairs,
        job_size("DistributedOptimizer"),
        "DistributedOptimizer.apply_gradients",
        "training.distributed_gradients",
    )
    if sentence:
        warn(sentence)


def _check_keras(optimizer: Any, has_train_options: bool) -> None:
    """Refuse anything but a Keras optimizer with graph mode and without further options."""
    kind = f"{type(optimizer).__module__}.{type(optimizer).__name__}"
    is_in_graphs = hasattr(optimizer, "get_gradients") and hasattr(optimizer, "get_updates")
    if not is_in_graphs and "keras" in kind:
        raise UnsupportedError(
            f"{kind} has no graph mode: Keras calls it eagerly, in functions of its own.",
            hint="Use an optimizer of tf.compat.v1.train, or of tf.keras.optimizers.legacy "
            "where this TensorFlow has it.",
        )
    if not is_in_graphs:
        raise TypeError(f"optimizer must be a tf.train.Optimizer or a Keras optimizer, not {kind}.")
    if has_train_options:
        raise UnsupportedError(
            f"Loss scaling and is_tailing_optimization need a tf.train.Optimizer; {kind} is a "
            "Keras optimizer.",
            hint="Leave them out, or use an optimizer of tf.train (tf.compat.v1.train).",
        )


def _distribute_keras(optimizer: Any, name: Optional[str]) -> Any:
    """Return a copy of a Keras optimizer that averages gradients, with the same state."""
    if isinstance(optimizer, _DistributedKeras):
        raise TypeError(f"This {type(optimizer).__name__} is already distributed.")
    base = type(optimizer)
    kind = type(base.__name__, (_DistributedKeras, base), {"__doc__": base.__doc__})
    distributed: Any = object.__new__(kind)
    vars(distributed).update(vars(optimizer), _scope=name or f"Distributed{base.__name__}")
    return distributed
