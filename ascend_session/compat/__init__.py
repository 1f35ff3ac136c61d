"""``npu_bridge`` and ``hccl`` for machines without a device: public scripts run unchanged.

`install` makes the vendor's names mean the modules below ``npu_bridge`` and ``hccl`` here, which
mirror the vendor's tree. `verdicts` tells what a device would make of the options of a
session, `sessions` has what the script has opened, and `report` what is said of it at the end.
Importing this package installs nothing and needs no TensorFlow.
"""
