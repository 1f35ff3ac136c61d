"""Profiling from the script."""
