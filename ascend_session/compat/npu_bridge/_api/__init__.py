"""Names under their short path."""
