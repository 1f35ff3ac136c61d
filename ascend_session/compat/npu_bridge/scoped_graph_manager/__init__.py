"""Graphs that are unloaded."""
