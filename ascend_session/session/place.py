"""Where this process stands in its job, for the system to tell."""

from ascend_session.cluster.job import Job

__all__ = ["PlaceInJob"]


class PlaceInJob:
    """Rank, size and device of a process; known from the moment when its system opens."""

    _job: Job

    @property
    def job(self) -> Job:
        """Rank, size and device of this process together."""
        return self._job

    @property
    def rank(self) -> int:
        """Number of this process in its job, from 0."""
        return self._job.rank

    @property
    def size(self) -> int:
        """Number of processes in the job."""
        return self._job.size

    @property
    def local_rank(self) -> int:
        """Number of this process on its server, from 0."""
        return self._job.local_rank

    @property
    def local_size(self) -> int:
        """Number of processes of the job on this server."""
        return self._job.local_size

    @property
    def device_id(self) -> int:
        """Logical id of the process's own device (``ASCEND_DEVICE_ID``, ``DEVICE_ID``, else 0)."""
        return self._job.device_id
