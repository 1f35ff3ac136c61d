"""What each value of an option means, where the manual says it.

Sources: the pages of the manual with the same names as the groups below, in
``apiref/session_config/`` (guides/facts/README.md#how-to-read-the-sources).
"""

from typing import Any, Dict

_KEEP = (
    "keeps the precision of the model; float16 becomes float32 where the AI Core lacks it, and "
    "float32 that it lacks runs on the AI CPU"
)
_MIXED_16 = (
    "mixed precision: float32 and bfloat16 become float16 where the built-in lists allow it; use "
    "loss scaling"
)
_MIXED_BF16 = "mixed precision: float32 becomes bfloat16 where the built-in lists allow it"
_CUBE_16 = "matrix operators take float16 and give float32; vector operators compute in float32"

MEANINGS: Dict[str, Dict[Any, str]] = {
    # basic_options.md
    "graph_run_mode": {0: "online inference", 1: "training"},
    "deterministic": {
        0: "results may differ between runs",
        1: "same input and hardware give the same output, more slowly",
    },
    # memory_management.md
    "atomic_clean_policy": {
        0: "clears the memory of all memset operators at once",
        1: "clears it for each operator: less memory, slower",
    },
    "static_memory_policy": {
        0: "allocates memory by its actual size",
        1: "as 2; a former spelling",
        2: "expands memory of static shapes, which the graphs of a session reuse",
        3: "expands memory of dynamic shapes, against fragments; may cost speed",
        4: "2 and 3 together; may cost speed",
    },
    "variable_use_1g_huge_page": {
        0: "pages of the system's size (4 KB or 2 MB)",
        1: "pages of 1 GB; the run aborts if there are none",
        2: "pages of 1 GB, or of 2 MB if there are none",
    },
    # dynamic_shape.md
    "dynamic_node_type": {0: "dynamic inputs come from a dataset", 1: "from placeholders"},
    "compile_hybrid_mode": {
        0: "off",
        1: "compiles a graph for the profiles and a dynamic one for all other shapes",
    },
    "ac_parallel_enable": {
        "0": "AI CPU operators are not distributed separately",
        "1": "AI CPU and AI Core operators run at the same time",
    },
    # performance_tuning.md
    "variable_placement": {
        "Host": "variables are in the host's memory",
        "Device": "variables are in the device's memory",
    },
    "enable_small_channel": {
        0: "off; for training",
        1: "on; always so for online inference",
    },
    # debugging.md
    "enable_exception_dump": {
        0: "off",
        1: "inputs, outputs, tensor descriptions and workspace of the operator",
        2: "inputs, outputs, workspace and tiling, to analyse errors of the AI Core",
    },
    "export_compile_stat": {
        0: "never writes fusion_result.json",
        1: "writes it when the program ends normally",
        2: "writes it when a graph is compiled",
    },
    # accuracy_tuning.md
    "precision_mode": {
        "force_fp32": f"{_CUBE_16}; the same as cube_fp16in_fp32out",
        "allow_fp32_to_fp16": (
            "matrix operators go from float32 to float16; vector operators stay, if they can"
        ),
        "force_fp16": "float16 wherever an operator has it; for online inference only",
        "must_keep_origin_dtype": _KEEP,
        "allow_mix_precision": f"{_MIXED_16}; the same as allow_mix_precision_fp16",
        "cube_fp16in_fp32out": _CUBE_16,
        "allow_mix_precision_fp16": _MIXED_16,
        "allow_mix_precision_bf16": _MIXED_BF16,
        "allow_fp32_to_bf16": "keeps float32, and takes bfloat16 where the AI Core lacks it",
    },
    "precision_mode_v2": {
        "fp16": "float16 for all of float16, bfloat16 and float32",
        "origin": _KEEP,
        "cube_fp16in_fp32out": _CUBE_16,
        "mixed_float16": _MIXED_16,
        "mixed_bfloat16": _MIXED_BF16,
        "cube_hif8": "matrix operators compute in hifloat8",
        "mixed_hif8": "mixed precision with hifloat8 where the built-in lists allow it",
    },
    # accuracy_comparison.md
    "dump_mode": {"input": "inputs", "output": "outputs", "all": "both, in files of their own"},
    "dump_debug_mode": {
        "aicore_overflow": "operators of the AI Core that give extreme values for normal inputs",
        "atomic_overflow": "overflow of Atomic Add, when results leave the AI Core",
        "all": "both",
    },
    "dump_data": {"tensor": "the data", "stats": "statistics of the data, as CSV; much less"},
    "quant_dumpable": {
        "0": "compilation may optimise away what was there before quantisation",
        "1": "it can be dumped",
    },
    "buffer_optimize": {"l2_optimize": "on", "off_optimize": "off"},
    # AOE.md
    "aoe_mode": {"1": "subgraphs", "2": "operators", "4": "how gradients are split"},
    # operator_and_graph_build.md
    "op_compiler_cache_mode": {
        "enable": "keeps compiled operators on disk, and uses them again",
        "disable": "compiles without a cache",
        "force": "deletes the cache, and fills it anew; not while other programs compile",
    },
    # experiment_options.md
    "jit_compile": {
        "true": "compiles operators, which then run faster",
        "false": "takes compiled operators where there are some; compiles faster",
        "auto": "as true for static shapes, as false for dynamic ones",
    },
    "shape_generalization_mode": {
        "STRICT": "takes each shape as it is",
        "FULL": "makes all axes dynamic when a shape changes",
        "ADAPTIVE": "makes the axes dynamic that change; compiles again for each new one",
    },
    # deprecated_options.md
    "op_debug_level": {
        0: "off",
        1: "keeps the .cce, _loc.json, .o and .json files of operators in kernel_meta",
        2: "as 1, and compiles without optimisation (-O0 -g)",
        3: "off, but keeps .o and .json files",
        4: "off, but keeps .o, .json, .cce and _compute.json files",
    },
    "op_select_implmode": {
        "high_precision": "more precise algorithms for float16 inputs",
        "high_performance": "the fastest algorithms that keep float16 precision",
    },
    "dynamic_graph_execute_mode": {
        "dynamic_execute": "compiles one graph for the ranges in dynamic_inputs_shape_range",
    },
}
"""Meanings of values by the option's key; those of Atlas and Ascend alone are under `applies`."""
