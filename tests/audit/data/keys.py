import os

import tensorflow as tf
from npu_bridge.npu_init import *

MODE = "allow_mix_precison"
DIR = "/home/somebody"

config = tf.ConfigProto(allow_soft_placement=True)
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
custom_op.parameter_map["use_off_line"].b = True
custom_op.parameter_map["precison_mode_v2"].s = tf.compat.as_bytes("origin")  # expect: unknown-key
custom_op.parameter_map["fp_point"].s = tf.compat.as_bytes("Mul")  # expect: unknown-key
custom_op.parameter_map["iterations_per_loop"].s = tf.compat.as_bytes("1")  # expect: wrong-field
custom_op.parameter_map["hcom_parallel"].i = 1  # expect: wrong-field
custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes(MODE)  # expect: value-not-allowed
custom_op.parameter_map["op_select_implmode"].s = "high_precision"  # expect: field-type deprecated-option
custom_op.parameter_map["graph_run_mode"].i = True
custom_op.parameter_map["deterministic"].i = 1
custom_op.parameter_map["enable_small_channel"].i = 5 - 3  # expect: value-not-allowed?
custom_op.parameter_map["jit_compile"].s = b"auto"
custom_op.parameter_map["debug_dir"].s = tf.compat.as_bytes(os.path.join(DIR, "debug"))  # expect: machine-path option-without-effect
custom_op.parameter_map["fusion_switch_file"].s = tf.compat.as_bytes(os.path.join(DIR, "switch.cfg"))  # expect: machine-path
custom_op.parameter_map["profiling_mode"].b = True
custom_op.parameter_map["profiling_options"].s = b'{"output": "/home/somebody", "training_trace": "on"}'  # expect: machine-path
custom_op.parameter_map["work_path"].s = tf.compat.as_bytes(os.getenv("WORK"))  # expect: variable-without-default
custom_op.parameter_map["soc_config"].s = tf.compat.as_bytes(os.getenv("SOC", "Ascend910"))
custom_op.parameter_map["oo_level"].s = tf.compat.as_bytes("O1" if os.getenv("FAST") else "O3")
custom_op.parameter_map["aoe_mode"].s = tf.compat.as_bytes("3" if os.getenv("FAST") else "2")  # expect: value-not-allowed?
custom_op.parameter_map["hccl_timeout"].i = unknown_function()
custom_op.parameter_map["enable_reduce_precision"].b = False  # expect: unread-option
custom_op.parameter_map["task_index"].i = 1  # ascend: ignore
custom_op.parameter_map["no_such_key"].i = 1  # ascend: ignore[unknown-key]
custom_op.parameter_map["nor_this"].i = 1  # ascend: ignore[wrong-field]  # expect: unknown-key

with tf.Session(config=config) as sess:
    pass
