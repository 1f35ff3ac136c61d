"""Who this process is among the ranks of its job, and the table that says which there are."""
