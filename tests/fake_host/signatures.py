"""The vendor's modules, as data: which names they have, and how these are called.

What offers the same names on a machine without Ascend is compared with this one table; so are the
packages that the tests of the device's backend import.

Sources: hicann/tensorflow, tf_adapter/python/npu_bridge (estimator/npu_ops.py, hccl/hccl_ops.py,
estimator/npu/npu_plugin.py, estimator/npu/util.py, helper/helper.py, npu_init.py) and
tf_adapter/util/npu_plugin.h; the vendor's hccl package (manage/api.py, split/api.py).
"""

from typing import Dict

from ascend_session.vendor import WORLD_GROUP

NPU_BRIDGE = "npu_bridge"
NPU_OPS = "npu_bridge.estimator.npu_ops"
HCCL_OPS = "npu_bridge.hccl.hccl_ops"
NPU_PLUGIN = "npu_bridge.estimator.npu.npu_plugin"
NPU_UTIL = "npu_bridge.estimator.npu.util"
HELPER = "npu_bridge.helper.helper"
TF_ADAPTER = "npu_bridge.tf_adapter"
HCCL_MANAGE = "hccl.manage.api"
HCCL_SPLIT = "hccl.split.api"

# Never to be imported by the product: it patches every session of the process
# (guides/facts/process.md#importing-npu_bridge).
NPU_INIT = "npu_bridge.npu_init"

_GROUP = f'group="{WORLD_GROUP}"'

VENDOR_MODULES: Dict[str, Dict[str, str]] = {
    NPU_BRIDGE: {},
    NPU_INIT: {
        "npu_config_proto": "(config_proto=None)",
        "npu_graph_options": "(graph_options=None)",
        "npu_optimizer_options": "(optimizer_options=None)",
        "init_resource": "(config=None)",
        "shutdown_resource": "(sess, npu_shutdown)",
        "close_session": "(sess)",
        "get_npu_rank_id": "()",
        "get_npu_local_rank_id": "()",
        "get_npu_rank_size": "()",
        "get_npu_local_rank_size": "()",
    },
    NPU_OPS: {
        "NPUInit": "(name=None)",
        "NPUShutdown": "(name=None)",
        "initialize_system": "(name=None)",
        "shutdown_system": "(name=None)",
        "dropout": "(x, keep_prob, noise_shape=None, seed=None, name=None)",
    },
    HCCL_OPS: {
        "allreduce": f"(tensor, reduction, fusion=1, fusion_id=-1, {_GROUP})",
        "allgather": f"(tensor, rank_size, {_GROUP}, fusion=0, fusion_id=-1)",
        "broadcast": f"(tensor, root_rank, fusion=2, fusion_id=0, {_GROUP})",
        "reduce": f"(tensor, reduction, root_rank, fusion=0, fusion_id=-1, {_GROUP})",
        "reduce_scatter": f"(tensor, reduction, rank_size, {_GROUP}, fusion=0, fusion_id=-1)",
        "send": f"(tensor, sr_tag, dest_rank, {_GROUP})",
        "receive": f"(shape, data_type, sr_tag, src_rank, {_GROUP})",
        "remote_read": "(tensorRemote, data_type)",
        "remote_ref_read": "(tensorRemote, cache, offset)",
        "remote_write": "(tensorRemote, tensorLocal, data_type)",
        "remote_scatter_write": "(tensorRemote, tensorLocal, offset)",
        "gather_all_to_all_v": (
            "(addrinfo, addrinfo_count_per_rank, recv_counts, recv_displacements, dtype, "
            f"addr_length, {_GROUP})"
        ),
        "all_to_all_v": (
            "(send_data, send_counts, send_displacements, recv_counts, recv_displacements, "
            f"{_GROUP})"
        ),
        "all_to_all_v_c": f"(send_data, send_count_matrix, rank, fusion=0, fusion_id=-1, {_GROUP})",
    },
    # From npu_resource_init to npu_close
    NPU_PLUGIN: {
        "npu_resource_init": (
            "(graph_run_mode=1, op_debug_level=0, enable_profiling=False, profiling_options=None, "
            "precision_mode=None, enable_scope_fusion_passes=None, enable_exception_dump=2, "
            "aoe_mode=None, work_path=None, op_compiler_cache_mode=None, "
            "op_compiler_cache_dir=None, debug_dir=None, hcom_multi_mode=False, "
            "distribute_config=None, aoe_config_file=None, precision_mode_v2=None, "
            "export_compile_stat=1, aicore_num=None, oo_constant_folding=True, "
            'input_batch_cpy=False, oo_level="O3", optimization_switch=None)'
        ),
        "npu_resource_shutdown": "()",
        "npu_close": "()",
    },
    # What loops on the device need
    NPU_UTIL: {
        "create_or_get_var": "(var_name)",
        "set_iteration_per_loop": "(sess, train_op, iterations_per_loop=1)",
        "IterationPerLoop": "()",
    },
    HELPER: {"get_gen_ops": "()"},
    TF_ADAPTER: {"GetDeviceSatMode": "()"},
    HCCL_MANAGE: {
        "create_group": "(group, rank_num, rank_ids)",
        "destroy_group": "(group)",
        "get_rank_size": f"({_GROUP})",
        "get_rank_id": f"({_GROUP})",
        "get_local_rank_size": f"({_GROUP})",
        "get_local_rank_id": f"({_GROUP})",
        "get_world_rank_from_group_rank": "(group, group_rank_id)",
        "get_group_rank_from_world_rank": "(world_rank_id, group)",
    },
    HCCL_SPLIT: {
        "set_split_strategy_by_idx": f"(idxList, {_GROUP})",
        "set_split_strategy_by_size": f"(dataSizeList, {_GROUP})",
    },
}
