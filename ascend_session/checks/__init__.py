"""Checks of the host: each is a function that yields findings and never raises.

The launcher asks before it starts a job (preflight), ``ascend-session doctor`` when it is asked.
"""
