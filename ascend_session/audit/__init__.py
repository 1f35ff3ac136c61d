"""Reads existing scripts, without running them, and says which of their options do nothing."""
