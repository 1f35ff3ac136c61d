"""The adapter's library."""
