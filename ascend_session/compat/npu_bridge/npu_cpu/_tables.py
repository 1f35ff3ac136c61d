"""The functions of ``npu_bridge.npu_cpu.npu_cpu_ops`` that are about embedding tables."""

from typing import Any

from ascend_session.compat.refusing import refused

TABLE = "its tables are kept on the device or in a parameter service of the vendor's"

_MODULE = "npu_bridge.npu_cpu.npu_cpu_ops"


@refused(TABLE, _MODULE)
def embedding_hashtable_lookup_or_insert(
    table_handle: Any,
    keys: Any,
    bucket_size: Any,
    embedding_dim: Any,
    filter_mode: Any,
    filter_freq: Any,
    default_key_or_value: Any,
    default_key: Any,
    default_value: Any,
    filter_key_flag: Any,
    filter_key: Any,
) -> Any:
    """Embeddings of keys, new ones for new keys."""


@refused(TABLE, _MODULE)
def host_feature_mapping(
    feature_id: Any, threshold: Any = 1, table_name: Any = "default_table_name"
) -> Any:
    """Numbers for features, on the host."""


@refused(TABLE, _MODULE)
def device_feature_mapping(feature_id: Any) -> Any:
    """Numbers for features, on the device."""


@refused(TABLE, _MODULE)
def init_embedding_hashmap_v2(
    table_id: Any, bucket_size: Any, load_factor: Any, embedding_dim: Any, dtype: Any
) -> Any:
    """Makes a table."""


@refused(TABLE, _MODULE)
def deinit_embedding_hashmap_v2(table_id: Any) -> Any:
    """Ends a table."""


@refused(TABLE, _MODULE)
def table_to_resource_v2(
    table_id: Any, bucket_size: Any, load_factor: Any, embedding_dim: Any, dtype: Any
) -> Any:
    """The handle of a table."""


@refused(TABLE, _MODULE)
def embedding_hashmap_table_size_v2(
    table_ids: Any, filter_export_flag: Any, export_mode: Any
) -> Any:
    """The sizes of tables."""


@refused(TABLE, _MODULE)
def embedding_hashmap_export_v2(
    file_path: Any,
    table_ids: Any,
    table_names: Any,
    global_step: Any,
    keys: Any,
    counters: Any,
    filter_flag: Any,
    values: Any,
    num: Any,
) -> Any:
    """Writes tables to files."""


@refused(TABLE, _MODULE)
def embedding_hashmap_file_size_v2(
    file_path: Any, table_ids: Any, table_names: Any, global_step: Any, embedding_dims: Any
) -> Any:
    """The sizes of tables in files."""


@refused(TABLE, _MODULE)
def embedding_hashmap_import_v2(
    file_path: Any,
    table_ids: Any,
    table_sizes: Any,
    table_names: Any,
    global_step: Any,
    embedding_dims: Any,
    num: Any,
) -> Any:
    """Reads tables from files."""


@refused(TABLE, _MODULE)
def init_embedding_hashtable(
    table_handle: Any,
    sampled_values: Any,
    bucket_size: Any,
    embedding_dim: Any,
    initializer_mode: Any,
    constant_value: Any,
) -> Any:
    """Fills a table."""


@refused(TABLE, _MODULE)
def embedding_hash_table_import(
    table_handles: Any,
    embedding_dims: Any,
    bucket_sizes: Any,
    keys: Any,
    counters: Any,
    filter_flags: Any,
    values: Any,
) -> Any:
    """Fills tables with given values."""


@refused(TABLE, _MODULE)
def embedding_hash_table_export(
    table_handles: Any,
    table_sizes: Any,
    embedding_dims: Any,
    bucket_sizes: Any,
    export_mode: Any = "all",
    filter_export_flag: Any = False,
) -> Any:
    """The values of tables."""


@refused(TABLE, _MODULE)
def embedding_hashtable_apply_adam_w(
    table_handle: Any,
    keys: Any,
    m: Any,
    v: Any,
    beta1_power: Any,
    beta2_power: Any,
    lr: Any,
    weight_decay: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
    grad: Any,
    max_grad_norm: Any,
    embedding_dim: Any,
    bucket_size: Any,
    amsgrad: Any,
    maximize: Any,
) -> Any:
    """One step of AdamW on a table."""
