"""Who this process is in its job: the environment, schedulers, pods, rank tables."""
