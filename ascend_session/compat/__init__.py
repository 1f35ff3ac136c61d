"""``npu_bridge`` and ``hccl`` for machines without a device: public scripts run unchanged.

`finder` makes the vendor's names mean the modules below ``npu_bridge`` and ``hccl`` here, which
mirror the vendor's tree. `life` has the open system of such a process, `sessions` checks every
session that the script opens, and `run_end` reports on them. Importing this package installs
nothing and needs no TensorFlow.
"""
