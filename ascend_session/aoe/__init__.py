"""Tuning with AOE: its conditions, its run and its results."""
