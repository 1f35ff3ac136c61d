"""``npu_bridge.estimator.npu.npu_decorator`` of releases before 2022: Keras on all ranks alike.

Importing it has Keras give all ranks rank 0's variables when it initialises them, as the vendor's
does. Source: npu_decorator.py.
"""

import functools
from typing import Any, Callable

from ascend_session.compat.npu_bridge.estimator.npu.npu_callbacks import broadcast_global_variables
from ascend_session.compat.optimizers import rank_count
from ascend_session.compat.script_run import script_run
from ascend_session.compat.tensorflow_names import keras_backend
from ascend_session.compat.vendor_modules import mirror


def npu_keras_var_broadcast_decorator(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that initialises a session's variables and broadcasts them, once."""

    @functools.wraps(func)
    def wrapper(session: Any, *args: Any, **kwargs: Any) -> Any:
        result = func(session, *args, **kwargs)
        done = script_run().broadcast_graphs
        if rank_count() > 1 and session.graph not in done:
            with session.graph.as_default():
                session.run(broadcast_global_variables(0))
            done.add(session.graph)
        return result

    return wrapper


if hasattr(keras_backend, "_initialize_variables"):
    keras_backend._initialize_variables = npu_keras_var_broadcast_decorator(
        keras_backend._initialize_variables
    )

__getattr__, __all__ = mirror(globals())
