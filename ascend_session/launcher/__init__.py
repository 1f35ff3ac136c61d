"""One process per device: the plan of a job, and what becomes of it."""
