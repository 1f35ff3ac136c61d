"""``npu_bridge.estimator.npu.keras_to_npu``: a Keras model as an NPUEstimator.

Source: keras_to_npu.py.
"""

from typing import Any

from ascend_session.compat.npu_bridge.estimator.npu.npu_estimator import NPUEstimator
from ascend_session.compat.tensorflow_names import RunConfig, keras_estimator
from ascend_session.compat.vendor_modules import mirror


def model_to_npu_estimator(
    keras_model: Any = None,
    keras_model_path: Any = None,
    custom_objects: Any = None,
    model_dir: Any = None,
    checkpoint_format: str = "saver",
    config: Any = None,
    job_start_file: str = "",
) -> Any:
    """An NPUEstimator that trains, evaluates and predicts with a compiled Keras model.

    Args:
        keras_model: The model.
        keras_model_path: A saved one instead.
        custom_objects: Classes that the saved one needs.
        model_dir: Where checkpoints are.
        checkpoint_format: ``saver`` or ``checkpoint``.
        config: An NPURunConfig.
        job_start_file: As of NPUEstimator.

    Raises:
        UnsupportedError: Without ``tf.estimator``.
    """
    estimator = keras_estimator()(
        keras_model=keras_model,
        keras_model_path=keras_model_path,
        custom_objects=custom_objects,
        model_dir=model_dir,
        config=RunConfig(model_dir=model_dir),
        checkpoint_format=checkpoint_format,
    )
    return NPUEstimator(
        model_fn=estimator._model_fn,
        model_dir=model_dir,
        config=config,
        job_start_file=job_start_file,
        warm_start_from=estimator._warm_start_settings,
    )


__getattr__, __all__ = mirror(
    globals(),
    "model_to_estimator run_config NPUEstimator NPUEstimatorSpec NPURunConfig",
)
