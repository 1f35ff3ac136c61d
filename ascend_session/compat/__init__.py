"""``npu_bridge`` and ``hccl`` for machines without a device: public scripts run unchanged.

`install` makes the vendor's names mean the modules below ``npu_bridge`` and ``hccl`` here, which
mirror the vendor's tree. `sessions` checks every session that the script opens, by what
`judge_entry` says of its options; `life` has the open system of such a process, and reports on the
sessions at its end. Importing this package installs nothing and needs no TensorFlow.
"""
