"""How many ranks the environment says there are, and gradients averaged over them.

Source: npu_optimizer.py, which asks RANK_SIZE or CM_WORKER_SIZE whether there is anything to
average, and the job's information (JOB_ID) for the number to divide by.
"""

from typing import Any, List, Sequence

from ascend_session.training.gradients import averaged

__all__ = ["averaged_in_job", "averaged_list", "rank_count"]


def rank_count() -> int:
    """The number of ranks.

    Raises:
        ValueError: If the environment says no number, or two.
    """
    from ascend_session.compat.npu_bridge.estimator.npu import util

    return int(util.get_ranksize())


def averaged_in_job(pairs: Sequence[Any], name: str) -> List[Any]:
    """Pairs of a gradient and its variable with the ranks' means in them.

    Args:
        pairs: What ``compute_gradients`` gives.
        name: Begins the name of the operators' scope.

    Raises:
        JobError: In a job of several ranks without JOB_ID.
    """
    if rank_count() <= 1:
        return list(pairs)
    means = averaged_list([gradient for gradient, _ in pairs], name)
    return [(mean, variable) for mean, (_, variable) in zip(means, pairs)]


def averaged_list(gradients: Sequence[Any], name: str) -> List[Any]:
    """As `averaged_in_job` for gradients alone."""
    if rank_count() <= 1:
        return list(gradients)
    from ascend_session.compat.npu_bridge.estimator.npu.npu_common import NPUBasics

    NPUBasics("").size()
    return averaged(gradients, name)
