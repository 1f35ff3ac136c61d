"""What to start: the configuration of a launch, and every decision about it."""
