"""The variables of an environment that say how a job is run."""

import re
from typing import Dict, Mapping

_OF_A_JOB = re.compile(
    # What this package, the vendor's adapter and HCCL read.
    r"(ASCEND|CM|HCCL|LOCAL|LOSS|PROFILING|RANK|STEP|TARGET|TOTAL)_.*"
    r"|AOE_MODE|DEVICE_ID|ENABLE_DYNAMIC_SHAPE_MULTI_STREAM|GE_USE_STATIC_MEMORY|JOB_ID"
    r"|NPU_COLLECT_PATH|TF_CONFIG"
    # What schedulers and other launchers number their processes with.
    r"|(FLUX|HYDRA|I_MPI|MPI|MS|MV2|OMPI|PALS|PMI|PMIX|SLURM|TORCHELASTIC)_.*"
    r"|(GROUP|ROLE)_(RANK|SIZE|WORLD_SIZE)|MASTER_(ADDR|PORT)|RANK|WORLD_SIZE"
)


def find_job_variables(environ: Mapping[str, str]) -> Dict[str, str]:
    """Return the variables that make a process a rank, choose its backend or set options."""
    return {name: value for name, value in environ.items() if _OF_A_JOB.fullmatch(name)}


def clean_environment(environ: Mapping[str, str]) -> Dict[str, str]:
    """Return the others."""
    job_variables = find_job_variables(environ)
    return {name: value for name, value in environ.items() if name not in job_variables}
