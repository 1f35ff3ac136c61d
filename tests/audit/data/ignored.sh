export RANK_ID=0
export JOB_ID=1  # ascend: ignore
export JOB_ID=2  # ascend: ignore[fixed-job-id, no-cleanup]
export JOB_ID=3  # ascend: ignore[rank-table]  # expect: fixed-job-id
