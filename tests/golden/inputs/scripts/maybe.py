import npu_bridge


def build(config, fast):
    op = config.graph_options.rewrite_options.custom_optimizers.add()
    op.name = "NpuOptimizer"
    if fast:
        op.parameter_map["precision_mode"].s = b"force_fp17"
