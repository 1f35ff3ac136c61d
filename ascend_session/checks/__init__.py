"""Checks of the host: each is a function that yields findings and never raises.

The launcher runs them before it starts a job (preflight), ``ascend-session doctor`` on request.
"""
