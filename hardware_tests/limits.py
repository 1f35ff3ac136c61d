"""How long the device may take, in seconds; generous, for a first run compiles its operators."""

# A program of hardware_tests/programs, from its start to its end.
PROGRAM = 600.0
# A step of the first contact, with all that its ranks import.
STEP = 300.0
# One answer of npu-smi.
ANSWER = 10.0
# Until a device is free whose holder was killed.
RELEASE = 120.0
# How long a system waits for a device that stays held.
HELD = 3.0
# From SIGTERM to SIGKILL, for the ranks of a job that wait for one that failed.
GRACE = 10.0
