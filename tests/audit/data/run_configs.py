import tensorflow as tf
from npu_bridge.estimator.npu.npu_config import DumpConfig, NPURunConfig, ProfilingConfig
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig


def estimator(flags):
    dump_config = DumpConfig(enable_dump=True, dump_step="0|5", dump_mode="both", steps=3)  # expect: value-not-allowed unknown-argument option-conflict
    profiling = ProfilingConfig(True, '{"output":"prof","task_trace":"on","training_trace":"on"}')
    return NPURunConfig(
        model_dir="/home/somebody/model",  # expect: machine-path
        enable_auto_mix_precision=True,  # expect: unknown-argument
        precision_mode="allow_mix_precision",
        iterations_per_loop=100,  # expect: option-conflict
        mix_compile_mode=True,
        in_out_pair="[['a'],['b']]",  # expect: unknown-argument
        aoe_mode=2,  # expect: value-not-allowed
        hcom_parallel=1,
        save_checkpoints_steps=flags.steps,
        op_select_implmode=None,
        variable_memory_max_size=str(16 * 1024 * 1024 * 1024),  # expect: unread-option
        dump_config=dump_config,
        compress_weight_conf="weights.cfg",  # expect: option-conflict
        profiling_config=profiling,
    )


def two():
    session_config = tf.ConfigProto()
    op = session_config.graph_options.rewrite_options.custom_optimizers.add()  # expect: two-entries
    op.name = "NpuOptimizer"
    op.parameter_map["hcom_parallel"].b = False
    session_config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
    session_config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
    return NPURunConfig(session_config=session_config, iterations_per_loop=10)
