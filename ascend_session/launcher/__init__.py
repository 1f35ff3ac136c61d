"""One process per device: the plan of a job, its supervision, and what becomes of it."""
