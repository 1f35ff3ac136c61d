"""What the vendor's NPUEstimator does to its sessions: it makes their entry of its NPURunConfig.

Source: npu_estimator.py, ``__load_graph_optimizers`` and ``__load_job_info``; npu_common.py.
"""

import os
from typing import Any

import tensorflow.compat.v1 as tf
from npu_bridge.estimator.npu.npu_config import NPURunConfig


class NPUEstimator(tf.estimator.Estimator):  # type: ignore[misc,name-defined]
    """An estimator whose sessions have an entry, and which wants to be told the job."""

    def __init__(self, model_fn: Any, model_dir: Any = None, config: Any = None) -> None:
        if not isinstance(config, NPURunConfig):
            raise ValueError("`config` must be provided with type `NPUConfigs`")
        if not os.environ.get("JOB_ID"):
            raise ValueError("Load job info failed")
        if config.session_config is None:
            config = config.replace(session_config=tf.ConfigProto())
        entry = config.session_config.graph_options.rewrite_options.custom_optimizers.add()
        entry.name = "NpuOptimizer"
        entry.parameter_map["use_off_line"].b = True
        entry.parameter_map["graph_run_mode"].i = config.graph_run_mode
        entry.parameter_map["precision_mode"].s = config.precision_mode.encode()
        super().__init__(model_fn, model_dir or config.model_dir, config)
